//! Serves small reads of a source with expensive requests from larger ones: parsers read a few bytes here and there, and each request takes
//! as long as several MiB.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{ReadAt, as_its_source};
use crate::checked;
use crate::error::Result;
use crate::work::Stop;

/// Maximum size of a small read: more is read along with it and cached.
pub const SMALL: usize = 64 << 10;
/// Bytes read with a small read at the beginning. The safetensors headers of most models have some 10 to 300 KiB, and on a slow line of 10
/// MB/s this takes as long as half a round trip to another continent.
pub const HEAD: u64 = 512 << 10;
/// Bytes read with an isolated small read.
const ALONE: u64 = 64 << 10;
/// Bytes read for consecutive small reads: twice those of the last time, up to this.
const IN_ROW: u64 = 1 << 20;
/// Bytes read with a small read at the end, where zTensor, zip and Arrow have their index.
const TAIL: u64 = 256 << 10;
/// Maximum cached bytes of all files of one filesystem.
const CACHED: usize = 16 << 20;

struct Block {
    file: u64,
    start: u64,
    bytes: Arc<[u8]>,
}

impl Block {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// A cache of the most recently used blocks.
#[derive(Default)]
pub struct Blocks {
    /// Least recently used first.
    cached: Mutex<VecDeque<Block>>,
}

impl Blocks {
    /// Returns a unique number for a file.
    pub fn number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Block>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies as much of the beginning of a range as is cached. Returns the number of bytes.
    pub fn copy(&self, file: u64, offset: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        let mut cached = self.lock();
        while done < buffer.len() {
            let at = offset + done as u64;
            let found = cached
                .iter()
                .position(|block| block.file == file && (block.start..block.end()).contains(&at));
            let Some(block) = found.and_then(|found| cached.remove(found)) else { break };
            let from = usize::try_from(at - block.start).unwrap_or(usize::MAX);
            let bytes = block.bytes.get(from..).unwrap_or_default();
            let rest = buffer.get_mut(done..).unwrap_or_default();
            let count = bytes.len().min(rest.len());
            if let (Some(rest), Some(bytes)) = (rest.get_mut(..count), bytes.get(..count)) {
                rest.copy_from_slice(bytes);
            }
            done += count;
            cached.push_back(block);
        }
        done
    }

    /// Returns the range to read for an uncached small read, in a file of `length` bytes.
    pub fn around(&self, file: u64, offset: u64, count: u64, length: u64) -> Range<u64> {
        let cached = self.lock();
        let before = cached.iter().filter(|block| block.file == file && block.start <= offset);
        // Bytes up to here are already cached.
        let known = before.clone().map(Block::end).max().unwrap_or_default().min(offset);
        let in_row =
            before.filter(|block| block.end() + ALONE > offset).map(|block| block.bytes.len() as u64).max();
        let tail = length.saturating_sub(TAIL);
        if offset == 0 {
            return 0..HEAD.min(length);
        }
        if offset >= tail {
            return tail.max(known)..length;
        }
        let ahead = in_row.map_or(ALONE, |last| last.saturating_mul(2).min(IN_ROW));
        offset..offset.saturating_add(ahead.max(count)).min(length)
    }

    /// Caches a block, evicting the least recently used ones.
    pub fn keep(&self, file: u64, start: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut cached = self.lock();
        cached.push_back(Block { file, start, bytes: bytes.into() });
        let mut total: usize = cached.iter().map(|block| block.bytes.len()).sum();
        while total > CACHED
            && let Some(block) = cached.pop_front()
        {
            total -= block.bytes.len();
        }
    }

    /// Fills a buffer from an offset within a file of `length` bytes: from the cache, or with `fetch`, which fills a buffer from an offset.
    pub fn read(
        &self,
        file: u64,
        length: u64,
        offset: u64,
        buffer: &mut [u8],
        fetch: impl Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if buffer.len() > SMALL {
            let cached = self.copy(file, offset, buffer);
            return match buffer.get_mut(cached..).filter(|rest| !rest.is_empty()) {
                Some(rest) => fetch(offset.saturating_add(cached as u64), rest),
                None => Ok(()),
            };
        }
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            let mut copied = self.copy(file, at, rest);
            if copied == 0 {
                let around = self.around(file, at, rest.len() as u64, length);
                let mut block = vec![0; checked::index(around.end.saturating_sub(around.start), "a block")?];
                fetch(around.start, &mut block)?;
                let from = block.get(checked::index(at.saturating_sub(around.start), "a block")?..);
                let from = from.unwrap_or_default();
                copied = from.len().min(rest.len());
                rest.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                self.keep(file, around.start, &block);
            }
            done += copied;
        }
        Ok(())
    }

    /// Removes a file from the cache.
    pub fn forget(&self, file: u64) {
        self.lock().retain(|block| block.file != file);
    }
}

/// A source that serves small reads from cached blocks.
pub struct Small<S> {
    source: S,
    blocks: Arc<Blocks>,
    number: u64,
}

impl<S: ReadAt> Small<S> {
    pub fn new(source: S, blocks: &Arc<Blocks>) -> Self {
        Self { source, blocks: Arc::clone(blocks), number: Blocks::number() }
    }
}

impl<S> Drop for Small<S> {
    fn drop(&mut self) {
        self.blocks.forget(self.number);
    }
}

