//! The addresses of mappings that have ended. Native code of others (a compression job on a view) may still be reading there,
//! so zero pages stand in place of the file for a while.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use super::fault::Entry;
use super::{caretaker, room};
use crate::loaded;

/// How long addresses wait: a thread of zlib's is done with a GiB by then.
const KEPT: Duration = Duration::from_secs(30);
/// Ranges that wait. The Linux kernel allows 65,530 maps a process, and neighbouring anonymous ranges merge.
const RANGES: usize = 1024;
/// Addresses that wait: 1 TiB of the 128 TiB that a 64-bit process has; little on 32 bits.
const BYTES: usize = if usize::BITS >= 64 { 1 << 40 } else { 64 << 20 };

struct Waiting {
    /// The oldest first.
    ranges: VecDeque<(Addresses, Instant)>,
    bytes: usize,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { ranges: VecDeque::new(), bytes: 0 });

fn lock() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    /// The oldest ranges, as long as there is something against keeping them.
    fn take_while(&mut self, mut surplus: impl FnMut(&Self, Instant) -> bool) -> Vec<Addresses> {
        let mut gone = Vec::new();
        while let Some(&(_, since)) = self.ranges.front() {
            if !surplus(self, since) {
                break;
            }
            if let Some((oldest, _)) = self.ranges.pop_front() {
                self.bytes = self.bytes.saturating_sub(oldest.length());
                gone.push(oldest);
            }
        }
        gone
    }

    /// What is more than may wait.
    fn take_surplus(&mut self, now: Instant) -> Vec<Addresses> {
        let most = room::that_may_wait(room::Kind::Addresses, self.bytes).min(BYTES);
        self.take_while(|waiting, since| {
            waiting.ranges.len() > RANGES
                || waiting.bytes > most
                || now.saturating_duration_since(since) >= KEPT
        })
    }
}

/// From here on pages are taken away by a thread of its own: each takes some 0.1 µs, so that many GiB would hold an event loop up.
const LONG: usize = 64 << 20;
/// Bytes of them that are taken away at once: some 0.4 ms.
#[cfg(target_os = "linux")]
const PIECE: usize = 16 << 20;
/// Threads that do so at once; beyond, whoever ends a mapping does it.
const THREADS: usize = 2;

static RUNNING: Mutex<usize> = Mutex::new(0);
static DONE: Condvar = Condvar::new();

fn running() -> MutexGuard<'static, usize> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to one of these threads. It ends with the thread's work, also where that panics: others wait for it.
struct Claim;

impl Claim {
    fn take() -> Option<Self> {
        let mut running = running();
        if *running >= THREADS {
            return None;
        }
        *running += 1;
        Some(Self)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        *running() -= 1;
        DONE.notify_all();
    }
}

/// Ends a mapping. Its file and pages go at once, or soon where they are many; its addresses wait.
pub fn retire(map: MmapMut, entry: Entry) {
    // On Windows whoever closes a file may want to replace it next. Where room is limited, whoever maps next may need this.
    if map.len() < LONG || cfg!(windows) || room::is_limited() {
        return overlay(map, entry);
    }
    let Some(claim) = Claim::take() else { return overlay(map, entry) };
    loaded::stay();
    // What a thread was to take stays here where the system has none.
    let ended = Arc::new(Mutex::new(Some((map, entry, claim))));
    let take = |ended: &Mutex<Option<(MmapMut, Entry, Claim)>>| {
        let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((map, entry, _claim)) = ended else { return };
        #[cfg(target_os = "linux")]
        take_pages(&map);
        overlay(map, entry);
    };
    let its = Arc::clone(&ended);
    let thread = thread::Builder::new().name("ztensor-unmapping".to_owned()).stack_size(256 << 10);
    if thread.spawn(move || take(&its)).is_err() {
        take(&ended);
    }
}

/// Takes the pages away piece by piece. While the system takes some, nobody in the process can map anything. All of them at once would
/// make the next `open` wait.
#[cfg(target_os = "linux")]
fn take_pages(map: &MmapMut) {
    for at in (0..map.len()).step_by(PIECE) {
        let (start, length) = (map.as_ptr().wrapping_add(at), PIECE.min(map.len() - at));
        // SAFETY: the range is within a mapping that has ended. Whoever still reads there reads the file.
        unsafe { libc::madvise(start.cast_mut().cast(), length, libc::MADV_DONTNEED) };
    }
}

/// Waits until the threads have put away all that has ended so far.
fn settle() {
    drop(DONE.wait_while(running(), |running| *running > 0));
}

fn overlay(map: MmapMut, entry: Entry) {
    let Some(addresses) = Addresses::of(map, entry) else { return };
    let now = Instant::now();
    let gone = {
        let mut waiting = lock();
        waiting.bytes = waiting.bytes.saturating_add(addresses.length());
        waiting.ranges.push_back((addresses, now));
        waiting.take_surplus(now)
    };
    drop(gone); // takes a while, which nobody should wait for
    // Where there is no thread left, what waits is bounded by its size alone.
    caretaker::call();
}

/// Lets go of what has waited long enough, and of what is in the way.
pub fn let_go_of_old(now: Instant) {
    let gone = lock().take_surplus(now);
    drop(gone);
}

pub fn is_empty() -> bool {
    lock().ranges.is_empty()
}

/// Lets go of all that has ended.
pub fn let_go() {
    settle();
    let gone = lock().take_while(|_, _| true);
    drop(gone);
}

