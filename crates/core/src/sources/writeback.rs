//! Early writeback: the disk works while the rest is still being produced, so that the final fsync has little left to do.
#![allow(unsafe_code)]

use std::fs::File;

/// Asks the system to start writing a range to disk, without waiting. Only a hint.
#[cfg(target_os = "linux")]
pub fn begin(file: &File, offset: u64, length: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: the descriptor is open while `file` is borrowed; the call accesses no memory of ours.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
pub fn begin(_: &File, _: u64, _: u64) {}
