//! Byte sinks: files that appear under their name complete or not at all. Depends on sources, and on no format.
#![forbid(unsafe_code)]

mod access;
pub mod block;
pub mod blocks;
pub mod complete;
pub mod existing;
mod folder;
pub mod header_rewrite;
pub mod in_place;
pub mod kernel_copy;
mod leftovers;
pub mod replacement;
pub mod set;
mod spool;
pub mod store;
mod target;
mod temporary;
pub mod upload;
mod uploaded;
mod warning;
pub mod whole;
pub mod write_behind;

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::codecs::digest::{Algorithm, Digest};
use crate::error::{Code, Error, Result};
use crate::paths::folder_of;
use access::Access;
use block::Block;
use folder::Folder;
pub use spool::Spool;
pub use target::exists;
use target::{check_replaceable, resolved};
use temporary::Temporary;
pub use warning::Warning;

/// A file written next to its target and renamed into place when it is complete and on disk. Until then, and if it is dropped unfinished,
/// the target is unchanged.
pub struct AtomicFile {
    temporary: Temporary,
    place: Box<Place>,
}

/// Where a file will appear, and how.
#[derive(Default)]
struct Place {
    target: PathBuf,
    overwrite: bool,
    /// The access rights of the file to be replaced, if there was one.
    old: Option<Access>,
    /// The default permissions of new files in the folder.
    default_permissions: Option<Permissions>,
    /// Whether space was reserved past the end.
    reserved: bool,
    /// The store that the file is uploaded to, if any.
    store: Option<store::Store>,
}

impl AtomicFile {
    /// Begins a file for `target`. Fails with `ZT_EXISTS` if it exists, unless it may be overwritten.
    pub fn create(target: &Path, overwrite: bool) -> Result<Self> {
        if !overwrite && target.symlink_metadata().is_ok() {
            return Err(exists(target));
        }
        // A link is preserved: the file that it points to is replaced, or created.
        let target = resolved(target)?;
        check_replaceable(&target)?;
        let old = Access::of(&target);
        let temporary = Temporary::in_folder_of(&target, old.is_some()).map_err(|error| {
            let error = error.file(&target);
            let folder = folder_of(&target);
            if folder.exists() {
                return error;
            }
            error.context(format!("the target's folder '{}' does not exist", folder.display()))
        })?;
        let place = Place { target, overwrite, old, ..Place::default() };
        let mut file = Self { temporary, place: Box::new(place) };
        if overwrite && cfg!(unix) {
            file.close_to_others()?;
        }
        Ok(file)
    }

    /// Makes the incomplete file private: its readers are known only at the end, from the file that it replaces.
    fn close_to_others(&mut self) -> Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;

