//! Small reads of a source that is dear to ask, served from blocks of it: an index is read in many small steps.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{ReadAt, as_its_source};
use crate::checked;
use crate::error::Result;
use crate::work::Stop;

/// Bytes of a block, and of a read up to which it is small.
const BLOCK: u64 = 256 << 10;
/// Blocks that are kept.
const KEPT: usize = 32;

/// A source, and the blocks of it that were read last, of 8 MiB at most.
pub struct Blocks<S> {
    source: S,
    /// By their numbers, the one that was used last at the end.
    held: Mutex<Vec<(u64, Arc<[u8]>)>>,
}

impl<S: ReadAt> Blocks<S> {
    pub fn new(source: S) -> Self {
        Self { source, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Vec<(u64, Arc<[u8]>)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block of a number, if it is held; it is the one used last then.
    fn find(&self, number: u64) -> Option<Arc<[u8]>> {
        let mut held = self.held();
        let at = held.iter().position(|(of, _)| *of == number)?;
        let found = held.remove(at);
        let bytes = Arc::clone(&found.1);
        held.push(found);
        Some(bytes)
    }

    fn keep(&self, number: u64, bytes: &[u8]) {
        let mut held = self.held();
        // Nobody waits for a read of another thread, so that two may have made the same one.
        held.retain(|(of, _)| *of != number);
        if held.len() == KEPT {
            held.remove(0);
        }
        held.push((number, bytes.into()));
    }

    /// Copies what is held from `offset` on. Gives how much that was.
    fn copy(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let Some(block) = self.find(offset / BLOCK) else { return Ok(0) };
        let from = block.get(checked::index(offset % BLOCK, "a block")?..).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        Ok(count)
    }

    /// Reads the blocks of a range in one go.
    fn fetch(&self, offset: u64, length: u64, stop: &Stop) -> Result<()> {
        let first = offset / BLOCK;
        let end = offset.saturating_add(length).next_multiple_of(BLOCK).min(self.source.length());
        let start = first.saturating_mul(BLOCK);
        let bytes = self.source.read_vec(start, end - start, stop)?;
        let blocks = bytes.chunks(checked::index(BLOCK, "a block")?);
        (first..).zip(blocks).for_each(|(number, bytes)| self.keep(number, bytes));
        Ok(())
    }
}

impl<S: ReadAt> ReadAt for Blocks<S> {
    as_its_source!(source);

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        let length = buffer.len() as u64;
        // What ends beyond the source is its own to refuse.
        if length > BLOCK || checked::end_within(offset, length, self.source.length()).is_none() {
            return self.source.read_at(offset, buffer, stop);
        }
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let (at, left) = (offset.saturating_add(done as u64), rest.len() as u64);
            let copied = self.copy(at, rest)?;
            if copied == 0 {
                self.fetch(at, left, stop)?;
            }
            done += copied;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Code;

    /// Takes down what it is asked for.
    struct Asked {
        bytes: Vec<u8>,
        reads: Mutex<Vec<(u64, usize)>>,
    }

    impl ReadAt for Asked {
        fn length(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
            stop.check()?;
            self.reads.lock().unwrap().push((offset, buffer.len()));
            (&*self.bytes).read_at(offset, buffer, stop)
        }
    }

    fn asked(length: usize) -> Blocks<Asked> {
        let bytes = (0..length).map(|at| u8::try_from((at / 3) % 251).unwrap()).collect();
        Blocks::new(Asked { bytes, reads: Mutex::default() })
    }

    #[test]
    fn small_reads_are_one_read_and_large_ones_are_their_own() {
        let source = asked(1 << 20);
        for at in [0_usize, 17, 4096, 200_000] {
            let read = source.read_vec(at as u64, 100, Stop::never()).unwrap();
            assert_eq!(read, source.source.bytes[at..][..100]);
        }
        assert_eq!(*source.source.reads.lock().unwrap(), [(0, 256 << 10)]);
        source.read_vec(2 * BLOCK - 5, 10, Stop::never()).unwrap();
        assert_eq!(
            source.source.reads.lock().unwrap().last(),
            Some(&(256 << 10, 512 << 10)),
            "two blocks at once"
        );
        source.read_vec(3, BLOCK + 1, Stop::never()).unwrap();
        assert_eq!(source.source.reads.lock().unwrap().last(), Some(&(3, (256 << 10) + 1)));
        assert_eq!(source.read_vec((1 << 20) - 4, 5, Stop::never()).unwrap_err().code(), Code::Truncated);
        let (stop, far) = (Stop::default(), asked(10));
        stop.set();
        assert_eq!(far.read_vec(0, 4, &stop).unwrap_err().code(), Code::Aborted);
        assert_eq!(
            far.read_vec(0, 4, Stop::never()).unwrap().len(),
            4,
            "a read that was stopped leaves nothing"
        );
    }

    #[test]
    fn the_blocks_used_last_are_kept() {
        let source = asked((KEPT + 2) * (256 << 10));
        for number in 0..=KEPT as u64 {
            source.read_vec(number * BLOCK, 1, Stop::never()).unwrap();
            source.read_vec(BLOCK, 1, Stop::never()).unwrap();
        }
        assert_eq!(source.held().len(), KEPT);
        let reads = source.source.reads.lock().unwrap().len();
        assert_eq!(reads, KEPT + 1, "the block that is used again and again is read once");
        source.read_vec(0, 1, Stop::never()).unwrap();
        assert_eq!(source.source.reads.lock().unwrap().len(), reads + 1);
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
