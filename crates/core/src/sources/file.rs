//! An open file: read at positions, and mapped on first request for an alias.
#![forbid(unsafe_code)]

use std::fs::{File, Metadata, OpenOptions};
#[cfg(unix)]
use std::io::{Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::handle::{self, FileRef, Handle, OpenFile, is_a_directory, open_file, open_to_read};
use super::identity::Identity;
use super::io::Io;
use super::mapping::Mapping;
#[cfg(target_os = "linux")]
use super::window;
use super::{Costs, ReadAt};
#[cfg(target_os = "linux")]
use super::{MappedWindows, hash_read};
#[cfg(target_os = "linux")]
use crate::codecs::digest::Hasher;
use crate::error::{Code, Error, Result};
use crate::work::{self, Stop};

/// An open regular file.
pub struct FileSource {
    handle: Handle,
    length: u64,
    map: Mutex<Map>,
    io: OnceLock<Io>,
}

#[cfg(unix)]
mod unlinked {
    use std::fs::File;
    use std::io::{Error, ErrorKind, Result};
    use std::os::fd::OwnedFd;
    use std::path::{Component, Path};

    use rustix::fs::{CWD, Mode, OFlags, openat};

    /// Opens a file folder by folder from the root, without following links.
    pub fn open(path: &Path) -> Result<File> {
        let folder_flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // This opens folders that may be traversed but not listed.
        #[cfg(target_os = "linux")]
        let folder_flags = folder_flags | OFlags::PATH;
        let mut folder: OwnedFd = openat(CWD, "/", folder_flags, Mode::empty())?;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let name = match part {
                Component::RootDir => continue,
                Component::Normal(name) => name,
                Component::Prefix(_) | Component::CurDir | Component::ParentDir => {
                    return Err(Error::new(
                        ErrorKind::InvalidInput,
                        "the path does not name a file directly",
                    ));
                }
            };
            if parts.peek().is_some() {
                folder = openat(&folder, name, folder_flags, Mode::empty())?;
                continue;
            }
            // A named pipe must not block opening before it is recognized as one.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            return Ok(openat(&folder, name, flags, Mode::empty())?.into());
        }
        Err(Error::from(ErrorKind::IsADirectory))
    }
}

enum Map {
    NotYet,
    Mapped(Arc<Mapping>),
    /// The system refused (commit limit, `RLIMIT_AS`, 32 bits); positional reads are used instead.
    Refused,
    Closed,
}

