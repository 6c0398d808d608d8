//! Hints about which pages will be needed, and which will not.
#![forbid(unsafe_code)]

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::source::ReadAt;
use crate::source::file::FileSource;
use crate::work::{PIECE, Watch};

/// Bytes of the file in which each tensor lies.
fn spans<'c>(catalog: &'c Catalog, ordinals: &'c [u32]) -> impl Iterator<Item = (u64, u64)> + 'c {
    ordinals.iter().filter_map(|&ordinal| Some(catalog.tensor(ordinal as usize)?.span()))
}

/// Brings the tensors into memory: their pages into the mapping where there can be one, else into the page
/// cache. Returns when they are there.
pub fn prefetch(file: &FileSource, catalog: &Catalog, ordinals: &[u32], watch: &Watch) -> Result<()> {
    let total = spans(catalog, ordinals).map(|(start, end)| end - start).fold(0, u64::saturating_add);
    watch.expect(total, ordinals.len() as u64);
    let mapping = file.mapping()?;
    let mut scratch = Vec::new();
    for (start, end) in spans(catalog, ordinals) {
        let mut at = start;
        while at < end {
            watch.stop.check()?;
            let length = (end - at).min(PIECE as u64);
            match &mapping {
                #[cfg(target_os = "linux")]
                Some(mapping) => {
                    let place = usize::try_from(at).ok().zip(usize::try_from(length).ok());
                    let populated = place.map(|(at, length)| mapping.populate(at, length));
                    populated.unwrap_or(Ok(())).map_err(|error| Error::io("madvise", &error).at(at))?;
                }
                _ => {
                    scratch.resize(PIECE, 0);
                    let piece = scratch.get_mut(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
                    file.read_at(at, piece)?;
                }
            }
            at += length;
            watch.did_bytes(length);
        }
        watch.did_tensor();
    }
    Ok(())
}

/// Lets the kernel take back the tensors' pages, as far as they were not written to.
pub fn evict(file: &FileSource, catalog: &Catalog, ordinals: &[u32]) {
    #[cfg(target_os = "linux")]
    if let Some(mapping) = file.mapped() {
        for (start, end) in spans(catalog, ordinals) {
            // Only a hint: a kernel that does not know it keeps the pages.
            if let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) {
                mapping.page_out(start, end - start);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, catalog, ordinals);
}
