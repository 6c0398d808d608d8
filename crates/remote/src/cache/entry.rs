//! An open cached copy: which of its blocks are present, and which are being fetched.

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ztensor_core::codecs::digest::xxh3;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::file::FileSource;
use ztensor_core::work::Stop;

use super::folder::{self, Folder};
use super::positioned;
use super::table::{BLOCK, Table};

/// How often a thread that waits for another's block checks its stop flag.
const LOOK: Duration = Duration::from_millis(20);

pub struct Entry {
    data: FileSource,
    table: Table,
    /// The path of the copy, for error messages.
    path: PathBuf,
    /// A bit for each block whose digest was verified in this process.
    there: Vec<AtomicU64>,
    claimed: Mutex<HashSet<u64>>,
    freed: Condvar,
}

/// The result of claiming a block.
pub enum Claim<'e> {
    /// The block is present.
    There,
    /// Another thread is fetching the block.
    Taken,
    Mine(Claimed<'e>),
}

/// Blocks that one thread fetches.
pub struct Claimed<'e> {
    entry: &'e Entry,
    numbers: Range<u64>,
}

impl Claimed<'_> {
    pub fn numbers(&self) -> Range<u64> {
        self.numbers.clone()
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut claimed = self.entry.claimed();
        for number in self.numbers() {
            claimed.remove(&number);
        }
        self.entry.freed.notify_all();
    }
}

impl Entry {
    /// Opens a copy. `None` if it does not exist and `make` is false.
    pub fn open(folder: &Folder, name: &str, length: u64, make: bool) -> Result<Option<Self>> {
        let Some((data, table)) = folder.open(name, length, make)? else { return Ok(None) };
        let words = length.div_ceil(BLOCK).div_ceil(64);
        let mut there = Vec::new();
        there.resize_with(usize::try_from(words).unwrap_or(0), AtomicU64::default);
        let path = folder.data(name);
        let data = FileSource::of(data).map_err(|error| error.file(&path))?;
        let entry = Self { data, table, path, there, claimed: Mutex::default(), freed: Condvar::new() };
        entry.touch();
        Ok(Some(entry))
    }

    pub fn data(&self) -> &FileSource {
        &self.data
    }

    /// Records that the copy was used now.
    pub fn touch(&self) {
        let _ = self.table.file.set_modified(SystemTime::now());
    }

    fn claimed(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn word(&self, number: u64) -> Option<(&AtomicU64, u64)> {
        Some((self.there.get(usize::try_from(number / 64).ok()?)?, 1 << (number % 64)))
    }

    /// Returns whether a block is known to be present.
    pub fn is_there(&self, number: u64) -> bool {
        self.word(number).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    fn mark(&self, number: u64) {
        if let Some((word, bit)) = self.word(number) {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// Returns whether a block is present, reading and verifying it on first use.
    pub fn holds(&self, number: u64) -> bool {
        if self.is_there(number) {
            return true;
        }
        let Some(digest) = self.table.digest(number) else { return false };
        let start = number.saturating_mul(BLOCK);
        let length = self.data.length().saturating_sub(start).min(BLOCK);
        let holds =
            self.data.read_vec(start, length, Stop::never()).is_ok_and(|bytes| xxh3(&bytes) == digest);
        if holds {
            self.mark(number);
        }
        holds
    }

    /// Claims the first of some blocks, and those after it that are missing and not being fetched.
    pub fn claim(&self, numbers: Range<u64>) -> Claim<'_> {
        let first = numbers.start;
        let mut claimed = self.claimed();
        if self.is_there(first) {
            return Claim::There;
        }
        if claimed.contains(&first) {
            drop(self.freed.wait_timeout(claimed, LOOK).unwrap_or_else(PoisonError::into_inner));
            return Claim::Taken;
        }
        let is_free = |number: &u64| !claimed.contains(number) && !self.is_there(*number);
        let end = first + numbers.take_while(is_free).count() as u64;
        claimed.extend(first..end);
        Claim::Mine(Claimed { entry: self, numbers: first..end })
    }

    /// Fails if the copy was truncated since it was opened: writing to it would fill the gap with zeros.
    pub fn check_length(&self) -> Result<()> {
        self.data.check_length().map_err(|_| {
            let message = format!(
                "the copy of the file in '{}' was truncated while it was open: close the file and open its URL again to fetch it again",
                self.path.display()
            );
            Error::new(Code::Io, message).file(&self.path)
        })
    }

    /// Fails if this many more bytes exceed the maximum size of the cache.
    pub fn check_space(&self, bytes: u64, max: u64) -> Result<()> {
        let held = self.data.file()?.metadata().map_or(0, |metadata| folder::allocated(&metadata));
        if held.saturating_add(bytes) > max {
            let message = format!("the cache is limited to {max} bytes, and this file alone needs more");
            return Err(Error::new(Code::Limit, message).option("remote.maxCacheBytes"));
        }
        Ok(())
    }

    /// Writes blocks that begin at `start`, and records their digests.
    pub fn put(&self, start: u64, bytes: &[u8], max: u64) -> Result<()> {
        self.check_space(bytes.len() as u64, max)?;
        self.check_length()?;
        let failed = |error: &std::io::Error| {
            let reason = error.to_string();
            let reason = reason.rsplit_once(" (os error ").map_or(&*reason, |(words, _)| words);
            let message = format!(
                "the copy of the file cannot be written to the cache, '{}' ({reason}): free space, choose another folder (remote: {{ cache }}), or await load(), which needs no cache",
                self.path.display()
            );
            Error::new(Code::Io, message).file(&self.path)
        };
        let file = self.data.file()?;
        positioned::write_at(&file, bytes, start).map_err(|error| failed(&error))?;
        let blocks = bytes.chunks(usize::try_from(BLOCK).unwrap_or(usize::MAX));
        for (number, block) in (start / BLOCK..).zip(blocks) {
            self.table.write(number, block).map_err(|error| failed(&error))?;
            self.mark(number);
        }
        Ok(())
    }
}
