//! A file that stays open: read at positions, mapped when somebody first asks for an alias.
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::files::Identity;
use super::mapping::Mapping;
use super::{ReadAt, fault};
use crate::error::{Code, Error, Result};

/// An open regular file.
pub struct FileSource {
    file: File,
    length: u64,
    map: Mutex<Map>,
}

enum Map {
    NotYet,
    Made(Arc<Mapping>),
    /// The system refused (commit limit, `RLIMIT_AS`, 32 bits); positional reads serve instead.
    Refused,
    Closed,
}

impl FileSource {
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, OpenOptions::new().read(true))
    }

    /// The same, of a file that will be written to as well.
    pub fn open_writable(path: &Path) -> Result<Self> {
        Self::open_with(path, OpenOptions::new().read(true).write(true))
    }

    fn open_with(path: &Path, options: &mut OpenOptions) -> Result<Self> {
        // A named pipe must not block the opener before it is known to be none.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK);
        let file = options.open(path).map_err(|error| Error::io("open", &error))?;
        let metadata = file.metadata().map_err(|error| Error::io("fstat", &error))?;
        if metadata.is_dir() {
            return Err(Error::io("read", &is_a_directory()));
        }
        if !metadata.is_file() {
            return Err(Error::new(
                Code::Io,
                "not a regular file: pipes and devices cannot be mapped; copy it to a file",
            ));
        }
        Ok(Self { file, length: metadata.len(), map: Mutex::new(Map::NotYet) })
    }

    /// The mapping, made at the first call. `None`: the system refuses to map this file.
    pub fn mapping(&self) -> Result<Option<Arc<Mapping>>> {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        match &*map {
            Map::Made(mapping) if mapping.is_lost() => return Err(lost()),
            Map::Made(mapping) => {
                // Somebody may have listened to the signal meanwhile, which replaces the handler.
                fault::arm();
                return Ok(Some(Arc::clone(mapping)));
            }
            Map::Refused => return Ok(None),
            Map::Closed => return Err(Error::new(Code::Closed, "the file is closed")),
            Map::NotYet => {}
        }
        self.check_length()?;
        let made = Mapping::new(&self.file, self.length).map(Arc::new);
        *map = made.as_ref().map_or(Map::Refused, |mapping| Map::Made(Arc::clone(mapping)));
        Ok(made)
    }

    /// Lets go of this file's share of the mapping. Positional reads still work for work under way.
    pub fn release_mapping(&self) {
        *self.map.lock().unwrap_or_else(PoisonError::into_inner) = Map::Closed;
    }

    /// The share of the mapping that exists already, without making one.
    pub fn mapped(&self) -> Option<Arc<Mapping>> {
        match &*self.map.lock().unwrap_or_else(PoisonError::into_inner) {
            Map::Made(mapping) => Some(Arc::clone(mapping)),
            _ => None,
        }
    }

    /// What tells the file from another one that may come under its name.
    pub fn identity(&self) -> Result<Identity> {
        let metadata = self.file.metadata().map_err(|error| Error::io("fstat", &error))?;
        Ok(Identity::of(&metadata))
    }

    /// Whether the file was cut short while it was mapped.
    pub fn is_lost(&self) -> bool {
        self.mapped().is_some_and(|mapping| mapping.is_lost())
    }

    pub fn file(&self) -> &File {
        &self.file
    }
}

impl ReadAt for FileSource {
    fn length(&self) -> u64 {
        self.length
    }

    fn check_length(&self) -> Result<()> {
        let now = self.file.metadata().map_err(|error| Error::io("fstat", &error))?.len();
        if now < self.length {
            let message = format!("the file shrank from {} to {now} bytes since it was opened", self.length);
            return Err(Error::new(Code::Truncated, message).at(now));
        }
        Ok(())
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset);
        read.map_err(|error| failed_read(&error, offset))?;
        // A read that races with a truncation can give zeros: the kernel clears what is cut off of a page before it
        // lets go of it, after it has set the new length.
        self.check_length()
    }

    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            let read = std::os::windows::fs::FileExt::seek_read(&self.file, buffer, offset);
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
}

fn failed_read(error: &std::io::Error, offset: u64) -> Error {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return Error::new(Code::Truncated, "the file ends early: it was cut while it was open").at(offset);
    }
    Error::io("read", error).at(offset)
}

fn lost() -> Error {
    let message = "the file was cut short while it was mapped; what was lost reads as zeros. Open it again";
    Error::new(Code::MappingLost, message)
}

fn is_a_directory() -> std::io::Error {
    #[cfg(unix)]
    return std::io::Error::from_raw_os_error(libc::EISDIR);
    #[cfg(not(unix))]
    std::io::ErrorKind::IsADirectory.into()
}
