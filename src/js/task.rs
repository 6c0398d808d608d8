//! Promises that are fulfilled by ztensor's own threads, so that the threads of the event loop stay free.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use napi::bindgen_prelude::{Object, ToNapiValue};
use napi::{Env, JsDeferred, Result};
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::work::Stop;
use ztensor_core::work::lanes::Lane;

use crate::js::control::Control;
use crate::js::error::{throw, to_js};
use crate::js::panic::{contain, defect};

/// Runs `job` in a lane and `finish` on the environment's thread; returns the promise. If `control` is canceled, a job that waits for a
/// thread is dropped immediately, and the result of a running one is discarded.
pub fn spawn<'env, T, R, J, F>(
    env: &'env Env,
    lane: Lane,
    control: &Control,
    job: J,
    finish: F,
) -> Result<Object<'env>>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let stop = control.watch.stop.clone();
    let lane = throw(env, lane.ready())?;
    let (run, promise) = prepared(env, stopped_by(stop.clone(), job), stop, finish)?;
    control.queue_entry.set(lane.spawn(|| run(Ok(()))));
    Ok(promise)
}

/// Like [`spawn`], for a job with lasting effects: once it has begun, its result is reported even if it is canceled meanwhile.
pub fn spawn_lasting<'env, T, R, J, F>(
    env: &'env Env,
    lane: Lane,
    control: &Control,
    job: J,
    finish: F,
) -> Result<Object<'env>>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let stop = control.watch.stop.clone();
    let lane = throw(env, lane.ready())?;
    let (run, promise) = prepared(env, stopped_by(stop, job), Stop::default(), finish)?;
    control.queue_entry.set(lane.spawn(|| run(Ok(()))));
    Ok(promise)
}

/// Like [`spawn`], for a job that cannot be canceled.
pub fn spawn_always<T, R, J, F>(env: &Env, lane: Lane, job: J, finish: F) -> Result<Object<'_>>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let lane = throw(env, lane.ready())?;
    let (run, promise) = prepared(env, job, Stop::default(), finish)?;
    lane.spawn(|| run(Ok(())));
    Ok(promise)
}

/// Like [`spawn`], on a separate thread, for a job that waits for the wrapper and would block a lane's thread.
pub fn spawn_aside<'env, T, R, J, F>(
    env: &'env Env,
    control: &Control,
    job: J,
    finish: F,
) -> Result<Object<'env>>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let stop = control.watch.stop.clone();
    let (run, promise) = prepared(env, stopped_by(stop.clone(), job), stop, finish)?;
    // A promise that is never settled would keep the process from exiting, so its job must survive a failure to start the thread.
    let cell = Arc::new(Mutex::new(Some(run)));
    let begin = move |can: CoreResult<()>| {
        let run = cell.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(run) = run {
            run(can);
        }
    };
    let thread = begin.clone();
    if let Err(error) = Builder::new().name("ztensor-aside".to_owned()).spawn(move || thread(Ok(()))) {
        begin(Err(CoreError::new(Code::Limit, format!("the system has no thread for the work: {error}"))));
    }
    Ok(promise)
}

