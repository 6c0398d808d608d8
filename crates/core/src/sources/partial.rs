//! A file in somebody else's memory whose index is read without knowing where it is.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::staged::Staged;
use super::{ReadAt, ends_early};
use crate::checked::end_within;
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// Bytes at both ends of a file that are staged first: most indexes are in them.
const END: u64 = 64 << 10;
/// Bytes that are staged at least for a read beyond them, and twice as many each time.
const MORE: u64 = 1 << 20;
/// Reads beyond what is staged, after which all of the file is: no format but a strange BTF file needs so many.
const MOST: u32 = 8;

/// The ranges of a file that are there. A read beyond them fails, and the next attempt has its range.
pub struct Partial {
    parts: Vec<Arc<Staged>>,
    total: u64,
    attempts: u32,
    /// What the first read beyond the ranges asked for.
    missed: Mutex<Option<(u64, u64)>>,
}

impl Partial {
    pub fn new(total: u64) -> Self {
        Self { parts: Vec::new(), total, attempts: 0, missed: Mutex::default() }
    }

    /// Offset and length of what has to be staged for the next attempt.
    pub fn wanted(&self) -> Vec<(u64, u64)> {
        match *self.locked() {
            None if self.total <= 2 * END => vec![(0, self.total)],
            None => vec![(0, END), (self.total - END, END)],
            Some(_) if self.attempts > MOST => vec![(0, self.total)],
            Some((offset, length)) => {
                let more = length.max(MORE << self.attempts.min(MOST));
                vec![(offset, more.min(self.total - offset))]
            }
        }
    }

    /// Takes what was wanted.
    pub fn add(&mut self, part: Arc<Staged>) {
        if self.attempts > MOST {
            self.parts.clear();
        }
        self.parts.push(part);
    }

    /// Reads with what is there; `None` where that is not enough.
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
        // What is not in the file can never be staged.
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

    /// Ranges of a file of these bytes as they are staged.
    fn staged(bytes: &[u8], ranges: &[(u64, u64)]) -> Arc<Staged> {
        let piece = |&(offset, length): &(u64, u64)| {
            (offset, Owned::from(checked::slice(bytes, offset, length).unwrap().to_vec()))
        };
        Arc::new(Staged::new(ranges.iter().map(piece).collect(), bytes.len() as u64))
    }

    /// Reads ranges one after the other, as often as it takes. Gives what was staged for that.
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
    fn both_ends_come_first_and_then_what_was_missed() {
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
        assert_eq!(all.len(), MOST as usize + 2);
        assert_eq!(all.last().unwrap(), &[(0, 4 << 20)]);
    }

    #[test]
    fn nothing_beyond_the_end_is_asked_for() {
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
    fn an_error_of_what_is_there_is_told() {
        let mut partial = Partial::new(100);
        partial.add(staged(&bytes(100), &[(0, 100)]));
        let outcome = partial.attempt(|source| source.read_vec(90, 20, Stop::never()));
        assert_eq!(outcome.unwrap_err().code(), Code::Truncated);
    }
}
