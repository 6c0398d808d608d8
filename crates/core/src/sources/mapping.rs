//! A private, copy-on-write mapping of a whole file, and its careful end.
#![allow(unsafe_code)]

use std::fs::File;

use memmap2::{MmapMut, MmapOptions};

use super::fault::Entry;
use super::{reclaim, retired};

/// A mapped file. Writes into it stay in this process.
///
/// It ends in two steps: native code of others (a compression job on a view) may still be reading when the last share
/// goes, so the range is first overlaid with zero pages, which frees the file and its pages at once, and only its
/// addresses wait in a [`retired`] before they are given back.
pub struct Mapping {
    map: Option<MmapMut>,
    /// Its place among the ranges whose loss is survived; it leaves before the range can become another's.
    entry: Option<Entry>,
}

impl Mapping {
    /// Maps `length` bytes of `file`, or gives `None` where the system refuses.
    pub fn new(file: &File, length: u64) -> Option<Self> {
        let length = usize::try_from(length).ok().filter(|&length| length > 0)?;
        let mut options = MmapOptions::new();
        options.len(length).no_reserve_swap();
        // SAFETY: the mapping is private and only ever handed out as raw memory that JavaScript may write
        // and another process may change below us; no Rust reference to its bytes is kept across a call,
        // and parsers and decoders read through the file, not through here.
        let map = reclaim::map_or_reclaim(|| unsafe { options.map_copy(file) }).ok()?;
        let entry = Entry::new(map.as_ptr().addr(), length)?;
        Some(Self { map: Some(map), entry: Some(entry) })
    }

    /// Whether the file was cut short below the mapping and pages were lost, which read as zeros now.
    pub fn is_lost(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::is_lost)
    }

    /// Marks it so, where the file was seen to be shorter: of a cut inside its last page the system says nothing.
    pub fn lose(&self) {
        if let Some(entry) = &self.entry {
            entry.lose();
        }
    }

    /// Names the mapping for [`super::fault::state`].
    pub fn token(&self) -> u64 {
        self.entry.as_ref().map_or(0, Entry::token)
    }

    pub fn length(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }

    /// The address of `offset`, where `length` bytes from there lie inside the mapping.
    pub fn address(&self, offset: u64, length: u64) -> Option<*mut u8> {
        let map = self.map.as_ref()?;
        crate::checked::end_within(offset, length, map.len() as u64)?;
        let offset = usize::try_from(offset).ok()?;
        Some(map.as_ptr().cast_mut().wrapping_add(offset))
    }

    /// Brings the pages of a range in. Fails, rather than raising a signal, where the file ends early.
    #[cfg(target_os = "linux")]
    pub fn populate(&self, offset: usize, length: usize) -> std::io::Result<()> {
        self.map
            .as_ref()
            .map_or(Ok(()), |map| map.advise_range(memmap2::Advice::PopulateRead, offset, length))
    }

    /// Lets the kernel take the unmodified pages of a range back; pages that JavaScript wrote to stay.
    #[cfg(target_os = "linux")]
    pub fn page_out(&self, offset: usize, length: usize) {
        let Some(map) = &self.map else { return };
        let page = 4096.max(usize::try_from(page_size()).unwrap_or(4096));
        let start = offset - offset % page;
        let length = length.saturating_add(offset - start);
        if start.checked_add(length).is_none_or(|end| end > map.len()) {
            return;
        }
        // SAFETY: the range lies in our mapping; the advice drops no modified page. A kernel that does not
        // know it says so, and the pages stay.
        unsafe {
            libc::madvise(map.as_ptr().cast_mut().wrapping_add(start).cast(), length, libc::MADV_PAGEOUT)
        };
    }
}

#[cfg(target_os = "linux")]
fn page_size() -> libc::c_long {
    // SAFETY: a plain question to the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let (Some(map), Some(entry)) = (self.map.take(), self.entry.take()) {
            retired::retire(map, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_outside_have_no_address() {
        let path = std::env::temp_dir().join(format!("ztensor-mapping-{}", std::process::id()));
        std::fs::write(&path, [7; 100]).unwrap();
        let mapping = Mapping::new(&File::open(&path).unwrap(), 100).unwrap();
        assert_eq!(mapping.length(), 100);
        assert!(mapping.address(100, 0).is_some());
        assert!(mapping.address(100, 1).is_none());
        assert!(mapping.address(u64::MAX, 2).is_none());
        std::fs::remove_file(path).unwrap();
    }
}
