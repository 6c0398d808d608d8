//! Index syntax: pull readers for CBOR and JSON whose allocations a file cannot inflate. Depends on no format.
#![forbid(unsafe_code)]

pub mod cbor;
pub mod cbor_encode;
pub mod cbor_splice;
pub mod json;
pub mod json_text;
pub mod repeats;
pub mod values;

use std::borrow::Cow;
use std::collections::HashSet;

/// Keys seen so far. Real maps have a handful, which are compared one by one without extra memory.
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

/// Above this many keys a hash set is used, so that a hostile map takes linear time.
const FEW: usize = 12;

impl<T: Eq + std::hash::Hash> Seen<T> {
    /// Adds `key` and returns whether it is new.
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

/// String keys seen so far: a [`Seen`] for maps that an index contains by the hundred thousand.
#[derive(Default)]
pub(crate) struct Keys<'a> {
    few: [&'a str; FEW],
    count: usize,
    /// A bit for each key, by its length and first byte: a key whose bit is not set is new.
    marks: u64,
    many: Option<HashSet<Cow<'a, str>>>,
}

impl<'a> Keys<'a> {
    /// Adds `key` and returns whether it is new.
    #[inline]
    pub fn insert(&mut self, key: Cow<'a, str>) -> bool {
        if let (Cow::Borrowed(text), None) = (&key, &self.many)
            && let Some(free) = self.few.get_mut(self.count)
        {
            *free = text;
            let first = text.as_bytes().first().copied().unwrap_or_default();
            let mark = 1 << ((text.len() * 7 + usize::from(first)) % 64);
            let known = self.marks & mark != 0 && self.few.iter().take(self.count).any(|seen| seen == text);
            self.marks |= mark;
            self.count += 1;
            return !known;
        }
        self.insert_beyond(key)
    }

    #[cold]
    fn insert_beyond(&mut self, key: Cow<'a, str>) -> bool {
        let few = self.few.iter().take(self.count).copied().map(Cow::Borrowed);
        self.many.get_or_insert_with(|| few.collect()).insert(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_and_borrowed_keys_are_new_once() {
        let texts: Vec<String> = (0..3 * FEW).map(|number| format!("key {number}")).collect();
        for owned in [vec![], vec![0], vec![5], vec![30], (0..3 * FEW).collect()] {
            let mut keys = Keys::default();
            for round in 0..2 {
                for (at, text) in texts.iter().enumerate() {
                    let key = if owned.contains(&at) == (round == 0) {
                        Cow::Owned(text.clone())
                    } else {
                        Cow::Borrowed(&**text)
                    };
                    assert_eq!(keys.insert(key), round == 0, "{text}");
                }
            }
        }
        let mut keys = Keys::default();
        assert!(keys.insert(Cow::Borrowed("")) && keys.insert(Cow::Borrowed("a")));
        assert!(!keys.insert(Cow::Borrowed("")) && !keys.insert(Cow::Borrowed("a")));
    }

    #[test]
    fn many_keys_are_new_once() {
        let mut seen = Seen::default();
        for round in 0..2 {
            for key in 0..3 * FEW {
                assert_eq!(seen.insert(key), round == 0, "{key}");
            }
        }
    }
}
