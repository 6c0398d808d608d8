//! Blocks of a file on their way from a thread that makes them to the wrapper, which writes them into a stream.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::source::owned::Owned;

use crate::memory::Memory;
use crate::task::spawn;

/// Blocks that may wait: one is written, one waits, one is made.
const WAITING: usize = 1;

/// One way for blocks, for one copy.
#[napi]
pub struct Outflow {
    blocks: Mutex<Option<SyncSender<Vec<u8>>>>,
    taken: Arc<Mutex<Receiver<Vec<u8>>>>,
}

#[napi]
impl Outflow {
    #[napi(constructor, catch_unwind)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let (blocks, taken) = sync_channel(WAITING);
        Self { blocks: Mutex::new(Some(blocks)), taken: Arc::new(Mutex::new(taken)) }
    }

    /// The next block; null when all were taken, whether the copy is complete or not.
    #[napi(ts_return_type = "Promise<Memory | null>", catch_unwind)]
    pub fn next<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        let taken = Arc::clone(&self.taken);
        // The thread that makes the blocks is none of the pool's, so that this waits for nothing of the pool.
        let job = move || Ok(taken.lock().unwrap_or_else(PoisonError::into_inner).recv().ok());
        spawn(env, job, |_, block| Ok(block.map(|bytes| Memory::from(Owned::from(bytes)))))
    }

    /// Ends the way of blocks that nobody will make.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        drop(self.blocks.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The end into which blocks go, once.
    pub fn blocks(&self) -> CoreResult<SyncSender<Vec<u8>>> {
        let used = || CoreError::new(Code::InvalidArg, "these blocks are made already");
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(used)
    }
}
