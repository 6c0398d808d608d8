//! A panic is a defect of ours: it ends the call that met it, never the process.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};

/// What the first panic since the last look said, and where. A panic on one thread can raise others on those that wait
/// for it.
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Keeps what panics say, in place of printing it. The hook is this library's own, not the host's.
#[napi_derive::module_init]
fn listen() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, |place| format!(" ({place})"));
        let text = format!("{}{place}", text(info.payload()));
        FIRST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
    }));
}

/// What a panic said, and where, that nobody has asked for yet.
#[napi(catch_unwind)]
pub fn take_panic() -> Option<String> {
    FIRST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Turns a panic into an error: it must not cross into the host.
pub fn contain<T>(job: impl FnOnce() -> CoreResult<T>) -> CoreResult<T> {
    panic::catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(defect(&*panic)))
}

/// The error of a panic.
pub fn defect(panic: &(dyn Any + Send)) -> CoreError {
    let said = take_panic().unwrap_or_else(|| text(panic).to_owned());
    CoreError::new(Code::Internal, format!("a bug in ztensor, please report it: {said}"))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
