//! Tells V8 what aliases really cost. It counts every external buffer as if it were heap, and 146 of 17 MiB
//! cost 50 ms of collections; mapped bytes are not heap.
//!
//! The sum that V8 holds of us must never be negative (Node 24 and 26 abort), so the file's length is
//! credited once, with the first alias; each alias then takes its own length off while the live sum stays
//! within that credit and gives it back when it dies; the credit goes with the last alias.

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

    /// Counts a new alias of `length` bytes in.
    pub fn enter(self: &Rc<Self>, env: Env, length: usize) -> Discount {
        if self.aliases.get() == 0 {
            adjust_external_memory(env, self.file_length);
            self.credit.set(self.file_length);
        }
        self.aliases.set(self.aliases.get() + 1);
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let discounted = self.discounted.get().saturating_add(length);
        let taken = if discounted <= self.credit.get() { length } else { 0 };
        if taken > 0 {
            adjust_external_memory(env, -taken);
            self.discounted.set(discounted);
        }
        Discount { account: Rc::clone(self), taken }
    }
}

/// What one alias took off.
pub struct Discount {
    account: Rc<Account>,
    taken: i64,
}

impl Discount {
    /// Counts the alias out. Called from its finalizer, on the environment's thread.
    pub fn leave(self, env: Env) {
        let account = &self.account;
        if self.taken > 0 {
            adjust_external_memory(env, self.taken);
            account.discounted.set(account.discounted.get() - self.taken);
        }
        account.aliases.set(account.aliases.get() - 1);
        if account.aliases.get() == 0 {
            adjust_external_memory(env, -account.credit.get());
            account.credit.set(0);
        }
    }
}
