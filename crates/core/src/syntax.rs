//! How an index is spelled: pull readers for CBOR and JSON that allocate nothing a file could inflate.
//! They know no format.
#![forbid(unsafe_code)]

pub mod cbor;
pub mod cbor_encode;
pub mod cbor_splice;
pub mod json;

use std::collections::HashSet;

/// Keys seen so far. Real maps have a handful, so those are compared one by one and need no memory beside.
pub(crate) struct Seen<T> {
    few: [Option<T>; FEW],
    count: usize,
    many: Option<HashSet<T>>,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self { few: [const { None }; FEW], count: 0, many: None }
    }
}

/// Above this many keys a hash set takes over, so that a hostile map costs linear time.
const FEW: usize = 12;

impl<T: Eq + std::hash::Hash> Seen<T> {
    /// Whether `key` is new.
    pub fn insert(&mut self, key: T) -> bool {
        if let Some(many) = &mut self.many {
            return many.insert(key);
        }
        if self.few.iter().take(self.count).flatten().any(|seen| *seen == key) {
            return false;
        }
        if let Some(free) = self.few.get_mut(self.count) {
            *free = Some(key);
            self.count += 1;
            return true;
        }
        let many = self.many.insert(self.few.iter_mut().filter_map(Option::take).collect());
        many.insert(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_new_once_however_many() {
        let mut seen = Seen::default();
        for round in 0..2 {
            for key in 0..3 * FEW {
                assert_eq!(seen.insert(key), round == 0, "{key}");
            }
        }
    }
}