impl FileSource {
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, OpenOptions::new().read(true))
    }

    /// Opens a file at an absolute path without links. Fails with `ZT_IO` if any part of it is, or has become, a link.
    pub fn open_without_links(path: &Path) -> Result<Self> {
        #[cfg(unix)]
        return Self::of(handle::opened(|| unlinked::open(path)).map_err(|error| Error::io("open", &error))?);
        // On Windows, creating links requires a privilege. The opened file is compared with the one at the path.
        #[cfg(not(unix))]
        {
            let metadata = path.symlink_metadata().map_err(|error| Error::io("open", &error))?;
            let opened = Self::open(path)?;
            if metadata.is_symlink() || Identity::of(&metadata) != opened.identity()? {
                return Err(Error::new(Code::Io, "the file was replaced while it was opened"));
            }
            Ok(opened)
        }
    }

    /// Opens a file that will also be written to.
    pub fn open_writable(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // FILE_SHARE_READ and FILE_SHARE_DELETE: the system itself rejects a second writer.
        #[cfg(windows)]
        std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, 1 | 4);
        Self::open_with(path, &mut options)
    }

    /// Opens one of many files: it is closed if others are used more, and opened again when it is needed.
    pub fn open_one_of_many(path: &Path) -> Result<Self> {
        let file = open_to_read(path)?;
        let metadata = file.metadata().map_err(|error| Error::io("fstat", &error))?;
        Self::checked(&metadata, || Handle::reopened(file, path, Identity::of(&metadata)))
    }

    /// Like [`Self::open_one_of_many`], for a file that was open before. Fails with `ZT_IO` if it is another or a changed file by now.
    pub fn reopen(path: &Path, identity: Identity) -> Result<Self> {
        let file = open_to_read(path).map_err(|error| error.file(path))?;
        handle::check(&file, path, identity)?;
        let metadata = file.metadata().map_err(|error| Error::io("fstat", &error))?;
        Self::checked(&metadata, || Handle::reopened(file, path, identity))
    }

    fn open_with(path: &Path, options: &mut OpenOptions) -> Result<Self> {
        Self::of(open_file(path, options)?)
    }

    /// Wraps a file that was opened at least for reading.
    pub fn of(file: File) -> Result<Self> {
        let metadata = file.metadata().map_err(|error| Error::io("fstat", &error))?;
        Self::checked(&metadata, || Handle::kept(file))
    }

    fn checked(metadata: &Metadata, handle: impl FnOnce() -> Handle) -> Result<Self> {
        if metadata.is_dir() {
            return Err(Error::io("read", &is_a_directory()));
        }
        if !metadata.is_file() {
            return Err(Error::new(
                Code::Io,
                "not a regular file: pipes and devices cannot be mapped; copy it to a file",
            ));
        }
        let length = metadata.len();
        Ok(Self { handle: handle(), length, map: Mutex::new(Map::NotYet), io: OnceLock::new() })
    }

    /// Sets how the bytes are read into memory; called before any read.
    pub fn set_io(&self, io: Io) {
        // Later calls have no effect, because the file may already be mapped.
        let _ = self.io.set(io);
    }

    fn io(&self) -> Io {
        self.io.get().copied().unwrap_or_default()
    }

    /// Returns whether the file may be mapped, according to its opener and its file system.
    pub fn maps(&self) -> bool {
        self.file().is_ok_and(|file| self.io().maps(&file))
    }

    /// Returns the mapping, which the first call creates. `None` if the system refuses or the file must not be mapped.
    pub fn mapping(&self) -> Result<Option<Arc<Mapping>>> {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        match &*map {
            Map::Mapped(mapping) if mapping.is_lost() => return Err(lost()),
            Map::Mapped(mapping) if self.ends_early()? => {
                mapping.lose();
                return Err(lost());
            }
            Map::Mapped(mapping) => {
                mapping.arm();
                return Ok(Some(Arc::clone(mapping)));
            }
            Map::Refused => return Ok(None),
            Map::Closed => return Err(Error::new(Code::Closed, "the file is closed")),
            Map::NotYet => {}
        }
        self.measure()?;
        let made = if self.maps() { Mapping::new(&*self.file()?, self.length).map(Arc::new) } else { None };
        *map = made.as_ref().map_or(Map::Refused, |mapping| Map::Mapped(Arc::clone(mapping)));
        Ok(made)
    }

    /// Releases this file's reference to the mapping. Positional reads still work for pending work.
    pub fn release_mapping(&self) {
        *self.map.lock().unwrap_or_else(PoisonError::into_inner) = Map::Closed;
    }

    /// Returns the existing mapping without creating one.
    pub fn mapped(&self) -> Option<Arc<Mapping>> {
        match &*self.map.lock().unwrap_or_else(PoisonError::into_inner) {
            Map::Mapped(mapping) => Some(Arc::clone(mapping)),
            _ => None,
        }
    }

    /// Returns whether the file became shorter. Takes a third of the time of `fstat`, because it is called for each alias.
    #[cfg(unix)]
    fn ends_early(&self) -> Result<bool> {
        let file = self.file()?;
        Ok((&**file).seek(SeekFrom::End(0)).is_ok_and(|end| end < self.length))
    }

    /// Windows does not permit truncating a mapped file.
    #[cfg(not(unix))]
    #[allow(clippy::unnecessary_wraps)] // as on Unix
    fn ends_early(&self) -> Result<bool> {
        Ok(false)
    }

    /// Fails if the file became shorter.
    fn measure(&self) -> Result<()> {
        let now = self.file()?.metadata().map_err(|error| Error::io("fstat", &error))?.len();
        if now < self.length {
            let message = format!("the file shrank from {} to {now} bytes since it was opened", self.length);
            return Err(Error::new(Code::Truncated, message).at(now));
        }
        Ok(())
    }

    /// Marks a mapping as lost if a read found its file truncated, even if no lost page was accessed.
    fn note_loss<T>(&self, read: Result<T>) -> Result<T> {
        if read.as_ref().is_err_and(|error| error.code() == Code::Truncated)
            && let Some(mapping) = self.mapped()
        {
            mapping.lose();
        }
        read
    }

    /// Allows the kernel to evict a range from the page cache.
    #[cfg(target_os = "linux")]
    pub fn forget(&self, offset: u64, length: u64) {
        if let Ok(file) = self.file() {
            super::cache::forget(&file, offset, length);
        }
    }

    /// Returns whether the file was truncated while it was mapped.
    pub fn is_lost(&self) -> bool {
        self.mapped().is_some_and(|mapping| mapping.is_lost())
    }

    /// Returns the open file. Fails with `ZT_IO` if it is one of many that was closed, and another or a changed file is at its path by now.
    pub fn file(&self) -> Result<FileRef<'_>> {
        self.handle.get()
    }

    /// Returns the file, unless it is one of many.
    pub fn kept(&self) -> Option<&Arc<OpenFile>> {
        match &self.handle {
            Handle::Kept(file) => Some(file),
            Handle::Reopened(_) => None,
        }
    }
}

