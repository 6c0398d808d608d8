//! Notifies JavaScript that a mapped file was truncated.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{Function, ToNapiValue, Unknown};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi::{Env, Result, Status};
use napi_derive::napi;
use ztensor_core::sources::fault::{self, State};
use ztensor_core::sources::files::Files;

use crate::js::buffer;

/// Mappings whose file is closed or collected but that a buffer still keeps alive: only this module checks them.
static ABANDONED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Number of files that ended after an unreported loss.
static UNREPORTED: AtomicU32 = AtomicU32::new(0);

/// Calls `callback` on this environment's thread after each loss. It does not keep the event loop running.
#[napi(catch_unwind)]
pub fn on_mapping_lost(callback: Function<'_, (), ()>) -> Result<()> {
    let callback = callback.build_threadsafe_function::<()>().weak::<true>().build()?;
    fault::on_loss(move || callback.call((), ThreadsafeFunctionCallMode::NonBlocking) != Status::Closing);
    Ok(())
}

/// The number of losses so far, as memory that JavaScript can read without a call: the memory of a `Uint32Array`. Null if the runtime does
/// not support such memory; it has no aliases to lose either.
#[napi(ts_return_type = "ArrayBuffer | null", catch_unwind)]
pub fn losses(env: &Env) -> Result<Unknown<'_>> {
    match buffer::over_counter(env, fault::losses()) {
        Some(counter) => Ok(counter),
        None => napi::bindgen_prelude::Null.into_unknown(env),
    }
}

/// Reinstalls the signal handler, in case something replaced it.
#[napi(catch_unwind)]
pub fn arm_fault_handler() {
    fault::arm();
}

/// Losses in the whole process since the last call, of mappings without a file and of files that ended with an unreported loss.
#[napi(catch_unwind)]
pub fn abandoned_losses() -> u32 {
    let mut abandoned = ABANDONED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = abandoned.len();
    abandoned.retain(|&token| fault::state(token) != State::Lost);
    u32::try_from(before - abandoned.len()).unwrap_or(u32::MAX).saturating_add(UNREPORTED.swap(0, SeqCst))
}

/// Tracks the mappings of files that end while something else still holds them, and counts an unreported loss.
pub fn abandon(files: &Files, is_reported: bool) {
    if !is_reported && files.lost().is_some() {
        UNREPORTED.fetch_add(1, SeqCst);
        fault::wake();
    }
    for mapping in files.all_opened().filter_map(|(_, file)| file.mapped()) {
        // This module and the file hold one reference each.
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
