//! The external buffers of one environment, and which of them JavaScript moved away.
//!
//! `buffer.transfer()` gives the memory of a buffer to another one, which can be posted to another thread. Node and Bun call the
//! finalizers of all buffers when their environment ends, though the memory of a moved one may still be in use. Nobody tells when
//! that is over, so such memory is never freed. The originals show which buffers were moved: they are detached, or collected
//! without their finalizer.
//!
//! The time to look at them is short. Bun runs hooks first and finalizers then. (Deno calls finalizers when the memory is let go of,
//! on any thread and at any time, and needs none of this.) Node goes from buffer to buffer, the newest first, detaches each and calls its finalizer; before that it calls those of buffers that were collected earlier. So the first
//! finalizer of a buffer that was not collected looks at all others. That buffer itself cannot be judged: a seal, a buffer of one
//! byte, is put behind the buffers that were made, at the end of each turn and at the latest after 64. Where an environment ends
//! in the middle of a turn, the memory of what was made since the last seal may be left to nobody.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use napi::{Env, sys};

use super::Backing;
use crate::accounting::Account;
use crate::panic::contain;

/// Buffers behind which there must be a seal: making one costs as much as making a buffer.
const UNSEALED: u64 = 64;

thread_local! {
    /// The environments of this thread that have not ended. Nearly always one.
    static LIVING: RefCell<Vec<Rc<Environment>>> = const { RefCell::new(Vec::new()) };
}

/// What a buffer keeps alive. A runtime may call its finalizer on any thread.
pub struct Kept {
    /// The number of the environment that the buffer was made in.
    environment: u64,
    /// Its place among the buffers of the environment.
    order: u64,
    backing: Mutex<Option<Backing>>,
}

