//! A file in the caller's memory whose index is read in attempts, each with more staged ranges.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::staged::Staged;
use super::{ReadAt, ends_early};
use crate::checked::end_within;
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// Bytes at both ends of a file that are staged first: they include most indexes.
const END: u64 = 64 << 10;
/// Minimum bytes staged for a read beyond them, doubled each time.
const MORE: u64 = 1 << 20;
/// Number of further reads after which the whole file is staged: only unusual BTF files need so many.
const MAX: u32 = 8;

/// The staged ranges of a file. A read beyond them fails, and the next attempt has its range.
pub struct Partial {
    parts: Vec<Arc<Staged>>,
    total: u64,
    attempts: u32,
    /// The range requested by the first read beyond the staged ones.
    missed: Mutex<Option<(u64, u64)>>,
}

impl Partial {
    pub fn new(total: u64) -> Self {
        Self { parts: Vec::new(), total, attempts: 0, missed: Mutex::default() }
    }

    /// Returns offset and length of the ranges to stage for the next attempt.
    pub fn wanted(&self) -> Vec<(u64, u64)> {
        match *self.locked() {
            None if self.total <= 2 * END => vec![(0, self.total)],
            None => vec![(0, END), (self.total - END, END)],
            Some(_) if self.attempts > MAX => vec![(0, self.total)],
            Some((offset, length)) => {
                let more = length.max(MORE << self.attempts.min(MAX));
                vec![(offset, more.min(self.total - offset))]
            }
        }
    }

    /// Adds the ranges that were wanted.
    pub fn add(&mut self, part: Arc<Staged>) {
        if self.attempts > MAX {
            self.parts.clear();
        }
        self.parts.push(part);
    }

    /// Calls `read` with the staged ranges; `None` if they are not sufficient.
    pub fn attempt<T>(&mut self, read: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        *self.locked() = None;
        self.attempts += 1;
        let result = read(self);
        if self.locked().is_some() { Ok(None) } else { result.map(Some) }
    }

    fn locked(&self) -> MutexGuard<'_, Option<(u64, u64)>> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for Partial {
    fn length(&self) -> u64 {
        self.total
    }

    fn holds(&self, offset: u64, length: u64) -> bool {
        self.parts.iter().any(|part| part.holds(offset, length))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        let length = buffer.len() as u64;
        if length == 0 {
            return Ok(());
        }
        // A range outside the file can never be staged.
        if end_within(offset, length, self.total).is_none() {
            return Err(ends_early(offset, length, self.total));
        }
        if let Some(part) = self.parts.iter().find(|part| part.holds(offset, length)) {
            return part.read_at(offset, buffer, stop);
        }
        self.locked().get_or_insert((offset, length));
        Err(Error::new(Code::Io, "these bytes are not staged yet"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checked;
    use crate::sources::owned::Owned;

    /// Stages ranges of a file with these bytes.
    fn staged(bytes: &[u8], ranges: &[(u64, u64)]) -> Arc<Staged> {
        let piece = |&(offset, length): &(u64, u64)| {
            (offset, Owned::from(checked::slice(bytes, offset, length).unwrap().to_vec()))
        };
        Arc::new(Staged::new(ranges.iter().map(piece).collect(), bytes.len() as u64))
    }

    /// Reads ranges in sequence with as many attempts as needed. Returns the ranges staged for each.
    fn read(bytes: &[u8], ranges: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
        let mut partial = Partial::new(bytes.len() as u64);
        let mut all = Vec::new();
        loop {
            let wanted = partial.wanted();
            partial.add(staged(bytes, &wanted));
            all.push(wanted);
            let attempt = |source: &Partial| {
                for &(offset, length) in ranges {
                    let expected = checked::slice(bytes, offset, length).unwrap();
                    assert_eq!(source.read_vec(offset, length, Stop::never())?, expected);
                }
                Ok(())
            };
            if partial.attempt(attempt).unwrap().is_some() {
                return all;
            }
        }
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..=250).cycle().take(length).collect()
    }

    #[test]
    fn a_small_file_is_staged_whole() {
        assert_eq!(read(&bytes(1000), &[(0, 8), (500, 100)]), [[(0, 1000)]]);
    }

    #[test]
    fn both_ends_are_staged_first_and_then_missing_ranges() {
        let bytes = bytes(8 << 20);
        let (total, mid) = (8 << 20, 3 << 20);
        let ends = vec![(0, END), (total - END, END)];
        assert_eq!(read(&bytes, &[(0, 8), (total - 8, 8)]), std::slice::from_ref(&ends));
        assert_eq!(read(&bytes, &[(0, 8), (mid, 100)]), [ends.clone(), vec![(mid, 2 << 20)]]);
        assert_eq!(read(&bytes, &[(mid, 4 << 20)]), [ends.clone(), vec![(mid, 4 << 20)]]);
        assert_eq!(read(&bytes, &[(total - END - 1, 9)]), [ends, vec![(total - END - 1, END + 1)]]);
    }

    #[test]
    fn a_file_that_is_read_backwards_is_staged_whole_in_the_end() {
        let bytes = bytes(4 << 20);
        let ranges: Vec<_> = (1..32).rev().map(|at| (at << 17, 8)).collect();
        let all = read(&bytes, &ranges);
        assert_eq!(all.len(), MAX as usize + 2);
        assert_eq!(all.last().unwrap(), &[(0, 4 << 20)]);
    }

    #[test]
    fn nothing_beyond_the_end_is_requested() {
        let mut partial = Partial::new(1 << 20);
        for (offset, length, code) in [
            (u64::MAX, 0, None),
            (u64::MAX, 8, Some(Code::Truncated)),
            ((1 << 20) - 4, 8, Some(Code::Truncated)),
        ] {
            let outcome =
                partial.attempt(|source| source.read_at(offset, &mut vec![0; length], Stop::never()));
            assert_eq!(outcome.err().map(|error| error.code()), code);
            assert_eq!(partial.wanted(), [(0, END), ((1 << 20) - END, END)]);
        }
    }

    #[test]
    fn errors_in_staged_data_are_returned() {
        let mut partial = Partial::new(100);
        partial.add(staged(&bytes(100), &[(0, 100)]));
        let outcome = partial.attempt(|source| source.read_vec(90, 20, Stop::never()));
        assert_eq!(outcome.unwrap_err().code(), Code::Truncated);
    }
}
