//! The caller's memory, copied in pieces so that other threads may read it.

use std::cell::RefCell;
use std::sync::Arc;

use napi::bindgen_prelude::{Uint8ArraySlice, Uint32Array};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::Result as CoreResult;
use ztensor_core::read::staging;
use ztensor_core::sources::owned::Owned;
use ztensor_core::sources::staged::Staged;

use crate::error::{misuse, throw};
use crate::file::NativeFile;
use ztensor_handover::number;

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

/// A stage for some of many tensors.
#[napi(object, object_from_js = false)]
pub struct StageBatch {
    pub builder: StageBuilder,
    /// The position after the last of them.
    pub end: u32,
    /// Their stored bytes.
    pub bytes: f64,
}

/// Creates a stage for tensors from a position on, as many as are processed together.
pub fn batch(env: &Env, file: &NativeFile, ordinals: &[u32], from: u32) -> Result<StageBatch> {
    let shared = file.shared(env)?;
    let next = staging::next(&shared.catalog, ordinals, from as usize);
    let builder = throw(env, StageBuilder::new(next.ranges, shared.length))?;
    let end = u32::try_from(next.end).map_err(|_| misuse("too many tensors"))?;
    Ok(StageBatch { builder, end, bytes: number(next.stored) })
}

#[napi]
impl NativeFile {
    /// A stage for a tensor, or for one component of it.
    #[napi(catch_unwind)]
    pub fn stage(&self, env: Env, ordinal: u32, component: Option<u32>) -> Result<StageBuilder> {
        let shared = self.shared(&env)?;
        let ranges = match component {
            None => throw(&env, shared.tensor(ordinal))?.ranges(),
            Some(component) => throw(&env, shared.part(ordinal, component))?.1.spans().collect(),
        };
        // Only the index's own file is in memory; data in other files is rejected when it is read.
        let there = ranges.into_iter().filter(|span| span.file == 0);
        throw(&env, StageBuilder::new(there.map(|span| (span.offset, span.length)), shared.length))
    }

    /// A stage for the whole file.
    #[napi(catch_unwind)]
    pub fn stage_all(&self, env: Env) -> Result<StageBuilder> {
        let total = self.shared(&env)?.length;
        throw(&env, StageBuilder::new([(0, total)], total))
    }

    /// A stage for tensors, given by their ordinals, from the one at `from` on, as many as are processed together.
    #[napi(catch_unwind)]
    pub fn stage_next(&self, env: Env, ordinals: Uint32Array, from: u32) -> Result<StageBatch> {
        batch(&env, self, &ordinals, from)
    }
}
