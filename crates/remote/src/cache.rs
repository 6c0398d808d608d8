//! Cached copies of remote files in a local folder. A copy is a sparse file of the full length, and a table with the digest of each block
//! that was written. The table is only a hint: a block is used once this process has read it and its digest matches, so that a killed
//! process, a power failure, a truncation or a flipped bit costs a request and nothing else.
//!
//! | module | what it does |
//! |---|---|
//! | `key` | names copies by file and version |
//! | `dir` | the folder itself, and who may write to it |
//! | `folder` | opens copies, and evicts the least recently used ones |
//! | `table` | the digests of blocks |
//! | `entry` | one open copy |

mod dir;
mod entry;
mod folder;
mod key;
mod positioned;
mod table;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ztensor_core::checked;
use ztensor_core::codecs::digest::Hasher;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::blocks::SMALL;
use ztensor_core::sources::file::FileSource;
use ztensor_core::sources::identity::Identity;
use ztensor_core::sources::io::Io;
use ztensor_core::sources::{Costs, MappedWindows, ReadAt};
use ztensor_core::work::Stop;

use crate::options::Options;
use entry::{Claim, Entry};
use folder::Folder;
pub use key::location;
use table::{BLOCK, blocks};

/// Maximum length of a file that is cached, which limits the memory per copy for block state to 2 MiB: 16 TiB, which is also the maximum
/// file length of ext4.
const LONGEST: u64 = 1 << 44;

/// The fraction of the maximum cache size after which eviction is considered again.
const SHARE: u64 = 16;

/// A remote file and its cached copy.
struct Cached {
    source: Box<dyn ReadAt>,
    folder: Folder,
    /// Name of the copy, or why there is none.
    name: Result<String>,
    entry: OnceLock<Entry>,
    /// Held while the copy is being opened.
    opening: Mutex<()>,
    /// Whether the copy cannot be written, so that reads do not retry.
    is_off: AtomicBool,
    io: OnceLock<Io>,
    /// Bytes written since the last eviction check.
    written: AtomicU64,
}

/// Wraps a source with the cache requested by the options. `location` identifies the file and contains no credentials; `version` changes
/// whenever its bytes do, and is `None` if the server provides no version.
pub fn through(
    source: impl ReadAt + 'static,
    location: &str,
    version: Option<&[u8]>,
    options: &Options,
) -> Arc<dyn ReadAt> {
    let Some(path) = &options.cache else { return Arc::new(source) };
    let length = source.length();
    let name = match version {
        Some(_) if length > LONGEST => {
            let message = format!(
                "the file has {length} bytes, but only files of up to {LONGEST} bytes are cached: await load()"
            );
            Err(Error::new(Code::Limit, message))
        }
        Some(version) => Ok(key::name(location, version, length)),
        None => {
            let message = "the file is not cached, because the server does not identify its versions (it sends neither a strong ETag nor Last-Modified): await load()";
            Err(Error::new(Code::NotLocal, message))
        }
    };
    Arc::new(Cached {
        source: Box::new(source),
        folder: Folder::new(path.clone(), options.max_cache_bytes),
        name,
        entry: OnceLock::new(),
        opening: Mutex::default(),
        is_off: AtomicBool::default(),
        io: OnceLock::new(),
        written: AtomicU64::default(),
    })
}

impl Cached {
    /// Returns the open copy. `None` if it does not exist and `make` is false.
    fn open(&self, make: bool) -> Result<Option<&Entry>> {
        if let Some(entry) = self.entry.get() {
            return Ok(Some(entry));
        }
        let name = self.name.as_ref().map_err(Clone::clone)?;
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = self.entry.get() {
            return Ok(Some(entry));
        }
        let Some(entry) = Entry::open(&self.folder, name, self.source.length(), make)? else {
            return Ok(None);
        };
        entry.data().set_io(self.io.get().copied().unwrap_or_default());
        self.folder.evict();
        Ok(Some(self.entry.get_or_init(|| entry)))
    }

    /// Returns the copy for a read, if it exists or would gain whole blocks. Small reads belong to an index, for which no copy is opened: a
    /// set of thousands of files would take as many descriptors.
    fn for_read(&self, offset: u64, length: u64) -> Option<&Entry> {
        if let Some(entry) = self.entry.get() {
            return Some(entry);
        }
        if length <= SMALL as u64 || self.is_off.load(Ordering::Relaxed) || self.name.is_err() {
            return None;
        }
        let end = offset.saturating_add(length);
        let has_whole = offset.next_multiple_of(BLOCK).saturating_add(BLOCK) <= end
            || (end == self.source.length() && offset.next_multiple_of(BLOCK) < end);
        self.open(has_whole).unwrap_or_else(|_| {
            self.is_off.store(true, Ordering::Relaxed);
            None
        })
    }

    /// Writes blocks that begin at `start`, the last of which may be the short last block of the file.
    fn put(&self, entry: &Entry, start: u64, bytes: &[u8]) -> Result<()> {
        entry.put(start, bytes, self.folder.max())?;
        let written = self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if written > self.folder.max() / SHARE {
            self.evict();
        }
        Ok(())
    }

    fn evict(&self) {
        if self.written.swap(0, Ordering::Relaxed) > 0 {
            self.folder.evict();
        }
    }

