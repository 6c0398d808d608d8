//! The network threads, and how blocking calls wait for them.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::work::Stop;

/// The interval at which the stop flag, which does not wake waiters, is checked.
const TICK: Duration = Duration::from_millis(20);

/// Two threads move bytes between sockets and the calling threads, which copy them to their destination: one reaches 1.2 GB/s without TLS
/// and a third of that with it.
const THREADS: usize = 2;

/// Returns the runtime, which the first call starts and which is never shut down.
pub fn handle() -> Result<Handle> {
    static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    let made = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("ztensor-remote")
        .enable_all()
        .build();
    let made = made.map_err(|error| {
        Error::new(Code::Limit, format!("the system cannot start network threads: {error}"))
    })?;
    Ok(runtime.insert(made).handle().clone())
}

/// Runs asynchronous work on the calling thread until it is done or the flag is set. Then it is dropped, which closes its sockets.
pub fn wait<T>(stop: &Stop, work: impl Future<Output = Result<T>>) -> Result<T> {
    stop.check()?;
    let handle = handle()?;
    if Handle::try_current().is_ok() {
        return Err(Error::new(
            Code::Internal,
            "a thread of an asynchronous runtime may not wait for a server",
        ));
    }
    handle.block_on(async {
        let mut work = pin!(work);
        loop {
            match timeout(TICK, work.as_mut()).await {
                Ok(done) => return done,
                Err(_) => stop.check()?,
            }
        }
    })
}
