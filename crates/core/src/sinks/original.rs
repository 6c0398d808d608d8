//! A file that is there and is about to be edited.
#![forbid(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use super::leftovers;
use crate::error::{Code, Error, Result};
use crate::sources::ReadAt;
use crate::sources::file::FileSource;
use crate::sources::files::Identity;

/// Openings before a file that changes all the time is given up, and looks at its lock.
const TRIES: u32 = 16;

/// The open file, with what it was when it was opened. No other edit of ours can begin while it lives.
pub struct Original {
    source: FileSource,
    path: PathBuf,
    identity: Identity,
}

impl Original {
    /// Opens the file at `path`, for writing too where it is to be edited in place. A link is followed. Fails with
    /// `ZT_IO` where another edit is under way.
    pub fn open(path: &Path, in_place: bool) -> Result<Self> {
        let path = path.canonicalize().map_err(|error| Error::io("open", &error))?;
        let mut tries = 0;
        loop {
            let source = if in_place { FileSource::open_writable(&path)? } else { FileSource::open(&path)? };
            lock(source.file())?;
            tries += 1;
            match Self::locked(source, path.clone()) {
                Err(_) if tries < TRIES => {}
                outcome => return outcome,
            }
        }
    }

    /// The file that was opened and locked. Fails where an edit ended in between: it has put another file under the name, or
    /// the file has grown, so that the length it was opened with leads to its old index.
    fn locked(source: FileSource, path: PathBuf) -> Result<Self> {
        let identity = source.identity()?;
        let grown = identity.length != source.length();
        let original = Self { source, path, identity };
        if grown { Err(changed()) } else { original.unchanged().map(|()| original) }
    }

    pub fn source(&self) -> &FileSource {
        &self.source
    }

    pub fn file(&self) -> &File {
        self.source.file()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn length(&self) -> u64 {
        self.identity.length
    }

    /// Looks for the last time before another file takes the path, and gives what must be kept until it has: on Unix the
    /// lock. On Windows not every file system lets an open file be replaced.
    pub fn last_look(self) -> Result<Option<Self>> {
        self.unchanged()?;
        Ok(cfg!(unix).then_some(self))
    }

    /// Fails unless the file at the path is the one that was opened, as it was then.
    pub fn unchanged(&self) -> Result<()> {
        let now = self.path.metadata().map_err(|error| Error::io("stat", &error))?;
        if Identity::of(&now) == self.identity && self.source.identity()? == self.identity {
            return Ok(());
        }
        Err(changed())
    }
}

#[cfg(unix)]
impl Drop for Original {
    /// Not only by closing: a process that is forked meanwhile has the descriptor, and with it the lock, until it is another
    /// program.
    fn drop(&mut self) {
        leftovers::unlock(self.source.file());
    }
}

fn changed() -> Error {
    let message = "the file was changed or replaced by somebody else since it was opened for an edit; nothing was \
                   written, open it again";
    Error::new(Code::Io, message)
}

/// Takes the file's lock. Where a file system has none, `unchanged` has to do.
#[cfg(unix)]
fn lock(file: &File) -> Result<()> {
    // A writer that has just put the file there holds its lock for some microseconds more.
    for _ in 0..TRIES {
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        let Err(rustix::io::Errno::WOULDBLOCK) = rustix::fs::flock(file, lock) else { return Ok(()) };
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    Err(Error::new(Code::Io, "the file is being edited by another writer; try again when that has ended"))
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
        fs::write(&path, "old and new").unwrap();
        assert_eq!(Original::locked(stale, path.clone()).err().map(|error| error.code()), Some(Code::Io));
        let original = Original::open(&path, true).unwrap();
        assert_eq!((original.length(), original.source().length()), (11, 11));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_has_one_edit_at_a_time_and_is_what_it_was() {
        let path = std::env::temp_dir().join(format!("ztensor-original-{}", std::process::id()));
        fs::write(&path, b"0123456789").unwrap();
        for in_place in [false, true] {
            let original = Original::open(&path, in_place).unwrap();
            assert_eq!((original.length(), original.path()), (10, &*path.canonicalize().unwrap()));
            assert_eq!(Original::open(&path, in_place).err().unwrap().code(), Code::Io, "the lock is held");
            assert!(original.unchanged().is_ok());
            // The lock stays for as long as what is given is kept.
            let kept = original.last_look().unwrap();
            assert!(kept.is_some() && Original::open(&path, in_place).is_err());
            drop(kept);
            let original = Original::open(&path, in_place).unwrap();
            fs::write(&path, b"0123456789, and more").unwrap();
            assert_eq!(original.unchanged().unwrap_err().code(), Code::Io, "it grew");
            assert_eq!(original.last_look().err().unwrap().code(), Code::Io);
            fs::write(&path, b"0123456789").unwrap();
            let original = Original::open(&path, in_place).unwrap();
            let other = path.with_extension("other");
            fs::copy(&path, &other).unwrap();
            fs::rename(other, &path).unwrap();
            assert_eq!(original.unchanged().unwrap_err().code(), Code::Io, "another file has its name");
        }
        fs::remove_file(path).unwrap();
    }
}
