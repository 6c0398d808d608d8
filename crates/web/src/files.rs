//! Files whose bytes the host fetches. What a read misses is noted, and the host makes the call again with it.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::sources::owned::Owned;
use ztensor_core::sources::{Costs, ReadAt};
use ztensor_core::work::Stop;

/// Bytes at both ends of a file, which are fetched first: formats are detected from them.
const END: u64 = 64 << 10;
/// Bytes that are fetched at least for the second read of a call that misses some, and at most for one that needs less. Each further read
/// gets twice as many.
const AHEAD: u64 = 256 << 10;
const MAX_AHEAD: u64 = 16 << 20;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file, and the bytes of it that were fetched.
pub struct HostFile {
    length: u64,
    fetched: Mutex<Fetched>,
}

#[derive(Default)]
struct Fetched {
    /// By offset. Pieces may overlap.
    pieces: BTreeMap<u64, Owned>,
    /// The length of the longest piece.
    longest: u64,
    missing: Vec<(u64, u64)>,
    /// Number of times that bytes were missing since [`Host::forget`].
    misses: u32,
    /// Whether bytes are dropped when they were read.
    drains: bool,
}

impl Fetched {
    /// Returns the fetched bytes from `offset` on.
    fn from(&self, offset: u64) -> Option<&[u8]> {
        let first = offset.saturating_sub(self.longest);
        let covering = |(start, bytes): (&u64, &'_ Owned)| -> Option<usize> {
            usize::try_from(offset - start).ok().filter(|&from| from < bytes.len())
        };
        self.pieces.range(first..=offset).rev().find_map(|(start, bytes)| {
            let from = covering((start, bytes))?;
            bytes.get(from..)
        })
    }

    /// Copies fetched bytes into `buffer`. Returns the number of bytes before the first that is missing.
    fn copy(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let mut at = 0;
        while let Some(rest) = buffer.get_mut(at..).filter(|rest| !rest.is_empty()) {
            let Some(bytes) = self.from(offset + at as u64) else { break };
            let count = rest.len().min(bytes.len());
            rest[..count].copy_from_slice(&bytes[..count]);
            at += count;
        }
        at
    }
}

impl HostFile {
    fn new(length: u64) -> Self {
        let missing = if length <= 2 * END { vec![(0, length)] } else { vec![(0, END), (length - END, END)] };
        let missing = missing.into_iter().filter(|&(_, length)| length > 0).collect();
        Self { length, fetched: Mutex::new(Fetched { missing, ..Fetched::default() }) }
    }

    pub fn add(&self, offset: u64, bytes: Owned) {
        let mut fetched = lock(&self.fetched);
        fetched.longest = fetched.longest.max(bytes.len() as u64);
        fetched.pieces.insert(offset, bytes);
    }
}

impl ReadAt for HostFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn costs(&self) -> Costs {
        Costs { gap: 1 << 20, piece: 8 << 20, in_flight: 1 }
    }

    fn is_cached(&self, _offset: u64, _length: u64) -> bool {
        false
    }

    /// The bytes that a conversion copies are fetched before, and nothing between them. Other calls are made again with what they missed.
    #[cfg(feature = "write")]
    fn holds(&self, offset: u64, length: u64) -> bool {
        let fetched = lock(&self.fetched);
        let (mut at, end) = (offset, offset.saturating_add(length));
        while at < end {
            let Some(bytes) = fetched.from(at) else { return false };
            at += bytes.len() as u64;
        }
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _stop: &Stop) -> Result<()> {
        let length = buffer.len() as u64;
        if checked::end_within(offset, length, self.length).is_none() {
            let total = self.length;
            let message =
                format!("{length} bytes are needed at offset {offset}, but the source has {total} in total");
            return Err(Error::new(Code::Truncated, message).at(offset));
        }
        let mut fetched = lock(&self.fetched);
        let found = fetched.copy(offset, buffer) as u64;
        if found == length {
            if fetched.drains {
                let end = offset + length;
                while let Some(first) = fetched.pieces.first_entry()
                    && first.key() + first.get().len() as u64 <= end
                {
                    first.remove();
                }
            }
            return Ok(());
        }
        let start = offset + found;
        let ahead = fetched.misses.checked_sub(1).map_or(0, |more| (AHEAD << more.min(16)).min(MAX_AHEAD));
        fetched.misses += 1;
        fetched.missing.push((start, (length - found).max(ahead).min(self.length - start)));
        Err(Error::new(Code::Io, "these bytes are not fetched yet"))
    }
}

/// What the host has at a path.
enum Entry {
    File(Arc<HostFile>),
    /// The names in it.
    Folder(Vec<String>),
    Nothing,
}

/// The files that the host was asked for.
#[derive(Default)]
pub struct Host {
    entries: Mutex<BTreeMap<String, Entry>>,
    unknown: Mutex<BTreeSet<String>>,
}

/// A range of a file.
pub type Missing = (String, u64, u64);

