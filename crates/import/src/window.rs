//! Sequential access to a file: only a window is in memory, skipped bytes are never read, and the bytes read are limited.
#![forbid(unsafe_code)]

use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

/// Bytes of a read after a jump, enough for the header of a tensor.
const FIRST: u64 = 4 << 10;
/// Bytes of the largest read, used for sequential access.
const LARGEST: u64 = 256 << 10;

/// A byte range of the file: a string, a message, or the rest of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    pub at: u64,
    pub end: u64,
}

impl Run {
    pub fn length(self) -> u64 {
        self.end - self.at
    }

    /// Takes `length` bytes from its beginning; `None` if it is shorter.
    pub fn take(&mut self, length: u64) -> Option<Self> {
        let end = checked::end_within(self.at, length, self.end)?;
        let taken = Self { at: self.at, end };
        self.at = end;
        Some(taken)
    }
}

pub struct Window<'s> {
    source: &'s dyn ReadAt,
    stop: &'s Stop,
    total: u64,
    /// Bytes that may still be read.
    max: u64,
    looked_at: u64,
    bytes: Vec<u8>,
    /// The offset of the buffered bytes.
    from: u64,
    step: u64,
}

impl<'s> Window<'s> {
    /// Creates a window that fails with `ZT_LIMIT` after reading more than `max` bytes. Skipped bytes are free.
    pub fn new(source: &'s dyn ReadAt, stop: &'s Stop, max: u64) -> Self {
        let total = source.length();
        Self { source, stop, total, max, looked_at: 0, bytes: Vec::new(), from: 0, step: FIRST }
    }

    /// Returns the range of the whole file.
    pub fn whole(&self) -> Run {
        Run { at: 0, end: self.total }
    }

    /// Reads the bytes of a range, which count toward the limit.
    pub fn bytes(&mut self, run: Run) -> Result<&[u8]> {
        self.charge(run.length())?;
        self.held(run.at, run.length())
    }

    /// Charges `bytes` toward the limit, including memory for retained values.
    pub fn charge(&mut self, bytes: u64) -> Result<()> {
        self.looked_at = self.looked_at.saturating_add(bytes);
        if self.looked_at <= self.max {
            return Ok(());
        }
        let message = format!("reading the index takes more than {} bytes", self.max);
        Err(Error::new(Code::Limit, message).option("maxIndexBytes"))
    }

    /// Returns `count` bytes, which must exist in the file.
    #[inline]
    pub fn held(&mut self, at: u64, count: u64) -> Result<&[u8]> {
        let is_held =
            at >= self.from && checked::end_within(at - self.from, count, self.bytes.len() as u64).is_some();
        if !is_held {
            self.fetch(at, count)?;
        }
        Ok(checked::slice(&self.bytes, at - self.from, count).unwrap_or_default())
    }

    #[cold]
    fn fetch(&mut self, at: u64, count: u64) -> Result<()> {
        self.stop.check()?;
        let follows = at >= self.from && at - self.from <= self.bytes.len() as u64;
        self.step = if follows { (self.step * 2).min(LARGEST) } else { FIRST };
        let length = self.step.max(count).min(self.total.saturating_sub(at));
        self.bytes.resize(checked::index(length, "a part of the index")?, 0);
        self.from = at;
        self.source.read_at(at, &mut self.bytes, self.stop)
    }

    /// Builds the error for data that extends past a range: truncation if the range ends with the file.
    pub fn early(&self, rest: Run, message: String) -> Error {
        Error::new(if rest.end == self.total { Code::Truncated } else { Code::BadIndex }, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_reads_little_and_inspected_data_is_limited() {
        let bytes = vec![7; 1 << 20];
        let (source, stop) = (&bytes[..], Stop::default());
        let mut window = Window::new(&source, &stop, 6);
        assert_eq!(window.bytes(Run { at: 0, end: 2 }).unwrap(), [7, 7]);
        assert_eq!(window.bytes(Run { at: 1 << 19, end: (1 << 19) + 4 }).unwrap(), [7; 4]);
        assert!(window.bytes.len() as u64 <= FIRST);
        assert_eq!(window.bytes(Run { at: 0, end: 1 }).unwrap_err().code(), Code::Limit);
    }

    #[test]
    fn take_splits_ranges() {
        let mut rest = Run { at: 3, end: 10 };
        assert_eq!(rest.take(4), Some(Run { at: 3, end: 7 }));
        assert_eq!(rest.take(4), None);
        assert_eq!(rest, Run { at: 7, end: 10 });
        assert_eq!(rest.take(u64::MAX), None);
    }
}
