//! Passes blocks of a file from the thread that produces them to the wrapper, which writes them to a stream. The producer waits until its
//! block is accepted; nothing waits for the producer.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::sources::owned::Owned;
use ztensor_core::write::ByteStream;

use crate::js::task::{Deferred, settle};
use crate::read::memory::Memory;

#[derive(Default)]
struct State {
    /// The waiting block. Meanwhile one is written, and one is produced.
    block: Option<Vec<u8>>,
    /// The wrapper's call that waits for the next block.
    asked: Option<Deferred<Option<Memory>>>,
    /// No more blocks will be produced.
    made: bool,
    /// Why none will be produced any more, if it is not the end of the file.
    failed: Option<CoreError>,
    /// No more blocks will be taken.
    abandoned: bool,
}

#[derive(Default)]
struct Way {
    state: Mutex<State>,
    taken: Condvar,
}

impl Way {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn give(asked: Deferred<Option<Memory>>, block: Option<Vec<u8>>) {
    settle(asked, Ok(block), |_, block| Ok(block.map(|bytes| Memory::from(Owned::from(bytes)))));
}

fn refuse(asked: Deferred<Option<Memory>>, error: CoreError) {
    settle(asked, Err(error), |_, block: Option<Memory>| Ok(block));
}

/// The producer's end.
pub struct Maker(Arc<Way>);

impl ByteStream for Maker {
    fn pass(&mut self, block: Vec<u8>) -> CoreResult<()> {
        let mut state = self.0.lock();
        while state.block.is_some() && !state.abandoned {
            state = self.0.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.abandoned {
            return Err(CoreError::new(Code::Io, "the rest of the file is no longer read"));
        }
        match state.asked.take() {
            Some(asked) => give(asked, Some(block)),
            None => state.block = Some(block),
        }
        Ok(())
    }
}

impl Maker {
    /// Ends with an error, which the wrapper's next call receives.
    pub fn fail(self, error: CoreError) {
        let mut state = self.0.lock();
        match state.asked.take() {
            Some(asked) => refuse(asked, error),
            None => state.failed = Some(error),
        }
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.made = true;
        if let Some(asked) = state.asked.take() {
            give(asked, None);
        }
    }
}

/// A channel for the blocks of one copy.
#[napi]
pub struct Outflow {
    way: Arc<Way>,
    maker: Cell<Option<Maker>>,
}

#[napi]
impl Outflow {
    #[napi(constructor, catch_unwind)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let way = Arc::new(Way::default());
        let maker = Cell::new(Some(Maker(Arc::clone(&way))));
        Self { way, maker }
    }

    /// The next block; null when all were taken, whether the copy is complete or not. Calls must not overlap.
    #[napi(ts_return_type = "Promise<Memory | null>", catch_unwind)]
    pub fn next<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        let (asked, promise) = env.create_deferred()?;
        let mut state = self.way.lock();
        match state.block.take() {
            Some(block) => {
                self.way.taken.notify_one();
                give(asked, Some(block));
            }
            None if state.made => match state.failed.take() {
                Some(error) => refuse(asked, error),
                None => give(asked, None),
            },
            None => state.asked = Some(asked),
        }
        Ok(promise)
    }

    /// Ends the work of the producer: no more blocks will be taken.
    #[napi(catch_unwind)]
    pub fn abandon(&self) {
        let mut state = self.way.lock();
        (state.abandoned, state.block) = (true, None);
        self.way.taken.notify_one();
    }

    /// Closes a channel that will receive no blocks.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        drop(self.maker.take());
    }
}

impl Outflow {
    /// Returns the producer's end, once.
    pub fn maker(&self) -> CoreResult<Maker> {
        self.maker
            .take()
            .ok_or_else(|| CoreError::new(Code::InvalidArg, "these blocks are already being produced"))
    }
}

impl Drop for Outflow {
    /// The environment or the copy has ended: a producer must not wait any longer.
    fn drop(&mut self) {
        self.way.lock().abandoned = true;
        self.way.taken.notify_one();
    }
}
