//! The handle by which JavaScript watches and stops long work.

use napi_derive::napi;
use ztensor_core::work::Watch;

use crate::index::number;

#[napi]
pub struct Control {
    pub(crate) watch: Watch,
}

#[napi]
impl Control {
    #[napi(constructor, catch_unwind)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { watch: Watch::default() }
    }

    /// Ends the work between two pieces; its promise rejects with `ZT_ABORTED`.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.watch.stop.set();
    }

    /// `[bytes, totalBytes, tensors, totalTensors]`.
    #[napi(catch_unwind)]
    pub fn progress(&self) -> Vec<f64> {
        let progress = self.watch.progress();
        [progress.bytes, progress.total_bytes, progress.tensors, progress.total_tensors].map(number).to_vec()
    }
}
