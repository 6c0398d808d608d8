//! Blocks of files: inserted and removed without copying data, and holes that are skipped. Only Linux has all of this.
#![forbid(unsafe_code)]

use std::fs::File;

use crate::error::Result;

/// The block size if the file system's is unknown: a page.
const DEFAULT: u64 = 4096;
/// Larger sizes are a file system's preferred transfer size.
#[cfg(target_os = "linux")]
const LARGEST: u64 = 1 << 20;

/// Returns a multiple of the file system's block size, at least a page: lengths that can be inserted into a file are its multiples.
#[cfg(target_os = "linux")]
pub fn size(file: &File) -> u64 {
    let size = rustix::fs::fstatvfs(file).map_or(DEFAULT, |system| system.f_frsize);
    if size.is_power_of_two() && size <= LARGEST { size.max(DEFAULT) } else { DEFAULT }
}

#[cfg(not(target_os = "linux"))]
pub fn size(_file: &File) -> u64 {
    DEFAULT
}

/// Inserts `length` zeros before all bytes of a file, without copying them. Returns false if the file system cannot.
#[cfg(target_os = "linux")]
pub fn insert(file: &File, length: u64) -> Result<bool> {
    use rustix::fs::FallocateFlags;
    use rustix::io::Errno;

    use crate::error::Error;

    match rustix::fs::fallocate(file, FallocateFlags::INSERT_RANGE, 0, length) {
        Ok(()) => Ok(true),
        // The file system has no such call, or larger units than blocks (allocation clusters, or a real-time device).
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
        Err(error) => Err(Error::io("fallocate", &error.into())),
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)] // as on Linux
pub fn insert(_file: &File, _length: u64) -> Result<bool> {
    Ok(false)
}

/// Removes the first `length` bytes of a file, which [`insert`] has inserted.
#[cfg(target_os = "linux")]
pub fn collapse(file: &File, length: u64) -> std::io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::COLLAPSE_RANGE, 0, length)?)
}

#[cfg(not(target_os = "linux"))]
pub fn collapse(_file: &File, _length: u64) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Returns the first offset from `offset` on that is not in a hole. If it is unknown, that is `offset`.
#[cfg(target_os = "linux")]
pub fn next_data(file: &File, offset: u64) -> u64 {
    use rustix::io::Errno;

    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(found) => found.max(offset),
        // Only a hole follows.
        Err(Errno::NXIO) => u64::MAX,
        Err(_) => offset,
    }
}

/// Returns the end of the data that begins at `offset`. If it is unknown, that is the end of the file.
#[cfg(target_os = "linux")]
pub fn next_hole(file: &File, offset: u64) -> u64 {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(offset)).unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
pub fn next_data(_file: &File, offset: u64) -> u64 {
    offset
}

#[cfg(not(target_os = "linux"))]
pub fn next_hole(_file: &File, _offset: u64) -> u64 {
    u64::MAX
}
