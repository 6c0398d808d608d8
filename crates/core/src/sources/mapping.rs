//! A private, copy-on-write mapping of a whole file, and its safe end.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Result;

use super::fault::{self, Entry};
use super::view::{View, map};
use super::{reclaim, retired};

/// A mapped file. Writes to it stay in this process.
///
/// It ends in two steps: other native code (a compression job on a view) may still be reading when the last reference is dropped, so the
/// range is first overlaid with zero pages, which frees the file and its pages at once, and its addresses are retained for a while
/// ([`retired`]) before they are released.
pub struct Mapping {
    map: Option<View>,
    /// Its entry in the table of fault-protected ranges, removed before the range can be reused.
    entry: Option<Entry>,
}

impl Mapping {
    /// Maps `length` bytes of `file`, or returns `None` if the system refuses.
    pub fn new(file: &File, length: u64) -> Option<Self> {
        let length = usize::try_from(length).ok().filter(|&length| length > 0)?;
        let map = reclaim::map_or_reclaim(|| map(file, length)).ok()?;
        let entry = Entry::new(map.as_ptr().addr(), length)?;
        Some(Self { map: Some(map), entry: Some(entry) })
    }

    /// Installs the handler of faults again: a signal listener may have replaced it in the meantime.
    pub fn arm(&self) {
        fault::arm();
    }

    /// Returns whether the file was truncated and pages were lost, which now read as zeros.
    pub fn is_lost(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::is_lost)
    }

    /// Marks it as lost if the file was found to be shorter: the system does not report truncation within the last page.
    pub fn lose(&self) {
        if let Some(entry) = &self.entry {
            entry.lose();
        }
    }

    /// Returns a number that identifies the mapping for [`super::fault::state`].
    pub fn token(&self) -> u64 {
        self.entry.as_ref().map_or(0, Entry::token)
    }

    pub fn length(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }

    /// Returns the address of `offset`, if `length` bytes from there are within the mapping.
    pub fn address(&self, offset: u64, length: u64) -> Option<*mut u8> {
        let map = self.map.as_ref()?;
        crate::checked::end_within(offset, length, map.len() as u64)?;
        let offset = usize::try_from(offset).ok()?;
        Some(map.as_ptr().cast_mut().wrapping_add(offset))
    }

    /// Reads the pages of a range into memory. Fails, instead of raising a signal, if the file ends early.
    #[cfg(target_os = "linux")]
    pub fn populate(&self, offset: usize, length: usize) -> Result<()> {
        self.map
            .as_ref()
            .map_or(Ok(()), |map| map.advise_range(memmap2::Advice::PopulateRead, offset, length))
    }

    /// Allows the kernel to reclaim the unmodified pages of a range; pages that JavaScript wrote to stay.
    #[cfg(target_os = "linux")]
    pub fn page_out(&self, offset: usize, length: usize) {
        let Some(map) = &self.map else { return };
        let page = 4096.max(usize::try_from(page_size()).unwrap_or(4096));
        let start = offset - offset % page;
        let length = length.saturating_add(offset - start);
        if start.checked_add(length).is_none_or(|end| end > map.len()) {
            return;
        }
        // SAFETY: the range is within our mapping; the advice drops no modified page. A kernel that does not support it returns an error,
        // and the pages stay.
        unsafe {
            libc::madvise(map.as_ptr().cast_mut().wrapping_add(start).cast(), length, libc::MADV_PAGEOUT)
        };
    }
}

#[cfg(target_os = "linux")]
fn page_size() -> libc::c_long {
    // SAFETY: a plain system query.
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
