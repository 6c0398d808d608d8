//! The only place that makes ArrayBuffers over memory of ours, and lets go of them.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::slice;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use napi::bindgen_prelude::{Uint8ArraySlice, Unknown};
use napi::{Env, JsValue, Result, sys};
use ztensor_core::source::mapping::Mapping;
use ztensor_core::source::owned::Owned;

use crate::accounting::{Account, Discount};
use crate::error::misuse;
use crate::panic::contain;

/// An alias's share of a mapping, and what V8 was told of it. `close` takes both early; the finalizer takes what is left.
pub struct Share {
    mapping: Cell<Option<Arc<Mapping>>>,
    discount: Cell<Option<Discount>>,
}

impl Share {
    /// Lets go of the mapping. What V8 is to be told stays to be done.
    pub fn end(&self) -> Option<Discount> {
        self.mapping.take();
        self.discount.take()
    }

    /// Lets go of the mapping and tells V8.
    fn leave(&self, env: Env) {
        if let Some(discount) = self.end() {
            discount.leave(env);
        }
    }
}

/// What an external buffer keeps alive.
enum Backing {
    Mapped(Rc<Share>),
    Owned(Owned),
    /// Memory that never goes.
    Static,
    /// A mailbox, which its thread keeps as well.
    Mail(#[allow(dead_code)] Rc<Mailbox>), // held, not read
}

/// Bytes that JavaScript fills and native code of the same thread reads when it is called.
pub struct Mailbox(Box<[Cell<u8>]>);

impl Mailbox {
    pub fn new(length: usize) -> Rc<Self> {
        Rc::new(Self(vec![Cell::new(0); length].into()))
    }

    /// Lets `look` see the bytes. It must not call JavaScript, and has no environment to do so.
    pub fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        // SAFETY: `Cell<u8>` is laid out as `u8`. The mailbox stays on one thread, on which nobody writes while `look` runs:
        // only JavaScript does, which waits for this call.
        look(unsafe { slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len()) })
    }
}

/// Whether external buffers are switched off, as Electron has them: `ZTENSOR_NO_EXTERNAL=1`.
fn forbidden() -> bool {
    static FORBIDDEN: OnceLock<bool> = OnceLock::new();
    *FORBIDDEN.get_or_init(|| std::env::var_os("ZTENSOR_NO_EXTERNAL").is_some_and(|value| value == "1"))
}

/// An ArrayBuffer over `length` mapped bytes at `offset`, and its share of the mapping. `None` where the
/// runtime refuses external buffers, or ones of this size.
pub fn alias<'env>(
    env: &'env Env,
    mapping: Arc<Mapping>,
    account: &Rc<Account>,
    offset: u64,
    length: u64,
) -> Result<Option<(Unknown<'env>, Rc<Share>)>> {
    let address = mapping.address(offset, length).ok_or_else(|| misuse("an alias outside the mapping"))?;
    let length = usize::try_from(length).map_err(|_| misuse("an alias beyond the address space"))?;
    if forbidden() {
        return Ok(None);
    }
    let discount = account.enter(*env);
    let share = Rc::new(Share { mapping: Cell::new(Some(mapping)), discount: Cell::new(None) });
    let Ok(buffer) = external(*env, address, length, Backing::Mapped(Rc::clone(&share))) else {
        discount.leave(*env);
        return Ok(None);
    };
    discount.take(*env, length);
    share.discount.set(Some(discount));
    Ok(Some((buffer, share)))
}

/// An ArrayBuffer that owns `owned`. The memory comes back where the runtime refuses, unless it threw it away:
/// callers ask for no buffer above the runtime's own bound.
pub fn give(env: &Env, mut owned: Owned) -> std::result::Result<Unknown<'_>, Option<Owned>> {
    if forbidden() || owned.is_empty() {
        return Err(Some(owned));
    }
    let (address, length) = (owned.as_mut_ptr(), owned.len());
    external(*env, address, length, Backing::Owned(owned)).map_err(|refused| match refused {
        Some(Backing::Owned(owned)) => Some(owned),
        _ => None,
    })
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
pub fn over_mailbox<'env>(env: &'env Env, mailbox: &Rc<Mailbox>) -> Option<Unknown<'env>> {
    if forbidden() {
        return None;
    }
    let address = mailbox.0.as_ptr().cast_mut().cast();
    external(*env, address, mailbox.0.len(), Backing::Mail(Rc::clone(mailbox))).ok()
}

fn external<'env>(
    env: Env,
    address: *mut u8,
    length: usize,
    backing: Backing,
) -> std::result::Result<Unknown<'env>, Option<Backing>> {
    // A refusing runtime may call the finalizer (Node 20 above 4 GiB) or not (Electron), so what is kept alive
    // stands in a cell that two owners share, and whoever comes first takes it out.
    let cell = Rc::new(RefCell::new(Some(backing)));
    let hint = Rc::into_raw(Rc::clone(&cell)).cast_mut();
    let mut value = ptr::null_mut();
    // SAFETY: `address` and `length` name memory that the cell keeps alive until the finalizer takes it out.
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
        // SAFETY: the value was just made in this environment.
        return Ok(unsafe { Unknown::from_raw_unchecked(env.raw(), value) });
    }
    clear_exception(env);
    // The runtime's own share of the cell is left to its finalizer, called or not: a few bytes at worst.
    Err(cell.take())
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

extern "C" fn finalize(env: sys::napi_env, _data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the share of the cell made in `external` for this call, and the runtime calls it once.
    let cell = unsafe { Rc::from_raw(hint.cast::<RefCell<Option<Backing>>>()) };
    // As above.
    let _ = contain(|| {
        if let Some(Backing::Mapped(share)) = cell.take() {
            share.leave(Env::from_raw(env));
        }
        Ok(())
    });
}

/// Detaches a buffer, so that its views become empty. False where it was detached before: JavaScript moved
/// its memory elsewhere, where it may still be in use.
pub fn detach(env: &Env, buffer: &Unknown<'_>) -> bool {
    let mut detached = true;
    // SAFETY: a live value of this environment.
    let asked = unsafe { sys::napi_is_detached_arraybuffer(env.raw(), buffer.raw(), &raw mut detached) };
    if asked != sys::Status::napi_ok || detached {
        return false;
    }
    // SAFETY: as above.
    let done = unsafe { sys::napi_detach_arraybuffer(env.raw(), buffer.raw()) } == sys::Status::napi_ok;
    if !done {
        clear_exception(*env);
    }
    done
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
