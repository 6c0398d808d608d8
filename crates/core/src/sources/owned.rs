//! Memory that we own and fill: decoded and loaded data.
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use super::room;
use crate::checked;
use crate::error::{Code, Error, Result};

/// From here on the memory comes from the kernel in whole zeroed pages, huge ones where it has them.
const PAGES_FROM: usize = 1 << 20;

/// Bytes that may wait beside long work.
#[cfg(target_os = "linux")]
const TIDY: usize = 64 << 20;

/// A block of bytes. Claiming it can fail, never abort.
pub struct Owned(Block);

enum Block {
    Heap(Vec<u8>),
    Pages(Pages),
}

/// The first bytes of a block of whole pages.
struct Pages {
    block: Option<MmapMut>,
    length: usize,
}

impl Owned {
    /// `length` zero bytes.
    pub fn zeroed(length: u64) -> Result<Self> {
        let length = checked::index(length, "a buffer")?;
        if length < PAGES_FROM { Self::heap(length) } else { Self::pages(length) }
    }

    /// `length` bytes for a writer of all of them: zeros, or what an earlier block left.
    pub fn to_fill(length: u64) -> Result<Self> {
        let length = checked::index(length, "a buffer")?;
        if length < PAGES_FROM {
            return Self::heap(length);
        }
        #[cfg(target_os = "linux")]
        if let Some(block) = super::spare::take(length) {
            return Ok(Self(Block::Pages(Pages { block: Some(block), length })));
        }
        Self::pages(length)
    }

    fn heap(length: usize) -> Result<Self> {
        let mut heap = Vec::new();
        heap.try_reserve_exact(length).map_err(|_| refused(length))?;
        heap.resize(length, 0);
        Ok(Self(Block::Heap(heap)))
    }

    fn pages(length: usize) -> Result<Self> {
        let block = room::made_for(|| MmapMut::map_anon(length)).map_err(|_| refused(length))?;
        // Only a hint: the first touch of fresh 4 KiB pages costs three times that of huge ones.
        #[cfg(target_os = "linux")]
        let _ = block.advise(memmap2::Advice::HugePage);
        Ok(Self(Block::Pages(Pages { block: Some(block), length })))
    }
}

/// Gives back what waits for its next use beyond some 64 MiB. For long work that is to take little memory, and claims
/// blocks of many sizes.
pub fn tidy() {
    #[cfg(target_os = "linux")]
    super::spare::let_go_beyond(TIDY);
}

/// There is not so much memory.
pub fn refused(length: usize) -> Error {
    Error::new(Code::Limit, format!("not enough memory for {length} bytes"))
}

#[cfg(target_os = "linux")]
impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            super::spare::keep(block);
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.block.as_ref().and_then(|block| block.get(..self.length)).unwrap_or_default()
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.block.as_mut().and_then(|block| block.get_mut(..self.length)).unwrap_or_default()
    }
}

impl From<Vec<u8>> for Owned {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Block::Heap(bytes))
    }
}

impl Deref for Owned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Block::Heap(bytes) => bytes,
            Block::Pages(pages) => pages,
        }
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Block::Heap(bytes) => bytes,
            Block::Pages(pages) => pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(Owned::zeroed(u64::MAX).is_err());
        assert!(Owned::zeroed(1 << 62).is_err());
        assert_eq!(Owned::zeroed(3).unwrap().as_ref(), [0, 0, 0]);
        assert_eq!(Owned::zeroed(3 << 20).unwrap().len(), 3 << 20);
    }
}
