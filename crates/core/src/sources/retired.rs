//! Mappings that have ended. Other native code (a compression job on a view) may still be reading from their addresses, so zero pages
//! replace the file there for a while.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::fault::Entry;
use super::headroom;
use super::reclaim::{self, Store};
use super::view::View;
use crate::loaded;

/// How long addresses are retained: a zlib thread finishes a GiB in that time.
const RETENTION: Duration = Duration::from_secs(30);
/// Maximum number of ranges retained. The Linux kernel allows 65,530 maps per process, and adjacent anonymous ranges merge.
const RANGES: usize = 1024;
/// Maximum bytes of addresses retained: 1 TiB of the 128 TiB that a 64-bit process has; little on 32 bits.
const BYTES: usize = if usize::BITS >= 64 { 1 << 40 } else { 64 << 20 };

struct Ranges {
    /// The oldest first.
    ranges: VecDeque<(Addresses, Instant)>,
    bytes: usize,
}

struct Retired(Mutex<Ranges>);

static RETIRED: Retired = Retired(Mutex::new(Ranges { ranges: VecDeque::new(), bytes: 0 }));

fn lock() -> MutexGuard<'static, Ranges> {
    RETIRED.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Retired {
    fn is_empty(&self) -> bool {
        lock().ranges.is_empty()
    }

    fn release_old(&self, now: Instant) {
        let released = lock().take_surplus(now);
        drop(released);
    }

    fn release_all(&self) {
        settle();
        let released = lock().take_while(|_, _| true);
        drop(released);
    }
}

impl Ranges {
    /// Removes the oldest ranges while `surplus` holds.
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

    /// Removes what exceeds the limits.
    fn take_surplus(&mut self, now: Instant) -> Vec<Addresses> {
        let max = headroom::allowance(headroom::LimitedMemory::Addresses, self.bytes).min(BYTES);
        self.take_while(|retained, since| {
            retained.ranges.len() > RANGES
                || retained.bytes > max
                || now.saturating_duration_since(since) >= RETENTION
        })
    }
}

/// Size from which on a separate thread releases the pages: each takes some 0.1 µs, so many GiB would block an event loop.
const LONG: usize = 64 << 20;
/// Bytes whose pages are released in one call: some 0.4 ms.
#[cfg(target_os = "linux")]
const PIECE: usize = 16 << 20;
/// Threads that do so at once. Beyond that, the thread that ends the mapping does it.
const THREADS: usize = 2;

static RUNNING: Mutex<usize> = Mutex::new(0);
static DONE: Condvar = Condvar::new();

fn running() -> MutexGuard<'static, usize> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A permit for one of these threads. It ends with the thread's work, even after a panic: others wait for it.
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

