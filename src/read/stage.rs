//! The caller's memory, copied in pieces so that other threads may read it.

use std::cell::RefCell;
use std::sync::Arc;

use napi::Result;
use napi::bindgen_prelude::Uint8ArraySlice;
use napi_derive::napi;
use ztensor_core::error::Result as CoreResult;
use ztensor_core::sources::owned::Owned;
use ztensor_core::sources::staged::Staged;

use crate::js::error::misuse;

/// Bytes copied on the JavaScript thread before yielding to the event loop: some 3 ms.
const PIECE: usize = 16 << 20;

/// Ranges of the caller's memory, copied so that other threads may read them. The wrapper fills them piece by piece.
#[napi]
pub struct Stage {
    staged: RefCell<Option<Arc<Staged>>>,
}

#[napi]
impl Stage {
    /// Releases the copies before garbage collection does.
    #[napi(catch_unwind)]
    pub fn release(&self) {
        self.staged.take();
    }
}

impl Stage {
    pub fn share(&self) -> Result<Arc<Staged>> {
        self.staged.borrow().as_ref().map(Arc::clone).ok_or_else(|| misuse("a stage that was released"))
    }
}

/// A stage that is being filled.
#[napi]
pub struct StageBuilder {
    pieces: Vec<(u64, Owned)>,
    /// The range being filled, and the bytes filled of it.
    at: usize,
    filled: usize,
    total: u64,
}

impl StageBuilder {
    pub fn new(ranges: impl IntoIterator<Item = (u64, u64)>, total: u64) -> CoreResult<Self> {
        let pieces = ranges.into_iter().map(|(offset, length)| Ok((offset, Owned::to_fill(length)?)));
        Ok(Self { pieces: pieces.collect::<CoreResult<_>>()?, at: 0, filled: 0, total })
    }
}

#[napi]
impl StageBuilder {
    /// Copies the next bytes from the caller's memory, at most a few MiB. Returns whether more remain; null if the memory has become too
    /// short.
    #[napi(catch_unwind)]
    pub fn fill(&mut self, memory: Uint8ArraySlice<'_>) -> Option<bool> {
        let mut budget = PIECE;
        while let Some((offset, piece)) = self.pieces.get_mut(self.at) {
            let target = piece.get_mut(self.filled..).unwrap_or_default();
            let count = target.len().min(budget);
            let start = usize::try_from(*offset).ok()?.checked_add(self.filled)?;
            let source = memory.get(start..start.checked_add(count)?)?;
            target.get_mut(..count)?.copy_from_slice(source);
            self.filled += count;
            budget -= count;
            if self.filled < piece.len() {
                return Some(true);
            }
            (self.at, self.filled) = (self.at + 1, 0);
        }
        Some(false)
    }

    #[napi(catch_unwind)]
    pub fn finish(&mut self) -> Result<Stage> {
        if self.at < self.pieces.len() {
            return Err(misuse("a stage that is not full"));
        }
        let staged = Staged::new(std::mem::take(&mut self.pieces), self.total);
        Ok(Stage { staged: RefCell::new(Some(Arc::new(staged))) })
    }
}
