//! Tells V8 what aliases really cost. It counts every external buffer as if it were heap, and 146 of 17 MiB
//! cost 50 ms of collections; mapped bytes are not heap.
//!
//! The sum that V8 holds of us must never be negative (Node 24 and 26 abort, and a buffer can leave the count at any time,
//! moved to another thread), so there is a credit, and no more than the credit is taken off. V8 collects the whole heap when
//! its sum has risen by some 64 MiB above the lowest since the last collection, so:
//!
//! - the credit is a high-water mark of what aliases need. It at most doubles, and is never given back: a rise for each file
//!   that is opened would be a collection for each.
//! - an alias's length is taken off after V8 has counted it, and given back before V8 counts it out: the other way round the sum
//!   dips, and each way back looks like memory that is claimed.
//! - what V8 has counted out by itself, in a collection, is not given back: the next aliases use it up.

use std::cell::Cell;

use napi::Env;

use crate::buffer::adjust_external_memory;

/// The first credit. Half of the rise that begins a collection.
const FIRST: i64 = 32 << 20;
/// No more is taken off at once: all the addresses of a process. V8 aborts of a change by 2^60.
const MOST: i64 = 1 << 48;
/// A longer alias is not given back before it is counted out: that rise alone would begin a collection.
const LONG: i64 = 32 << 20;

/// The account of one environment. Lives on that environment's thread.
#[derive(Default)]
pub struct Account {
    credit: Cell<i64>,
    /// Taken off and not given back: at most the credit.
    taken: Cell<i64>,
    /// Bytes of living aliases.
    living: Cell<i64>,
}

impl Account {
    /// Takes an alias's length off, once V8 has counted it.
    pub fn enter(&self, env: Env, length: usize) {
        self.living.set(self.living.get().saturating_add(bytes(length)));
        tell(env, self.cover());
    }

    /// Counts out an alias that is about to be detached.
    pub fn leave(&self, env: Env, length: usize) {
        self.drop(length);
        let back = bytes(length).min(self.taken.get());
        if back <= LONG {
            self.taken.set(self.taken.get() - back);
            tell(env, back);
        }
    }

    /// Counts out an alias that V8 has counted out.
    pub fn drop(&self, length: usize) {
        self.living.set(self.living.get() - bytes(length));
    }

    /// What V8 is to be told, so that no living alias counts.
    fn cover(&self) -> i64 {
        let need = self.living.get().min(MOST);
        let (credit, taken) = (self.credit.get(), self.taken.get());
        if need > credit {
            self.credit.set(need.max(credit.saturating_mul(2).clamp(FIRST, MOST)));
        }
        self.taken.set(taken.max(need));
        (self.credit.get() - credit) - (self.taken.get() - taken)
    }
}

fn bytes(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn tell(env: Env, change: i64) {
    if change != 0 {
        adjust_external_memory(env, change);
    }
}
