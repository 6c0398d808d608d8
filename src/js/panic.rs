//! A panic is a bug in ztensor: it fails the call that hit it, never the process.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};

/// Message and location of the first panic since the last check. A panic on one thread may cause others on threads that wait for it.
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Records panic messages instead of printing them. The hook belongs to this library, not to the host.
#[napi_derive::module_init]
fn listen() {
    panic::set_hook(Box::new(|info| {
        let location = info.location().map_or_else(String::new, |location| format!(" ({location})"));
        let text = format!("{}{location}", text(info.payload()));
        FIRST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
    }));
}

/// Returns message and location of a panic that was not reported yet.
#[napi(catch_unwind)]
pub fn take_panic() -> Option<String> {
    FIRST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Converts a panic to an error: it must not cross into the host.
pub fn contain<T>(job: impl FnOnce() -> CoreResult<T>) -> CoreResult<T> {
    panic::catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(defect(&*panic)))
}

/// The error of a panic.
pub fn defect(panic: &(dyn Any + Send)) -> CoreError {
    let message = take_panic().unwrap_or_else(|| text(panic).to_owned());
    CoreError::new(Code::Internal, format!("a bug in ztensor, please report it: {message}"))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
