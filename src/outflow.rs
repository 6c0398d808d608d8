//! Blocks of a file on their way from a thread that makes them to the wrapper, which writes them into a stream. That thread waits
//! until there is room for a block; nobody else waits on a thread.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::sources::owned::Owned;
use ztensor_core::write::Passing;

use crate::memory::Memory;
use crate::task::{Deferred, settle};

#[derive(Default)]
struct State {
    /// The block that waits. One is written meanwhile, and one is made.
    block: Option<Vec<u8>>,
    /// The wrapper's call that waits for the next block.
    asked: Option<Deferred<Option<Memory>>>,
    /// Nobody makes any more blocks.
    made: bool,
    /// Nobody takes any more blocks.
    abandoned: bool,
}

#[derive(Default)]
struct Way {
    state: Mutex<State>,
    room: Condvar,
}

impl Way {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn give(asked: Deferred<Option<Memory>>, block: Option<Vec<u8>>) {
    settle(asked, Ok(block), |_, block| Ok(block.map(|bytes| Memory::from(Owned::from(bytes)))));
}

/// The end into which blocks go.
pub struct Maker(Arc<Way>);

impl Passing for Maker {
    fn pass(&mut self, block: Vec<u8>) -> CoreResult<()> {
        let mut state = self.0.lock();
        while state.block.is_some() && !state.abandoned {
            state = self.0.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.abandoned {
            return Err(CoreError::new(Code::Io, "nobody takes the rest of the file"));
        }
        match state.asked.take() {
            Some(asked) => give(asked, Some(block)),
            None => state.block = Some(block),
        }
        Ok(())
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

/// One way for blocks, for one copy.
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

    /// The next block; null when all were taken, whether the copy is complete or not. One call after the other.
    #[napi(ts_return_type = "Promise<Memory | null>", catch_unwind)]
    pub fn next<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        let (asked, promise) = env.create_deferred()?;
        let mut state = self.way.lock();
        match state.block.take() {
            Some(block) => {
                self.way.room.notify_one();
                give(asked, Some(block));
            }
            None if state.made => give(asked, None),
            None => state.asked = Some(asked),
        }
        Ok(promise)
    }

    /// Ends the way of blocks that nobody will make.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        drop(self.maker.take());
    }
}

impl Outflow {
    /// The end into which blocks go, once.
    pub fn maker(&self) -> CoreResult<Maker> {
        self.maker.take().ok_or_else(|| CoreError::new(Code::InvalidArg, "these blocks are made already"))
    }
}

impl Drop for Outflow {
    /// The environment has ended, or the copy: whoever makes blocks must not wait for it.
    fn drop(&mut self) {
        self.way.lock().abandoned = true;
        self.way.room.notify_one();
    }
}
