//! Tells V8 what aliases really cost. It counts every external buffer as if it were heap, and 146 of 17 MiB
//! cost 50 ms of collections; mapped bytes are not heap.
//!
//! The sum that V8 holds of us must never be negative (Node 24 and 26 abort), so the file's length is
//! credited once, with the first alias; each alias then takes its own length off while the live sum stays
//! within that credit and gives it back when it dies; the credit goes with the last alias.
//!
//! The length is taken off after V8 has counted it, not before: V8 measures growth from the lowest sum since the last
//! collection, so that a sum that dips and comes back looks like memory that was claimed, and each alias of
//! some MiB would have a collection of its own.

use std::cell::Cell;
use std::rc::Rc;

use napi::Env;

use crate::buffer::adjust_external_memory;

/// The account of one file in one environment. Lives on that environment's thread.
pub struct Account {
    file_length: i64,
    credit: Cell<i64>,
    discounted: Cell<i64>,
    aliases: Cell<u64>,
}

impl Account {
    pub fn new(file_length: u64) -> Rc<Self> {
        let file_length = i64::try_from(file_length).unwrap_or(i64::MAX);
        Rc::new(Self { file_length, credit: Cell::new(0), discounted: Cell::new(0), aliases: Cell::new(0) })
    }

    /// Counts in an alias that is about to be made.
    pub fn enter(self: &Rc<Self>, env: Env) -> Discount {
        if self.aliases.get() == 0 {
            adjust_external_memory(env, self.file_length);
            self.credit.set(self.file_length);
        }
        self.aliases.set(self.aliases.get() + 1);
        Discount { account: Rc::clone(self), taken: Cell::new(0) }
    }

    /// Counts out aliases that were detached, in one sum: given back one by one, lengths that V8 has counted out would
    /// look like memory that is claimed.
    pub fn settle(&self, env: Env, discounts: impl Iterator<Item = Discount>) {
        let back: i64 = discounts.map(Discount::end).sum();
        let credit = if self.aliases.get() == 0 { self.credit.take() } else { 0 };
        if back != credit {
            adjust_external_memory(env, back - credit);
        }
    }
}

/// What one alias took off.
pub struct Discount {
    account: Rc<Account>,
    taken: Cell<i64>,
}

impl Discount {
    /// Takes off the alias's length, once V8 has counted it.
    pub fn take(&self, env: Env, length: usize) {
        let account = &self.account;
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let discounted = account.discounted.get().saturating_add(length);
        if discounted <= account.credit.get() {
            adjust_external_memory(env, -length);
            account.discounted.set(discounted);
            self.taken.set(length);
        }
    }

    /// Counts the alias out. Called from its finalizer, on the environment's thread.
    pub fn leave(self, env: Env) {
        let account = Rc::clone(&self.account);
        account.settle(env, std::iter::once(self));
    }

    /// What is to be given back for the alias.
    fn end(self) -> i64 {
        let (account, taken) = (&self.account, self.taken.get());
        account.discounted.set(account.discounted.get() - taken);
        account.aliases.set(account.aliases.get() - 1);
        taken
    }
}
