//! An edited file based on a clone of the old one, which it replaces completely or not at all.
#![forbid(unsafe_code)]

use std::fs::File;

use super::existing::ExistingFile;
use super::{AtomicFile, Warning};
use crate::error::Result;
use crate::work::Stop;

/// Bytes that the kernel copies between two checks of the stop flag.
const PIECE: u64 = 64 << 20;

/// The clone is created when the first byte is written to it: an edit that is rejected before costs nothing.
pub struct Replacement {
    original: ExistingFile,
    prefix: u64,
    stop: Stop,
    file: Option<AtomicFile>,
    /// Whether the clone shares its blocks with the old file.
    shared: bool,
}

impl Replacement {
    /// Retains the first `prefix` bytes of `original`; written data follows them.
    pub fn new(original: ExistingFile, prefix: u64, stop: Stop) -> Self {
        Self { original, prefix, stop, file: None, shared: false }
    }

    fn begin(&mut self) -> Result<AtomicFile> {
        self.original.unchanged()?;
        let mut file = AtomicFile::create(self.original.path(), true)?;
        self.shared = file.share(self.original.file(), self.prefix)?;
        if !self.shared {
            file.copy_pieces(self.original.file(), 0, self.prefix, |_| self.stop.check())?;
        }
        Ok(file)
    }

    /// Returns the clone, once it exists.
    pub fn begun(&self) -> Option<&File> {
        self.file.as_ref().map(AtomicFile::file)
    }

    /// Returns whether the clone, once it exists, shares its blocks with the old file: nothing was copied.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stop.check()?;
        let file = match self.file.take() {
            Some(file) => file,
            None => self.begin()?,
        };
        self.file.insert(file).write(bytes)
    }

    /// Syncs the clone and renames it over the old file, unless that was replaced meanwhile.
    pub fn commit(mut self) -> Result<Vec<Warning>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.begin()?,
        };
        self.stop.check()?;
        // The sync before it may take long.
        file.commit_if(|| self.stop.check().and_then(|()| self.original.last_look()))
    }
}

impl AtomicFile {
    /// Appends `length` bytes of `source` from `offset` on, calling `between` before each piece, with its length.
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

    /// Makes the first `length` bytes of `source` the beginning of this empty file, without copying them. Returns false if the file system
    /// cannot share blocks.
    #[cfg(target_os = "linux")]
    pub(super) fn share(&mut self, source: &File, length: u64) -> Result<bool> {
        use std::io::{Seek, SeekFrom};

        if rustix::fs::ioctl_ficlone(self.file(), source).is_err() {
            return Ok(false);
        }
        self.file().set_len(length).map_err(|error| self.failed("ftruncate", &error))?;
        self.file().seek(SeekFrom::Start(length)).map_err(|error| self.failed("lseek", &error))?;
        Ok(true)
    }

    /// Block sharing is only implemented on Linux.
    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)] // as on Linux
    pub(super) fn share(&mut self, _source: &File, _length: u64) -> Result<bool> {
        Ok(false)
    }
}
