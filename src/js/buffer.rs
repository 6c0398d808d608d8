//! The only module that creates ArrayBuffers over native memory and releases them.
#![allow(unsafe_code)]

mod accounting;
mod backing;
mod environment;
mod external_memory;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use napi::bindgen_prelude::{Uint8ArraySlice, Unknown};
use napi::{Env, JsValue, Result, sys};
use ztensor_core::sources::mapping::Mapping;
use ztensor_core::sources::owned::Owned;

use self::backing::Backing;
pub use self::backing::{Mailbox, Share};
use self::environment::{Environment, Retained};
use crate::js::error::misuse;
use crate::js::panic::contain;

/// From this size on a seal costs little compared with filling the buffer.
const LARGE: usize = 1 << 20;

/// Returns whether external buffers are disabled, as in Electron: `ZTENSOR_NO_EXTERNAL=1`.
fn forbidden() -> bool {
    static FORBIDDEN: OnceLock<bool> = OnceLock::new();
    *FORBIDDEN.get_or_init(|| std::env::var_os("ZTENSOR_NO_EXTERNAL").is_some_and(|value| value == "1"))
}

/// Returns an ArrayBuffer over `length` mapped bytes at `offset`, and its reference to the mapping. `None` if the runtime rejects external
/// buffers, or ones of this size.
pub fn alias(
    env: &Env,
    mapping: Arc<Mapping>,
    offset: u64,
    length: u64,
) -> Result<Option<(Unknown<'_>, Arc<Share>)>> {
    let address = mapping.address(offset, length).ok_or_else(|| misuse("an alias outside the mapping"))?;
    let length = usize::try_from(length).map_err(|_| misuse("an alias beyond the address space"))?;
    if forbidden() {
        return Ok(None);
    }
    let share = Arc::new(Share { mapping: Mutex::new(Some(mapping)), length });
    let Ok(buffer) = external(*env, address, length, Backing::Mapped(Arc::clone(&share))) else {
        return Ok(None);
    };
    Environment::of(*env).account.enter(*env, length);
    Ok(Some((buffer, share)))
}

/// Returns an ArrayBuffer that owns `owned`. If the runtime rejects it, returns the memory, unless the runtime has already released it:
/// callers request no buffer above the runtime's limit.
pub fn give(env: &Env, mut owned: Owned) -> std::result::Result<Unknown<'_>, Option<Owned>> {
    if forbidden() || owned.is_empty() {
        return Err(Some(owned));
    }
    let (address, length) = (owned.as_mut_ptr(), owned.len());
    let given = external(*env, address, length, Backing::Owned(owned)).map_err(|refused| match refused {
        Some(Backing::Owned(owned)) => Some(owned),
        _ => None,
    })?;
    if length >= LARGE {
        Environment::of(*env).is_watching().then(|| seal(*env));
    }
    Ok(given)
}

/// Returns an ArrayBuffer over a counter that other threads change. `None` if the runtime rejects external buffers.
pub fn over_counter<'env>(env: &'env Env, counter: &'static AtomicU32) -> Option<Unknown<'env>> {
    if forbidden() {
        return None;
    }
    external(*env, counter.as_ptr().cast(), size_of::<AtomicU32>(), Backing::Static).ok()
}

/// `node_api_create_external_sharedarraybuffer` of Node-API. Its finalizer receives no environment, because the memory may outlive the
/// environment it was created in, and is called on any thread.
type CreateShared = unsafe extern "C" fn(
    sys::napi_env,
    *mut c_void,
    usize,
    Option<extern "C" fn(*mut c_void, *mut c_void)>,
    *mut c_void,
    *mut sys::napi_value,
) -> sys::napi_status;

/// Returns the host's function, if it exists: Node from 22.23, 24.21 and 26 on, and Bun 1.4. No Node-API version that an addon could
/// request includes it.
fn create_shared() -> Option<CreateShared> {
    static FOUND: OnceLock<Option<CreateShared>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        #[cfg(unix)]
        let host = libloading::os::unix::Library::this();
        #[cfg(windows)]
        let host = libloading::os::windows::Library::this().ok()?;
        // SAFETY: the host's function of that name has this signature.
        unsafe { host.get::<CreateShared>(c"node_api_create_external_sharedarraybuffer") }
            .ok()
            .map(|found| *found)
    })
}

/// The owner of a SharedArrayBuffer's memory; any thread may drop it last.
type Common = Mutex<Option<Arc<Mapping>>>;

/// Returns a SharedArrayBuffer over a whole mapping. It cannot be detached: the mapping lives until the last thread drops it. `None` if the
/// runtime does not support external shared memory, or memory of this size.
pub fn common(env: &Env, mapping: Arc<Mapping>) -> Option<Unknown<'_>> {
    let create = create_shared().filter(|_| !forbidden())?;
    let length = mapping.length();
    let address = mapping.address(0, length as u64)?;
    // As in `external`: it is unknown whether a runtime that fails calls the finalizer.
    let cell: Arc<Common> = Arc::new(Mutex::new(Some(mapping)));
    let hint = Arc::into_raw(Arc::clone(&cell)).cast_mut();
    let mut value = ptr::null_mut();
    // SAFETY: `address` and `length` name memory that the cell keeps alive until the finalizer takes it out.
    let status =
        unsafe { create(env.raw(), address.cast(), length, Some(drop_common), hint.cast(), &raw mut value) };
    if status == sys::Status::napi_ok {
        // SAFETY: the value was just made in this environment.
        return Some(unsafe { Unknown::from_raw_unchecked(env.raw(), value) });
    }
    clear_exception(*env);
    cell.lock().unwrap_or_else(PoisonError::into_inner).take();
    None
}

