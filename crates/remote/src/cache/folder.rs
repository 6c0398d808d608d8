//! The cache folder. It and its files belong only to this user, links in it are not followed, and all names are chosen by this module.
//! Anybody who can write to the folder could substitute copies, so such a folder is not used.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ztensor_core::error::{Code, Error, Result};

use super::dir::{Dir, is_ours};
use super::key;
use super::positioned::write_at;
use super::table::{self, Table};

/// Maximum files of the folder that are considered for eviction.
const MAX_LISTED: usize = 1 << 20;
/// Minimum age of a temporary file that is considered abandoned by a killed process.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Attempts to open a copy that other processes create and remove concurrently.
const ATTEMPTS: usize = 8;

pub struct Folder {
    path: PathBuf,
    /// Maximum disk space of all copies.
    max: u64,
}

fn data_of(name: &str) -> String {
    format!("{name}.data")
}

fn table_of(name: &str) -> String {
    format!("{name}.blocks")
}

impl Folder {
    pub fn new(path: PathBuf, max: u64) -> Self {
        Self { path, max }
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the path of a copy.
    pub fn data(&self, name: &str) -> PathBuf {
        self.path.join(data_of(name))
    }

    fn failed(&self, error: &io::Error) -> Error {
        let text = error.to_string();
        let text = text.rsplit_once(" (os error ").map_or(&*text, |(words, _)| words);
        let message = format!(
            "the cache '{}' cannot be used ({text}): choose another folder (remote: {{ cache }}), or await load(), which needs no cache",
            self.path.display()
        );
        Error::new(Code::Io, message).file(&self.path)
    }

    /// Opens the folder. `None` if it does not exist and `make` is false.
    fn dir(&self, make: bool) -> Result<Option<Dir>> {
        let opened = Dir::open(&self.path, make).map_err(|error| self.failed(&error))?;
        let Some(dir) = opened else { return Ok(None) };
        if let Some(why) = dir.unsafe_for(&self.path) {
            let message = format!(
                "the cache '{}' is not used, since {why}; or choose another folder (remote: {{ cache }}), such as a new one in it, or await load(), which needs no cache",
                self.path.display()
            );
            return Err(Error::new(Code::Io, message).file(&self.path));
        }
        Ok(Some(dir))
    }

    /// Opens a copy and its table. `None` if it does not exist and `make` is false.
    pub fn open(&self, name: &str, length: u64, make: bool) -> Result<Option<(File, Table)>> {
        let Some(dir) = self.dir(make)? else { return Ok(None) };
        let data = one(&dir, &data_of(name), make, length, &|file| file.set_len(length));
        let Some(data) = data.map_err(|error| self.failed(&error))? else { return Ok(None) };
        let prepare = |file: &File| {
            write_at(file, &table::header(name, length), 0)?;
            file.set_len(table::size(length))
        };
        let path = table_of(name);
        let mut opened = one(&dir, &path, make, table::size(length), &prepare);
        // A table with an unexpected header is recreated.
        if let Ok(Some(file)) = &opened
            && file.try_clone().ok().and_then(|file| Table::of(file, name, length)).is_none()
        {
            opened = if make { self::make(&dir, &path, &prepare, true).map(Some) } else { Ok(None) };
        }
        let opened = opened.map_err(|error| self.failed(&error))?;
        Ok(opened.and_then(|file| Table::of(file, name, length)).map(|table| (data, table)))
    }

    /// Evicts the least recently used copies until all fit within the limit. Copies open elsewhere remain usable until they are closed.
    /// Does not wait: if an eviction is already in progress, it suffices.
    pub fn evict(&self) {
        let Ok(Some(dir)) = self.dir(false) else { return };
        let Ok(lock) = dir.file("lock", true, true) else { return };
        if !is_locked(&lock) {
            return;
        }
        let Ok(entries) = dir.names(MAX_LISTED) else { return };
        let mut copies = HashMap::<String, (SystemTime, u64)>::new();
        for file in entries {
            let Ok((modified, allocated)) = dir.facts(&file) else { continue };
            if is_new(&file) && modified.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = dir.remove(&file);
            }
            let Some((name, kind)) = file.split_once('.').filter(|(name, _)| key::is_name(name)) else {
                continue;
            };
            if !matches!(kind, "data" | "blocks") {
                continue;
            }
            let (used, bytes) = copies.entry(name.to_owned()).or_insert((SystemTime::UNIX_EPOCH, 0));
            *bytes = bytes.saturating_add(allocated);
            if kind == "blocks" {
                *used = modified;
            }
        }
        let mut total = copies.values().fold(0, |total: u64, (_, bytes)| total.saturating_add(*bytes));
        let mut oldest: Vec<_> =
            copies.into_iter().map(|(name, (used, bytes))| (used, name, bytes)).collect();
        oldest.sort();
        for (_, name, bytes) in oldest {
            if total <= self.max {
                break;
            }
            // Windows retains mapped files.
            if dir.remove(&data_of(&name)).is_ok_and(|()| dir.remove(&table_of(&name)).is_ok()) {
                total -= bytes;
            }
        }
    }
}

/// Opens a file with a length, or creates it. An invalid file is replaced and never repaired: readers that have it open would see zeros.
fn one(
    dir: &Dir,
    name: &str,
    make: bool,
    length: u64,
    prepare: &dyn Fn(&File) -> io::Result<()>,
) -> io::Result<Option<File>> {
    for attempt in 0..ATTEMPTS {
        let opened = match dir.file(name, true, false) {
            // An existing file may still be useful if nothing can be written.
            Err(error)
                if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                dir.file(name, false, false)
            }
            opened => opened,
        };
        let replace = match opened {
            Ok(file) => {
                let metadata = file.metadata()?;
                if is_ours(&metadata, length) {
                    return Ok(Some(file));
                }
                // If names are created by links, a new file has two of them for a moment.
                if make && links(&metadata) == 2 && attempt + 1 < ATTEMPTS {
                    std::thread::yield_now();
                    continue;
                }
                true
            }
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(_) if dir.is_link(name) || !make => true,
            Err(error) => return Err(error),
        };
        if !make {
            return Ok(None);
        }
        match self::make(dir, name, prepare, replace) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            done => return done.map(Some),
        }
    }
    Err(io::Error::other("other processes repeatedly create and remove it"))
}

/// Creates a file that appears atomically.
fn make(dir: &Dir, name: &str, prepare: &dyn Fn(&File) -> io::Result<()>, replace: bool) -> io::Result<File> {
    let number = RandomState::new().hash_one(std::process::id());
    let new = format!("{number:016x}.new");
    let file = dir.new_file(&new)?;
    let named = prepare(&file).and_then(|()| {
        if replace {
            return dir.rename(&new, name);
        }
        match dir.name(&new, name) {
            // Some file systems do not support this; then the last one wins.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => dir.rename(&new, name),
            done => done,
        }
    });
    if named.is_err() {
        let _ = dir.remove(&new);
    }
    named.map(|()| file)
}

fn links(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::nlink(metadata);
    #[cfg(not(unix))]
    {
        let _ = metadata;
        1
    }
}

/// Returns the disk space of a file.
pub fn allocated(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(metadata).saturating_mul(512);
    #[cfg(not(unix))]
    metadata.len()
}

fn is_new(name: &str) -> bool {
    name.strip_suffix(".new")
        .is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(unix)]
fn is_locked(file: &File) -> bool {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Concurrent evictions are harmless there.
#[cfg(not(unix))]
fn is_locked(_file: &File) -> bool {
    true
}
