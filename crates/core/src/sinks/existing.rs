//! An existing file that is about to be edited.
#![forbid(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(unix)]
use super::leftovers;
use crate::error::{Code, Error, Result};
use crate::sources::ReadAt;
use crate::sources::file::FileSource;
use crate::sources::handle::OpenFile;
use crate::sources::identity::Identity;

/// Attempts to open a file that keeps changing, and to get its lock.
const TRIES: u32 = 16;

/// The open file and its identity. No other edit by this library can begin while it lives.
pub struct ExistingFile {
    source: FileSource,
    file: Arc<OpenFile>,
    path: PathBuf,
    identity: Identity,
}

impl ExistingFile {
    /// Opens the file at `path`, also for writing if it is edited in place. Follows links. Fails with `ZT_IO` if another edit is in
    /// progress.
    pub fn open(path: &Path, in_place: bool) -> Result<Self> {
        let path = path.canonicalize().map_err(|error| Error::io("open", &error))?;
        let mut tries = 0;
        loop {
            let source = if in_place { FileSource::open_writable(&path)? } else { FileSource::open(&path)? };
            let file =
                source.kept().cloned().ok_or_else(|| Error::new(Code::Internal, "the file may be closed"))?;
            lock(&file)?;
            tries += 1;
            match Self::locked(source, file, path.clone()) {
                Err(_) if tries < TRIES => {}
                outcome => return outcome,
            }
        }
    }

    /// Returns the opened and locked file. Fails if an edit finished in between: it has replaced the file, or has appended to it, so that
    /// its previous length refers to its old index.
    fn locked(source: FileSource, file: Arc<OpenFile>, path: PathBuf) -> Result<Self> {
        let identity = source.identity()?;
        let changed_length = identity.length != source.length();
        let original = Self { source, file, path, identity };
        if changed_length { Err(changed()) } else { original.unchanged().map(|()| original) }
    }

    pub fn source(&self) -> &FileSource {
        &self.source
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn length(&self) -> u64 {
        self.identity.length
    }

    /// Checks one last time before another file replaces it. Returns what must live until the replacement is done: the
    /// lock on Unix. On Windows not every file system permits replacing an open file.
    pub fn last_look(self) -> Result<Option<Self>> {
        self.unchanged()?;
        Ok(cfg!(unix).then_some(self))
    }

    /// Fails unless the file at the path is the opened one and unchanged.
    pub fn unchanged(&self) -> Result<()> {
        let now = self.path.metadata().map_err(|error| Error::io("stat", &error))?;
        if Identity::of(&now) == self.identity && self.source.identity()? == self.identity {
            return Ok(());
        }
        Err(changed())
    }
}

#[cfg(unix)]
impl Drop for ExistingFile {
    /// Unlock explicitly: a process forked meanwhile has the descriptor, and with it the lock, until it executes another program.
    fn drop(&mut self) {
        leftovers::unlock(&self.file);
    }
}

fn changed() -> Error {
    let message = "the file was changed or replaced by another process since it was opened for editing; nothing was \
                   written, open it again";
    Error::new(Code::Io, message)
}

/// Takes the file's lock. If the file system has no locks, `unchanged` must suffice.
#[cfg(unix)]
fn lock(file: &File) -> Result<()> {
    // A writer that has just renamed the file into place holds its lock for some microseconds longer.
    for _ in 0..TRIES {
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        let Err(rustix::io::Errno::WOULDBLOCK) = rustix::fs::flock(file, lock) else { return Ok(()) };
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    Err(Error::new(Code::Io, "the file is being edited by another writer; try again when it has finished"))
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps)] // as on Unix
fn lock(_file: &File) -> Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_grew_before_it_was_locked_is_opened_again() {
        let path = std::env::temp_dir().join(format!("ztensor-grew-{}", std::process::id()));
        fs::write(&path, "old").unwrap();
        let path = path.canonicalize().unwrap();
        let stale = FileSource::open(&path).unwrap();
        let file = Arc::clone(stale.kept().unwrap());
        fs::write(&path, "old and new").unwrap();
        assert_eq!(
            ExistingFile::locked(stale, file, path.clone()).err().map(|error| error.code()),
            Some(Code::Io)
        );
        let original = ExistingFile::open(&path, true).unwrap();
        assert_eq!((original.length(), original.source().length()), (11, 11));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_original_is_locked_and_its_changes_are_detected() {
        let path = std::env::temp_dir().join(format!("ztensor-original-{}", std::process::id()));
        fs::write(&path, b"0123456789").unwrap();
        for in_place in [false, true] {
            let original = ExistingFile::open(&path, in_place).unwrap();
            assert_eq!((original.length(), original.path()), (10, &*path.canonicalize().unwrap()));
            assert_eq!(
                ExistingFile::open(&path, in_place).err().unwrap().code(),
                Code::Io,
                "the lock is held"
            );
            assert!(original.unchanged().is_ok());
            // The lock lives as long as the returned value.
            let lock = original.last_look().unwrap();
            assert!(lock.is_some() && ExistingFile::open(&path, in_place).is_err());
            drop(lock);
            let original = ExistingFile::open(&path, in_place).unwrap();
            fs::write(&path, b"0123456789, and more").unwrap();
            assert_eq!(original.unchanged().unwrap_err().code(), Code::Io, "it grew");
            assert_eq!(original.last_look().err().unwrap().code(), Code::Io);
            fs::write(&path, b"0123456789").unwrap();
            let original = ExistingFile::open(&path, in_place).unwrap();
            let other = path.with_extension("other");
            fs::copy(&path, &other).unwrap();
            fs::rename(other, &path).unwrap();
            assert_eq!(original.unchanged().unwrap_err().code(), Code::Io, "another file has its name");
        }
        fs::remove_file(path).unwrap();
    }
}
