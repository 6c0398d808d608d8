//! Hints about which pages will be needed, and which will not.
#![forbid(unsafe_code)]

use crate::catalog::{Catalog, Span, Tensor};
use crate::error::Result;
use crate::inject;
use crate::source::ReadAt;
use crate::source::file::FileSource;
use crate::source::files::Files;
use crate::source::mapping::Mapping;
use crate::work::{self, PIECE, Watch};

/// Bytes under way at once where the caller sets no other bound: 16 reads of a piece each, past which no storage that
/// was measured got faster.
pub const IN_FLIGHT: u64 = 16 * PIECE as u64;

/// The ranges in which the tensors lie.
fn spans<'c>(catalog: &'c Catalog, ordinals: &'c [u32]) -> impl Iterator<Item = Span> + 'c {
    let tensors = ordinals.iter().filter_map(|&ordinal| catalog.tensor(ordinal as usize));
    tensors.flat_map(Tensor::ranges)
}

/// Brings the tensors into memory: their pages into the mapping where there can be one, else into the page
/// cache; several pieces at once, of at most `in_flight` bytes together. Returns when they are there.
pub fn prefetch(
    files: &Files,
    catalog: &Catalog,
    ordinals: &[u32],
    in_flight: u64,
    watch: &Watch,
) -> Result<()> {
    inject::panic_at("prefetch");
    for tensor in ordinals.iter().filter_map(|&ordinal| catalog.tensor(ordinal as usize)) {
        // It has no ranges to bring, and they are not none: the error says why.
        if let Some(part) = tensor.components().first().filter(|_| tensor.is_unread()) {
            files.file(part.file).map_err(|error| error.tensor(tensor.name()))?;
        }
    }
    let total = spans(catalog, ordinals).map(|span| span.length).fold(0, u64::saturating_add);
    watch.expect(total, ordinals.len() as u64);
    let piece = in_flight.clamp(1 << 16, PIECE as u64);
    let threads = usize::try_from(in_flight / piece).unwrap_or(usize::MAX).clamp(1, 16);
    let mut pieces: Vec<Span> = Vec::new();
    for span in spans(catalog, ordinals) {
        // Neighbours are one range: a page cache knows no tensors.
        match pieces.last_mut() {
            Some(last) if last.file == span.file && last.end() == span.offset && last.length < piece => {
                last.length += span.length;
            }
            _ => pieces.push(span),
        }
    }
    let divided: Vec<Span> = pieces.iter().flat_map(|&span| divide(span, piece)).collect();
    work::try_each_on(threads, divided.len(), |at| {
        watch.stop.check()?;
        let Some(&span) = divided.get(at) else { return Ok(()) };
        bring(files.file(span.file)?, span)?;
        watch.did_bytes(span.length);
        Ok(())
    })?;
    for _ in ordinals {
        watch.did_tensor();
    }
    Ok(())
}

fn divide(span: Span, piece: u64) -> impl Iterator<Item = Span> {
    (0..span.length.div_ceil(piece)).map(move |number| {
        let start = number * piece;
        Span { offset: span.offset + start, length: piece.min(span.length - start), ..span }
    })
}

/// Brings in one piece. Storage is read in whole pieces, which faults would do page by page.
fn bring(file: &FileSource, span: Span) -> Result<()> {
    let mapping = file.mapping()?;
    let cached = mapping.is_some() && file.is_cached(span.offset, span.length);
    if cached && populated(mapping.as_deref(), span) {
        return Ok(());
    }
    // Reading says where the file ends early, on every system.
    file.read_vec(span.offset, span.length)?;
    populated(mapping.as_deref(), span);
    Ok(())
}

/// Whether the kernel brought a range into the mapping.
fn populated(mapping: Option<&Mapping>, span: Span) -> bool {
    #[cfg(target_os = "linux")]
    if let (Some(mapping), Ok(at), Ok(length)) =
        (mapping, usize::try_from(span.offset), usize::try_from(span.length))
    {
        return mapping.populate(at, length).is_ok();
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (mapping, span);
    false
}

/// Lets the kernel take back the tensors' pages, as far as they were not written to, and forget what its page cache
/// holds of them.
pub fn evict(files: &Files, catalog: &Catalog, ordinals: &[u32]) {
    #[cfg(target_os = "linux")]
    for span in spans(catalog, ordinals) {
        let Some(file) = files.opened(span.file) else { continue };
        // Only hints: a kernel that does not know them keeps the pages.
        if let (Some(mapping), Ok(start), Ok(length)) =
            (file.mapped(), usize::try_from(span.offset), usize::try_from(span.length))
        {
            mapping.page_out(start, length);
        }
        file.forget(span.offset, span.length);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (files, catalog, ordinals);
}
