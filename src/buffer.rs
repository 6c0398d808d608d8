//! The only place that makes ArrayBuffers over memory of ours, and lets go of them.
#![allow(unsafe_code)]

mod environment;

use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use napi::bindgen_prelude::{Uint8ArraySlice, Unknown};
use napi::{Env, JsValue, Result, sys};
use ztensor_core::sources::mapping::Mapping;
use ztensor_core::sources::owned::Owned;

use self::environment::{Environment, Kept};
use crate::error::misuse;
use crate::panic::contain;

/// An alias's share of a mapping. `close` takes it early; the finalizer takes what is left.
pub struct Share {
    mapping: Mutex<Option<Arc<Mapping>>>,
    length: usize,
}

impl Share {
    /// Lets go of the mapping. False where that was done.
    fn end(&self) -> bool {
        self.mapping.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

/// What an external buffer keeps alive.
enum Backing {
    Mapped(Arc<Share>),
    Owned(Owned),
    /// Memory that never goes.
    Static,
    /// A mailbox, which its thread keeps as well.
    Mail(#[allow(dead_code)] Arc<Mailbox>), // held, not read
}

/// Bytes that JavaScript fills and native code of the same thread reads when it is called.
pub struct Mailbox(Box<[AtomicU8]>);

impl Mailbox {
    pub fn new(length: usize) -> Arc<Self> {
        Arc::new(Self((0..length).map(|_| AtomicU8::new(0)).collect()))
    }

    /// Lets `look` see the bytes. It must not call JavaScript, and has no environment to do so.
    pub fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        // SAFETY: `AtomicU8` is laid out as `u8`. The mailbox stays on one thread, on which nobody writes while `look` runs:
        // only JavaScript does, which waits for this call.
        look(unsafe { slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len()) })
    }
}

/// From here on a seal costs little beside what filled the buffer.
const LARGE: usize = 1 << 20;

/// Whether external buffers are switched off, as Electron has them: `ZTENSOR_NO_EXTERNAL=1`.
fn forbidden() -> bool {
    static FORBIDDEN: OnceLock<bool> = OnceLock::new();
    *FORBIDDEN.get_or_init(|| std::env::var_os("ZTENSOR_NO_EXTERNAL").is_some_and(|value| value == "1"))
}

/// An ArrayBuffer over `length` mapped bytes at `offset`, and its share of the mapping. `None` where the
/// runtime refuses external buffers, or ones of this size.
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

/// An ArrayBuffer that owns `owned`. The memory comes back where the runtime refuses, unless it threw it away:
/// callers ask for no buffer above the runtime's own bound.
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

/// An ArrayBuffer over a number that other threads change. `None` where the runtime refuses external buffers.
pub fn over_counter<'env>(env: &'env Env, counter: &'static AtomicU32) -> Option<Unknown<'env>> {
    if forbidden() {
        return None;
    }
    external(*env, counter.as_ptr().cast(), size_of::<AtomicU32>(), Backing::Static).ok()
}

/// `node_api_create_external_sharedarraybuffer` of Node-API. Its finalizer knows no environment, since the memory can
/// outlive the one that it was made in, and is called on any thread.
type CreateShared = unsafe extern "C" fn(
    sys::napi_env,
    *mut c_void,
    usize,
    Option<extern "C" fn(*mut c_void, *mut c_void)>,
    *mut c_void,
    *mut sys::napi_value,
) -> sys::napi_status;

/// The host's function, where it has it: Node from 22.23, 24.21 and 26 on, and Bun 1.4. It is in no version of
/// Node-API that an addon could ask for.
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

/// What a SharedArrayBuffer keeps alive, from whichever thread drops it last.
type Common = Mutex<Option<Arc<Mapping>>>;

/// A SharedArrayBuffer over all of a mapping. Nobody can empty it: the mapping lives until the last thread drops it. `None`
/// where the runtime makes none over foreign memory, or none of this size.
pub fn common(env: &Env, mapping: Arc<Mapping>) -> Option<Unknown<'_>> {
    let create = create_shared().filter(|_| !forbidden())?;
    let length = mapping.length();
    let address = mapping.address(0, length as u64)?;
    // As in `external`: nobody knows whether a runtime that refuses calls the finalizer.
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
    // The host calls this, so nothing may unwind out of it; there is nobody to tell.
    let _ = contain(|| {
        cell.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    });
}

/// An ArrayBuffer over a mailbox. `None` where the runtime refuses external buffers.
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
    let kept = environment.keep(backing);
    // A refusing runtime may call the finalizer (Node 20 above 4 GiB) or not (Electron), so what is kept alive
    // has two owners, and whoever comes first takes it out.
    let Some(value) = over(env, address, length, &kept) else {
        return Err(kept.take());
    };
    environment.watch(value, &kept);
    if environment.is_unsealed() {
        seal(env);
    }
    // SAFETY: the value was just made in this environment.
    Ok(unsafe { Unknown::from_raw_unchecked(env.raw(), value) })
}

/// Lets the end of the environment tell the buffers made so far that JavaScript moved away from the others. The runtime must be
/// one that ends its buffers itself, the newest first (Node); see `environment`.
pub fn seal(env: Env) {
    static BYTE: AtomicU8 = AtomicU8::new(0);
    let environment = Environment::of(env);
    if forbidden() || environment.is_sealed() {
        return;
    }
    let kept = environment.keep(Backing::Static);
    if let Some(value) = over(env, BYTE.as_ptr(), 1, &kept) {
        environment.seal(value, &kept);
    }
}

/// The same where the runtime calls its hooks before it ends its buffers (Bun). Called once.
pub fn hook(env: Env) {
    Environment::of(env).hook();
}

/// A buffer over memory that `kept` keeps alive.
fn over(env: Env, address: *mut u8, length: usize, kept: &Arc<Kept>) -> Option<sys::napi_value> {
    let hint = Arc::into_raw(Arc::clone(kept)).cast_mut();
    let mut value = ptr::null_mut();
    // SAFETY: `address` and `length` name memory that is kept alive until the finalizer takes it out.
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
    // The runtime's own share is left to its finalizer, called or not: a few bytes at worst.
    None
}

/// A refusal can leave an exception behind, which would be thrown on return.
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
    let kept = unsafe { Arc::from_raw(hint.cast::<Kept>().cast_const()) };
    // As above.
    let _ = contain(|| {
        // Deno calls this on whichever thread lets go last, and after the environment's end.
        let home = Environment::home(&kept);
        if let Some(home) = &home {
            home.finalize(&kept);
        }
        if let Some(Backing::Mapped(share)) = kept.take()
            && share.end()
            && let Some(home) = home
        {
            home.account.drop(share.length);
        }
        Ok(())
    });
}

/// Detaches aliases, so that their views become empty, and ends their shares. One that was detached before keeps its share:
/// JavaScript moved its memory elsewhere, where it may still be in use.
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

/// Corrects the bytes that V8 counts as held outside its heap.
pub fn adjust_external_memory(env: Env, change: i64) {
    let mut sum = 0;
    // SAFETY: a plain call on a live environment; the account keeps the sum from going negative.
    unsafe { sys::napi_adjust_external_memory(env.raw(), change, &raw mut sum) };
}

/// The bytes of a JavaScript array, to be written.
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
