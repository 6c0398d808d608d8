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

static SPARE: Mutex<Spare> = Mutex::new(Spare { blocks: BTreeMap::new(), bytes: 0 });

fn lock() -> MutexGuard<'static, Spare> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block of at least `length` bytes, and little more. They are what was in it last, or zero; that may change until
/// they are written.
pub fn take(length: usize) -> Option<MmapMut> {
    let mut spare = lock();
    let (&found, blocks) = spare.blocks.range_mut(length..=length.saturating_add(length / 8)).next()?;
    let block = blocks.pop();
    if blocks.is_empty() {
        spare.blocks.remove(&found);
    }
    let (block, _) = block?;
    spare.bytes -= block.len();
    Some(block)
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
    spare.bytes = bytes;
    spare.blocks.entry(length).or_default().push((block, Instant::now()));
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
    let blocks = {
        let mut spare = lock();
        spare.bytes = 0;
        std::mem::take(&mut spare.blocks)
    };
    drop(blocks);
}

/// Lets go of the largest blocks, until no more than `most` bytes wait.
pub fn let_go_beyond(most: usize) {
    let mut gone = Vec::new();
    let mut spare = lock();
    while spare.bytes > most {
        let Some((length, blocks)) = spare.blocks.pop_last() else { break };
        spare.bytes -= length * blocks.len();
        gone.push(blocks);
    }
    drop(spare);
    drop(gone);
}

pub fn is_empty() -> bool {
    lock().blocks.is_empty()
}

/// Lets go of what has waited long enough, and of what is in the way.
pub fn let_go_of_old(now: Instant) {
    let mut spare = lock();
    let Spare { blocks, bytes } = &mut *spare;
    let mut old = Vec::new();
    blocks.retain(|_, blocks| {
        old.extend(blocks.extract_if(.., |(_, since)| now.saturating_duration_since(*since) >= KEPT));
        !blocks.is_empty()
    });
    *bytes -= old.iter().map(|(block, _)| block.len()).sum::<usize>();
    let waiting = *bytes;
    drop(spare);
    drop(old); // takes a while, which nobody should wait for
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
}
