//! Where bytes go: a file that appears under its name whole or not at all. Knows no format.
#![forbid(unsafe_code)]

pub mod behind;
pub mod block;
pub mod grown;
pub mod kernel_copy;
pub mod original;
pub mod replacement;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use block::Block;

use crate::codec::digest::{Algorithm, Digest};
use crate::error::{Code, Error, Result};

/// A file written beside its target and moved there when it is complete and on the disk. Until then, and
/// whenever it is dropped unfinished, the target is as it was.
pub struct AtomicFile {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
    overwrite: bool,
    /// Bytes were reserved behind the end.
    reserved: bool,
    committed: bool,
}

impl AtomicFile {
    /// Begins a file for `target`. Fails with `ZT_EXISTS` where it is there already, unless it may be
    /// overwritten.
    pub fn create(target: &Path, overwrite: bool) -> Result<Self> {
        if !overwrite && target.symlink_metadata().is_ok() {
            return Err(exists(target));
        }
        // A link keeps pointing where it points: what it points to is replaced.
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        if target.is_dir() {
            return Err(Error::new(Code::Io, format!("'{}' is a folder", target.display())));
        }
        let (file, temporary) = sibling(&target)?;
        // Who may read and write the old file may do so with the new one.
        if let Ok(old) = target.metadata() {
            file.set_permissions(old.permissions()).map_err(|error| Error::io("fchmod", &error))?;
        }
        Ok(Self { file, temporary, target, overwrite, reserved: false, committed: false })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io("write", &error))
    }

    /// Writes a block, holes and all: nothing was in this file before.
    pub fn write_block(&mut self, block: &Block) -> Result<()> {
        block.write_to(&self.file).map_err(|error| Error::io("write", &error))
    }

    /// Leaves out zeros.
    pub fn skip(&mut self, count: u64) -> Result<()> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.file.seek(SeekFrom::Current(count)).map_err(|error| Error::io("lseek", &error))?;
        Ok(())
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// A spool in the target's folder.
    pub fn spool(&self) -> Result<Spool> {
        Spool::beside(&self.target)
    }

    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives the file another name to appear under. `ZT_EXISTS` where that is taken, unless it may be overwritten.
    pub fn retarget(&mut self, target: PathBuf) -> Result<()> {
        self.target = target;
        if !self.overwrite && !self.is_fresh() {
            return Err(exists(&self.target));
        }
        Ok(())
    }

    /// Whether nothing is under the file's name yet.
    pub fn is_fresh(&self) -> bool {
        self.target.symlink_metadata().is_err()
    }

    /// Bytes of the file, and the digest over them all.
    pub fn whole(&self, algorithm: Algorithm) -> Result<(u64, Digest)> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(|error| Error::io("lseek", &error))?;
        let (mut hasher, mut size) = (algorithm.hasher(), 0);
        let mut piece = vec![0; 1 << 20];
        loop {
            let count = file.read(&mut piece).map_err(|error| Error::io("read", &error))?;
            let read = piece.get(..count).unwrap_or_default();
            if read.is_empty() {
                return Ok((size, algorithm.digest(hasher)));
            }
            hasher.update(read);
            size += count as u64;
        }
    }

    /// Another file for the same target.
    pub fn another(&self) -> Result<Self> {
        Self::create(&self.target, self.overwrite)
    }

    /// Gives up what is written from `length` on, and goes on there.
    pub fn truncate(&mut self, length: u64) -> Result<()> {
        self.file.set_len(length).map_err(|error| Error::io("ftruncate", &error))?;
        self.file.seek(SeekFrom::Start(length)).map_err(|error| Error::io("lseek", &error))?;
        Ok(())
    }

    /// Tells the file system how long the file will be, so that it is laid out in large pieces: a later map of
    /// it faults 40 times cheaper. Only a hint.
    pub fn reserve(&mut self, length: u64) {
        #[cfg(target_os = "linux")]
        {
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            self.reserved = rustix::fs::fallocate(&self.file, flags, 0, length).is_ok();
        }
        #[cfg(not(target_os = "linux"))]
        let _ = length;
    }

    /// Appends `length` bytes of `source` from `offset` on, by the kernel alone where it can.
    pub fn copy_from(&mut self, mut source: &File, offset: u64, length: u64) -> Result<()> {
        source.seek(SeekFrom::Start(offset)).map_err(|error| Error::io("lseek", &error))?;
        let copied =
            io::copy(&mut source.take(length), &mut self.file).map_err(|error| Error::io("write", &error))?;
        if copied < length {
            return Err(Error::new(
                Code::Truncated,
                "the source ended early: it was cut while it was copied",
            ));
        }
        Ok(())
    }

    /// Puts the file on the disk and under its name.
    pub fn commit(self) -> Result<()> {
        self.commit_if(|| Ok(()))
    }

    /// The same, unless `still` refuses at the last moment. What it gives is kept until the file has its name.
    pub fn commit_if<Kept>(mut self, still: impl FnOnce() -> Result<Kept>) -> Result<()> {
        if self.reserved {
            // Gives back what was reserved and not used; no byte changes.
            let length = self.file.metadata().map_err(|error| Error::io("fstat", &error))?.len();
            self.file.set_len(length).map_err(|error| Error::io("ftruncate", &error))?;
        }
        self.file.sync_all().map_err(|error| Error::io("fsync", &error))?;
        let kept = still()?;
        if self.overwrite {
            std::fs::rename(&self.temporary, &self.target).map_err(|error| self.not_replaced(&error))?;
        } else {
            self.rename_new()?;
        }
        self.committed = true;
        drop(kept);
        sync_folder(&self.target)
    }

    fn not_replaced(&self, error: &io::Error) -> Error {
        if cfg!(windows) && error.kind() == io::ErrorKind::PermissionDenied && !self.is_fresh() {
            let target = self.target.display().to_string();
            // What Windows puts before a path that was made canonical says nothing to users.
            let target = target.trim_start_matches(r"\\?\");
            let message = format!(
                "'{target}' cannot be replaced: Windows keeps a file that is mapped or, on some file systems, open. Close it \
                 here and in other programs, and try again ({error})"
            );
            return Error::new(Code::Io, message);
        }
        Error::io("rename", error)
    }

    /// Moves the file to its name unless somebody else took that meanwhile.
    fn rename_new(&self) -> Result<()> {
        match std::fs::hard_link(&self.temporary, &self.target) {
            Ok(()) => std::fs::remove_file(&self.temporary).map_err(|error| Error::io("unlink", &error)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&self.target)),
            // A file system without links: the window between look and move stays.
            Err(_) if self.target.symlink_metadata().is_ok() => Err(exists(&self.target)),
            Err(_) => {
                std::fs::rename(&self.temporary, &self.target).map_err(|error| Error::io("rename", &error))
            }
        }
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            // The name may be gone already; there is nobody to tell.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Data on its way to a file whose index comes first: a nameless file in the target's folder.
pub struct Spool {
    file: File,
    path: Option<PathBuf>,
}

impl Spool {
    pub fn beside(target: &Path) -> Result<Self> {
        let (file, path) = sibling(target)?;
        // Where an open file can lose its name, nothing is left behind even by a kill.
        let unlinked = cfg!(unix) && std::fs::remove_file(&path).is_ok();
        Ok(Self { file, path: (!unlinked).then_some(path) })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io("write", &error))
    }

    /// Fills `bytes` from `offset` on.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        crate::source::file::read_at(&self.file, offset, bytes)
    }

    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn exists(path: &Path) -> Error {
    Error::new(Code::Exists, format!("'{}' exists already (option overwrite)", path.display()))
}

