//! Blocks of memory that were let go of, kept a while for whoever needs one of their size: pages that are there
//! already cost nothing, while the kernel has to find and to clear fresh ones.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memmap2::{MmapMut, UncheckedAdvice};

use super::{caretaker, room};

/// How long a block waits for its next use.
const KEPT: Duration = Duration::from_secs(10);
/// Bytes that wait at most. The kernel may take their pages at any time, and counts them as available.
const MOST: usize = if usize::BITS >= 64 { 4 << 30 } else { 64 << 20 };

struct Spare {
    /// Blocks and when they came, by their lengths.
    blocks: BTreeMap<usize, Vec<(MmapMut, Instant)>>,
    bytes: usize,
}

impl Spare {
    const fn new() -> Self {
        Self { blocks: BTreeMap::new(), bytes: 0 }
    }

    fn take(&mut self, length: usize) -> Option<MmapMut> {
        let (&found, blocks) = self.blocks.range_mut(length..=length.saturating_add(length / 8)).next()?;
        let block = blocks.pop();
        if blocks.is_empty() {
            self.blocks.remove(&found);
        }
        let (block, _) = block?;
        self.bytes -= block.len();
        Some(block)
    }

    fn add(&mut self, block: MmapMut, now: Instant) {
        let length = block.len();
        self.bytes += length;
        self.blocks.entry(length).or_default().push((block, now));
    }

    /// The largest blocks, until no more than `most` bytes wait.
    fn take_beyond(&mut self, most: usize) -> Vec<(MmapMut, Instant)> {
        let mut gone = Vec::new();
        while self.bytes > most {
            let Some((length, blocks)) = self.blocks.pop_last() else { break };
            self.bytes -= length * blocks.len();
            gone.extend(blocks);
        }
        gone
    }

    /// What has waited long enough.
    fn take_old(&mut self, now: Instant) -> Vec<(MmapMut, Instant)> {
        let mut old = Vec::new();
        self.blocks.retain(|_, blocks| {
            old.extend(blocks.extract_if(.., |(_, since)| now.saturating_duration_since(*since) >= KEPT));
            !blocks.is_empty()
        });
        self.bytes -= old.iter().map(|(block, _)| block.len()).sum::<usize>();
        old
    }
}

static SPARE: Mutex<Spare> = Mutex::new(Spare::new());

fn lock() -> MutexGuard<'static, Spare> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block of at least `length` bytes, and little more. They are what was in it last, or zero; that may change until
/// they are written.
pub fn take(length: usize) -> Option<MmapMut> {
    lock().take(length)
}

/// Keeps a block for later, or lets it go at once.
pub fn keep(block: MmapMut) {
    let length = block.len();
    // SAFETY: nobody reads the block before writing to it; see `take`.
    if length > MOST || unsafe { block.unchecked_advise(UncheckedAdvice::Free) }.is_err() {
        return; // a kernel that would not take it back in need (locked memory, an old one) gets it now
    }
    let mut spare = lock();
    let bytes = spare.bytes + length;
    if bytes > most(bytes) {
        return;
    }
    spare.add(block, Instant::now());
    drop(spare);
    if !caretaker::call() {
        let_go();
    }
}

/// Bytes that may wait where so many do.
fn most(waiting: usize) -> usize {
    room::that_may_wait(room::Kind::Data, waiting).min(MOST)
}

/// Lets go of all that waits.
pub fn let_go() {
    let_go_beyond(0);
}

/// Lets go of the largest blocks, until no more than `most` bytes wait.
pub fn let_go_beyond(most: usize) {
    let gone = lock().take_beyond(most);
    drop(gone); // takes a while, which nobody should wait for
}

pub fn is_empty() -> bool {
    lock().blocks.is_empty()
}

/// Lets go of what has waited long enough, and of what is in the way.
pub fn let_go_of_old(now: Instant) {
    let mut spare = lock();
    let old = spare.take_old(now);
    let waiting = spare.bytes;
    drop(spare);
    drop(old);
    let_go_beyond(most(waiting));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_for_its_own_size_and_little_less() {
        // A size that no other test asks for.
        let length = (3 << 20) + 4096 * 7;
        let mut block = MmapMut::map_anon(length).unwrap();
        block.fill(7);
        let address = block.as_ptr();
        keep(block);
        assert!(take(length + 1).is_none());
        assert!(take(length / 2).is_none());
        let again = take(length - 4096).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (address, length));
        assert!(take(length - 4096).is_none());
    }

    #[test]
    fn what_waits_is_bounded() {
        let length = MOST + 1;
        let Ok(block) = memmap2::MmapOptions::new().len(length).no_reserve_swap().map_anon() else { return };
        keep(block);
        assert!(take(length).is_none());
    }

    fn pages(count: usize) -> MmapMut {
        MmapMut::map_anon(count << 12).unwrap()
    }

    #[test]
    fn the_largest_blocks_go_first() {
        let (mut spare, now) = (Spare::new(), Instant::now());
        for count in [1, 4, 2, 4] {
            spare.add(pages(count), now);
        }
        assert_eq!(spare.bytes, 11 << 12);
        assert!(spare.take_beyond(11 << 12).is_empty());
        let lengths =
            |gone: Vec<(MmapMut, Instant)>| gone.iter().map(|(block, _)| block.len() >> 12).collect();
        let gone: Vec<_> = lengths(spare.take_beyond(10 << 12));
        assert_eq!((gone, spare.bytes), (vec![4, 4], 3 << 12));
        let gone: Vec<_> = lengths(spare.take_beyond(0));
        assert_eq!((gone, spare.bytes, spare.blocks.len()), (vec![2, 1], 0, 0));
    }

    #[test]
    fn what_waits_goes_after_a_while() {
        let (mut spare, now) = (Spare::new(), Instant::now());
        spare.add(pages(1), now);
        spare.add(pages(1), now + KEPT / 2);
        spare.add(pages(2), now);
        let before = now + KEPT.checked_sub(Duration::from_nanos(1)).unwrap();
        assert!(spare.take_old(before).is_empty());
        assert_eq!(spare.take_old(now + KEPT).len(), 2);
        assert_eq!((spare.bytes, spare.blocks.len()), (1 << 12, 1));
        assert_eq!(spare.take(1 << 12).unwrap().len(), 1 << 12);
        assert_eq!((spare.bytes, spare.blocks.len()), (0, 0));
        assert!(spare.take(1 << 12).is_none());
    }

    #[test]
    fn a_block_that_is_an_eighth_longer_serves() {
        let mut spare = Spare::new();
        spare.add(pages(9), Instant::now());
        assert!(spare.take(7 << 12).is_none());
        assert!(spare.take(8 << 12).is_some());
    }
}