            let file = self.temporary.file();
            let default = file.metadata().map_err(|error| self.failed("fstat", &error))?.permissions();
            // A file system without permissions may reject it.
            let _ = file.set_permissions(Permissions::from_mode(0o600));
            self.place.default_permissions = Some(default);
        }
        Ok(())
    }

    /// Builds the error for a failed system call, naming the target, which the caller knows.
    fn failed(&self, syscall: &'static str, error: &io::Error) -> Error {
        Error::io(syscall, error).file(&self.place.target)
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file().write_all(bytes).map_err(|error| self.failed("write", &error))
    }

    /// Replaces bytes that were written before. Later bytes continue at the end.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = self.file().stream_position().map_err(|error| self.failed("lseek", &error))?;
        self.file().seek(SeekFrom::Start(offset)).map_err(|error| self.failed("lseek", &error))?;
        self.write(bytes)?;
        self.file().seek(SeekFrom::Start(end)).map_err(|error| self.failed("lseek", &error))?;
        Ok(())
    }

    /// Writes a block including its holes: this file had no content before.
    pub fn write_block(&mut self, block: &Block) -> Result<()> {
        block.write_to(self.file()).map_err(|error| self.failed("write", &error))
    }

    /// Skips `count` bytes, which read as zeros.
    pub fn skip(&mut self, count: u64) -> Result<()> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.file().seek(SeekFrom::Current(count)).map_err(|error| self.failed("lseek", &error))?;
        Ok(())
    }

    pub fn file(&self) -> &File {
        self.temporary.file()
    }

    /// Returns a spool in the target's folder.
    pub fn spool(&self) -> Result<Spool> {
        if self.is_remote() { Spool::in_temp_folder() } else { Spool::in_folder_of(&self.place.target) }
    }

    pub fn target(&self) -> &Path {
        &self.place.target
    }

    pub fn overwrites(&self) -> bool {
        self.place.overwrite
    }

    /// Changes the target. Fails with `ZT_EXISTS` if it exists, unless it may be overwritten.
    pub fn retarget(&mut self, target: PathBuf) -> Result<()> {
        self.place.target = target;
        self.place.old = None;
        if self.is_remote() {
            // The store rejects it at the end.
            return Ok(());
        }
        if !self.place.overwrite && !self.is_fresh() {
            return Err(exists(&self.place.target));
        }
        check_replaceable(&self.place.target)
    }

    /// Returns whether the target does not exist yet.
    pub fn is_fresh(&self) -> bool {
        self.place.target.symlink_metadata().is_err()
    }

    /// Returns the size of the file, and the digest over all of it.
    pub fn whole(&self, algorithm: Algorithm) -> Result<(u64, Digest)> {
        let mut file = self.file();
        file.seek(SeekFrom::Start(0)).map_err(|error| self.failed("lseek", &error))?;
        let (mut hasher, mut size) = (algorithm.hasher(), 0);
        let mut piece = vec![0; 1 << 20];
        loop {
            let count = file.read(&mut piece).map_err(|error| self.failed("read", &error))?;
            let read = piece.get(..count).unwrap_or_default();
            if read.is_empty() {
                return Ok((size, algorithm.digest(hasher)));
            }
            hasher.update(read);
            size += count as u64;
        }
    }

    /// Begins another file for the same target.
    pub fn another(&self) -> Result<Self> {
        self.sibling(&self.place.target)
    }

    /// Begins a file for another target, in the same folder or store.
    pub fn sibling(&self, target: &Path) -> Result<Self> {
        match &self.place.store {
            Some(store) => Self::store(store.clone(), target),
            None => Self::create(target, self.place.overwrite),
        }
    }

    /// Discards everything from `length` on, and continues there.
    pub fn truncate(&mut self, length: u64) -> Result<()> {
        self.file().set_len(length).map_err(|error| self.failed("ftruncate", &error))?;
        self.file().seek(SeekFrom::Start(length)).map_err(|error| self.failed("lseek", &error))?;
        Ok(())
    }

    /// Announces the final length to the file system, so that it allocates large extents: a later mapping faults 40 times cheaper. Only a
    /// hint.
    pub fn reserve(&mut self, length: u64) {
        #[cfg(target_os = "linux")]
        {
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            self.place.reserved = rustix::fs::fallocate(self.file(), flags, 0, length).is_ok();
        }
        #[cfg(not(target_os = "linux"))]
        let _ = length;
    }

    /// Appends `length` bytes of `source` from `offset` on, copied by the kernel if possible.
    pub fn copy_from(&mut self, mut source: &File, offset: u64, length: u64) -> Result<()> {
        source.seek(SeekFrom::Start(offset)).map_err(|error| self.failed("lseek", &error))?;
        let copied = io::copy(&mut source.take(length), &mut self.file())
            .map_err(|error| self.failed("write", &error))?;
        if copied < length {
            return Err(Error::new(
                Code::Truncated,
                "the source ended early: it was truncated while it was copied",
            ));
        }
        Ok(())
    }

    /// Syncs the file and renames it into place.
    pub fn commit(self) -> Result<Vec<Warning>> {
        self.commit_if(|| Ok(()))
    }

    /// Commits unless `still` fails immediately before the rename. Its result is retained until the rename is done.
    pub fn commit_if<Guard>(mut self, still: impl FnOnce() -> Result<Guard>) -> Result<Vec<Warning>> {
        if let Some(store) = &self.place.store {
            let guard = still()?;
            let put = self.send(store).and_then(|sent| store.complete(vec![sent], self.place.overwrite));
            drop(guard);
            return put;
        }
        // Opened before the rename: afterwards, running out of handles could no longer be an error.
        let folder = Folder::of(&self.place.target)?;
        self.put_on_disk()?;
        let guard = still()?;
        self.rename_into_place()?;
        drop(guard);
        Ok(folder.sync_behind(&self.place.target))
    }

    /// Completes the file, applies the access rights of the one it replaces, and syncs it.
    fn put_on_disk(&mut self) -> Result<()> {
        check_replaceable(&self.place.target)?;
        if self.place.overwrite {
            let now = Access::of(&self.place.target);
            match (now.as_ref().or(self.place.old.as_ref()), &self.place.default_permissions) {
                (Some(access), _) => {
                    access.give(self.file()).map_err(|error| error.file(&self.place.target))?;
                }
                (None, Some(default)) => {
                    self.file()
                        .set_permissions(default.clone())
                        .map_err(|error| self.failed("fchmod", &error))?;
                }
                (None, None) => {}
            }
        }
        let file = self.file();
        if self.place.reserved {
            // Releases unused reserved space; no byte changes.
            let length = file.metadata().map_err(|error| self.failed("fstat", &error))?.len();
            file.set_len(length).map_err(|error| self.failed("ftruncate", &error))?;
        }
        file.sync_all().map_err(|error| self.failed("fsync", &error))
    }

    /// Renames the file into place atomically.
    fn rename_into_place(&mut self) -> Result<()> {
        if !self.is_fresh() && self.place.overwrite {
            return self.replace();
        }
        match self.temporary.link_new(&self.place.target) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(self.failed("link", &error)),
            Err(_) if self.place.overwrite => self.replace(),
            Err(_) => Err(exists(&self.place.target)),
        }
    }

    fn replace(&mut self) -> Result<()> {
        self.temporary.name().map_err(|error| self.failed("link", &error))?;
        self.temporary.rename_over(&self.place.target).map_err(|error| self.not_replaced(&error))
    }

    fn not_replaced(&self, error: &io::Error) -> Error {
        if cfg!(windows) && error.kind() == io::ErrorKind::PermissionDenied && !self.is_fresh() {
            let target = self.place.target.display().to_string();
            // The prefix of canonical paths on Windows is not meaningful to users.
            let target = target.trim_start_matches(r"\\?\");
            let message = format!(
                "'{target}' cannot be replaced: Windows keeps a file that is mapped or, on some file systems, open. Close it \
                 here and in other programs, and try again ({error})"
            );
            return Error::new(Code::Io, message);
        }
        self.failed("rename", error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::sinks::complete::CompleteFiles;

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
    fn a_name_taken_meanwhile_is_not_replaced() {
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
        std::fs::remove_file(&target).unwrap();
        let mut file = AtomicFile::create(&target, true).unwrap();
        file.write(b"ours again").unwrap();
        std::fs::write(&target, b"theirs").unwrap();
        file.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"ours again");
        assert_eq!(names(&folder), ["a"]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_existing_file_is_retargeted_to_only_with_overwrite() {
        let folder = folder("retarget");
        std::fs::write(folder.join("taken"), b"theirs").unwrap();
        std::fs::create_dir(folder.join("folder")).unwrap();
        for overwrite in [false, true] {
            let mut file = AtomicFile::create(&folder.join("a"), overwrite).unwrap();
            assert!(file.retarget(folder.join("free")).is_ok());
            let taken = file.retarget(folder.join("taken"));
            assert_eq!(taken.err().map(|error| error.code()), (!overwrite).then_some(Code::Exists));
            let code = if overwrite { Code::Io } else { Code::Exists };
            assert_eq!(file.retarget(folder.join("folder")).unwrap_err().code(), code);
        }
        assert_eq!(std::fs::read(folder.join("taken")).unwrap(), b"theirs");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_set_appears_complete_or_the_old_files_remain() {
        let folder = folder("set");
        let make = |name: &str, overwrite| {
            let mut file = AtomicFile::create(&folder.join(name), overwrite).unwrap();
            file.write(name.as_bytes()).unwrap();
            file
        };
        let old = |before: &[&str], after: &[&str]| {
            let paths = |names: &[&str]| names.iter().map(|name| folder.join(name)).collect();
            let old = set::Old { before: paths(before), after: paths(after) };
            move || Ok(old)
        };
        let put = |overwrite, before: &[&str], after: &[&str]| {
            set::put(
                ["1", "2"].map(|name| make(name, overwrite)).into_iter().collect(),
                make("i", overwrite),
                old(before, after),
            )
        };
        assert!(put(false, &[], &[]).unwrap().is_empty());
        assert_eq!(names(&folder), ["1", "2", "i"]);
        for name in ["1", "2", "3", "4", "i"] {
            std::fs::write(folder.join(name), b"old").unwrap();
        }
        assert!(put(true, &["i", "missing", "1", "3"], &["4", "missing"]).unwrap().is_empty());
        assert_eq!(names(&folder), ["1", "2", "i"]);
        assert_eq!(std::fs::read(folder.join("1")).unwrap(), b"1");
        // Another file takes one of the names first: the files before it are removed, and the old ones restored.
        std::fs::remove_file(folder.join("1")).unwrap();
        std::fs::write(folder.join("i"), b"old").unwrap();
        let files = ["1", "3"].map(|name| make(name, false)).into_iter().collect();
        std::fs::write(folder.join("3"), b"theirs").unwrap();
        assert_eq!(
            set::put(files, make("i", true), old(&["i", "2"], &["3"])).unwrap_err().code(),
            Code::Exists
        );
        assert_eq!(names(&folder), ["2", "3", "i"]);
        assert_eq!(std::fs::read(folder.join("i")).unwrap(), b"old");
        assert_eq!(std::fs::read(folder.join("3")).unwrap(), b"theirs");
        let refused =
            set::put(CompleteFiles::default(), make("i", true), || Err(Error::new(Code::Io, "changed")));
        assert_eq!(refused.unwrap_err().message(), "changed");
        assert_eq!(std::fs::read(folder.join("i")).unwrap(), b"old");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_spool_has_no_name() {
        let folder = folder("spool");
        let mut spool = Spool::in_folder_of(&folder.join("a")).unwrap();
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

    #[test]
    fn a_missing_folder_is_reported_first() {
        let folder = folder("missing");
        let error = AtomicFile::create(&folder.join("no/a"), false).err().unwrap();
        let expected = format!("the target's folder '{}' does not exist", folder.join("no").display());
        assert_eq!(error.wanted_for(), Some(&*expected));
        let error = AtomicFile::create(&folder, false).err().unwrap();
        assert_eq!((error.code(), error.wanted_for()), (Code::Exists, None));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn concurrent_commits_to_a_new_name_both_succeed() {
        let folder = folder("at-once");
        let target = folder.join("a");
        for _ in 0..100 {
            let files = [(); 2].map(|()| AtomicFile::create(&target, true).unwrap());
            let waiting = AtomicUsize::new(2);
            thread::scope(|scope| {
                for mut file in files {
                    let waiting = &waiting;
                    scope.spawn(move || {
                        waiting.fetch_sub(1, Ordering::SeqCst);
                        while waiting.load(Ordering::SeqCst) > 0 {
                            std::hint::spin_loop();
                        }
                        file.rename_into_place().unwrap();
                    });
                }
            });
            assert_eq!(names(&folder), ["a"]);
            std::fs::remove_file(&target).unwrap();
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
