//! The handle by which JavaScript observes and cancels long-running work.

use std::sync::{Arc, Mutex, PoisonError};

use napi_derive::napi;
use ztensor_core::work::Watch;
use ztensor_core::work::lanes::Waiting;

use ztensor_handover::number;

/// Controls one job at a time. JavaScript retains it while the job is running, so it is dropped before the job only if its environment
/// ends. The job is then canceled, because its result is no longer needed.
#[napi]
pub struct Control {
    pub(crate) watch: Watch,
    pub(crate) queue_entry: QueueEntry,
}

/// The queue entry of the job while it waits for a thread.
#[derive(Clone, Default)]
pub(crate) struct QueueEntry(Arc<Mutex<Option<Waiting>>>);

impl QueueEntry {
    pub fn set(&self, waiting: Waiting) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting);
    }

    fn take(&self) -> Option<Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[napi]
impl Control {
    #[napi(constructor, catch_unwind)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { watch: Watch::default(), queue_entry: QueueEntry::default() }
    }

    /// Cancels the work: immediately if it waits for a thread, otherwise at the next check. Its promise rejects with `ZT_ABORTED`.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.watch.stop.set();
        if let Some(job) = self.queue_entry.take().and_then(Waiting::take) {
            // It observes the cancellation and reports it.
            job();
        }
    }

    #[napi(
        ts_return_type = "[bytes: number, totalBytes: number, tensors: number, totalTensors: number]",
        catch_unwind
    )]
    pub fn progress(&self) -> Vec<f64> {
        let progress = self.watch.progress();
        [progress.bytes, progress.total_bytes, progress.tensors, progress.total_tensors].map(number).to_vec()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.cancel();
    }
}