extern "C" fn drop_common(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the share of the cell made in `common` for this call, and the runtime calls it once.
    let cell = unsafe { Arc::from_raw(hint.cast::<Common>()) };
    // The host calls this, so no panic may unwind out of it; there is no caller to report to.
    let _ = contain(|| {
        cell.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    });
}

/// Returns an ArrayBuffer over a mailbox. `None` if the runtime rejects external buffers.
pub fn over_mailbox<'env>(env: &'env Env, mailbox: &Arc<Mailbox>) -> Option<Unknown<'env>> {
    if forbidden() {
        return None;
    }
    let address = mailbox.0.as_ptr().cast_mut().cast();
    external(*env, address, mailbox.0.len(), Backing::Mail(Arc::clone(mailbox))).ok()
}

fn external<'env>(
    env: Env,
    address: *mut u8,
    length: usize,
    backing: Backing,
) -> std::result::Result<Unknown<'env>, Option<Backing>> {
    let environment = Environment::of(env);
    let entry = environment.keep(backing);
    // A failing runtime may call the finalizer (Node 20 above 4 GiB) or not (Electron), so the memory has two owners, and the first to act
    // takes it out.
    let Some(value) = over(env, address, length, &entry) else {
        return Err(entry.take());
    };
    environment.watch(value, &entry);
    if environment.is_unsealed() {
        seal(env);
    }
    // SAFETY: the value was just made in this environment.
    Ok(unsafe { Unknown::from_raw_unchecked(env.raw(), value) })
}

/// Creates a seal, which allows the end of the environment to distinguish buffers created so far that JavaScript moved. Required for
/// runtimes that finalize buffers themselves, newest first (Node); see `environment`.
pub fn seal(env: Env) {
    static BYTE: AtomicU8 = AtomicU8::new(0);
    let environment = Environment::of(env);
    if forbidden() || environment.is_sealed() {
        return;
    }
    let entry = environment.keep(Backing::Static);
    if let Some(value) = over(env, BYTE.as_ptr(), 1, &entry) {
        environment.seal(value, &entry);
    }
}

/// Registers a hook instead, for runtimes that call hooks before they finalize buffers (Bun). Called once.
pub fn hook(env: Env) {
    Environment::of(env).hook();
}

/// Creates a buffer over memory owned by `entry`.
fn over(env: Env, address: *mut u8, length: usize, entry: &Arc<Retained>) -> Option<sys::napi_value> {
    let hint = Arc::into_raw(Arc::clone(entry)).cast_mut();
    let mut value = ptr::null_mut();
    // SAFETY: `address` and `length` name memory that stays alive until the finalizer takes it out.
    let status = unsafe {
        sys::napi_create_external_arraybuffer(
            env.raw(),
            address.cast(),
            length,
            Some(finalize),
            hint.cast(),
            &raw mut value,
        )
    };
    if status == sys::Status::napi_ok {
        return Some(value);
    }
    clear_exception(env);
    // The runtime's own reference is left to its finalizer, whether called or not: at worst a few bytes leak.
    None
}

/// Clears an exception left by a failure, which would be thrown on return.
fn clear_exception(env: Env) {
    let mut pending = false;
    let mut exception = ptr::null_mut();
    // SAFETY: plain calls on a live environment.
    unsafe {
        if sys::napi_is_exception_pending(env.raw(), &raw mut pending) == sys::Status::napi_ok && pending {
            sys::napi_get_and_clear_last_exception(env.raw(), &raw mut exception);
        }
    }
}

extern "C" fn finalize(_env: sys::napi_env, _data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the share made in `external` for this call, and the runtime calls it once.
    let entry = unsafe { Arc::from_raw(hint.cast::<Retained>().cast_const()) };
    // As above.
    let _ = contain(|| {
        // Deno calls this on the thread that releases the memory last, and after the end of the environment.
        let home = Environment::home(&entry);
        if let Some(home) = &home {
            home.finalize(&entry);
        }
        if let Some(Backing::Mapped(share)) = entry.take()
            && share.end()
            && let Some(home) = home
        {
            home.account.drop(share.length);
        }
        Ok(())
    });
}

/// Detaches aliases, so that their views become empty, and releases their references. An alias that was already detached keeps its
/// reference: JavaScript moved its memory, which may still be in use.
pub fn close(env: &Env, aliases: &[Unknown<'_>], shares: &[Arc<Share>]) {
    let environment = Environment::of(*env);
    for (alias, share) in aliases.iter().zip(shares) {
        let mut detached = true;
        // SAFETY: a live value of this environment.
        let asked = unsafe { sys::napi_is_detached_arraybuffer(env.raw(), alias.raw(), &raw mut detached) };
        if asked != sys::Status::napi_ok || detached {
            continue;
        }
        environment.account.leave(*env, share.length);
        // SAFETY: as above.
        if unsafe { sys::napi_detach_arraybuffer(env.raw(), alias.raw()) } == sys::Status::napi_ok {
            share.end();
        } else {
            clear_exception(*env);
            environment.account.enter(*env, share.length);
        }
    }
}

/// Returns the bytes of a JavaScript array for writing.
pub fn writable<'a>(array: &'a mut Uint8ArraySlice<'_>, inputs: &[&[u8]]) -> Result<&'a mut [u8]> {
    let output = array.as_ref().as_ptr_range();
    let overlaps = |input: &&[u8]| {
        let input = input.as_ptr_range();
        input.start < output.end && output.start < input.end
    };
    if inputs.iter().any(overlaps) {
        return Err(misuse("the output overlaps the input"));
    }
    // SAFETY: JavaScript does not run while we hold the slice, and it overlaps no other slice we hold.
    Ok(unsafe { array.as_mut() })
}
