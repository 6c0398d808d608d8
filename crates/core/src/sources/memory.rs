//! A file in private memory.
#![forbid(unsafe_code)]

use super::ReadAt;
use super::owned::Owned;
use crate::error::Result;
use crate::work::Stop;

/// A file in memory.
pub struct Memory(Owned);

impl Memory {
    /// Copies `bytes`. Fails with `ZT_LIMIT` if there is not enough memory.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let mut copy = Owned::to_fill(bytes.len() as u64)?;
        copy.copy_from_slice(bytes);
        Ok(Self(copy))
    }
}

impl ReadAt for Memory {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn keep(&self, _offset: u64, _length: u64, _stop: &Stop) -> Result<()> {
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        (&*self.0).read_at(offset, buffer, stop)
    }
}
