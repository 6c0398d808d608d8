//! Dequantization to float32.

use std::sync::Arc;

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::Result as CoreResult;
use ztensor_core::model::slice::Range;
use ztensor_core::read::Reading;
use ztensor_core::read::deferred::Reach;

use crate::js::control::Control;
use crate::js::error::throw;
use crate::js::panic::contain;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::memory::{JobResult, Memory};
use crate::read::opened::Shared;
use crate::read::stage::Stage;
use crate::values::kernels;

#[napi]
impl NativeFile {
    /// A quantized tensor as float32, or a slice of it: `[start, stop, step]` of each dimension, flat. `deferred`: decode while the memory
    /// is copied, if possible.
    #[napi(ts_return_type = "Promise<Memory>", catch_unwind)]
    pub fn dequantize<'env>(
        &self,
        env: &'env Env,
        ordinal: u32,
        ranges: Option<Vec<f64>>,
        deferred: bool,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let lane = source.shared.lane(&[ordinal]);
        let job = move || {
            let ranges = ranges.as_deref().map(kernels::ranges).transpose()?;
            source.read(|reading| decode(reading, &source.shared, ordinal, ranges.as_deref(), deferred))
        };
        spawn(env, lane, control, job, |_, block| Ok(Memory::from(block)))
    }

    /// All of it, on this thread and on worker threads.
    #[napi(catch_unwind)]
    pub fn dequantize_sync(
        &self,
        env: Env,
        ordinal: u32,
        deferred: bool,
        stage: Option<&Stage>,
    ) -> Result<Memory> {
        let control = Control::new(); // dropped after the work, since that stops it
        let source = self.reader(&env, &control, stage)?;
        let (shared, watch) = (&source.shared, &source.watch);
        let decoded = contain(|| {
            shared.reading_tensor_here(source.staged.as_deref(), watch, (ordinal, None), |reading| {
                decode(reading, shared, ordinal, None, deferred)
            })
        });
        throw(&env, decoded).map(Memory::from)
    }
}

fn decode(
    reading: Reading<'_>,
    shared: &Arc<Shared>,
    ordinal: u32,
    ranges: Option<&[Range]>,
    deferred: bool,
) -> CoreResult<JobResult> {
    let tensor = shared.tensor(ordinal)?;
    if deferred
        && ranges.is_none()
        && let Some(deferred) = reading.deferred_blocks(tensor, Reach::Anywhere)?
    {
        return Ok(JobResult::Deferred(deferred, Arc::clone(shared)));
    }
    reading.dequantize(tensor, ranges).map(JobResult::Block)
}
