//! Memory that we own and fill: decoded and loaded data.
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use crate::checked;
use crate::error::{Code, Error, Result};

/// From here on the memory comes from the kernel in whole zeroed pages, huge ones where it has them.
const PAGES_FROM: usize = 1 << 20;

/// A block of bytes. Claiming it can fail, never abort.
pub struct Owned(Block);

enum Block {
    Heap(Vec<u8>),
    Pages(MmapMut),
}

impl Owned {
    /// `length` zero bytes.
    pub fn zeroed(length: u64) -> Result<Self> {
        let refused = || Error::new(Code::Limit, format!("not enough memory for {length} bytes"));
        let length = checked::index(length, "a buffer")?;
        if length < PAGES_FROM {
            let mut heap = Vec::new();
            heap.try_reserve_exact(length).map_err(|_| refused())?;
            heap.resize(length, 0);
            return Ok(Self(Block::Heap(heap)));
        }
        let pages = MmapMut::map_anon(length).map_err(|_| refused())?;
        // Only a hint: the first touch of fresh 4 KiB pages costs three times that of huge ones.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Ok(Self(Block::Pages(pages)))
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
