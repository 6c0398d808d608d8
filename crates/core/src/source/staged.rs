//! A piece of memory that stands for a range of a file.
#![forbid(unsafe_code)]

use super::owned::Owned;
use super::{ReadAt, ends_early};
use crate::checked;
use crate::error::Result;

/// Bytes that were copied from `offset` on out of a file of `total` bytes held in memory by somebody else.
pub struct Staged {
    offset: u64,
    bytes: Owned,
    total: u64,
}

impl Staged {
    pub fn new(offset: u64, bytes: Owned, total: u64) -> Self {
        Self { offset, bytes, total }
    }
}

impl ReadAt for Staged {
    fn length(&self) -> u64 {
        self.total
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        let piece = offset.checked_sub(self.offset).and_then(|at| checked::slice(&self.bytes, at, length));
        buffer.copy_from_slice(piece.ok_or_else(|| ends_early(offset, length, self.total))?);
        Ok(())
    }
}