impl ReadAt for FileSource {
    fn length(&self) -> u64 {
        self.length
    }

    #[cfg(target_os = "linux")]
    fn read_bulk(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        if buffer.len() >= super::cache::LONG {
            let file = self.file()?;
            if let Some(direct) = file.direct(|file| self.io().is_direct(file, self.length))
                && !super::cache::is_cached(&file, offset, buffer.len() as u64)
                && direct.read(offset, buffer)?
            {
                return self.check_length();
            }
        }
        self.read_at(offset, buffer, stop)
    }

    #[cfg(target_os = "linux")]
    fn hash(
        &self,
        windows: &MappedWindows,
        offset: u64,
        length: u64,
        hasher: &mut Hasher,
        stop: &Stop,
    ) -> Result<()> {
        // Uncached data is read faster by reads, and page faults over a network must be avoided.
        let mapped = length >= window::FROM && self.maps() && self.is_cached(offset, length);
        if !mapped {
            return hash_read(self, offset, length, hasher, stop);
        }
        let (at, whole) = windows.hash(&*self.file()?, self.length, offset, length, hasher);
        self.check_length()?;
        if !whole {
            let message = "read: the system could not bring in a page of the file";
            return Err(Error::new(Code::Io, message).at(at));
        }
        hash_read(self, at, offset.saturating_add(length) - at, hasher, stop)
    }

    #[cfg(target_os = "linux")]
    fn is_cached(&self, offset: u64, length: u64) -> bool {
        self.file().is_ok_and(|file| super::cache::is_cached(&file, offset, length))
    }

    #[cfg(target_os = "linux")]
    fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        if !super::cache::read_cached(&*self.file()?, offset, buffer) {
            return Ok(false);
        }
        self.check_length().map(|()| true)
    }

    fn identity(&self) -> Result<Identity> {
        let metadata = self.file()?.metadata().map_err(|error| Error::io("fstat", &error))?;
        Ok(Identity::of(&metadata))
    }

    fn costs(&self) -> Costs {
        Costs { in_flight: Costs::LOCAL.in_flight.max(work::cores()), ..Costs::LOCAL }
    }

    fn local(&self) -> Option<&FileSource> {
        Some(self)
    }

    fn check_length(&self) -> Result<()> {
        self.note_loss(self.measure())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _stop: &Stop) -> Result<()> {
        self.note_loss(read_at(&*self.file()?, offset, buffer))?;
        // A read concurrent with a truncation can return zeros: the kernel clears the truncated part of a page before releasing it, after
        // setting the new length.
        self.check_length()
    }
}

/// Fills `buffer` from `offset` on.
#[cfg(unix)]
pub fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let read = std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset);
    read.map_err(|error| failed_read(&error, offset))
}

/// Fills `buffer` from `offset` on.
#[cfg(windows)]
pub fn read_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> Result<()> {
    while !buffer.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, buffer, offset);
        match read.map_err(|error| failed_read(&error, offset))? {
            0 => return Err(failed_read(&std::io::ErrorKind::UnexpectedEof.into(), offset)),
            count => {
                offset += count as u64;
                buffer = &mut std::mem::take(&mut buffer)[count..];
            }
        }
    }
    Ok(())
}

/// Fails: the system opens no files.
#[cfg(not(any(unix, windows)))]
pub fn read_at(_file: &File, offset: u64, _buffer: &mut [u8]) -> Result<()> {
    Err(failed_read(&std::io::ErrorKind::Unsupported.into(), offset))
}

fn failed_read(error: &std::io::Error, offset: u64) -> Error {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return Error::new(Code::Truncated, "the file ends early: it was truncated while it was open")
            .at(offset);
    }
    Error::io("read", error).at(offset)
}

fn lost() -> Error {
    let message = "the file was truncated while it was mapped; lost data reads as zeros. Open it again";
    Error::new(Code::MappingLost, message)
}
