//! Promises that our own pool fulfils; the event loop's threads stay free.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::Builder;

use napi::bindgen_prelude::{Object, ToNapiValue};
use napi::{Env, Result};
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::work;

use crate::error::{throw, to_js};
use crate::panic::{contain, defect};

/// Runs `job` on the pool and `finish` on the environment's thread; gives the promise.
pub fn spawn<T, R, J, F>(env: &Env, job: J, finish: F) -> Result<Object<'_>>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let pool = throw(env, work::pool())?;
    let (run, promise) = prepared(env, job, finish)?;
    pool.spawn(run);
    Ok(promise)
}

/// The same on a thread of its own, for a job that waits for the wrapper: the pool's would be missed.
pub fn spawn_aside<T, R, J, F>(env: &Env, job: J, finish: F) -> Result<Object<'_>>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let (run, promise) = prepared(env, job, finish)?;
    let none = |error| CoreError::new(Code::Limit, format!("no thread for long work: {error}"));
    throw(env, Builder::new().name("ztensor-aside".to_owned()).spawn(run).map_err(none))?;
    Ok(promise)
}

fn prepared<T, R, J, F>(env: &Env, job: J, finish: F) -> Result<(impl FnOnce() + Send + 'static, Object<'_>)>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let (deferred, promise) = env.create_deferred()?;
    let run = move || {
        let outcome = contain(job);
        deferred.resolve(move |env: Env| match outcome {
            Ok(value) => catch_unwind(AssertUnwindSafe(|| finish(env, value)))
                .unwrap_or_else(|panic| Err(to_js(&env, &defect(&*panic)))),
            Err(error) => Err(to_js(&env, &error)),
        });
    };
    Ok((run, promise))
}
