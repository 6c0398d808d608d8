//! A pool of freed memory blocks that are retained for reuse for a while. Their pages are already present; fresh ones would have to be
//! found and cleared by the kernel.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memmap2::{MmapMut, UncheckedAdvice};

use super::headroom;
use super::reclaim::{self, Store};

/// How long a block is retained.
const RETENTION: Duration = Duration::from_secs(10);
/// Maximum bytes retained. The kernel may reclaim their pages at any time, and counts them as available.
const MAX: usize = if usize::BITS >= 64 { 4 << 30 } else { 64 << 20 };

struct Blocks {
    /// Blocks and the times at which they were freed, by length.
    blocks: BTreeMap<usize, Vec<(MmapMut, Instant)>>,
    bytes: usize,
}

impl Blocks {
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

    /// Removes the largest blocks until at most `max` bytes are left.
    fn take_beyond(&mut self, max: usize) -> Vec<(MmapMut, Instant)> {
        let mut gone = Vec::new();
        while self.bytes > max {
            let Some((length, blocks)) = self.blocks.pop_last() else { break };
            self.bytes -= length * blocks.len();
            gone.extend(blocks);
        }
        gone
    }

    /// Removes blocks that were retained long enough.
    fn take_old(&mut self, now: Instant) -> Vec<(MmapMut, Instant)> {
        let mut old = Vec::new();
        self.blocks.retain(|_, blocks| {
            old.extend(
                blocks.extract_if(.., |(_, since)| now.saturating_duration_since(*since) >= RETENTION),
            );
            !blocks.is_empty()
        });
        self.bytes -= old.iter().map(|(block, _)| block.len()).sum::<usize>();
        old
    }
}

struct Pool(Mutex<Blocks>);

static POOL: Pool = Pool(Mutex::new(Blocks::new()));

fn lock() -> MutexGuard<'static, Blocks> {
    POOL.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Pool {
    fn is_empty(&self) -> bool {
        lock().blocks.is_empty()
    }

    fn release_old(&self, now: Instant) {
        let mut pool = lock();
        let old = pool.take_old(now);
        let retained = pool.bytes;
        drop(pool);
        drop(old);
        shrink(max(retained));
    }

    fn release_all(&self) {
        shrink(0);
    }
}

/// Takes a block of `length` bytes, or at most an eighth more. It contains old content or zeros, which may change until it is written.
pub fn take(length: usize) -> Option<MmapMut> {
    lock().take(length)
}

/// Puts a block into the pool, or frees it if the pool is full.
pub fn put(block: MmapMut) {
    let length = block.len();
    // SAFETY: the block is not read before it is written; see `take`.
    if length > MAX || unsafe { block.unchecked_advise(UncheckedAdvice::Free) }.is_err() {
        return; // frees it: the kernel could not take it back under pressure (locked memory, an old kernel)
    }
    let mut pool = lock();
    let bytes = pool.bytes + length;
    if bytes > max(bytes) {
        return;
    }
    pool.add(block, Instant::now());
    drop(pool);
    if !reclaim::watch(&POOL) {
        shrink(0);
    }
}

/// Gives the whole pages in a range back to the kernel. They read as zeros from then on.
pub fn discard(block: &mut MmapMut, start: usize, length: usize) {
    const PAGE: usize = 64 << 10; // the largest page of any platform
    let (first, end) = (start.next_multiple_of(PAGE), (start + length) / PAGE * PAGE);
    if first < end && end <= block.len() {
        // SAFETY: the block is borrowed for writing, so nothing else reads it.
        let _ = unsafe { block.unchecked_advise_range(UncheckedAdvice::DontNeed, first, end - first) };
    }
}

/// Returns the bytes that may be retained, given those already retained.
fn max(retained: usize) -> usize {
    headroom::allowance(headroom::LimitedMemory::Data, retained).min(MAX)
}

/// Frees the largest blocks until at most `max` bytes are left.
pub fn shrink(max: usize) {
    let freed = lock().take_beyond(max);
    drop(freed); // outside of the lock: unmapping takes time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_reused_for_its_size_and_slightly_smaller_sizes() {
        // A size that no other test uses.
        let length = (3 << 20) + 4096 * 7;
        let mut block = MmapMut::map_anon(length).unwrap();
        block.fill(7);
        let address = block.as_ptr();
        put(block);
        assert!(take(length + 1).is_none());
        assert!(take(length / 2).is_none());
        let again = take(length - 4096).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (address, length));
        assert!(take(length - 4096).is_none());
    }

    #[test]
    fn discarded_pages_are_zeros_and_their_neighbors_stay() {
        let mut block = MmapMut::map_anon(1 << 20).unwrap();
        block.fill(7);
        discard(&mut block, 1000, 300_000);
        let gone = 65_536..300_000 / 65_536 * 65_536;
        assert!(block.iter().enumerate().all(|(at, &byte)| byte == if gone.contains(&at) { 0 } else { 7 }));
        discard(&mut block, 70_000, 10);
        discard(&mut block, 1 << 20, 1 << 20);
    }

    #[test]
    fn blocks_above_the_limit_are_not_retained() {
        let length = MAX + 1;
        let Ok(block) = memmap2::MmapOptions::new().len(length).no_reserve_swap().map_anon() else { return };
        put(block);
        assert!(take(length).is_none());
    }

    fn pages(count: usize) -> MmapMut {
        MmapMut::map_anon(count << 12).unwrap()
    }

    #[test]
    fn the_largest_blocks_are_freed_first() {
        let (mut pool, now) = (Blocks::new(), Instant::now());
        for count in [1, 4, 2, 4] {
            pool.add(pages(count), now);
        }
        assert_eq!(pool.bytes, 11 << 12);
        assert!(pool.take_beyond(11 << 12).is_empty());
        let lengths =
            |gone: Vec<(MmapMut, Instant)>| gone.iter().map(|(block, _)| block.len() >> 12).collect();
        let gone: Vec<_> = lengths(pool.take_beyond(10 << 12));
        assert_eq!((gone, pool.bytes), (vec![4, 4], 3 << 12));
        let gone: Vec<_> = lengths(pool.take_beyond(0));
        assert_eq!((gone, pool.bytes, pool.blocks.len()), (vec![2, 1], 0, 0));
    }

    #[test]
    fn blocks_are_freed_after_a_while() {
        let (mut pool, now) = (Blocks::new(), Instant::now());
        pool.add(pages(1), now);
        pool.add(pages(1), now + RETENTION / 2);
        pool.add(pages(2), now);
        let before = now + RETENTION.checked_sub(Duration::from_nanos(1)).unwrap();
        assert!(pool.take_old(before).is_empty());
        assert_eq!(pool.take_old(now + RETENTION).len(), 2);
        assert_eq!((pool.bytes, pool.blocks.len()), (1 << 12, 1));
        assert_eq!(pool.take(1 << 12).unwrap().len(), 1 << 12);
        assert_eq!((pool.bytes, pool.blocks.len()), (0, 0));
        assert!(pool.take(1 << 12).is_none());
    }

    #[test]
    fn a_block_up_to_an_eighth_longer_is_reused() {
        let mut pool = Blocks::new();
        pool.add(pages(9), Instant::now());
        assert!(pool.take(7 << 12).is_none());
        assert!(pool.take(8 << 12).is_some());
    }
}
