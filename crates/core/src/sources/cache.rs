//! Inspection and eviction of the page cache.
#![allow(unsafe_code)] // cachestat, which rustix does not have

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::AsRawFd as _;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Minimum size of reads that may bypass the page cache: shorter ones would wait for each block.
pub const LONG: usize = 1 << 20;

/// Number of evenly spaced samples: each is a system call.
const SAMPLES: u64 = 8;
/// The page size used for sampling.
const PAGE: u64 = 4096;

/// Estimates from a few samples whether a range is in the page cache. If the system reports nothing (some network file systems before Linux
/// 6.5), the range counts as missing.
pub fn is_cached(file: &File, offset: u64, length: u64) -> bool {
    let step = (length / SAMPLES).max(PAGE);
    let mut samples =
        (0..SAMPLES.min(length.div_ceil(step))).map(|sample| offset.saturating_add(sample * step));
    // Readahead does no harm to a short range, which is read through the cache next.
    let counted = |at| if length < LONG as u64 { None } else { counted(file, at) };
    samples.all(|at| counted(at).unwrap_or_else(|| readable(file, at)))
}

/// Asks cachestat(2) whether the page at `at` is cached, or being read. Returns `None` before Linux 6.5, or if a sandbox prohibits the call.
fn counted(file: &File, at: u64) -> Option<bool> {
    /// The number of the call, the same on all architectures.
    const CACHESTAT: libc::c_long = 451;
    let range = [at, 1];
    // The cached pages come first; the others are dirty, in writeback, evicted and recently evicted.
    let mut counts = [0_u64; 5];
    // SAFETY: the kernel reads two and writes five integers of 64 bits, which outlive the call.
    let failed =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) } != 0;
    (!failed).then_some(counts[0] > 0)
}

/// Tries to read the byte at `at` from the page cache. A miss starts readahead, of up to megabytes.
fn readable(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
    !matches!(read, Err(Errno::AGAIN | Errno::OPNOTSUPP))
}

/// Fills `buffer` from the page cache. Returns false, with arbitrary content, if some of the range is not there.
pub fn read_cached(file: &File, offset: u64, buffer: &mut [u8]) -> bool {
    let length = buffer.len();
    let read = preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT);
    read.is_ok_and(|read| read == length)
}

/// Allows the kernel to evict a range that no process has mapped or written to.
pub fn forget(file: &File, offset: u64, length: u64) {
    let length = std::num::NonZero::new(length);
    // Only a hint: if it is ignored, the pages stay.
    let _ = rustix::fs::fadvise(file, offset, length, rustix::fs::Advice::DontNeed);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::fstatfs;

    use super::super::mapping::Mapping;
    use super::*;

    const LENGTH: usize = 4 << 20;
    /// File systems that exist only in memory (statfs(2)).
    const TMPFS: u64 = 0x0102_1994;

    /// Evicts a file with `evict` and returns whether all bytes from `from` on are still in the page cache.
    fn stays(name: &str, from: usize, evict: impl FnOnce(&File)) -> Option<bool> {
        let path = std::env::temp_dir().join(format!("ztensor-{name}-{}", std::process::id()));
        fs::write(&path, vec![1; LENGTH]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        assert!(fs::read(&path).unwrap().len() == LENGTH);
        assert!(is_cached(&file, from as u64, (LENGTH - from) as u64));
        evict(&file);
        let stays = is_cached(&file, from as u64, (LENGTH - from) as u64);
        fs::remove_file(path).unwrap();
        if u64::try_from(fstatfs(&file).unwrap().f_type) == Ok(TMPFS) {
            println!("not tried: the temporary folder is in memory");
            return None;
        }
        Some(stays)
    }

    #[test]
    fn an_evicted_range_leaves_the_page_cache() {
        assert_ne!(stays("cached", 0, |_| ()), Some(false));
        assert_ne!(stays("forgotten", 0, |file| forget(file, 0, LENGTH as u64)), Some(true));
    }

    #[test]
    fn pages_of_a_mapping_go_to_the_last() {
        let evict = |offset: usize| {
            move |file: &File| {
                let mapping = Mapping::new(file, LENGTH as u64).unwrap();
                mapping.populate(0, LENGTH).unwrap();
                mapping.page_out(offset, LENGTH - offset);
            }
        };
        assert_ne!(stays("mapped", 0, evict(0)), Some(true));
        assert_ne!(stays("mapped-from", 8192 + 100, evict(8192 + 100)), Some(true));
    }
}
