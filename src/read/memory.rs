//! Native memory that is passed to JavaScript.

use std::ops::Range;
use std::sync::Arc;

use napi::bindgen_prelude::{Uint8ArraySlice, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::read::Reading;
use ztensor_core::read::deferred::{Deferred, Work};
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::{self, Watch};

use crate::js::buffer;
use crate::js::error::{misuse, throw};
use crate::js::panic::contain;
use crate::read::opened::Shared;
use crate::values::arguments::unsigned;

/// Bytes that take some 3 ms: copied, widened to float32, and decoded from blocks to float32.
const COPIED: u32 = 32 << 20;
const WIDENED: u32 = 32 << 20;
const DECODED: u32 = 4 << 20;
/// Blocks up to this size are retained for reuse when they were moved; of larger ones each part is given up.
const MOVED: usize = 32 << 20;

/// A filled block. JavaScript takes it without a copy if the runtime permits, and otherwise copies it in pieces. Alternatively elements
/// that are produced or read only when they are copied.
#[napi]
pub struct Memory {
    block: Option<Owned>,
    deferred: Option<(Deferred, Arc<Shared>)>,
}

impl From<Owned> for Memory {
    fn from(block: Owned) -> Self {
        Self { block: Some(block), deferred: None }
    }
}

/// The result of a job: a block, or a source of elements with the file that may still contain them.
pub enum JobResult {
    Block(Owned),
    Deferred(Deferred, Arc<Shared>),
}

impl From<JobResult> for Memory {
    fn from(made: JobResult) -> Self {
        match made {
            JobResult::Block(block) => Self::from(block),
            JobResult::Deferred(deferred, shared) => Self { block: None, deferred: Some((deferred, shared)) },
        }
    }
}

#[napi]
impl Memory {
    #[napi(getter, catch_unwind)]
    #[allow(clippy::cast_precision_loss)] // no block has 2^53 bytes
    pub fn byte_length(&self) -> f64 {
        let deferred = self.deferred.as_ref().map_or(0, |(deferred, _)| deferred.byte_length());
        self.block.as_ref().map_or(deferred, |block| block.len() as u64) as f64
    }

    /// Bytes to copy into existing memory before yielding to the event loop: some 3 ms. A multiple of any block of elements.
    #[napi(getter, catch_unwind)]
    pub fn step(&self) -> u32 {
        self.deferred.as_ref().map_or(COPIED, |(deferred, _)| match deferred.work() {
            Work::Copy => COPIED,
            Work::Widen => WIDENED,
            Work::Decode => DECODED,
        })
    }

    /// An ArrayBuffer that takes ownership of the block, or null if the runtime rejects external buffers.
    #[napi(ts_return_type = "ArrayBuffer | null", catch_unwind)]
    pub fn take<'env>(&mut self, env: &'env Env) -> Option<Unknown<'env>> {
        let block = self.block.take()?;
        match buffer::give(env, block) {
            Ok(array) => Some(array),
            Err(block) => {
                self.block = block;
                None
            }
        }
    }

    /// Releases the block, which will not be used: the garbage collector does not know its size.
    #[napi(catch_unwind)]
    pub fn free(&mut self) {
        self.block = None;
        self.deferred = None;
    }

    /// Copies the bytes from `offset` on into `target`, on all cores if there are many. If elements are converted in the process, both ends
    /// of the range must be multiples of 1,024 bytes, or the end of all elements.
    #[napi(catch_unwind)]
    pub fn copy_to(&self, env: Env, offset: f64, mut target: Uint8ArraySlice<'_>) -> Result<()> {
        if let Some((deferred, shared)) = &self.deferred {
            let start = unsigned(offset).ok_or_else(|| misuse("a copy outside the block"))?;
            let target = buffer::writable(&mut target, &[])?;
            let fill = |reading: Reading<'_>| deferred.fill(reading.sources, start, target);
            return throw(&env, contain(|| shared.reading(None, &Watch::default(), fill)));
        }
        self.copy(offset, &mut target)?;
        Ok(())
    }

    /// Copies the bytes from `offset` on into `target`, like `copyTo`, and gives up the memory of a large block: a block that is moved
    /// from its beginning to its end never takes much more memory than its copy alone.
    #[napi(catch_unwind)]
    pub fn move_to(&mut self, env: Env, offset: f64, mut target: Uint8ArraySlice<'_>) -> Result<()> {
        if self.deferred.is_some() {
            return self.copy_to(env, offset, target);
        }
        let range = self.copy(offset, &mut target)?;
        if let Some(block) = self.block.as_mut().filter(|block| block.len() > MOVED) {
            block.give_up(range);
        }
        Ok(())
    }
}

impl Memory {
    /// Copies bytes of the block and returns their range.
    fn copy(&self, offset: f64, target: &mut Uint8ArraySlice<'_>) -> Result<Range<usize>> {
        let source = self.block.as_deref().unwrap_or_default();
        let start = unsigned(offset).and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|start| Some(start..start.checked_add(target.len())?));
        let range = range.ok_or_else(|| misuse("a copy outside the block"))?;
        let piece = source.get(range.clone()).ok_or_else(|| misuse("a copy outside the block"))?;
        work::copy(piece, buffer::writable(target, &[])?);
        Ok(range)
    }
}

/// Creates a seal after the buffers created so far, so that none of them is mistaken for one that JavaScript moved. Called at the end of a
/// turn; the first call requests seals.
#[napi(catch_unwind)]
pub fn seal_buffers(env: Env) {
    buffer::seal(env);
}

/// Registers a hook instead, for a runtime that calls hooks first. Called once.
#[napi(catch_unwind)]
pub fn hook_buffers(env: Env) {
    buffer::hook(env);
}
