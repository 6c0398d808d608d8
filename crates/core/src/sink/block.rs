//! A block of bytes on its way into a file, in memory that is filled again and again without being cleared.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::source::owned::refused;

/// A block this full is worth writing: large pieces become large folios, which map cheaply.
pub const FULL: usize = 8 << 20;
/// Room beyond that for what comes in one piece, so that the memory need not move.
const SLACK: usize = 1 << 20;

#[derive(Default)]
pub struct Block {
    bytes: Vec<u8>,
    used: usize,
}

impl Block {
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The bytes from `start` on.
    pub fn from(&self, start: usize) -> &[u8] {
        self.bytes.get(start..self.used).unwrap_or_default()
    }

    pub fn extend(&mut self, bytes: &[u8]) -> Result<()> {
        self.claim(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    pub fn zeros(&mut self, count: usize) -> Result<()> {
        self.claim(count)?.fill(0);
        Ok(())
    }

    /// The next `count` bytes, for the caller to fill: they hold anything before.
    pub fn claim(&mut self, count: usize) -> Result<&mut [u8]> {
        let start = self.used;
        let end = start.saturating_add(count);
        if end > self.bytes.len() {
            let wanted = end.max(if end > FULL { end } else { (2 * end).min(FULL + SLACK) });
            self.bytes.try_reserve_exact(wanted - self.bytes.len()).map_err(|_| refused(wanted))?;
            self.bytes.resize(wanted, 0);
        }
        self.used = end;
        Ok(self.bytes.get_mut(start..end).unwrap_or_default())
    }

    /// Makes room for `count` more bytes.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        let start = self.used;
        self.claim(count)?;
        self.truncate(start);
        Ok(())
    }

    /// Bytes of memory.
    pub fn room(&self) -> usize {
        self.bytes.len()
    }

    /// Gives the bytes from `start` on up again.
    pub fn truncate(&mut self, start: usize) {
        self.used = self.used.min(start);
    }

    /// The bytes and those of `next` behind them, in memory of their own.
    pub fn joined(&self, next: &Self) -> Result<Vec<u8>> {
        let length = self.used + next.used;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| refused(length))?;
        bytes.extend_from_slice(self.from(0));
        bytes.extend_from_slice(next.from(0));
        Ok(bytes)
    }

    /// Gives all bytes away.
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(std::mem::take(&mut self.used));
        bytes.shrink_to_fit();
        bytes
    }

    /// Leaves the first `count` bytes here and moves the others to the beginning of `next`.
    pub fn split(&mut self, count: usize, next: &mut Self) -> Result<()> {
        next.used = 0;
        next.extend(self.from(count))?;
        self.truncate(count);
        Ok(())
    }
}
