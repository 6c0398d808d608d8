//! Windows of a file that are mapped while they are hashed: data in the page cache is not copied first.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{Mmap, MmapOptions};

use super::fault::{self, Entry};
use super::reclaim;
use crate::checked;
use crate::codecs::digest::Hasher;
use crate::work;

/// Size from which on page faults cost less than the copy they avoid.
pub const FROM: u64 = 512 << 10;
/// Bytes of a window. Mapping the whole file would be faster by a hundredth but count all of it as resident; windows of 8 MiB are slower by
/// a sixth, because unmapping each interrupts all cores.
const LENGTH: u64 = 64 << 20;

/// The most recently used windows of one file.
#[derive(Default)]
pub struct MappedWindows(Mutex<VecDeque<Arc<MappedWindow>>>);

impl MappedWindows {
    /// Hashes bytes of `file`, which has `total`, and returns the offset up to which it did: the system may refuse further mappings.
    /// Returns false if pages were lost and zeros were hashed.
    pub fn hash(
        &self,
        file: &File,
        total: u64,
        offset: u64,
        length: u64,
        hasher: &mut Hasher,
    ) -> (u64, bool) {
        // A signal listener may have replaced the handler since the window was mapped.
        fault::arm();
        let (mut at, end) = (offset, offset.saturating_add(length).min(total));
        let mut whole = true;
        while at < end {
            let Some(window) = self.around(file, total, at) else { break };
            let step = (end - at).min(window.start + LENGTH - at);
            if !window.hash(at, step, hasher) {
                whole = false;
                break;
            }
            at += step;
        }
        (at, whole)
    }

    fn around(&self, file: &File, total: u64, at: u64) -> Option<Arc<MappedWindow>> {
        let start = at - at % LENGTH;
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(window) = recent.iter().find(|window| window.start == start) {
            return Some(Arc::clone(window));
        }
        let window = Arc::new(MappedWindow::new(file, start, (total - start).min(LENGTH))?);
        recent.push_back(Arc::clone(&window));
        let oldest = if recent.len() > work::cores() + 1 { recent.pop_front() } else { None };
        drop(recent);
        // Unmapping takes time, and nothing needs to wait for it.
        drop(oldest);
        Some(window)
    }
}

/// A shared, read-only mapping. Nothing else accesses it, so its addresses need not be retained afterwards.
struct MappedWindow {
    /// Removed from the table of fault-protected ranges before the range can be reused.
    entry: Entry,
    map: Mmap,
    start: u64,
}

impl MappedWindow {
    /// Maps `length` bytes from `start`, or returns `None` if the system refuses.
    fn new(file: &File, start: u64, length: u64) -> Option<Self> {
        let length = usize::try_from(length).ok().filter(|&length| length > 0)?;
        // SAFETY: other processes may change or truncate the bytes meanwhile, which our signal handler survives. The bytes are only passed
        // to a hasher: it reads each once as a number, and no address, length or branch depends on them, so a change only changes the
        // digest.
        let map = || unsafe { MmapOptions::new().offset(start).len(length).map(file) };
        let map = reclaim::map_or_reclaim(map).ok()?;
        let entry = Entry::new(map.as_ptr().addr(), length)?;
        Some(Self { entry, map, start })
    }

    /// Hashes bytes at an offset in the file. Returns false if pages were lost, or the bytes are outside the window.
    fn hash(&self, offset: u64, length: u64, hasher: &mut Hasher) -> bool {
        let bytes = offset.checked_sub(self.start).and_then(|at| checked::slice(&self.map, at, length));
        bytes.map(|bytes| hasher.update(bytes)).is_some() && !self.entry.is_lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::digest::Algorithm;

    fn crc32c(hash: impl FnOnce(&mut Hasher)) -> String {
        let mut hasher = Algorithm::Crc32c.hasher();
        hash(&mut hasher);
        Algorithm::Crc32c.digest(hasher).text().into_owned()
    }

    #[test]
    fn hashes_of_any_range_match_its_bytes() {
        let path = std::env::temp_dir().join(format!("ztensor-window-{}", std::process::id()));
        let total = LENGTH + 50_000;
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(total).unwrap();
        let tail: Vec<u8> = (0..100_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        std::os::unix::fs::FileExt::write_all_at(&file, &tail, LENGTH - 50_000).unwrap();
        let windows = MappedWindows::default();
        for (from, to) in [(0, 100_000), (1, 2), (4095, 4097), (49_999, 50_001), (50_000, 100_000)] {
            let (offset, length) = (LENGTH - 50_000 + from as u64, (to - from) as u64);
            let end = offset + length;
            let found = crc32c(|hasher| {
                assert_eq!(windows.hash(&file, total, offset, length, hasher), (end, true));
            });
            assert_eq!(found, crc32c(|hasher| hasher.update(&tail[from..to])), "{from}..{to}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn truncation_is_detected() {
        let path = std::env::temp_dir().join(format!("ztensor-window-truncated-{}", std::process::id()));
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.set_len(500_000).unwrap();
        let windows = MappedWindows::default();
        crc32c(|hasher| assert!(!windows.hash(&file, 1 << 20, 4096, (1 << 20) - 4096, hasher).1));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_ranges_used_last_stay_mapped() {
        let path = std::env::temp_dir().join(format!("ztensor-window-many-{}", std::process::id()));
        let count = work::cores() as u64 + 3;
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(count * LENGTH).unwrap();
        let windows = MappedWindows::default();
        for at in 0..count {
            crc32c(|hasher| assert!(windows.hash(&file, count * LENGTH, at * LENGTH, 1, hasher).1));
        }
        let retained: Vec<u64> =
            windows.0.lock().unwrap().iter().map(|window| window.start / LENGTH).collect();
        assert_eq!(retained, (2..count).collect::<Vec<_>>());
        std::fs::remove_file(path).unwrap();
    }
}
