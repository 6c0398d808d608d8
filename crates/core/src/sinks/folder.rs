//! The folder of a file, opened before anything in it changes, so that it can be synced afterwards.
#![forbid(unsafe_code)]

#[cfg(unix)]
use std::fs::File;
#[cfg(unix)]
use std::io;
use std::path::Path;
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use super::leftovers;
use super::warning::Warning;
use crate::error::Result;
#[cfg(unix)]
use crate::error::{Code, Error};
#[cfg(unix)]
use crate::paths::folder_of;

/// Milliseconds to wait for a lock.
#[cfg(unix)]
const TRIES: u32 = 5000;

/// Windows cannot sync a folder; there this does nothing.
pub struct Folder {
    /// An error if the folder is writable but cannot be opened.
    #[cfg(unix)]
    handle: io::Result<File>,
}

#[cfg(unix)]
impl Drop for Folder {
    /// Unlock explicitly: a process forked meanwhile would otherwise retain the lock.
    fn drop(&mut self) {
        if let Ok(folder) = &self.handle {
            leftovers::unlock(folder);
        }
    }
}

impl Folder {
    /// Opens the folder that contains `target`.
    #[cfg(unix)]
    pub fn of(target: &Path) -> Result<Self> {
        match File::open(folder_of(target)) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                Err(Error::io("open", &error).file(folder_of(target)))
            }
            handle => Ok(Self { handle }),
        }
    }

    #[cfg(not(unix))]
    #[allow(clippy::unnecessary_wraps)] // as on Unix
    pub fn of(_target: &Path) -> Result<Self> {
        Ok(Self {})
    }

    /// Excludes other sets while this lives. Their writers hold the lock only during some renames.
    #[cfg(unix)]
    pub fn lock(&self) -> Result<()> {
        use rustix::fs::{FlockOperation, flock};
        use rustix::io::Errno;

        let Ok(folder) = &self.handle else { return Ok(()) };
        for _ in 0..TRIES {
            // Proceed without a lock if the file system does not support locks.
            let Err(Errno::WOULDBLOCK) = flock(folder, FlockOperation::NonBlockingLockExclusive) else {
                return Ok(());
            };
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Error::new(
            Code::Io,
            "another writer is putting files into the folder; try again when it has finished",
        ))
    }

    #[cfg(not(unix))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)] // as on Unix
    pub fn lock(&self) -> Result<()> {
        Ok(())
    }

    /// Syncs the names in the folder.
    #[cfg(unix)]
    pub fn sync(&self) -> Result<()> {
        // A folder that cannot be opened is not an error: it was so before anything was written.
        let synced = self.handle.as_ref().map_or(Ok(()), File::sync_all);
        synced.map_err(|error| Error::io("fsync", &error))
    }

    #[cfg(not(unix))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)] // as on Unix
    pub fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Syncs after the file was renamed into place, which is final.
    #[cfg(unix)]
    pub fn sync_behind(&self, target: &Path) -> Vec<Warning> {
        let synced = match &self.handle {
            Ok(folder) => folder.sync_all(),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        let Err(error) = synced else { return Vec::new() };
        let message = format!(
            "'{}' is complete and on the disk, but its name may not be: the folder could not be synced ({error}). After a \
             loss of power the path may lead to what was there before",
            target.display()
        );
        vec![Warning { code: "ZT_WARN_NOT_SYNCED", message }]
    }

    #[cfg(not(unix))]
    #[allow(clippy::unused_self)] // as on Unix
    pub fn sync_behind(&self, _target: &Path) -> Vec<Warning> {
        Vec::new()
    }
}
