//! Copies of far files in a folder of this machine. A copy is a sparse file of the full length, and a table with the digest of each
//! block that was written. The table only says where to look: a block counts once this process has read it and its digest fits, so
//! that a process that was killed, a lost power supply, a cut or a flipped bit cost a request and nothing else.
//!
//! | module | what it does |
//! |---|---|
//! | `key` | which copy is of which file and version |
//! | `dir` | the folder itself, and who may write to it |
//! | `folder` | opens copies, and removes those that were used least |
//! | `table` | the digests of blocks |
//! | `entry` | one open copy |

mod dir;
mod entry;
mod folder;
mod key;
mod table;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ztensor_core::checked;
use ztensor_core::codecs::digest::Hasher;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::blocks::SMALL;
use ztensor_core::sources::file::FileSource;
use ztensor_core::sources::files::Identity;
use ztensor_core::sources::io::Io;
use ztensor_core::sources::{Costs, MappedWindows, ReadAt};
use ztensor_core::work::Stop;

use crate::options::Options;
use entry::{Claim, Entry};
use folder::Folder;
pub use key::place;
use table::{BLOCK, blocks};

/// Bytes of a file beyond which no copy is kept, so that what is kept of each block in memory comes to 2 MiB: 16 TiB, which is also
/// the longest file of ext4.
const LONGEST: u64 = 1 << 44;

/// Of the bound of the cache, after which what was written is held against it.
const SHARE: u64 = 16;

/// A far file and its copy.
struct Cached {
    source: Box<dyn ReadAt>,
    folder: Folder,
    /// Of the copy; why there is none otherwise.
    name: Result<String>,
    entry: OnceLock<Entry>,
    /// Held while the copy is opened.
    opening: Mutex<()>,
    /// Whether the copy cannot be written, so that reads do not try again.
    is_off: AtomicBool,
    io: OnceLock<Io>,
    /// Bytes since the copies were last held against their bound.
    written: AtomicU64,
}

/// A source with the copy that the options ask for. `place` tells the file from all others and holds no credentials;
/// `version` changes with each change of its bytes, and is `None` where nothing does.
pub fn through(
    source: impl ReadAt + 'static,
    place: &str,
    version: Option<&[u8]>,
    options: &Options,
) -> Arc<dyn ReadAt> {
    let Some(path) = &options.cache else { return Arc::new(source) };
    let length = source.length();
    let name = match version {
        Some(_) if length > LONGEST => {
            let message =
                format!("the file has {length} bytes, and copies are kept of up to {LONGEST}: await load()");
            Err(Error::new(Code::Limit, message))
        }
        Some(version) => Ok(key::name(place, version, length)),
        None => {
            let message = "no copy is kept of the file, since the server does not tell its versions apart (it sends neither a strong ETag nor Last-Modified): await load()";
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
    /// The copy, opened. `None` where there is none and none is to be made.
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

    /// The copy for a read, if there is one or it gets whole blocks by that. Small reads are of an index, for which no copy is opened:
    /// a set of thousands of files would take as many descriptors.
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

    /// Writes blocks that begin at `start`, the last of which may be the short one of the file.
    fn put(&self, entry: &Entry, start: u64, bytes: &[u8]) -> Result<()> {
        entry.put(start, bytes, self.folder.most())?;
        let written = self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if written > self.folder.most() / SHARE {
            self.evict();
        }
        Ok(())
    }

    fn evict(&self) {
        if self.written.swap(0, Ordering::Relaxed) > 0 {
            self.folder.evict();
        }
    }

    /// Keeps the whole blocks of what was read.
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

    /// Brings blocks that nobody else brings into the copy: those whose digests fit are there.
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
                    entry.check_space(length, self.folder.most())?;
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
            return Err(Error::new(Code::Truncated, "a range beyond the end of the file").at(offset));
        }
        let Some(entry) = self.open(true)? else { return Ok(()) };
        entry.check_length()?;
        let most = (self.costs().piece as u64 / BLOCK).max(1);
        let (mut number, end) = (offset / BLOCK, blocks(offset, length).end);
        while number < end {
            stop.check()?;
            match entry.claim(number..end.min(number.saturating_add(most))) {
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
            let is_kept = entry.holds(at / BLOCK);
            // As many blocks as are kept, or are not.
            let mut to = at;
            while to < end && (to == at || entry.holds(to / BLOCK) == is_kept) {
                to = (to - to % BLOCK + BLOCK).min(end);
            }
            let count = usize::try_from(to - at).unwrap_or(rest.len()).min(rest.len());
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(count);
            // A copy that cannot be read is none.
            if !is_kept || entry.data().read_at(at, part, stop).is_err() {
                self.source.read_at(at, part, stop)?;
                self.pass(entry, at, part);
            }
            (at, rest) = (to, behind);
        }
        Ok(())
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
