//! The handle by which JavaScript watches and stops long work.

use std::sync::{Arc, Mutex, PoisonError};

use napi_derive::napi;
use ztensor_core::work::Watch;
use ztensor_core::work::lanes::Waiting;

use crate::index::number;

/// Watches one job at a time. JavaScript keeps it while the job is under way, so that it goes before the job only where its
/// environment ends: then nobody wants the job's result, and it is stopped.
#[napi]
pub struct Control {
    pub(crate) watch: Watch,
    pub(crate) queue_entry: QueueEntry,
}

/// Where the job waits for a thread.
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

    /// Ends the work: at once where it waits for a thread, otherwise between two pieces. Its promise rejects with
    /// `ZT_ABORTED`.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.watch.stop.set();
        if let Some(job) = self.queue_entry.take().and_then(Waiting::take) {
            // It sees that it is stopped, and says so.
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
