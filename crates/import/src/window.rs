//! A file that is walked over: a window of it is in memory, what is passed over is never read, and what is looked at is bounded.
#![forbid(unsafe_code)]

use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

/// Bytes of a read behind a jump: the header of a tensor fits in.
const FIRST: u64 = 4 << 10;
/// Bytes of the largest read, where all is looked at.
const LARGEST: u64 = 256 << 10;

/// A run of bytes of the file: a text, a message, or what is left of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    pub at: u64,
    pub end: u64,
}

impl Run {
    pub fn length(self) -> u64 {
        self.end - self.at
    }

    /// Takes `length` bytes off its beginning; `None` where it has fewer.
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
    /// Bytes that may be looked at.
    most: u64,
    looked_at: u64,
    bytes: Vec<u8>,
    /// Where they begin.
    from: u64,
    step: u64,
}

impl<'s> Window<'s> {
    /// Refuses (`ZT_LIMIT`) to look at more than `most` bytes. What is passed over costs nothing.
    pub fn new(source: &'s dyn ReadAt, stop: &'s Stop, most: u64) -> Self {
        let total = source.length();
        Self { source, stop, total, most, looked_at: 0, bytes: Vec::new(), from: 0, step: FIRST }
    }

    /// All of the file.
    pub fn whole(&self) -> Run {
        Run { at: 0, end: self.total }
    }

    /// The bytes of a run, which count as looked at.
    pub fn bytes(&mut self, run: Run) -> Result<&[u8]> {
        self.charge(run.length())?;
        self.held(run.at, run.length())
    }

    /// Counts `bytes` as looked at, also such that the file does not have: for what is kept of it.
    pub fn charge(&mut self, bytes: u64) -> Result<()> {
        self.looked_at = self.looked_at.saturating_add(bytes);
        if self.looked_at <= self.most {
            return Ok(());
        }
        let message =
            format!("what stands beside the data is more than {} bytes (option maxIndexBytes)", self.most);
        Err(Error::new(Code::Limit, message))
    }

    /// `count` bytes, which the file must have.
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

    /// What goes beyond a run that ends with the file is cut off.
    pub fn early(&self, rest: Run, message: String) -> Error {
        Error::new(if rest.end == self.total { Code::Truncated } else { Code::BadIndex }, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_reads_little_and_what_is_looked_at_is_bounded() {
        let bytes = vec![7; 1 << 20];
        let (source, stop) = (&bytes[..], Stop::default());
        let mut window = Window::new(&source, &stop, 6);
        assert_eq!(window.bytes(Run { at: 0, end: 2 }).unwrap(), [7, 7]);
        assert_eq!(window.bytes(Run { at: 1 << 19, end: (1 << 19) + 4 }).unwrap(), [7; 4]);
        assert!(window.bytes.len() as u64 <= FIRST);
        assert_eq!(window.bytes(Run { at: 0, end: 1 }).unwrap_err().code(), Code::Limit);
    }

    #[test]
    fn runs_are_taken_apart() {
        let mut rest = Run { at: 3, end: 10 };
        assert_eq!(rest.take(4), Some(Run { at: 3, end: 7 }));
        assert_eq!(rest.take(4), None);
        assert_eq!(rest, Run { at: 7, end: 10 });
        assert_eq!(rest.take(u64::MAX), None);
    }
}
