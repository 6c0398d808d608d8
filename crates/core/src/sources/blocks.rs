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

    fn block(&self, number: u64, stop: &Stop) -> Result<Arc<[u8]>> {
        let mut held = self.held();
        if let Some(at) = held.iter().position(|(of, _)| *of == number) {
            let found = held.remove(at);
            let bytes = Arc::clone(&found.1);
            held.push(found);
            return Ok(bytes);
        }
        // Nobody else waits for this read: two threads may make the same one.
        drop(held);
        let start = number.saturating_mul(BLOCK);
        let length = self.source.length().saturating_sub(start).min(BLOCK);
        let bytes: Arc<[u8]> = self.source.read_vec(start, length, stop)?.into();
        let mut held = self.held();
        if held.len() == KEPT {
            held.remove(0);
        }
        held.push((number, Arc::clone(&bytes)));
        Ok(bytes)
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
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let block = self.block(at / BLOCK, stop)?;
            let from = block.get(checked::index(at % BLOCK, "a block")?..).unwrap_or_default();
            let count = from.len().min(rest.len());
            let (part, more) = rest.split_at_mut(count);
            part.copy_from_slice(from.get(..count).unwrap_or_default());
            (at, rest) = (at.saturating_add(count as u64), more);
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
        for at in [0, 17, 4096, 200_000] {
            assert_eq!(
                source.read_vec(at, 100, Stop::never()).unwrap(),
                source.source.bytes[at as usize..][..100]
            );
        }
        assert_eq!(*source.source.reads.lock().unwrap(), [(0, 256 << 10)]);
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
