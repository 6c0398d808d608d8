//! The address ranges of all mappings, readable from a handler: without locks, and without heap memory that could be freed.
#![forbid(unsafe_code)]

use std::hint;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::{handler, watch};

/// The kernel allows 65,530 maps per process; further files are read at positions.
const SLOTS: usize = 1 << 16;
const CHUNK: usize = 1 << 10;

/// One range. `start` is 0 while the slot is free or being filled.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Twice the number of times that the slot was assigned, plus one once pages of the range are lost.
    state: AtomicU64,
}

/// Slots are allocated in chunks as needed and never freed, because a handler may be reading them.
static CHUNKS: [OnceLock<Box<[Slot]>>; SLOTS / CHUNK] = [const { OnceLock::new() }; SLOTS / CHUNK];
/// Slots from here on were never used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Free slots below `USED`.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Number of handlers that may be using a slot. Emptying a slot waits for them.
static LOOKING: AtomicU32 = AtomicU32::new(0);
/// Number of mappings lost so far in the whole process.
static LOSSES: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The mapping has ended.
    Gone,
    Whole,
    /// Some of its pages were lost and read as zeros.
    Lost,
}

/// A mapping's entry in the table, removed when dropped.
#[derive(Debug)]
pub struct Entry {
    slot: usize,
    given: u64,
}

fn slot(index: usize) -> Option<&'static Slot> {
    CHUNKS.get(index / CHUNK)?.get()?.get(index % CHUNK)
}

fn empty() -> Slot {
    Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0), state: AtomicU64::new(0) }
}

impl Entry {
    /// Adds a range, with the handler installed. Returns `None` if the table is full.
    pub fn new(start: usize, length: usize) -> Option<Self> {
        if !super::arm() {
            return None;
        }
        let end = start.checked_add(length)?.checked_next_multiple_of(handler::page_size())?;
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let index = free.pop().unwrap_or_else(|| USED.load(SeqCst));
        let chunk = CHUNKS.get(index / CHUNK)?;
        let slot = chunk.get_or_init(|| (0..CHUNK).map(|_| empty()).collect()).get(index % CHUNK)?;
        let given = slot.state.load(SeqCst) / 2 + 1;
        slot.state.store(given * 2, SeqCst);
        slot.end.store(end, SeqCst);
        slot.start.store(start, SeqCst);
        USED.fetch_max(index + 1, SeqCst);
        Some(Self { slot: index, given })
    }

    /// Returns a number that identifies the mapping for the life of the process; less than 2^53.
    pub fn token(&self) -> u64 {
        self.given % (1 << 36) * SLOTS as u64 + self.slot as u64
    }

    pub fn is_lost(&self) -> bool {
        state(self.token()) == State::Lost
    }

    /// Marks the mapping as lost before a page fault: its file was found to be shorter.
    pub fn lose(&self) {
        if slot(self.slot).is_some_and(mark) {
            watch::wake();
        }
    }
}

/// Marks a slot's range as lost. Returns false if it already was.
fn mark(slot: &Slot) -> bool {
    let first = slot.state.fetch_or(1, SeqCst).is_multiple_of(2);
    if first {
        LOSSES.fetch_add(1, SeqCst);
    }
    first
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(slot) = slot(self.slot) else { return };
        slot.start.store(0, SeqCst);
        // A handler that found the range earlier may still be mapping pages there. It never blocks.
        while LOOKING.load(SeqCst) != 0 {
            hint::spin_loop();
        }
        slot.state.store(self.given * 2 + 2, SeqCst);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}

/// Returns the state of the mapping with an [`Entry::token`].
pub fn state(token: u64) -> State {
    let (index, given) = (token % SLOTS as u64, token / SLOTS as u64);
    let now = usize::try_from(index).ok().and_then(slot).map_or(0, |slot| slot.state.load(SeqCst));
    match (now / 2 % (1 << 36) == given, now % 2) {
        (true, 0) => State::Whole,
        (true, _) => State::Lost,
        (false, _) => State::Gone,
    }
}

/// Returns the counter of lost mappings, which can be polled cheaply.
pub fn losses() -> &'static AtomicU32 {
    &LOSSES
}

/// Marks the mapping that contains `address` as lost, once `replace` has mapped memory over its range or the rest of it. Returns false if
/// no mapping contains it or it could not be replaced. Called by handlers.
pub(super) fn lose(address: usize, replace: impl FnOnce(Range<usize>) -> bool) -> bool {
    look(address, |slot, range| {
        let replaced = replace(range);
        if replaced {
            mark(slot);
        }
        replaced
    })
}

/// Calls `mend` for the range that contains `address` without marking it, if its loss is known or irrelevant.
#[cfg(windows)]
pub(super) fn mend(address: usize, mend: impl FnOnce(Range<usize>) -> bool) -> bool {
    look(address, |_, range| mend(range))
}

/// Calls `act` with the range that contains `address`, and retains its entry meanwhile. Returns false if there is none.
fn look(address: usize, act: impl FnOnce(&Slot, Range<usize>) -> bool) -> bool {
    LOOKING.fetch_add(1, SeqCst);
    let found = (0..USED.load(SeqCst)).filter_map(slot).find_map(|slot| {
        let range = slot.start.load(SeqCst)..slot.end.load(SeqCst);
        (range.start != 0 && range.contains(&address)).then_some((slot, range))
    });
    let acted = found.is_some_and(|(slot, range)| act(slot, range));
    LOOKING.fetch_sub(1, SeqCst);
    acted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_while_its_range_is_entered() {
        // Addresses at which nothing is ever mapped.
        let range = Entry::new(4096, 5000).unwrap();
        let token = range.token();
        assert_eq!(state(token), State::Whole);
        assert!(!lose(4095, |_| true));
        assert!(!lose(12_288, |_| true));
        assert!(!lose(8192, |_| false), "what could not be replaced is not survived");
        assert_eq!(state(token), State::Whole);
        assert!(lose(12_287, |range| range == (4096..12_288)), "up to the end of the last page");
        assert_eq!(state(token), State::Lost);
        assert!(range.is_lost());
        drop(range);
        assert_eq!(state(token), State::Gone);
        assert!(!lose(8192, |_| true));
        let again = Entry::new(4096, 5000).unwrap();
        assert_ne!(again.token(), token);
        assert_eq!(state(token), State::Gone);
    }

    #[test]
    fn many_ranges() {
        let entries: Vec<_> = (1..=3000).map(|at| Entry::new((1 << 30) + at * 8192, 4096).unwrap()).collect();
        assert!(lose((1 << 30) + 2999 * 8192 + 1, |_| true));
        assert!(!lose((1 << 30) + 2999 * 8192 + 4096, |_| true));
        assert_eq!(entries.iter().filter(|entry| entry.is_lost()).count(), 1);
    }

    #[test]
    fn no_two_mappings_have_the_same_token() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..100 {
            assert!(seen.insert(Entry::new(1 << 29, 4096).unwrap().token()));
        }
        assert!(seen.into_iter().all(|token| state(token) == State::Gone));
    }
}