impl<S: ReadAt> ReadAt for Small<S> {
    as_its_source!(source);

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        let length = self.source.length();
        // The source itself rejects ranges beyond its end.
        if checked::end_within(offset, buffer.len() as u64, length).is_none() {
            return self.source.read_at(offset, buffer, stop);
        }
        stop.check()?;
        self.blocks.read(self.number, length, offset, buffer, |offset, buffer| {
            self.source.read_at(offset, buffer, stop)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Code;

    const MIB: u64 = 1 << 20;

    #[test]
    fn cached_bytes_are_copied_across_blocks() {
        let blocks = Blocks::default();
        blocks.keep(1, 0, &[0, 1, 2, 3]);
        blocks.keep(1, 4, &[4, 5]);
        blocks.keep(2, 0, &[9; 10]);
        blocks.keep(1, 8, &[8]);
        let mut buffer = [0xff; 8];
        assert_eq!(blocks.copy(1, 1, &mut buffer), 5);
        assert_eq!(buffer, [1, 2, 3, 4, 5, 0xff, 0xff, 0xff]);
        assert_eq!(blocks.copy(1, 6, &mut buffer), 0);
        blocks.forget(1);
        assert_eq!(blocks.copy(1, 1, &mut buffer), 0);
        assert_eq!(blocks.copy(2, 1, &mut buffer), 8);
    }

    #[test]
    fn the_blocks_used_last_stay() {
        let blocks = Blocks::default();
        for file in 0..20 {
            blocks.keep(file, 0, &vec![0; 1 << 20]);
            assert_eq!(blocks.copy(0, 0, &mut [0]), 1, "{file}");
        }
        let cached = (0..20).filter(|&file| blocks.copy(file, 0, &mut [0]) == 1).collect::<Vec<_>>();
        assert_eq!(cached, [0].into_iter().chain(5..20).collect::<Vec<_>>());
    }

    #[test]
    fn more_is_read_around_small_reads() {
        let blocks = Blocks::default();
        let length = 100 * MIB;
        assert_eq!(blocks.around(1, 10 * MIB, 8, length), 10 * MIB..10 * MIB + ALONE);
        assert_eq!(blocks.around(1, length - 8, 8, length), length - TAIL..length);
        assert_eq!(blocks.around(1, 600, 8, 1000), 0..1000);
        // Consecutive reads, up to a limit.
        let mut next = 10 * MIB;
        for expected in [ALONE, 2 * ALONE, 4 * ALONE, 8 * ALONE, MIB, MIB] {
            let range = blocks.around(1, next, 8, length);
            assert_eq!(range, next..next + expected);
            blocks.keep(1, range.start, &vec![0; usize::try_from(range.end - range.start).unwrap()]);
            next = range.end;
        }
        // The end, except for what is cached.
        blocks.keep(3, 0, &[0; 900]);
        assert_eq!(blocks.around(3, 950, 8, 1000), 900..1000);
    }

    /// Records the requested ranges.
    struct RecordedReads {
        bytes: Vec<u8>,
        reads: Mutex<Vec<(u64, usize)>>,
    }

    impl ReadAt for RecordedReads {
        fn length(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
            stop.check()?;
            self.reads.lock().unwrap().push((offset, buffer.len()));
            (&*self.bytes).read_at(offset, buffer, stop)
        }
    }

    fn asked(length: usize) -> Small<RecordedReads> {
        let bytes = (0..length).map(|at| u8::try_from((at / 3) % 251).unwrap()).collect();
        Small::new(RecordedReads { bytes, reads: Mutex::default() }, &Arc::default())
    }

    #[test]
    fn small_reads_are_one_read_and_large_ones_are_their_own() {
        let source = asked(2 << 20);
        for at in [0_usize, 17, 4096, 200_000, 500_000] {
            let read = source.read_vec(at as u64, 100, Stop::never()).unwrap();
            assert_eq!(read, source.source.bytes[at..][..100]);
        }
        assert_eq!(*source.source.reads.lock().unwrap(), [(0, 512 << 10)]);
        // The first half of it is cached.
        let over = source.read_vec(HEAD - 5, 10, Stop::never()).unwrap();
        assert_eq!(over, source.source.bytes[(512 << 10) - 5..][..10]);
        assert_eq!(source.source.reads.lock().unwrap().last(), Some(&(512 << 10, 1 << 20)));
        source.read_vec(HEAD + MIB + 3, SMALL as u64 + 1, Stop::never()).unwrap();
        assert_eq!(
            source.source.reads.lock().unwrap().last(),
            Some(&((512 << 10) + (1 << 20) + 3, SMALL + 1))
        );
        assert_eq!(source.read_vec((2 << 20) - 4, 5, Stop::never()).unwrap_err().code(), Code::Truncated);
        let (stop, remote) = (Stop::default(), asked(10));
        stop.set();
        assert_eq!(remote.read_vec(0, 4, &stop).unwrap_err().code(), Code::Aborted);
        assert_eq!(
            remote.read_vec(0, 4, Stop::never()).unwrap().len(),
            4,
            "a read that was stopped leaves nothing"
        );
    }

    proptest! {
        #[test]
        fn reads_are_those_of_the_source(reads in prop::collection::vec((0_u64..600_000, 0_u64..300_000), 1..20)) {
            let source = asked(600_000);
            for (offset, length) in reads {
                let ours = source.read_vec(offset, length, Stop::never()).ok();
                prop_assert_eq!(ours, (&*source.source.bytes).read_vec(offset, length, Stop::never()).ok());
            }
        }
    }
}
