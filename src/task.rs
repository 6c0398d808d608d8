//! Promises that our own pool fulfils; the event loop's threads stay free.

use std::panic::{AssertUnwindSafe, catch_unwind};

use napi::bindgen_prelude::{Object, ToNapiValue};
use napi::{Env, Result};
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::work;

use crate::error::{throw, to_js};

/// Runs `job` on the pool and `finish` on the environment's thread; gives the promise.
pub fn spawn<T, R, J, F>(env: &Env, job: J, finish: F) -> Result<Object<'_>>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let pool = throw(env, work::pool())?;
    let (deferred, promise) = env.create_deferred()?;
    pool.spawn(move || {
        let outcome = contain(job);
        deferred.resolve(move |env: Env| match outcome {
            Ok(value) => finish(env, value),
            Err(error) => Err(to_js(&env, &error)),
        });
    });
    Ok(promise)
}

/// Turns a panic into an error: it must not cross into the host.
pub fn contain<T>(job: impl FnOnce() -> CoreResult<T>) -> CoreResult<T> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied();
        let said =
            said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        Err(CoreError::new(Code::Internal, format!("a defect in ztensor: {said}. Please report it")))
    })
}