/// The addresses of a mapping that has ended. Whoever still holds one reads zeros, until this is dropped.
#[cfg(unix)]
struct Addresses(MmapMut);

#[cfg(unix)]
impl Addresses {
    /// `None` where the system has no such pages; the mapping is unmapped then.
    fn of(map: MmapMut, entry: Entry) -> Option<Self> {
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // Native code that still writes there would end the process where it may not. But where the system counts what can
        // be written as memory in use, nothing else of the process would get any.
        let writable = if room::counts_writable() { 0 } else { libc::PROT_WRITE };
        let protection = libc::PROT_READ | writable;
        // SAFETY: the range is a mapping that we own and have the only handle to; MAP_FIXED replaces exactly
        // it. Whoever still holds an address into it reads zeros instead of the file.
        let overlaid =
            unsafe { libc::mmap(map.as_ptr().cast_mut().cast(), map.len(), protection, flags, -1, 0) };
        drop(entry); // from here on no signal handler touches the range
        (overlaid != libc::MAP_FAILED).then_some(Self(map))
    }

    #[cfg(test)]
    fn start(&self) -> usize {
        self.0.as_ptr().addr()
    }

    fn length(&self) -> usize {
        self.0.len()
    }
}

/// The addresses of a mapping that has ended. Whoever still touches one has the handler put zeros there, until this is dropped.
#[cfg(windows)]
struct Addresses {
    range: std::ops::Range<usize>,
    entry: Option<Entry>,
}

#[cfg(windows)]
impl Addresses {
    /// `None` where somebody else was given the addresses as the mapping left them.
    fn of(map: MmapMut, entry: Entry) -> Option<Self> {
        let start = map.as_ptr().addr();
        let range = start..start + map.len();
        let reserved = super::fault::reserve(&range, || drop(map));
        reserved.then(|| Self { range, entry: Some(entry) })
    }

    #[cfg(test)]
    fn start(&self) -> usize {
        self.range.start
    }

    fn length(&self) -> usize {
        self.range.len()
    }
}

#[cfg(windows)]
impl Drop for Addresses {
    fn drop(&mut self) {
        // From here on the handler does not touch the range.
        self.entry = None;
        super::fault::release(self.range.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_wait_for_a_while() {
        let path = std::env::temp_dir().join(format!("ztensor-quarantine-{}", std::process::id()));
        std::fs::write(&path, [7; 100]).unwrap();
        let mapping = super::super::mapping::Mapping::new(&std::fs::File::open(&path).unwrap(), 100).unwrap();
        std::fs::remove_file(path).unwrap();
        let address = mapping.address(0, 1).unwrap();
        drop(mapping);
        let waits = || lock().ranges.iter().any(|(addresses, _)| addresses.start() == address.addr());
        assert!(waits());
        // SAFETY: it waits, for much longer than this takes.
        assert_eq!(unsafe { address.read_volatile() }, 0);
        let_go_of_old(Instant::now());
        assert!(waits());
        let_go_of_old(Instant::now() + KEPT);
        assert!(!waits());
    }

    #[test]
    fn long_mappings_are_taken_away_by_threads_as_far_as_there_are_some() {
        let path = std::env::temp_dir().join(format!("ztensor-long-{}", std::process::id()));
        let file = std::fs::File::create_new(&path).unwrap();
        file.set_len(LONG as u64).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let mappings: Vec<_> = (0..4 * THREADS)
            .map(|_| super::super::mapping::Mapping::new(&file, LONG as u64).unwrap())
            .collect();
        let starts: Vec<_> = mappings.iter().map(|mapping| mapping.address(0, 1).unwrap().addr()).collect();
        drop(mappings);
        settle();
        let waiting = lock();
        let waits = |start: &usize| waiting.ranges.iter().any(|(addresses, _)| addresses.start() == *start);
        assert!(starts.iter().all(waits));
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panics() {
        let panics = || {
            // Another test may have all of them for a moment.
            let _claim = std::iter::repeat_with(Claim::take).flatten().next();
            std::panic::resume_unwind(Box::new("as if overlaying did"))
        };
        let ended: thread::Result<()> = thread::spawn(panics).join();
        assert!(ended.is_err());
        settle();
    }

    #[cfg(unix)]
    #[test]
    fn so_many_ranges_and_bytes_wait_at_most() {
        let page = 1 << 12;
        let (now, mut waiting) = (Instant::now(), Waiting { ranges: VecDeque::new(), bytes: 0 });
        for _ in 0..RANGES {
            waiting.ranges.push_back((Addresses(MmapMut::map_anon(page).unwrap()), now));
            waiting.bytes += page;
        }
        assert!(waiting.take_surplus(now).is_empty());
        waiting.ranges.push_back((Addresses(MmapMut::map_anon(page).unwrap()), now));
        waiting.bytes += page;
        assert_eq!(waiting.take_surplus(now).len(), 1);
        assert_eq!(waiting.bytes, RANGES * page);
        // As if one of them were that long. Where addresses are limited, fewer may wait.
        let most = |bytes| room::that_may_wait(room::Kind::Addresses, bytes).min(BYTES);
        if most(BYTES) == BYTES {
            waiting.bytes = BYTES;
            assert!(waiting.take_surplus(now).is_empty());
            waiting.bytes = BYTES + page + 1;
            assert_eq!(waiting.take_surplus(now).len(), 2);
        }
        waiting.bytes = waiting.ranges.len() * page;
        assert!(!waiting.take_surplus(now + KEPT).is_empty());
        assert_eq!((waiting.ranges.len(), waiting.bytes), (0, 0));
    }
}