/// Like [`spawn`], for a job on input that `gather` collects on the environment's thread: one step in each turn of the event loop, until it
/// returns the whole input.
pub fn spawn_gathered<'env, I, T, R, G, J, F>(
    env: &'env Env,
    lane: Lane,
    control: &Control,
    mut gather: G,
    job: J,
    finish: F,
) -> Result<Object<'env>>
where
    I: Send + 'static,
    T: Send + 'static,
    R: ToNapiValue + 'static,
    G: FnMut(&Env) -> CoreResult<Option<I>> + Send + 'static,
    J: FnOnce(I) -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    if let Some(input) = throw(env, contain(|| gather(env)))? {
        return spawn(env, lane, control, || job(input), finish);
    }
    let (stop, entry) = (control.watch.stop.clone(), control.queue_entry.clone());
    let lane = throw(env, lane.ready())?;
    let input = Arc::new(Mutex::new(None));
    let gathered = Arc::clone(&input);
    let job = move || {
        let input = gathered.lock().unwrap_or_else(PoisonError::into_inner).take();
        input.ok_or_else(|| CoreError::new(Code::Internal, "a job without its input")).and_then(job)
    };
    let (run, promise) = prepared(env, stopped_by(stop.clone(), job), stop.clone(), finish)?;
    let begin = move |outcome: CoreResult<I>| match outcome {
        Ok(whole) => {
            *input.lock().unwrap_or_else(PoisonError::into_inner) = Some(whole);
            entry.set(lane.spawn(|| run(Ok(()))));
        }
        Err(error) => run(Err(error)),
    };
    each_turn(env, move |env| stop.check().and_then(|()| gather(env)), begin);
    Ok(promise)
}

/// Runs `step` once in each turn of the event loop until it returns something or fails, and passes that to `end`.
fn each_turn<I: 'static>(
    env: &Env,
    mut step: impl FnMut(&Env) -> CoreResult<Option<I>> + Send + 'static,
    end: impl FnOnce(CoreResult<I>) + Send + 'static,
) {
    let turn = match env.create_deferred::<(), Resolver<()>>() {
        Ok((turn, _)) => turn,
        Err(error) => return end(Err(CoreError::new(Code::Internal, error.to_string()))),
    };
    settle(turn, Ok(()), move |env, ()| {
        match contain(|| step(&env)).transpose() {
            None => each_turn(&env, step, end),
            Some(outcome) => end(outcome),
        }
        Ok(())
    });
}

/// Wraps a job so that it does not begin once it is canceled.
fn stopped_by<T>(
    stop: Stop,
    job: impl FnOnce() -> CoreResult<T> + Send + 'static,
) -> impl FnOnce() -> CoreResult<T> + Send + 'static {
    move || stop.check().and_then(|()| job())
}

/// Creates a promise, and the closure that settles it with the result of the job if it can run.
fn prepared<T, R, J, F>(
    env: &Env,
    job: J,
    unwanted: Stop,
    finish: F,
) -> Result<(impl FnOnce(CoreResult<()>) + Send + 'static, Object<'_>)>
where
    T: Send + 'static,
    R: ToNapiValue + 'static,
    J: FnOnce() -> CoreResult<T> + Send + 'static,
    F: FnOnce(Env, T) -> Result<R> + Send + 'static,
{
    let (deferred, promise) = env.create_deferred()?;
    let run = move |can: CoreResult<()>| {
        // An unwanted result is dropped here, not on the environment's thread and not by its garbage collector.
        let outcome = can.and_then(|()| contain(job)).and_then(|value| unwanted.check().map(|()| value));
        settle(deferred, outcome, move |env, value| match unwanted.check() {
            Ok(()) => finish(env, value),
            Err(error) => Err(to_js(&env, &error)),
        });
    };
    Ok((run, promise))
}

/// Produces the outcome of a promise.
type Resolver<R> = Box<dyn FnOnce(Env) -> Result<R> + Send>;

/// A promise that a thread settles.
pub type Deferred<R> = JsDeferred<R, Resolver<R>>;

/// Settles a promise from any thread: `finish` creates the value on the environment's thread.
pub fn settle<T, R>(
    deferred: Deferred<R>,
    outcome: CoreResult<T>,
    finish: impl FnOnce(Env, T) -> Result<R> + Send + 'static,
) where
    T: Send + 'static,
    R: ToNapiValue + 'static,
{
    deferred.resolve(Box::new(move |env| match outcome {
        Ok(value) => catch_unwind(AssertUnwindSafe(|| finish(env, value)))
            .unwrap_or_else(|panic| Err(to_js(&env, &defect(&*panic)))),
        Err(error) => Err(to_js(&env, &error)),
    }));
}