impl Kept {
    pub fn take(&self) -> Option<Backing> {
        self.backing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// An environment that has not ended.
pub struct Environment {
    number: u64,
    raw: sys::napi_env,
    pub account: Account,
    /// Whether the runtime ends buffers whose memory was moved.
    watching: Cell<bool>,
    /// Buffers made so far.
    made: Cell<u64>,
    /// The place of the last seal, which stays referenced. `None` where the runtime needs no seals.
    seal: Cell<Option<(u64, sys::napi_ref)>>,
    /// The buffers whose finalizers were not called, each with a weak reference, by the addresses of what they keep.
    buffers: RefCell<HashMap<usize, (Arc<Kept>, sys::napi_ref)>>,
}

impl Environment {
    /// The one that a call came from.
    pub fn of(env: Env) -> Rc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        LIVING.with_borrow_mut(|living| {
            if let Some(known) = living.iter().find(|known| known.raw == env.raw()) {
                return Rc::clone(known);
            }
            let environment = Rc::new(Self {
                number: NEXT.fetch_add(1, Ordering::Relaxed),
                raw: env.raw(),
                account: Account::default(),
                watching: Cell::new(false),
                made: Cell::new(0),
                seal: Cell::new(None),
                buffers: RefCell::default(),
            });
            living.push(Rc::clone(&environment));
            environment
        })
    }

    /// The one that a buffer was made in, if it lives on this thread.
    pub fn home(kept: &Kept) -> Option<Rc<Self>> {
        // A thread that ends may have no list any more.
        let find = |living: &RefCell<Vec<Rc<Self>>>| {
            living.borrow().iter().find(|known| known.number == kept.environment).map(Rc::clone)
        };
        LIVING.try_with(find).ok().flatten()
    }

    pub fn keep(&self, backing: Backing) -> Arc<Kept> {
        let order = self.made.get();
        self.made.set(order + 1);
        Arc::new(Kept { environment: self.number, order, backing: Mutex::new(Some(backing)) })
    }

    /// Looks at the buffers in a hook.
    pub fn hook(&self) {
        self.watching.set(true);
        let argument = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: a plain call on a live environment. The argument is only compared.
        unsafe { sys::napi_add_env_cleanup_hook(self.raw, Some(hook), argument) };
    }

    /// Remembers a buffer that was just made.
    pub fn watch(&self, buffer: sys::napi_value, kept: &Arc<Kept>) {
        if !self.watching.get() {
            return;
        }
        // A null reference, where it is refused, stands for a moved buffer.
        let reference = self.reference(buffer, 0);
        self.buffers.borrow_mut().insert(kept.address(), (Arc::clone(kept), reference));
    }

    /// Whether a seal is due.
    pub fn is_unsealed(&self) -> bool {
        self.seal.get().is_some_and(|(place, _)| self.made.get() - place > UNSEALED)
    }

    /// Whether the runtime needs seals.
    pub fn is_watching(&self) -> bool {
        self.seal.get().is_some()
    }

    /// Whether nothing was made since the last seal.
    pub fn is_sealed(&self) -> bool {
        self.seal.get().is_some_and(|(place, _)| self.made.get() == place + 1)
    }

    /// Takes a buffer that was just made for the seal.
    pub fn seal(&self, buffer: sys::napi_value, kept: &Kept) {
        self.watching.set(true);
        let seal = (kept.order, self.reference(buffer, 1));
        if let Some((_, before)) = self.seal.replace(Some(seal)) {
            self.release(before);
        }
    }

    /// Hears that the finalizer of a buffer is called.
    pub fn finalize(&self, kept: &Kept) {
        if self.is_over(kept) {
            leave(ptr::from_ref(self).cast());
        } else if let Some((_, reference)) = self.buffers.borrow_mut().remove(&kept.address()) {
            self.release(reference);
        }
    }

    /// Whether this finalizer tells of the environment's end: that of the seal does, and that of a newer buffer where JavaScript
    /// can no longer run.
    fn is_over(&self, kept: &Kept) -> bool {
        let Some((place, _)) = self.seal.get() else { return false };
        let made = || self.buffers.borrow().contains_key(&kept.address()); // not refused
        kept.order == place || (kept.order > place && made() && !self.runs())
    }

    /// Whether JavaScript can run.
    fn runs(&self) -> bool {
        let (mut value, mut same) = (ptr::null_mut(), false);
        // SAFETY: plain calls on a live environment, whose finalizers are called in a scope. The second is refused where
        // JavaScript cannot run.
        unsafe {
            sys::napi_get_undefined(self.raw, &raw mut value) == sys::Status::napi_ok
                && sys::napi_strict_equals(self.raw, value, value, &raw mut same) == sys::Status::napi_ok
        }
    }

    /// Leaves the memory of moved buffers to whoever has it now. What `close()` detached keeps nothing any more.
    fn end(&self) {
        let mut scope = ptr::null_mut();
        // SAFETY: a plain call on an environment that still lives.
        let opened = unsafe { sys::napi_open_handle_scope(self.raw, &raw mut scope) } == sys::Status::napi_ok;
        for (kept, reference) in self.buffers.take().into_values() {
            if !opened || self.is_moved(reference) {
                mem::forget(kept.take());
            }
            self.release(reference);
        }
        if opened {
            // SAFETY: the scope that was opened above.
            unsafe { sys::napi_close_handle_scope(self.raw, scope) };
        }
    }

    /// Whether a buffer was detached, or collected before its memory.
    fn is_moved(&self, reference: sys::napi_ref) -> bool {
        let mut buffer = ptr::null_mut();
        let mut detached = true;
        // SAFETY: a reference of this environment, which still lives, inside a scope; then a live value.
        unsafe {
            reference.is_null()
                || sys::napi_get_reference_value(self.raw, reference, &raw mut buffer) != sys::Status::napi_ok
                || buffer.is_null()
                || sys::napi_is_detached_arraybuffer(self.raw, buffer, &raw mut detached)
                    != sys::Status::napi_ok
                || detached
        }
    }

    fn reference(&self, buffer: sys::napi_value, count: u32) -> sys::napi_ref {
        let mut reference = ptr::null_mut();
        // SAFETY: a live value of this environment.
        unsafe { sys::napi_create_reference(self.raw, buffer, count, &raw mut reference) };
        reference
    }

    fn release(&self, reference: sys::napi_ref) {
        if !reference.is_null() {
            // SAFETY: a reference of this environment, which lives. Whoever has it gives it up.
            unsafe { sys::napi_delete_reference(self.raw, reference) };
        }
    }
}

impl Kept {
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// Ends an environment, once.
fn leave(environment: *const c_void) {
    let left = LIVING.try_with(|living| {
        let mut living = living.borrow_mut();
        let found = living.iter().position(|known| ptr::addr_eq(Rc::as_ptr(known), environment))?;
        Some(living.swap_remove(found))
    });
    if let Ok(Some(environment)) = left {
        environment.end();
    }
}

extern "C" fn hook(environment: *mut c_void) {
    // The host calls this, so nothing may unwind out of it; there is nobody to tell.
    let _ = contain(|| {
        leave(environment);
        Ok(())
    });
}
