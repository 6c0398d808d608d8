//! How an index is spelled: pull readers for CBOR and JSON that allocate nothing a file could inflate.
//! They know no format.
#![forbid(unsafe_code)]

pub mod cbor;
pub mod cbor_encode;
pub mod json;

use std::collections::HashSet;

/// Keys seen so far. Real maps have a handful, so those are compared one by one.
pub(crate) struct Seen<T> {
    few: Vec<T>,
    many: HashSet<T>,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self { few: Vec::new(), many: HashSet::new() }
    }
}

/// Above this many keys a hash set takes over, so that a hostile map costs linear time.
const FEW: usize = 16;

impl<T: Eq + std::hash::Hash> Seen<T> {
    /// Whether `key` is new.
    pub fn insert(&mut self, key: T) -> bool {
        if self.many.is_empty() {
            if self.few.contains(&key) {
                return false;
            }
            if self.few.len() < FEW {
                self.few.push(key);
                return true;
            }
            self.many.extend(self.few.drain(..));
        }
        self.many.insert(key)
    }
}
