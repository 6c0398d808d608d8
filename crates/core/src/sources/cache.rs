//! What of a file is in the page cache.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::IoSliceMut;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Bytes looked at, at even distances: each look is a system call.
const SAMPLES: u64 = 8;
/// Bytes that are in memory together.
const PAGE: u64 = 4096;

/// Whether a range is in the page cache, by a few samples. What the file system will not say (some network ones)
/// counts as not there.
pub fn is_cached(file: &File, offset: u64, length: u64) -> bool {
    let step = (length / SAMPLES).max(PAGE);
    let samples = (0..SAMPLES.min(length.div_ceil(step))).map(|sample| offset.saturating_add(sample * step));
    samples.into_iter().all(|at| {
        let mut byte = [0];
        let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
        !matches!(read, Err(Errno::AGAIN | Errno::OPNOTSUPP))
    })
}

/// Lets the kernel forget a range that no process has mapped or written to.
pub fn forget(file: &File, offset: u64, length: u64) {
    let length = std::num::NonZero::new(length);
    // Only a hint: where it is not taken the pages stay.
    let _ = rustix::fs::fadvise(file, offset, length, rustix::fs::Advice::DontNeed);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::fstatfs;

    use super::super::mapping::Mapping;
    use super::*;

    const LENGTH: usize = 4 << 20;
    /// Where files have no place but memory (statfs(2)).
    const TMPFS: u64 = 0x0102_1994;

    /// Lets go of a file by `evict` and says whether the system has all of the bytes from `from` on still.
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
            println!("not tried: the folder for temporary files is in memory");
            return None;
        }
        Some(stays)
    }

    #[test]
    fn a_range_that_is_forgotten_is_read_anew() {
        assert_ne!(stays("kept", 0, |_| ()), Some(false));
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
