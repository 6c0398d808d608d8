//! The bytes that V8 counts as held outside its heap.
#![allow(unsafe_code)]

use napi::{Env, sys};

/// Adjusts the bytes that V8 counts as held outside its heap.
pub fn adjust_external_memory(env: Env, change: i64) {
    let mut sum = 0;
    // SAFETY: a plain call on a live environment; the account keeps the sum from going negative.
    unsafe { sys::napi_adjust_external_memory(env.raw(), change, &raw mut sum) };
}
