//! Hints about which pages will be needed, and which will not.
#![forbid(unsafe_code)]

use crate::catalog::{Catalog, Span, Tensor};
use crate::error::Result;
use crate::source::ReadAt;
#[cfg(target_os = "linux")]
use crate::source::file::FileSource;
use crate::source::files::Files;
use crate::source::mapping::Mapping;
use crate::work::{PIECE, Watch};

/// The ranges in which the tensors lie.
fn spans<'c>(catalog: &'c Catalog, ordinals: &'c [u32]) -> impl Iterator<Item = Span> + 'c {
    let tensors = ordinals.iter().filter_map(|&ordinal| catalog.tensor(ordinal as usize));
    tensors.flat_map(Tensor::ranges)
}

/// Brings the tensors into memory: their pages into the mapping where there can be one, else into the page
/// cache. Returns when they are there.
pub fn prefetch(files: &Files, catalog: &Catalog, ordinals: &[u32], watch: &Watch) -> Result<()> {
    let total = spans(catalog, ordinals).map(|span| span.length).fold(0, u64::saturating_add);
    watch.expect(total, ordinals.len() as u64);
    let mut scratch = Vec::new();
    for span in spans(catalog, ordinals) {
        let file = files.file(span.file)?;
        let mapping = file.mapping()?;
        let (mut at, end) = (span.offset, span.end());
        while at < end {
            watch.stop.check()?;
            let length = (end - at).min(PIECE as u64);
            // Reading does on every system what the advice does on newer ones, and says where the file ends early.
            if !populated(mapping.as_deref(), at, length) {
                scratch.resize(PIECE, 0);
                let piece = scratch.get_mut(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
                file.read_at(at, piece)?;
            }
            at += length;
            watch.did_bytes(length);
        }
        watch.did_tensor();
    }
    Ok(())
}

/// Whether the kernel brought a range of the mapping in.
fn populated(mapping: Option<&Mapping>, at: u64, length: u64) -> bool {
    #[cfg(target_os = "linux")]
    if let (Some(mapping), Ok(at), Ok(length)) = (mapping, usize::try_from(at), usize::try_from(length)) {
        return mapping.populate(at, length).is_ok();
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (mapping, at, length);
    false
}

/// Lets the kernel take back the tensors' pages, as far as they were not written to.
pub fn evict(files: &Files, catalog: &Catalog, ordinals: &[u32]) {
    #[cfg(target_os = "linux")]
    for span in spans(catalog, ordinals) {
        let Some(mapping) = files.opened(span.file).and_then(FileSource::mapped) else { continue };
        // Only a hint: a kernel that does not know it keeps the pages.
        if let (Ok(start), Ok(length)) = (usize::try_from(span.offset), usize::try_from(span.length)) {
            mapping.page_out(start, length);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (files, catalog, ordinals);
}
