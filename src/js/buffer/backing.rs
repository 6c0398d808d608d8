//! The memory under external buffers.
#![allow(unsafe_code)]

use std::slice;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex, PoisonError};

use ztensor_core::sources::mapping::Mapping;
use ztensor_core::sources::owned::Owned;

/// An alias's reference to a mapping. `close` releases it early; otherwise the finalizer does.
pub struct Share {
    pub(super) mapping: Mutex<Option<Arc<Mapping>>>,
    pub(super) length: usize,
}

impl Share {
    /// Releases the mapping. Returns false if it was already released.
    pub(super) fn end(&self) -> bool {
        self.mapping.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

/// The owner of an external buffer's memory.
pub(super) enum Backing {
    Mapped(Arc<Share>),
    Owned(Owned),
    /// Static memory.
    Static,
    /// A mailbox, which its thread also retains.
    Mail(#[allow(dead_code)] Arc<Mailbox>), // held, not read
}

/// Bytes that JavaScript writes and native code of the same thread reads during a call.
pub struct Mailbox(pub(super) Box<[AtomicU8]>);

impl Mailbox {
    pub fn new(length: usize) -> Arc<Self> {
        Arc::new(Self((0..length).map(|_| AtomicU8::new(0)).collect()))
    }

    /// Passes the bytes to `look`, which must not call JavaScript and has no environment to do so.
    pub fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        // SAFETY: `AtomicU8` has the layout of `u8`. The mailbox stays on one thread, where nothing writes while `look` runs: only
        // JavaScript writes, and it waits for this call.
        look(unsafe { slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len()) })
    }
}
