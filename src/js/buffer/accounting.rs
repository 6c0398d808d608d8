//! Corrects V8's accounting of aliases. V8 counts every external buffer as heap memory, and 146 of 17 MiB cost 50 ms of collections; mapped
//! bytes are not heap memory.
//!
//! V8's total for this addon must never be negative (Node 24 and 26 abort, and a buffer moved to another thread can leave the count at any
//! time). Therefore there is a credit, and no more than the credit is subtracted. V8 collects the whole heap when its total has risen by
//! some 64 MiB above the lowest value since the last collection, so:
//!
//! - The credit is a high-water mark of what aliases need. It at most doubles, and is never returned: a rise for each opened file would
//!   trigger a collection for each.
//! - An alias's length is subtracted after V8 has counted it, and added back before V8 discounts it: in the opposite order the total dips,
//!   and each recovery looks like an allocation.
//! - What V8 has discounted itself, in a collection, is not added back: later aliases use it up.

use std::cell::Cell;

use napi::Env;

use super::external_memory::adjust_external_memory;

/// The first credit. Half of the rise that triggers a collection.
const FIRST: i64 = 32 << 20;
/// Maximum amount subtracted at once: the address space of a process. V8 aborts on a change of 2^60.
const MAX: i64 = 1 << 48;
/// Longer aliases are not added back before V8 discounts them: that rise alone would trigger a collection.
const LONG: i64 = 32 << 20;

/// The account of one environment. Lives on the thread of that environment.
#[derive(Default)]
pub struct Account {
    credit: Cell<i64>,
    /// Subtracted and not added back: at most the credit.
    taken: Cell<i64>,
    /// Bytes of live aliases.
    living: Cell<i64>,
}

impl Account {
    /// Subtracts the length of an alias, after V8 has counted it.
    pub fn enter(&self, env: Env, length: usize) {
        self.living.set(self.living.get().saturating_add(bytes(length)));
        tell(env, self.cover());
    }

    /// Removes an alias that is about to be detached.
    pub fn leave(&self, env: Env, length: usize) {
        self.drop(length);
        let back = bytes(length).min(self.taken.get());
        if back <= LONG {
            self.taken.set(self.taken.get() - back);
            tell(env, back);
        }
    }

    /// Removes an alias that V8 has discounted.
    pub fn drop(&self, length: usize) {
        self.living.set(self.living.get() - bytes(length));
    }

    /// Returns the correction to report to V8 so that no live alias counts.
    fn cover(&self) -> i64 {
        let need = self.living.get().min(MAX);
        let (credit, taken) = (self.credit.get(), self.taken.get());
        if need > credit {
            self.credit.set(need.max(credit.saturating_mul(2).clamp(FIRST, MAX)));
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