    /// Caches the whole blocks of what was read.
    fn pass(&self, entry: &Entry, offset: u64, bytes: &[u8]) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let start = offset.next_multiple_of(BLOCK);
        let end = offset.saturating_add(bytes.len() as u64);
        let end = if end == self.source.length() { end } else { end - end % BLOCK };
        let whole =
            usize::try_from(start - offset).ok().zip(usize::try_from(end.saturating_sub(offset)).ok());
        let whole = whole.and_then(|(from, to)| bytes.get(from..to)).filter(|whole| !whole.is_empty());
        if whole.is_some_and(|whole| self.put(entry, start, whole).is_err()) {
            self.is_off.store(true, Ordering::Relaxed);
        }
    }

    /// Fetches blocks into the copy unless another thread does; blocks with matching digests are skipped.
    fn bring(&self, entry: &Entry, numbers: std::ops::Range<u64>, stop: &Stop) -> Result<()> {
        let mut missing: Option<u64> = None;
        for number in numbers.start..=numbers.end {
            stop.check()?;
            let is_missing = number < numbers.end && !entry.holds(number);
            match missing {
                None if is_missing => missing = Some(number),
                Some(first) if !is_missing => {
                    let start = first * BLOCK;
                    let length = (number * BLOCK).min(self.source.length()) - start;
                    entry.check_space(length, self.folder.max())?;
                    let bytes = self.source.read_vec(start, length, stop)?;
                    self.put(entry, start, &bytes)?;
                    missing = None;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl ReadAt for Cached {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn identity(&self) -> Result<Identity> {
        self.source.identity()
    }

    fn costs(&self) -> Costs {
        self.source.costs()
    }

    fn copy(&self) -> Option<&FileSource> {
        self.entry.get().map(Entry::data)
    }

    fn copied(&self, offset: u64, length: u64) -> Option<&FileSource> {
        checked::end_within(offset, length, self.length())?;
        let entry = self.entry.get()?;
        blocks(offset, length).all(|number| entry.is_there(number)).then(|| entry.data())
    }

    fn keep(&self, offset: u64, length: u64, stop: &Stop) -> Result<()> {
        if checked::end_within(offset, length, self.length()).is_none() {
            return Err(Error::new(Code::Truncated, "a range extends past the end of the file").at(offset));
        }
        let Some(entry) = self.open(true)? else { return Ok(()) };
        entry.check_length()?;
        let max = (self.costs().piece as u64 / BLOCK).max(1);
        let (mut number, end) = (offset / BLOCK, blocks(offset, length).end);
        while number < end {
            stop.check()?;
            match entry.claim(number..end.min(number.saturating_add(max))) {
                Claim::There => number += 1,
                Claim::Taken => {}
                Claim::Mine(claimed) => {
                    self.bring(entry, claimed.numbers(), stop)?;
                    number = claimed.numbers().end;
                }
            }
        }
        Ok(())
    }

    fn settle(&self) {
        if let Some(entry) = self.entry.get() {
            entry.touch();
        }
        self.evict();
    }

    fn set_io(&self, io: Io) {
        let _ = self.io.set(io);
        if let Some(entry) = self.entry.get() {
            entry.data().set_io(io);
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        let length = buffer.len() as u64;
        let within = checked::end_within(offset, length, self.length()).is_some();
        let Some(entry) = self.for_read(offset, length).filter(|_| within) else {
            return self.source.read_at(offset, buffer, stop);
        };
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let end = at.saturating_add(rest.len() as u64);
            let is_cached = entry.holds(at / BLOCK);
            // Extend the run as long as blocks are equally cached or not.
            let mut to = at;
            while to < end && (to == at || entry.holds(to / BLOCK) == is_cached) {
                to = (to - to % BLOCK + BLOCK).min(end);
            }
            let count = usize::try_from(to - at).unwrap_or(rest.len()).min(rest.len());
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(count);
            // A copy that cannot be read is treated as missing.
            if !is_cached || entry.data().read_at(at, part, stop).is_err() {
                self.source.read_at(at, part, stop)?;
                self.pass(entry, at, part);
            }
            (at, rest) = (to, behind);
        }
        Ok(())
    }

    fn read_through(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        let can_keep = self.name.is_ok() && !self.is_off.load(Ordering::Relaxed);
        if can_keep && self.keep(offset, buffer.len() as u64, stop).is_err() {
            stop.check()?;
            self.is_off.store(true, Ordering::Relaxed);
        }
        self.read_at(offset, buffer, stop)
    }

    fn hash(
        &self,
        _stretches: &MappedWindows,
        offset: u64,
        length: u64,
        hasher: &mut Hasher,
        stop: &Stop,
    ) -> Result<()> {
        let piece = (self.costs().piece as u64).max(1);
        let (mut at, end) = (offset, offset.saturating_add(length));
        while at < end {
            let bytes = self.read_vec(at, piece.min(end - at), stop)?;
            hasher.update(&bytes);
            at += bytes.len() as u64;
        }
        Ok(())
    }

    fn is_cached(&self, offset: u64, length: u64) -> bool {
        self.copied(offset, length).is_some() || self.source.is_cached(offset, length)
    }
}
