//! Stages for tensors of a file in the caller's memory.

use napi::bindgen_prelude::Uint32Array;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::read::staging;

use crate::js::error::{misuse, throw};
use crate::read::file::NativeFile;
use crate::read::stage::StageBuilder;
use ztensor_handover::number;

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
