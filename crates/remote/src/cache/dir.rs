//! An open folder. On Unix it is opened and checked once, and its files are opened relative to it, so that renaming a parent folder cannot
//! substitute other files. On Windows the permissions of the parent folder apply.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

#[cfg(not(unix))]
pub use others::Dir;
#[cfg(unix)]
pub use unix::Dir;

#[cfg(unix)]
mod unix {
    use std::ffi::CString;
    use std::fs::DirBuilder;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    use std::time::Duration;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags};

    use super::{File, Path, SystemTime, io};

    pub struct Dir(File);

    fn flags() -> OFlags {
        OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK
    }

    const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

    impl Dir {
        /// Opens a folder. `None` if it does not exist and `make` is false.
        pub fn open(path: &Path, make: bool) -> io::Result<Option<Self>> {
            if make {
                DirBuilder::new().mode(0o700).recursive(true).create(path)?;
            }
            match rustix::fs::openat(
                CWD,
                path,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            ) {
                Ok(folder) => Ok(Some(Self(folder.into()))),
                Err(rustix::io::Errno::NOENT) if !make => Ok(None),
                Err(error) => Err(error.into()),
            }
        }

        /// Returns why other users could change the content of the folder, and how to fix it.
        pub fn unsafe_for(&self, path: &Path) -> Option<String> {
            let metadata = match self.0.metadata() {
                Ok(metadata) => metadata,
                Err(error) => return Some(format!("it cannot be inspected ({error})")),
            };
            let (user, path) = (rustix::process::geteuid().as_raw(), path.display());
            if metadata.uid() != user {
                let owner = metadata.uid();
                return Some(format!(
                    "it belongs to another user (uid {owner}), who could change its content: take ownership (chown {user} '{path}')"
                ));
            }
            let mode = metadata.mode() & 0o7777;
            (mode & 0o022 != 0).then(|| {
                format!(
                    "other users can write to it (mode {mode:04o}): remove its content if you do not trust them, and revoke the permission (chmod go-w '{path}')"
                )
            })
        }

        /// Opens a file of the folder without following links.
        pub fn file(&self, name: &str, write: bool, create: bool) -> io::Result<File> {
            let mut flags = flags() | if write { OFlags::RDWR } else { OFlags::RDONLY };
            flags.set(OFlags::CREATE, create);
            Ok(rustix::fs::openat(&self.0, name, flags, PRIVATE)?.into())
        }

        /// Creates a file that must not exist.
        pub fn new_file(&self, name: &str) -> io::Result<File> {
            let flags = flags() | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            let file: OwnedFd = rustix::fs::openat(&self.0, name, flags, PRIVATE)?;
            Ok(file.into())
        }

        pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
        }

        /// Renames a file unless the new name exists.
        pub fn name(&self, from: &str, to: &str) -> io::Result<()> {
            #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
            {
                use rustix::fs::{RenameFlags, renameat_with};
                match renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
                    Ok(()) => return Ok(()),
                    Err(rustix::io::Errno::EXIST) => return Err(io::ErrorKind::AlreadyExists.into()),
                    // Older systems and some file systems only support links.
                    Err(_) => {}
                }
            }
            rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?;
            self.remove(from)
        }

        pub fn remove(&self, name: &str) -> io::Result<()> {
            Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
        }

        pub fn is_link(&self, name: &str) -> bool {
            rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|found| rustix::fs::FileType::from_raw_mode(found.st_mode).is_symlink())
        }

        /// Returns up to `max` names of the folder. Names that are not text belong to others.
        pub fn names(&self, max: usize) -> io::Result<Vec<String>> {
            let entries = rustix::fs::Dir::read_from(&self.0)?;
            let text = |name: CString| name.into_string().ok();
            Ok(entries.take(max).flatten().filter_map(|entry| text(entry.file_name().to_owned())).collect())
        }

        /// Returns the modification time of a file and its size on disk.
        pub fn facts(&self, name: &str) -> io::Result<(SystemTime, u64)> {
            let found = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let seconds = u64::try_from(found.st_mtime).unwrap_or_default();
            let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or_default();
            let since = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanoseconds.into()));
            let modified = SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
            Ok((modified, u64::try_from(found.st_blocks).unwrap_or_default().saturating_mul(512)))
        }
    }
}

#[cfg(not(unix))]
mod others {
    use std::fs::{self, OpenOptions};
    use std::path::PathBuf;

    use super::{File, Path, SystemTime, io};

    pub struct Dir(PathBuf);

    impl Dir {
        /// Opens a folder. `None` if it does not exist and `make` is false.
        pub fn open(path: &Path, make: bool) -> io::Result<Option<Self>> {
            if make {
                fs::create_dir_all(path)?;
            } else if !path.is_dir() {
                return Ok(None);
            }
            Ok(Some(Self(path.to_owned())))
        }

        /// Returns why other users could change the content of the folder, and how to fix it.
        #[allow(clippy::unused_self)]
        pub fn unsafe_for(&self, _path: &Path) -> Option<String> {
            None
        }

        /// Opens a file of the folder.
        pub fn file(&self, name: &str, write: bool, create: bool) -> io::Result<File> {
            OpenOptions::new().read(true).write(write).create(create).truncate(false).open(self.0.join(name))
        }

        /// Creates a file that must not exist.
        pub fn new_file(&self, name: &str) -> io::Result<File> {
            OpenOptions::new().read(true).write(true).create_new(true).open(self.0.join(name))
        }

        pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            fs::rename(self.0.join(from), self.0.join(to))
        }

        /// Renames a file unless the new name exists.
        pub fn name(&self, from: &str, to: &str) -> io::Result<()> {
            fs::hard_link(self.0.join(from), self.0.join(to))?;
            self.remove(from)
        }

        pub fn remove(&self, name: &str) -> io::Result<()> {
            fs::remove_file(self.0.join(name))
        }

        pub fn is_link(&self, name: &str) -> bool {
            fs::symlink_metadata(self.0.join(name)).is_ok_and(|metadata| metadata.is_symlink())
        }

        /// Returns up to `max` names of the folder. Names that are not text belong to others.
        pub fn names(&self, max: usize) -> io::Result<Vec<String>> {
            let entries = fs::read_dir(&self.0)?;
            Ok(entries.take(max).flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        }

        /// Returns the modification time of a file and its size on disk.
        pub fn facts(&self, name: &str) -> io::Result<(SystemTime, u64)> {
            let metadata = fs::symlink_metadata(self.0.join(name))?;
            Ok((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len()))
        }
    }
}

/// Returns whether a file was created by this user, with this length and only one link: others could read and write it through another
/// link.
pub fn is_ours(metadata: &Metadata, length: u64) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let user = rustix::process::geteuid().as_raw();
        if metadata.uid() != user || metadata.mode() & 0o022 != 0 || metadata.nlink() > 1 {
            return false;
        }
    }
    metadata.is_file() && metadata.len() == length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_file_system_to_the_nanosecond() {
        let folder = std::env::temp_dir().join(format!("ztensor-dir-{}", std::process::id()));
        let dir = Dir::open(&folder, true).unwrap().unwrap();
        let file = dir.file("f", true, true).unwrap();
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 123_456_700);
        file.set_modified(time).unwrap();
        assert_eq!(dir.facts("f").unwrap().0, time);
        drop((file, dir));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
