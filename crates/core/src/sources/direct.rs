//! Reads that bypass the page cache (`O_DIRECT`): for data that is used once or exceeds memory.
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use super::owned::Owned;
use crate::error::{Error, Result};

/// Required alignment of offsets, lengths and addresses. Some devices accept 512; all accept this.
const ALIGNMENT: usize = 4096;
/// Bytes per read into an aligned bounce buffer, if the caller's is not aligned: file and memory rarely both are.
const BOUNCE: usize = 4 << 20;

/// A file that is opened a second time, for direct reads.
pub struct Direct(File);

impl Direct {
    /// Returns `None` if the file system does not support direct reads.
    pub fn new(file: &File) -> Option<Self> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECT);
        // Reopens this very file, whatever its path refers to by now.
        options.open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok().map(Self)
    }

    /// Fills `buffer` from `offset`. Returns false if the system refuses, which may become known only here.
    pub fn read(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<bool> {
        let mut bounce = None;
        while !buffer.is_empty() {
            let skip = usize::try_from(offset % ALIGNMENT as u64).unwrap_or(0);
            let aligned = skip == 0 && buffer.as_ptr().addr().is_multiple_of(ALIGNMENT);
            let whole = buffer.len() - buffer.len() % ALIGNMENT;
            let read = if aligned && whole > 0 {
                // Recycled memory may be marked for the kernel to reclaim (see `pool`), which kernels before 5.18 could do during a direct
                // read. Writing to each page clears the mark.
                buffer[..whole].iter_mut().step_by(ALIGNMENT).for_each(|byte| *byte = 0);
                self.0.read_at(&mut buffer[..whole], offset)
            } else {
                let bounce = match &mut bounce {
                    Some(bounce) => bounce,
                    none => none.insert(Owned::zeroed(BOUNCE as u64)?),
                };
                let wanted = (skip + buffer.len()).next_multiple_of(ALIGNMENT).min(BOUNCE);
                self.0.read_at(&mut bounce[..wanted], offset - skip as u64).map(|read| {
                    let got = read.saturating_sub(skip).min(buffer.len());
                    buffer[..got].copy_from_slice(&bounce[skip..skip + got]);
                    got
                })
            };
            match read {
                Ok(0) => return Err(Error::io("read", &ErrorKind::UnexpectedEof.into()).at(offset)),
                Ok(read) => {
                    offset += read as u64;
                    buffer = &mut buffer[read..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(false),
                Err(error) => return Err(Error::io("read", &error).at(offset)),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_is_read_unchanged() {
        let path = std::env::temp_dir().join(format!("ztensor-direct-{}", std::process::id()));
        let bytes: Vec<u8> = (0..9_000_001).map(|at: usize| u8::try_from((at >> 3) % 251).unwrap()).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        // A file system without direct reads has nothing to test.
        if let Some(direct) = Direct::new(&file) {
            let mut answers = Vec::new();
            for (from, to) in
                [(0, 9_000_001), (1, 2), (4095, 4097), (8192, 16384), (5, 8_999_999), (1, 2_000_000)]
            {
                let mut read = Owned::zeroed((to - from) as u64).unwrap();
                let done = direct.read(from as u64, &mut read).unwrap();
                answers.push(done);
                if done {
                    assert!(*read == bytes[from..to], "{from}..{to}");
                }
            }
            assert!(
                answers.iter().all(|answer| answer == &answers[0]),
                "the file system reads any range or none"
            );
            assert!(direct.read(9_000_000, &mut [0; 10]).is_err());
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn unreadable_data_is_an_error_without_a_retry() {
        // Folders cannot be read.
        let folder = Direct(File::open(std::env::temp_dir()).unwrap());
        assert_eq!(folder.read(0, &mut [0; 10]).unwrap_err().code(), crate::error::Code::Io);
    }
}
