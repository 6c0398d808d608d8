//! The external buffers of one environment, and detection of those that JavaScript moved.
//!
//! `buffer.transfer()` gives the memory of a buffer to another one, which can be posted to another thread. Node and Bun call the finalizers
//! of all buffers when their environment ends, although the memory of a moved one may still be in use. Nothing reports when that use ends,
//! so such memory is never freed. The originals show which buffers were moved: they are detached, or were collected without their
//! finalizer.
//!
//! There is little time to inspect them. Bun runs hooks first and finalizers afterwards. (Deno calls finalizers when the memory is
//! released, on any thread and at any time, and needs none of this.) Node processes one buffer after the other, newest first, detaches each
//! and calls its finalizer; before that it calls those of buffers that were collected earlier. So the first finalizer of a buffer that was
//! not collected inspects all others. That buffer itself cannot be judged: a seal, a buffer of one byte, is created after the others at the
//! end of each turn, and at the latest after 64. If an environment ends in the middle of a turn, memory of buffers created since the last
//! seal may leak.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use napi::{Env, sys};

use super::accounting::Account;
use super::backing::Backing;
use crate::js::panic::contain;

/// Number of buffers after which a seal is required: creating one costs as much as creating a buffer.
const UNSEALED: u64 = 64;

thread_local! {
    /// The environments of this thread that have not ended; almost always one.
    static LIVING: RefCell<Vec<Rc<Environment>>> = const { RefCell::new(Vec::new()) };
}

/// The owner of a buffer's memory. A runtime may call its finalizer on any thread.
pub struct Retained {
    /// The number of the environment that the buffer was created in.
    environment: u64,
    /// Its position among the buffers of the environment.
    order: u64,
    backing: Mutex<Option<Backing>>,
}

impl Retained {
    pub fn take(&self) -> Option<Backing> {
        self.backing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// An environment that has not ended.
pub struct Environment {
    number: u64,
    raw: sys::napi_env,
    pub account: Account,
    /// Whether the runtime finalizes buffers whose memory was moved.
    watching: Cell<bool>,
    /// Number of buffers created so far.
    made: Cell<u64>,
    /// The position of the last seal, which stays referenced. `None` if the runtime needs no seals.
    seal: Cell<Option<(u64, sys::napi_ref)>>,
    /// The buffers whose finalizers were not called, each with a weak reference, by the addresses of their owners.
    buffers: RefCell<HashMap<usize, (Arc<Retained>, sys::napi_ref)>>,
}

impl Environment {
    /// Returns the environment that a call came from.
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

    /// Returns the environment that a buffer was created in, if it lives on this thread.
    pub fn home(entry: &Retained) -> Option<Rc<Self>> {
        // A thread that is ending may no longer have the list.
        let find = |living: &RefCell<Vec<Rc<Self>>>| {
            living.borrow().iter().find(|known| known.number == entry.environment).map(Rc::clone)
        };
        LIVING.try_with(find).ok().flatten()
    }

    pub fn keep(&self, backing: Backing) -> Arc<Retained> {
        let order = self.made.get();
        self.made.set(order + 1);
        Arc::new(Retained { environment: self.number, order, backing: Mutex::new(Some(backing)) })
    }

    /// Registers a hook that inspects the buffers.
    pub fn hook(&self) {
        self.watching.set(true);
        let argument = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: a plain call on a live environment. The argument is only compared.
        unsafe { sys::napi_add_env_cleanup_hook(self.raw, Some(hook), argument) };
    }

    /// Tracks a buffer that was just created.
    pub fn watch(&self, buffer: sys::napi_value, entry: &Arc<Retained>) {
        if !self.watching.get() {
            return;
        }
        // If creating the reference fails, the null reference represents a moved buffer.
        let reference = self.reference(buffer, 0);
        self.buffers.borrow_mut().insert(entry.address(), (Arc::clone(entry), reference));
    }

    /// Returns whether a seal is due.
    pub fn is_unsealed(&self) -> bool {
        self.seal.get().is_some_and(|(position, _)| self.made.get() - position > UNSEALED)
    }

    /// Returns whether the runtime needs seals.
    pub fn is_watching(&self) -> bool {
        self.seal.get().is_some()
    }

    /// Returns whether nothing was created since the last seal.
    pub fn is_sealed(&self) -> bool {
        self.seal.get().is_some_and(|(position, _)| self.made.get() == position + 1)
    }

    /// Makes a buffer that was just created the seal.
    pub fn seal(&self, buffer: sys::napi_value, entry: &Retained) {
        self.watching.set(true);
        let seal = (entry.order, self.reference(buffer, 1));
        if let Some((_, before)) = self.seal.replace(Some(seal)) {
            self.release(before);
        }
    }

    /// Handles the finalizer of a buffer.
    pub fn finalize(&self, entry: &Retained) {
        if self.is_over(entry) {
            leave(ptr::from_ref(self).cast());
        } else if let Some((_, reference)) = self.buffers.borrow_mut().remove(&entry.address()) {
            self.release(reference);
        }
    }

    /// Returns whether this finalizer indicates the end of the environment: that of the seal does, and that of a newer buffer if JavaScript
    /// can no longer run.
    fn is_over(&self, entry: &Retained) -> bool {
        let Some((position, _)) = self.seal.get() else { return false };
        let made = || self.buffers.borrow().contains_key(&entry.address()); // not refused
        entry.order == position || (entry.order > position && made() && !self.runs())
    }

    /// Returns whether JavaScript can run.
    fn runs(&self) -> bool {
        let (mut value, mut same) = (ptr::null_mut(), false);
        // SAFETY: plain calls on a live environment, whose finalizers are called in a scope. The second is refused where
        // JavaScript cannot run.
        unsafe {
            sys::napi_get_undefined(self.raw, &raw mut value) == sys::Status::napi_ok
                && sys::napi_strict_equals(self.raw, value, value, &raw mut same) == sys::Status::napi_ok
        }
    }

    /// Leaves the memory of moved buffers to its current user. Buffers detached by `close()` no longer own memory.
    fn end(&self) {
        let mut scope = ptr::null_mut();
        // SAFETY: a plain call on an environment that still lives.
        let opened = unsafe { sys::napi_open_handle_scope(self.raw, &raw mut scope) } == sys::Status::napi_ok;
        for (entry, reference) in self.buffers.take().into_values() {
            if !opened || self.is_moved(reference) {
                mem::forget(entry.take());
            }
            self.release(reference);
        }
        if opened {
            // SAFETY: the scope that was opened above.
            unsafe { sys::napi_close_handle_scope(self.raw, scope) };
        }
    }

    /// Returns whether a buffer was detached, or collected before its memory.
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
            // SAFETY: a reference of this environment, which still exists. The caller owns it.
            unsafe { sys::napi_delete_reference(self.raw, reference) };
        }
    }
}

impl Retained {
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
    // The host calls this, so no panic may unwind out of it; there is no caller to report to.
    let _ = contain(|| {
        leave(environment);
        Ok(())
    });
}
