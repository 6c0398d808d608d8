//! Memory that native code filled, on its way to JavaScript.

use napi::bindgen_prelude::{Uint8ArraySlice, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::sources::owned::Owned;
use ztensor_core::work;

use crate::buffer;
use crate::error::misuse;

/// A filled block. JavaScript takes it without a copy where the runtime lets it, and copies it piece by piece
/// otherwise.
#[napi]
pub struct Memory {
    block: Option<Owned>,
}

impl From<Owned> for Memory {
    fn from(block: Owned) -> Self {
        Self { block: Some(block) }
    }
}

#[napi]
impl Memory {
    #[napi(getter, catch_unwind)]
    #[allow(clippy::cast_precision_loss)] // no block has 2^53 bytes
    pub fn byte_length(&self) -> f64 {
        self.block.as_ref().map_or(0, |block| block.len()) as f64
    }

    /// An ArrayBuffer that takes the block over, or null where the runtime refuses external buffers.
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

    /// Lets go of the block, which nobody takes: the collector does not know how much it is.
    #[napi(catch_unwind)]
    pub fn free(&mut self) {
        self.block = None;
    }

    /// Copies the bytes from `offset` on into `target`, on all cores where they are many.
    #[napi(catch_unwind)]
    pub fn copy_to(&self, offset: f64, mut target: Uint8ArraySlice<'_>) -> Result<()> {
        let source = self.block.as_deref().unwrap_or_default();
        let start = crate::index::unsigned(offset).and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(target.len()));
        let piece = start.zip(end).and_then(|(start, end)| source.get(start..end));
        let piece = piece.ok_or_else(|| misuse("a copy outside the block"))?;
        work::copy(piece, buffer::writable(&mut target, &[])?);
        Ok(())
    }
}

/// Puts a seal behind the buffers made so far, so that none of them is taken for one that JavaScript moved away. Called at the
/// end of a turn; the first call asks for seals.
#[napi(catch_unwind)]
pub fn seal_buffers(env: Env) {
    buffer::seal(env);
}

/// The same for a runtime that calls hooks first. Called once.
#[napi(catch_unwind)]
pub fn hook_buffers(env: Env) {
    buffer::hook(env);
}
