//! What of a file is in the page cache.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::IoSliceMut;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Bytes looked at, at even distances: each look is a system call.
const SAMPLES: u64 = 8;

/// Whether a range is in the page cache, by a few samples. What the file system will not say (some network ones)
/// counts as not there.
pub fn is_cached(file: &File, offset: u64, length: u64) -> bool {
    let step = (length / SAMPLES).max(1);
    let samples = (0..SAMPLES.min(length)).map(|sample| offset.saturating_add(sample * step));
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