impl Host {
    /// Adds the length of a file, or that there is none.
    pub fn tell(&self, name: &str, length: Option<u64>) {
        let entry = length.map_or(Entry::Nothing, |length| Entry::File(Arc::new(HostFile::new(length))));
        lock(&self.entries).insert(name.to_owned(), entry);
    }

    /// Adds the names in a folder.
    pub fn tell_folder(&self, name: &str, names: Vec<String>) {
        lock(&self.entries).insert(name.to_owned(), Entry::Folder(names));
    }

    pub fn file(&self, name: &str) -> Option<Arc<HostFile>> {
        match lock(&self.entries).get(name) {
            Some(Entry::File(file)) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    /// Returns the names in a folder.
    fn names(&self, folder: &Path) -> Option<Vec<String>> {
        match lock(&self.entries).get(&*folder.to_string_lossy()) {
            Some(Entry::Folder(names)) => Some(names.clone()),
            _ => None,
        }
    }

    /// Asks for a folder within another one that the host has.
    fn ask_within_folder(&self, folder: &Path) {
        let name = folder.to_string_lossy();
        let entries = lock(&self.entries);
        let is_within = folder
            .ancestors()
            .skip(1)
            .any(|parent| matches!(entries.get(&*parent.to_string_lossy()), Some(Entry::Folder(_))));
        if is_within && !entries.contains_key(&*name) {
            lock(&self.unknown).insert(name.into_owned());
        }
    }

    /// Returns what was missing since the last call: files, and ranges of files.
    pub fn missing(&self) -> (BTreeSet<String>, Vec<Missing>) {
        let names = std::mem::take(&mut *lock(&self.unknown));
        let mut ranges = Vec::new();
        for (name, entry) in lock(&self.entries).iter() {
            let Entry::File(file) = entry else { continue };
            let missing = std::mem::take(&mut lock(&file.fetched).missing);
            ranges.extend(missing.into_iter().map(|(offset, length)| (name.clone(), offset, length)));
        }
        (names, ranges)
    }

    /// Drops bytes when they were read, until [`Host::forget`].
    #[cfg(feature = "write")]
    pub fn drain(&self) {
        for entry in lock(&self.entries).values() {
            if let Entry::File(file) = entry {
                lock(&file.fetched).drains = true;
            }
        }
    }

    /// Returns whether something was missing since the last call of [`Host::missing`].
    #[cfg(feature = "write")]
    pub fn is_missing(&self) -> bool {
        let misses =
            |entry: &Entry| matches!(entry, Entry::File(file) if !lock(&file.fetched).missing.is_empty());
        !lock(&self.unknown).is_empty() || lock(&self.entries).values().any(misses)
    }

    /// Drops the fetched bytes.
    pub fn forget(&self) {
        for entry in lock(&self.entries).values() {
            if let Entry::File(file) = entry {
                *lock(&file.fetched) = Fetched::default();
            }
        }
    }
}

/// The files as the core reads them.
pub struct HostFiles(pub Arc<Host>);

impl Filesystem for HostFiles {
    fn open(&self, path: &Path, _stop: &Stop) -> Result<Arc<dyn ReadAt>> {
        let name = path.to_string_lossy();
        let entries = lock(&self.0.entries);
        match entries.get(&*name) {
            Some(Entry::File(file)) => Ok(Arc::clone(file) as Arc<dyn ReadAt>),
            Some(Entry::Folder(_)) => Err(Error::new(Code::Io, "read: Is a directory")),
            // As the system says of a folder on disk.
            Some(Entry::Nothing) if entries.values().any(|entry| matches!(entry, Entry::Folder(_))) => {
                Err(Error::new(Code::Io, "open: No such file or directory").absent())
            }
            Some(Entry::Nothing) => {
                let message = format!(
                    "{name:?} is required, but the source has no file with that name: open both as a list, open their folder, or \
                     return it from sibling(name)"
                );
                Err(Error::new(Code::Io, message).absent())
            }
            None => {
                lock(&self.0.unknown).insert(name.into_owned());
                Err(Error::new(Code::Io, "the length of the file is not known yet").absent())
            }
        }
    }

    fn is_folder(&self, path: &Path, _stop: &Stop) -> bool {
        self.0.names(path).is_some()
    }

    fn list(&self, folder: &Path, max: usize, _stop: &Stop) -> Result<Vec<OsString>> {
        let no_folder =
            || Error::new(Code::Io, "a source that JavaScript reads has no folder that can be listed");
        self.0.ask_within_folder(folder);
        let names = self.0.names(folder).ok_or_else(no_folder)?;
        Ok(names.into_iter().take(max.saturating_add(1)).map(OsString::from).collect())
    }

    fn is_file(&self, path: &Path) -> bool {
        let folder = path.parent().and_then(|folder| self.0.names(folder));
        let name = path.file_name().unwrap_or_default();
        folder.is_some_and(|names| names.iter().any(|one| one.as_str() == name))
    }
}