/// A new file in the folder of `target`, under a name that nobody has; it does not hold the target's, which may be as
/// long as names can be.
fn sibling(target: &Path) -> Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = target.with_file_name(format!(".ztensor-{}-{number}.part", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("open", &error)),
        }
    }
}

/// Puts the name itself on the disk.
fn sync_folder(target: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        let folder =
            target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Error::io("fsync", &error))?;
    }
    #[cfg(not(unix))]
    let _ = target;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ztensor-sink-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn appears_whole_or_not_at_all() {
        let folder = folder("whole");
        let target = folder.join("a");
        let mut file = AtomicFile::create(&target, false).unwrap();
        file.write(b"new").unwrap();
        assert!(!target.exists());
        drop(file);
        assert_eq!(names(&folder), [""; 0]);
        let mut file = AtomicFile::create(&target, false).unwrap();
        file.write(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert_eq!(names(&folder), ["a"]);
        assert_eq!(AtomicFile::create(&target, false).err().unwrap().code(), Code::Exists);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_name_taken_meanwhile_is_kept() {
        let folder = folder("taken");
        let target = folder.join("a");
        let mut file = AtomicFile::create(&target, false).unwrap();
        file.write(b"ours").unwrap();
        std::fs::write(&target, b"theirs").unwrap();
        assert_eq!(file.commit().unwrap_err().code(), Code::Exists);
        assert_eq!(std::fs::read(&target).unwrap(), b"theirs");
        assert_eq!(names(&folder), ["a"]);
        let mut file = AtomicFile::create(&target, true).unwrap();
        file.write(b"ours").unwrap();
        file.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"ours");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_spool_has_no_name() {
        let folder = folder("spool");
        let mut spool = Spool::beside(&folder.join("a")).unwrap();
        spool.write(b"0123456789").unwrap();
        let mut file = AtomicFile::create(&folder.join("a"), false).unwrap();
        file.write(b"<").unwrap();
        file.copy_from(spool.file(), 2, 5).unwrap();
        assert_eq!(file.copy_from(spool.file(), 8, 5).unwrap_err().code(), Code::Truncated);
        drop(file);
        drop(spool);
        assert_eq!(names(&folder), [""; 0]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