/// Ends a mapping. Its file and pages are released at once, or soon if they are many. Its addresses are retained.
pub fn retire(map: View, entry: Entry) {
    // On Windows the caller may want to replace the file next. If memory is limited, the next mapping may need this one's.
    if map.len() < LONG || cfg!(windows) || headroom::is_limited() {
        return overlay(map, entry);
    }
    let Some(claim) = Claim::take() else { return overlay(map, entry) };
    // From here on a mapping that the system refuses waits for the thread.
    reclaim::watch(&RETIRED);
    loaded::stay();
    // If the system cannot start a thread, the mapping is taken back from here.
    let ended = Arc::new(Mutex::new(Some((map, entry, claim))));
    let take = |ended: &Mutex<Option<(View, Entry, Claim)>>| {
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

/// Releases the pages piece by piece. During each call no other thread of the process can map anything, so releasing all at once would
/// block the next `open`.
#[cfg(target_os = "linux")]
fn take_pages(map: &View) {
    for at in (0..map.len()).step_by(PIECE) {
        let (start, length) = (map.as_ptr().wrapping_add(at), PIECE.min(map.len() - at));
        // SAFETY: the range is within a mapping that has ended. A late reader reads the file.
        unsafe { libc::madvise(start.cast_mut().cast(), length, libc::MADV_DONTNEED) };
    }
}

/// Waits until the threads have retired all mappings ended so far.
fn settle() {
    drop(DONE.wait_while(running(), |running| *running > 0));
}

fn overlay(map: View, entry: Entry) {
    let Some(addresses) = Addresses::of(map, entry) else { return };
    let now = Instant::now();
    let released = {
        let mut retired = lock();
        retired.bytes = retired.bytes.saturating_add(addresses.length());
        retired.ranges.push_back((addresses, now));
        retired.take_surplus(now)
    };
    drop(released); // outside of the lock: unmapping takes time
    // Without a thread, only the limits restrict what is retained.
    reclaim::watch(&RETIRED);
}

/// The addresses of a mapping that has ended. Reads there return zeros until this is dropped.
#[cfg(unix)]
struct Addresses(View);

#[cfg(unix)]
impl Addresses {
    /// Returns `None` if the system has no such pages; the mapping is unmapped then.
    fn of(map: View, entry: Entry) -> Option<Self> {
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // A late write to read-only pages would end the process. But if the system counts writable pages as used memory, they would reduce
        // what is left for the process.
        let writable = if headroom::counts_writable() { 0 } else { libc::PROT_WRITE };
        let protection = libc::PROT_READ | writable;
        // SAFETY: the range is a mapping that we own and have the only handle to; MAP_FIXED replaces exactly this range. A late reader gets
        // zeros instead of the file.
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

/// The addresses of a mapping that has ended. The fault handler puts zeros there on access, until this is dropped.
#[cfg(windows)]
struct Addresses {
    range: std::ops::Range<usize>,
    entry: Option<Entry>,
}

#[cfg(windows)]
impl Addresses {
    /// Returns `None` if the addresses were taken by another allocation during unmapping.
    fn of(map: View, entry: Entry) -> Option<Self> {
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
        // From here on the handler ignores the range.
        self.entry = None;
        super::fault::release(self.range.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_retained_for_a_while() {
        let path = std::env::temp_dir().join(format!("ztensor-retired-{}", std::process::id()));
        std::fs::write(&path, [7; 100]).unwrap();
        let mapping = super::super::mapping::Mapping::new(&std::fs::File::open(&path).unwrap(), 100).unwrap();
        std::fs::remove_file(path).unwrap();
        let address = mapping.address(0, 1).unwrap();
        drop(mapping);
        let is_retained = || lock().ranges.iter().any(|(addresses, _)| addresses.start() == address.addr());
        assert!(is_retained());
        // SAFETY: it is retained for much longer than this takes.
        assert_eq!(unsafe { address.read_volatile() }, 0);
        RETIRED.release_old(Instant::now());
        assert!(is_retained());
        RETIRED.release_old(Instant::now() + RETENTION);
        assert!(!is_retained());
    }

    #[test]
    fn long_mappings_are_released_by_threads_if_available() {
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
        let retired = lock();
        let waits = |start: &usize| retired.ranges.iter().any(|(addresses, _)| addresses.start() == *start);
        assert!(starts.iter().all(waits));
    }

    #[test]
    fn a_thread_that_panics_blocks_no_other() {
        let panics = || {
            // Another test may hold all permits for a moment.
            let _claim = std::iter::repeat_with(Claim::take).flatten().next();
            std::panic::resume_unwind(Box::new("as if overlaying did"))
        };
        let ended: thread::Result<()> = thread::spawn(panics).join();
        assert!(ended.is_err());
        settle();
    }

    #[cfg(unix)]
    #[test]
    fn ranges_and_bytes_are_bounded() {
        let page = 1 << 12;
        let (now, mut retired) = (Instant::now(), Ranges { ranges: VecDeque::new(), bytes: 0 });
        for _ in 0..RANGES {
            retired.ranges.push_back((Addresses(memmap2::MmapMut::map_anon(page).unwrap()), now));
            retired.bytes += page;
        }
        assert!(retired.take_surplus(now).is_empty());
        retired.ranges.push_back((Addresses(memmap2::MmapMut::map_anon(page).unwrap()), now));
        retired.bytes += page;
        assert_eq!(retired.take_surplus(now).len(), 1);
        assert_eq!(retired.bytes, RANGES * page);
        // As if one of them were that long. If addresses are limited, fewer may be retained.
        let max = |bytes| headroom::allowance(headroom::LimitedMemory::Addresses, bytes).min(BYTES);
        if max(BYTES) == BYTES {
            retired.bytes = BYTES;
            assert!(retired.take_surplus(now).is_empty());
            retired.bytes = BYTES + page + 1;
            assert_eq!(retired.take_surplus(now).len(), 2);
        }
        retired.bytes = retired.ranges.len() * page;
        assert!(!retired.take_surplus(now + RETENTION).is_empty());
        assert_eq!((retired.ranges.len(), retired.bytes), (0, 0));
    }
}
