//! Tells JavaScript that a mapped file was cut short.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{Function, ToNapiValue, Unknown};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi::{Env, Result, Status};
use napi_derive::napi;
use ztensor_core::sources::fault::{self, State};
use ztensor_core::sources::files::Files;

use crate::buffer;

/// Mappings whose file is closed or collected and that a buffer still keeps alive: nobody but us would ask after them.
static ABANDONED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Files that ended after a loss of which nobody was told.
static UNTOLD: AtomicU32 = AtomicU32::new(0);

/// Calls `callback` on this environment's thread after each loss. It does not keep the event loop running.
#[napi(catch_unwind)]
pub fn on_mapping_lost(callback: Function<'_, (), ()>) -> Result<()> {
    let callback = callback.build_threadsafe_function::<()>().weak::<true>().build()?;
    fault::on_loss(move || callback.call((), ThreadsafeFunctionCallMode::NonBlocking) != Status::Closing);
    Ok(())
}

/// The number of losses so far, as memory that JavaScript can look at without a call: a `Uint32Array`'s. Null where
/// the runtime allows no such memory; it has no aliases to lose either.
#[napi(ts_return_type = "ArrayBuffer | null", catch_unwind)]
pub fn losses(env: &Env) -> Result<Unknown<'_>> {
    match buffer::over_counter(env, fault::losses()) {
        Some(counter) => Ok(counter),
        None => napi::bindgen_prelude::Null.into_unknown(env),
    }
}

/// Puts the signal handler back, where something may have replaced it.
#[napi(catch_unwind)]
pub fn arm_fault_handler() {
    fault::arm();
}

/// Losses since this was last asked, in the whole process, of mappings without a file and of files that ended before anybody
/// was told.
#[napi(catch_unwind)]
pub fn abandoned_losses() -> u32 {
    let mut abandoned = ABANDONED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = abandoned.len();
    abandoned.retain(|&token| fault::state(token) != State::Lost);
    u32::try_from(before - abandoned.len()).unwrap_or(u32::MAX).saturating_add(UNTOLD.swap(0, SeqCst))
}

/// Remembers the mappings of files that end, if anything else still holds them, and has a loss told of that was not yet.
pub fn abandon(files: &Files, told: bool) {
    if !told && files.lost().is_some() {
        UNTOLD.fetch_add(1, SeqCst);
        fault::wake();
    }
    for mapping in files.all_opened().filter_map(|(_, file)| file.mapped()) {
        // Ours and the file's are two.
        if Arc::strong_count(&mapping) <= 2 || fault::state(mapping.token()) == State::Lost {
            continue;
        }
        let mut abandoned = ABANDONED.lock().unwrap_or_else(PoisonError::into_inner);
        if abandoned.len() == abandoned.capacity() {
            abandoned.retain(|&token| fault::state(token) != State::Gone);
        }
        abandoned.push(mapping.token());
    }
}
