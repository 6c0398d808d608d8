//! A temporary file: unnamed if the system supports it, otherwise with a recognizable name.
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::leftovers;
use crate::error::{Error, Result};
use crate::paths::folder_of;
use crate::sources::identity::Identity;

/// An open file, which is removed when dropped unless it was renamed into place.
pub struct Temporary {
    file: File,
    folder: PathBuf,
    path: Option<PathBuf>,
}

impl Temporary {
    /// Creates a file in the folder of `target`. A `private` one is only accessible to its owner; any other has the default permissions.
    /// First removes leftovers of killed writers in the folder.
    pub fn in_folder_of(target: &Path, private: bool) -> Result<Self> {
        let folder = folder_of(target);
        leftovers::clear(folder);
        if let Some(file) = nameless(folder, private) {
            return Ok(Self { file, folder: folder.to_owned(), path: None });
        }
        let (file, path) = named(folder, private)?;
        Ok(Self { file, folder: folder.to_owned(), path: Some(path) })
    }

    /// Creates a private file in the temporary folder.
    pub fn in_temp_folder() -> Result<Self> {
        let target = std::env::temp_dir().join("ztensor");
        Self::in_folder_of(&target, true).map_err(|error| error.file(&target))
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file a temporary name, until it is placed.
    pub fn name(&mut self) -> io::Result<PathBuf> {
        if let Some(path) = &self.path {
            return Ok(path.clone());
        }
        let path = self.link_anywhere()?;
        Ok(self.path.insert(path).clone())
    }

    /// Removes the temporary name, if the system permits that for open files. The file then disappears even if the
    /// process is killed.
    pub fn hide(&mut self) {
        if cfg!(unix) && self.path.as_deref().is_some_and(|path| std::fs::remove_file(path).is_ok()) {
            self.path = None;
        }
    }

    /// Renames the file over `target`.
    pub fn rename_over(&mut self, target: &Path) -> io::Result<()> {
        let path = self.name()?;
        self.check_name(&path)?;
        std::fs::rename(path, target)?;
        self.placed();
        Ok(())
    }

    /// Links the file at `target`; fails with `AlreadyExists` if it exists.
    pub fn link_new(&mut self, target: &Path) -> io::Result<()> {
        match self.path.clone() {
            None => link(&self.file, target)?,
            Some(path) => {
                self.check_name(&path)?;
                rename_new(&path, target)?;
            }
        }
        self.placed();
        Ok(())
    }

    /// Fails if another file has taken the temporary name.
    fn check_name(&self, path: &Path) -> io::Result<()> {
        if leftovers::is_at(&self.file, path) { Ok(()) } else { Err(replaced()) }
    }

    /// Closes the file under another temporary name; returns it unchanged if it cannot get that name.
    pub fn close(mut self, path: &Path) -> std::result::Result<Closed, Self> {
        let named = match &self.path {
            None => link(&self.file, path),
            Some(old) => std::fs::rename(old, path),
        };
        match named {
            Ok(()) => {
                self.path = Some(path.to_owned());
                Ok(self.closed())
            }
            Err(_) => Err(self),
        }
    }

    /// Closes the file. Without a temporary name it is in place, or gone.
    pub fn closed(mut self) -> Closed {
        // Without its identity it cannot be opened again.
        let identity = self.file.metadata().ok().map(|metadata| Identity::of(&metadata));
        Closed { path: self.path.take(), identity }
    }

    fn placed(&mut self) {
        self.path = None;
        // The next edit of the file may begin while its folder is still being synced.
        leftovers::unlock(&self.file);
    }

    fn link_anywhere(&self) -> io::Result<PathBuf> {
        leftovers::lock(&self.file);
        loop {
            let path = next_name(&self.folder);
            match link(&self.file, &path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // There is no caller to report to.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A temporary file that is closed. It is removed when dropped.
pub struct Closed {
    path: Option<PathBuf>,
    identity: Option<Identity>,
}

impl Closed {
    /// Opens the file again. Fails if another or a changed file has its name by now.
    pub fn open(&mut self) -> io::Result<Temporary> {
        let path = self.path.as_ref().ok_or(io::ErrorKind::NotFound)?;
        #[cfg(unix)]
        let file = {
            use rustix::fs::{Mode, OFlags, open};

            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            File::from(open(path, flags, Mode::empty())?)
        };
        #[cfg(not(unix))]
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if Some(Identity::of(&file.metadata()?)) != self.identity {
            return Err(replaced());
        }
        let folder = folder_of(path).to_owned();
        Ok(Temporary { file, folder, path: self.path.take() })
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn replaced() -> io::Error {
    io::Error::other("another process has replaced or changed a temporary file; nothing was written")
}

/// Returns an unused name. It does not include the target's name, which may have the maximum length.
fn next_name(folder: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("{}{}-{number}{}", leftovers::PREFIX, std::process::id(), leftovers::SUFFIX))
}

/// Returns `None` if the file system has no unnamed files, or they could not be linked later.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path, private: bool) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};

    let mode = Mode::from_raw_mode(if private { 0o600 } else { 0o666 });
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, mode).ok()?);
    magic_link(&file).symlink_metadata().is_ok().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_folder: &Path, _private: bool) -> Option<File> {
    None
}

/// Returns the path of an open unnamed file (open(2), `O_TMPFILE`).
#[cfg(target_os = "linux")]
fn magic_link(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;

    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};

    Ok(linkat(CWD, magic_link(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn named(folder: &Path, private: bool) -> Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if private { 0o600 } else { 0o666 });
    #[cfg(not(unix))]
    let _ = private;
    loop {
        let path = next_name(folder);
        match options.open(&path) {
            Ok(file) => {
                leftovers::lock(&file);
                // Another writer may have removed it as a leftover before it was locked.
                if leftovers::is_at(&file, &path) {
                    return Ok((file, path));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("open", &error)),
        }
    }
}

/// Renames a file unless the new name exists.
fn rename_new(path: &Path, target: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;

        match renameat_with(CWD, path, CWD, target, RenameFlags::NOREPLACE) {
            // The kernel or the file system does not support it.
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {}
            outcome => return Ok(outcome?),
        }
    }
    match std::fs::hard_link(path, target) {
        Ok(()) => {
            // The file is in place; a second name is removed like any leftover.
            let _ = std::fs::remove_file(path);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // A file system without links: a race between check and rename remains.
        Err(_) if target.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => std::fs::rename(path, target),
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)] // a test that cannot set itself up has failed
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    type Publish = fn(&mut Temporary, &Path) -> io::Result<()>;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ztensor-temporary-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn written(folder: &Path) -> Temporary {
        let temporary = Temporary::in_folder_of(&folder.join("x"), false).unwrap();
        temporary.file().write_all(b"ours").unwrap();
        temporary
    }

    #[test]
    fn a_closed_file_is_opened_again_only_if_it_is_the_same() {
        let folder = folder("closed");
        let path = folder.join("closed");
        for (change, is_same) in
            [(None, true), (Some("replaced"), false), (Some("changed"), false), (Some("linked"), false)]
        {
            let Ok(mut closed) = written(&folder).close(&path) else { panic!("it cannot be named") };
            let other = folder.join("other");
            match change {
                Some("replaced") => {
                    fs::write(&other, b"evil").unwrap();
                    fs::rename(&other, &path).unwrap();
                }
                Some("linked") => {
                    fs::write(&other, b"evil").unwrap();
                    fs::remove_file(&path).unwrap();
                    std::os::unix::fs::symlink(&other, &path).unwrap();
                }
                Some(_) => fs::write(&path, b"evil and longer").unwrap(),
                None => {}
            }
            assert_eq!(closed.open().is_ok(), is_same, "{change:?}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_took_the_temporary_name_is_not_published() {
        let folder = folder("name");
        let target = folder.join("target");
        for publish in [Temporary::rename_over as Publish, Temporary::link_new] {
            let mut temporary = written(&folder);
            let path = temporary.name().unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, b"evil").unwrap();
            assert!(publish(&mut temporary, &target).is_err());
            assert!(!target.exists());
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
