//! Owned memory for decoded and loaded data.
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut, Range};

use memmap2::MmapMut;

#[cfg(any(unix, windows))]
use super::reclaim;
use crate::checked;
use crate::error::{Code, Error, Result};

/// From this size on memory is allocated from the kernel in whole zeroed pages, huge ones if available.
const PAGES_FROM: usize = 1 << 20;

/// The alignment of blocks, which suffices for elements of any type; files use the same alignment.
const ALIGNMENT: usize = 64;

/// Maximum bytes retained for reuse during long work.
#[cfg(target_os = "linux")]
const TIDY: usize = 64 << 20;

/// A block of bytes. Allocating it can fail, but never abort.
pub struct Owned(Block);

enum Block {
    Heap(Vec<u8>),
    #[cfg_attr(not(any(unix, windows)), expect(dead_code))]
    Pages(Pages),
}

/// Some of the bytes of a block of whole pages.
struct Pages {
    block: Option<MmapMut>,
    start: usize,
    length: usize,
}

impl Owned {
    /// Allocates `length` zero bytes. Like all blocks they may come from the pool: what only ever goes into it makes it grow.
    pub fn zeroed(length: u64) -> Result<Self> {
        let (mut block, is_recycled) = Self::block(length)?;
        if is_recycled {
            block.fill(0);
        }
        Ok(block)
    }

    /// Allocates `length` bytes that the caller overwrites in full: zeros, or the content of a recycled block.
    pub fn to_fill(length: u64) -> Result<Self> {
        Self::block(length).map(|(block, _)| block)
    }

    /// Allocates a block. Returns whether it was recycled.
    fn block(length: u64) -> Result<(Self, bool)> {
        let length = checked::index(length, "a buffer")?;
        if length < PAGES_FROM {
            return Ok((Self::heap(length)?, false));
        }
        #[cfg(target_os = "linux")]
        if let Some(block) = super::pool::take(length) {
            return Ok((Self(Block::Pages(Pages { block: Some(block), start: 0, length })), true));
        }
        Ok((Self::pages(length)?, false))
    }

    /// Returns the part of `length` bytes from `start` on, in the same memory, aligned to [`ALIGNMENT`] bytes like a whole block.
    pub fn part(mut self, start: u64, length: u64) -> Result<Self> {
        let (start, length) = (checked::index(start, "a buffer")?, checked::index(length, "a buffer")?);
        let end = start.checked_add(length).filter(|&end| end <= self.len());
        let end = end.ok_or_else(|| Error::new(Code::Internal, "a part is outside its block"))?;
        match &mut self.0 {
            Block::Pages(pages) if start.is_multiple_of(ALIGNMENT) => {
                (pages.start, pages.length) = (pages.start + start, length);
            }
            Block::Pages(pages) => {
                pages.copy_within(start..end, 0);
                pages.length = length;
            }
            Block::Heap(bytes) => {
                bytes.copy_within(start..end, 0);
                bytes.truncate(length);
            }
        }
        Ok(self)
    }

    /// Gives the memory of whole pages in `range` back to the system, if the block has pages of its own. Their content is lost.
    pub fn give_up(&mut self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Block::Pages(pages) = &mut self.0 {
            let start = pages.start + range.start;
            let end = pages.start + range.end.min(pages.length);
            if let (Some(block), Some(length)) = (&mut pages.block, end.checked_sub(start)) {
                super::pool::discard(block, start, length);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (self, range);
    }

    fn heap(length: usize) -> Result<Self> {
        let mut heap = Vec::new();
        heap.try_reserve_exact(length).map_err(|_| refused(length))?;
        heap.resize(length, 0);
        Ok(Self(Block::Heap(heap)))
    }

    /// Where the system has no pages, the allocator gives all memory.
    #[cfg(not(any(unix, windows)))]
    fn pages(length: usize) -> Result<Self> {
        Self::heap(length)
    }

    #[cfg(any(unix, windows))]
    fn pages(length: usize) -> Result<Self> {
        let block = reclaim::map_or_reclaim(|| MmapMut::map_anon(length)).map_err(|_| refused(length))?;
        // Only a hint: the first access to fresh 4 KiB pages costs three times that of huge ones.
        #[cfg(target_os = "linux")]
        let _ = block.advise(memmap2::Advice::HugePage);
        Ok(Self(Block::Pages(Pages { block: Some(block), start: 0, length })))
    }
}

/// Releases memory retained for reuse beyond some 64 MiB. For long work that should take little memory and allocates blocks of many sizes.
pub fn trim() {
    #[cfg(target_os = "linux")]
    super::pool::shrink(TIDY);
}

/// Builds the error for a failed allocation.
pub fn refused(length: usize) -> Error {
    Error::new(Code::Limit, format!("not enough memory for {length} bytes"))
}

#[cfg(target_os = "linux")]
impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            super::pool::put(block);
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.block
            .as_ref()
            .and_then(|block| block.get(self.start..self.start + self.length))
            .unwrap_or_default()
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.start..self.start + self.length;
        self.block.as_mut().and_then(|block| block.get_mut(range)).unwrap_or_default()
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

    #[test]
    #[cfg(target_os = "linux")]
    fn zeros_come_from_the_pool_that_they_go_into() {
        // A size that no other test uses.
        let length = (5 << 20) + 4096 * 11;
        let mut first = Owned::zeroed(length).unwrap();
        first.fill(7);
        let address = first.as_ptr();
        drop(first);
        for _ in 0..10 {
            let mut again = Owned::zeroed(length).unwrap();
            assert_eq!(again.as_ptr(), address);
            assert!(again.iter().all(|&byte| byte == 0));
            again.fill(7);
        }
    }

    #[test]
    fn parts_are_bytes_of_the_block() {
        for length in [1000, PAGES_FROM + 1000] {
            for (start, count) in
                [(0, length), (0, 5), (64, length - 64), (7, length - 10), (128, 0), (length, 0)]
            {
                let mut block = Owned::to_fill(length as u64).unwrap();
                block.iter_mut().enumerate().for_each(|(at, byte)| *byte = u8::try_from(at % 251).unwrap());
                let wanted = block[start..start + count].to_vec();
                let mut part = block.part(start as u64, count as u64).unwrap();
                assert!(*part == *wanted, "{start} {count} of {length}");
                part.fill(0);
                assert!(length < PAGES_FROM || part.as_ptr().addr().is_multiple_of(ALIGNMENT));
                assert!(part.part(1, count as u64).is_err());
            }
        }
    }
}
