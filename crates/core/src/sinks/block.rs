//! A block of bytes to be written to a file, in memory that is reused without clearing.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use crate::error::Result;
use crate::sources::owned::refused;

/// A block this full is written: large writes become large folios, which map cheaply.
pub const FULL: usize = 8 << 20;
/// Additional capacity for data that arrives at once, so that the memory need not move.
const SLACK: usize = 1 << 20;

/// Minimum length of zeros that become a hole in our own file. Shorter ones are written: each hole takes two more system calls.
const HOLE: usize = 32 << 10;

#[derive(Default)]
pub struct Block {
    bytes: Vec<u8>,
    used: usize,
    /// The position and length of each hole.
    holes: Vec<(usize, u64)>,
}

impl Block {
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the bytes from `start` on.
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

    /// Adds zeros that [`Block::write_to`] may turn into a hole; the block can only be written that way.
    pub fn hole(&mut self, count: usize) -> Result<()> {
        if count < HOLE {
            return self.zeros(count);
        }
        self.holes.push((self.used, count as u64));
        Ok(())
    }

    /// Writes the block at the file's own position. If there are holes, the file must contain only zeros from there on.
    pub fn write_to(&self, mut file: &File) -> io::Result<()> {
        let mut written = 0;
        for &(at, count) in &self.holes {
            file.write_all(self.bytes.get(written..at).unwrap_or_default())?;
            file.seek(SeekFrom::Current(i64::try_from(count).unwrap_or(i64::MAX)))?;
            written = at;
        }
        file.write_all(self.from(written))
    }

    /// Returns the next `count` bytes for the caller to fill: their content is arbitrary.
    pub fn claim(&mut self, count: usize) -> Result<&mut [u8]> {
        let start = self.used;
        let end = start.saturating_add(count);
        if end > self.bytes.len() {
            let length = self.bytes.len();
            // Once it is longer than usual, it grows by an eighth, because an allocator may copy all of it each time.
            let longer = if length > FULL { length + length / 8 } else { 0 };
            let wanted = end.max(if end > FULL { longer } else { (2 * end).min(FULL + SLACK) });
            self.bytes.try_reserve_exact(wanted - length).map_err(|_| refused(wanted))?;
            self.bytes.resize(wanted, 0);
        }
        self.used = end;
        Ok(self.bytes.get_mut(start..end).unwrap_or_default())
    }

    /// Reserves capacity for `count` more bytes.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        let start = self.used;
        self.claim(count)?;
        self.truncate(start);
        Ok(())
    }

    /// Returns the capacity in bytes.
    pub fn space(&self) -> usize {
        self.bytes.len()
    }

    /// Removes the bytes from `start` on.
    pub fn truncate(&mut self, start: usize) {
        self.used = self.used.min(start);
        while self.holes.last().is_some_and(|&(at, _)| at > start) {
            self.holes.pop();
        }
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.used = 0;
        self.holes.clear();
    }

    /// Returns a copy of the bytes followed by those of `next`.
    pub fn joined(&self, next: &Self) -> Result<Vec<u8>> {
        let length = self.used + next.used;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| refused(length))?;
        bytes.extend_from_slice(self.from(0));
        bytes.extend_from_slice(next.from(0));
        Ok(bytes)
    }

    /// Takes all bytes out.
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(std::mem::take(&mut self.used));
        bytes.shrink_to_fit();
        bytes
    }

    /// Retains the first `count` bytes and moves the others to the beginning of `next`.
    pub fn split(&mut self, count: usize, next: &mut Self) -> Result<()> {
        next.clear();
        next.extend(self.from(count))?;
        let later = self.holes.partition_point(|&(at, _)| at <= count);
        next.holes.extend(self.holes.drain(later..).map(|(at, zeros)| (at - count, zeros)));
        self.truncate(count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_read_as_zeros_wherever_the_block_is_divided() {
        let path = std::env::temp_dir().join(format!("ztensor-block-{}", std::process::id()));
        let whole = {
            let (mut expected, mut at) = (Vec::new(), 0_u8);
            for gap in [40_000, 0, 100, 65_535, 32_768, 7] {
                at += 1;
                expected.extend(std::iter::repeat_n(at, 3));
                expected.resize(expected.len() + gap, 0);
            }
            expected.push(9);
            expected
        };
        for split in 0..=20 {
            let mut block = Block::default();
            for (at, gap) in (1_u8..).zip([40_000, 0, 100, 65_535, 32_768, 7]) {
                block.extend(&[at; 3]).unwrap();
                block.hole(gap).unwrap();
                let length = block.len();
                // Truncation preserves preceding holes.
                block.extend(b"lost").unwrap();
                block.hole(50_000).unwrap();
                block.truncate(length);
            }
            block.extend(&[9]).unwrap();
            let mut next = Block::default();
            block.split(split, &mut next).unwrap();
            let file = File::create(&path).unwrap();
            block.write_to(&file).unwrap();
            next.write_to(&file).unwrap();
            assert!(std::fs::read(&path).unwrap() == whole, "split at {split}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_long_zeros_become_holes() {
        let mut block = Block::default();
        assert!(block.is_empty());
        block.hole(HOLE - 1).unwrap();
        assert_eq!((block.len(), block.holes.len()), (HOLE - 1, 0));
        assert!(!block.is_empty());
        block.hole(HOLE).unwrap();
        assert_eq!((block.len(), block.holes.len()), (HOLE - 1, 1));
        block.clear();
        assert!(block.is_empty() && block.holes.is_empty());
    }

    #[test]
    fn memory_doubles_up_to_a_full_block_and_some_slack() {
        for (claimed, space) in [
            (1000, 2000),
            (FULL / 2, FULL),
            (FULL * 3 / 4, FULL + SLACK),
            (FULL, FULL + SLACK),
            (FULL + 1, FULL + 1),
        ] {
            let mut block = Block::default();
            assert_eq!(block.claim(claimed).unwrap().len(), claimed);
            assert_eq!((block.len(), block.space()), (claimed, space));
            // The memory does not move if the bytes fit.
            block.reserve(space - claimed).unwrap();
            assert_eq!((block.len(), block.space()), (claimed, space));
        }
    }

    #[test]
    fn small_additions_to_a_long_block_move_it_rarely() {
        let mut block = Block::default();
        let mut moves = 0;
        while block.len() < 4 * FULL {
            let space = block.space();
            block.extend(&[7; 4096]).unwrap();
            moves += u32::from(block.space() != space);
        }
        assert!(moves < 30, "{moves}");
        assert!(block.space() <= block.len() + block.len() / 8 + 4096, "{}", block.space());
    }

    #[test]
    fn joined_and_taken_bytes_are_in_order() {
        let (mut one, mut other) = (Block::default(), Block::default());
        one.extend(b"first, ").unwrap();
        other.extend(b"second").unwrap();
        assert_eq!(one.joined(&other).unwrap(), b"first, second");
        assert_eq!((one.take(), one.len()), (b"first, ".to_vec(), 0));
    }
}
