//! An edited file on a clone of the old one, which it replaces whole or not at all.
#![forbid(unsafe_code)]

use std::fs::File;

use super::original::Original;
use super::{AtomicFile, Warning};
use crate::error::Result;
use crate::work::Stop;

/// Bytes that the kernel copies between two looks at the stop flag.
const PIECE: u64 = 64 << 20;

/// The clone is made when the first byte is written to it: an edit that is refused before costs nothing.
pub struct Replacement {
    original: Original,
    kept: u64,
    stop: Stop,
    file: Option<AtomicFile>,
}

impl Replacement {
    /// Of `original` the first `kept` bytes stay; what is written comes behind them.
    pub fn new(original: Original, kept: u64, stop: Stop) -> Self {
        Self { original, kept, stop, file: None }
    }

    fn begin(&self) -> Result<AtomicFile> {
        self.original.unchanged()?;
        let mut file = AtomicFile::create(self.original.path(), true)?;
        if !file.share(self.original.file(), self.kept)? {
            file.copy_pieces(self.original.file(), 0, self.kept, |_| self.stop.check())?;
        }
        Ok(file)
    }

    /// The clone, once there is one.
    pub fn begun(&self) -> Option<&File> {
        self.file.as_ref().map(AtomicFile::file)
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stop.check()?;
        let file = match self.file.take() {
            Some(file) => file,
            None => self.begin()?,
        };
        self.file.insert(file).write(bytes)
    }

    /// Puts it on the disk and in the old file's place, unless that has become another one meanwhile.
    pub fn commit(mut self) -> Result<Vec<Warning>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.begin()?,
        };
        self.stop.check()?;
        file.commit_if(|| self.original.last_look())
    }
}

impl AtomicFile {
    /// Appends `length` bytes of `source` from `offset` on, asking `between` before each piece, with its length.
    pub fn copy_pieces(
        &mut self,
        source: &File,
        offset: u64,
        length: u64,
        mut between: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < length {
            let piece = PIECE.min(length - done);
            between(piece)?;
            self.copy_from(source, offset + done, piece)?;
            done += piece;
        }
        Ok(())
    }

    /// Makes the first `length` bytes of `source` the beginning of this file, which is empty, without copying them.
    /// False where the file system cannot share blocks.
    #[cfg(target_os = "linux")]
    fn share(&mut self, source: &File, length: u64) -> Result<bool> {
        use std::io::{Seek, SeekFrom};

        if rustix::fs::ioctl_ficlone(self.file(), source).is_err() {
            return Ok(false);
        }
        self.file().set_len(length).map_err(|error| self.failed("ftruncate", &error))?;
        self.file().seek(SeekFrom::Start(length)).map_err(|error| self.failed("lseek", &error))?;
        Ok(true)
    }

    /// Only Linux is asked to share blocks.
    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)] // as on Linux
    fn share(&mut self, _source: &File, _length: u64) -> Result<bool> {
        Ok(false)
    }
}
