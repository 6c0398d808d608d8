//! Memory of the caller's, copied in pieces to where other threads may read it.

use std::sync::Arc;

use napi::bindgen_prelude::Uint8ArraySlice;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::source::owned::Owned;
use ztensor_core::source::staged::Staged;

use crate::error::{misuse, throw};
use crate::index::unsigned;
use crate::kernels;

/// Ranges of the caller's memory, copied so that other threads may read them. They are filled by the wrapper
/// piece by piece.
#[napi]
pub struct Stage {
    pub(crate) staged: Arc<Staged>,
}

/// A stage in the making.
#[napi]
pub struct StageBuilder {
    pieces: Vec<(u64, Owned)>,
}

#[napi]
impl StageBuilder {
    /// `ranges` is `[offset, length, offset, length, …]`.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: Env, ranges: Vec<f64>) -> Result<Self> {
        let ranges = throw(&env, kernels::pairs(&ranges))?;
        let pieces = ranges.into_iter().map(|(offset, length)| Ok((offset, Owned::zeroed(length)?)));
        Ok(Self { pieces: throw(&env, pieces.collect())? })
    }

    /// Fills a range, given by its ordinal, from `at` on.
    #[napi(catch_unwind)]
    pub fn fill(&mut self, range: u32, at: f64, piece: Uint8ArraySlice<'_>) -> Result<()> {
        let bytes = self.pieces.get_mut(range as usize).map(|(_, bytes)| &mut **bytes).unwrap_or_default();
        let start = unsigned(at).and_then(|at| usize::try_from(at).ok());
        let end = start.and_then(|start| start.checked_add(piece.len()));
        let target = start.zip(end).and_then(|(start, end)| bytes.get_mut(start..end));
        target.ok_or_else(|| misuse("a piece outside the stage"))?.copy_from_slice(&piece);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn finish(&mut self, total: f64) -> Result<Stage> {
        let total = unsigned(total).ok_or_else(|| misuse("a stage without bounds"))?;
        Ok(Stage { staged: Arc::new(Staged::new(std::mem::take(&mut self.pieces), total)) })
    }
}
