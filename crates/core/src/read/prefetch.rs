//! Prefetching and evicting pages.
#![forbid(unsafe_code)]

use super::planner::{Aim, Read, reads};
use crate::error::Result;
use crate::inject;
use crate::model::{Catalog, Span, Tensor};
use crate::sources::file::FileSource;
use crate::sources::files::Files;
use crate::sources::mapping::Mapping;
use crate::sources::{Costs, ReadAt, Sources};
use crate::work::{self, PIECE, Stop, Watch};

/// Default limit of bytes in flight: 16 reads of a piece each, beyond which no measured storage got faster.
pub const IN_FLIGHT: u64 = 16 * PIECE as u64;

fn tensors<'c>(catalog: &'c Catalog, ordinals: &'c [u32]) -> impl Iterator<Item = Tensor<'c>> {
    ordinals.iter().filter_map(|&ordinal| catalog.tensor(ordinal as usize))
}

/// Reads the tensors into memory: their pages into the mapping if possible, otherwise into the page cache; several pieces at once, of at
/// most `in_flight` bytes in total. Returns when they are in memory.
pub fn prefetch(
    files: &Files,
    catalog: &Catalog,
    ordinals: &[u32],
    in_flight: u64,
    watch: &Watch,
) -> Result<()> {
    inject::panic_at("prefetch");
    for tensor in tensors(catalog, ordinals) {
        // Its ranges are unknown rather than empty: the error states why.
        if let Some(part) = tensor.components().first().filter(|_| tensor.is_unread()) {
            files.source(part.file()).map_err(|error| error.tensor(tensor.name()))?;
        }
    }
    let piece = in_flight.clamp(1 << 16, PIECE as u64);
    // A source that cannot be opened fails when it is read.
    let costs = |file| files.source(file).map_or(Costs::LOCAL, ReadAt::costs);
    let pieces = pieces(tensors(catalog, ordinals).flat_map(Tensor::ranges), piece, costs);
    let at_once = pieces.first().map_or(1, |piece| costs(piece.span.file).in_flight);
    let threads = usize::try_from(in_flight / piece).unwrap_or(usize::MAX).clamp(1, at_once.max(1));
    watch.expect(pieces.iter().map(|piece| piece.bytes).fold(0, u64::saturating_add), ordinals.len() as u64);
    work::try_each_on(threads, pieces.len(), |at| {
        watch.stop.check()?;
        let Some(&Piece { span, bytes }) = pieces.get(at) else { return Ok(()) };
        bring(files.source(span.file)?, span, &watch.stop)?;
        watch.did_bytes(bytes);
        Ok(())
    })?;
    let mut settled = None;
    for file in pieces.iter().map(|piece| piece.span.file) {
        if settled.replace(file) != Some(file) {
            files.source(file)?.settle();
        }
    }
    for _ in ordinals {
        watch.did_tensor();
    }
    Ok(())
}

/// A range to prefetch, and how many of its bytes belong to tensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    span: Span,
    bytes: u64,
}

/// Returns pieces of about `length` bytes. Adjacent tensors are merged: the page cache knows no tensors.
fn pieces(spans: impl Iterator<Item = Span>, length: u64, costs: impl Fn(u32) -> Costs) -> Vec<Piece> {
    let reads = reads(spans, |file| Aim::brought(length).on(costs(file)), |_| true);
    reads.into_iter().flat_map(|read| divide(&read, length)).collect()
}

/// Returns pieces that end at multiples of their length: a cached copy consists of blocks, and no two pieces should request the same one.
fn divide(&Read { span, bytes, .. }: &Read, length: u64) -> impl Iterator<Item = Piece> + use<> {
    let before = span.offset % length;
    (0..before.saturating_add(span.length).div_ceil(length)).map(move |number| {
        let start = (number * length).saturating_sub(before);
        let end = span.length.min((number + 1) * length - before);
        Piece {
            span: Span { offset: span.offset + start, length: end - start, ..span },
            bytes: end.min(bytes) - start.min(bytes),
        }
    })
}

/// Prefetches one piece. Storage is read in whole pieces, where faults would read page by page.
fn bring(source: &dyn ReadAt, span: Span, stop: &Stop) -> Result<()> {
    if source.local().is_none() {
        source.keep(span.offset, span.length, stop)?;
        let mapping = source.copied(span.offset, span.length).map_or(Ok(None), FileSource::mapping)?;
        populated(mapping.as_deref(), span);
        return Ok(());
    }
    let mapping = source.local().map_or(Ok(None), FileSource::mapping)?;
    let cached = mapping.is_some() && source.is_cached(span.offset, span.length);
    if cached && populated(mapping.as_deref(), span) {
        return Ok(());
    }
    // A read reports a file that ends early on every system.
    source.read_vec(span.offset, span.length, stop)?;
    populated(mapping.as_deref(), span);
    Ok(())
}

/// Returns whether the kernel populated a range of the mapping.
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

/// Allows the kernel to reclaim the tensors' unmodified pages and to evict them from its page cache.
pub fn evict(files: &Files, catalog: &Catalog, ordinals: &[u32]) {
    #[cfg(target_os = "linux")]
    for span in evicted(catalog, ordinals) {
        let Some(file) = files.opened(span.file) else { continue };
        // Only hints: a kernel that does not support them retains the pages.
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

/// Returns the ranges to evict: few ranges, because each takes two system calls.
#[cfg(any(test, target_os = "linux"))]
fn evicted(catalog: &Catalog, ordinals: &[u32]) -> Vec<Span> {
    let aim = if ordinals.len() == catalog.len() { Aim::ALL_EVICTED } else { Aim::EVICTED };
    let spans = Span::joined(tensors(catalog, ordinals).flat_map(Tensor::spans).collect());
    reads(spans, |_| aim.on(Costs::LOCAL), |_| true).into_iter().map(|read| read.span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    const SPAN: Span = Span { file: 0, offset: 0, length: 0 };

    #[test]
    fn a_file_of_many_tensors_is_evicted_by_few_calls() {
        for stride in [16, 64, 4096, 65_536] {
            let catalog = fixtures::row(1000, stride);
            let all: Vec<u32> = (0..1000).collect();
            let whole = Span { length: 999 * stride + 16, ..SPAN };
            assert_eq!(evicted(&catalog, &all), [whole], "{stride} bytes stride");
        }
    }

    #[test]
    fn evicting_named_tensors_leaves_pages_of_others() {
        let catalog = fixtures::row(1000, 4096);
        let even: Vec<u32> = (0..1000).step_by(2).collect();
        assert_eq!(evicted(&catalog, &even).len(), 500);
        let [first, last] = [10 * 4096, 19 * 4096 + 16];
        let some: Vec<u32> = (10..20).rev().collect();
        assert_eq!(evicted(&catalog, &some), [Span { offset: first, length: last - first, ..SPAN }]);
    }

    #[test]
    fn small_adjacent_ranges_are_prefetched_together_and_gaps_are_not_counted() {
        let catalog = fixtures::row(1000, 64);
        let all: Vec<u32> = (0..1000).collect();
        let brought = pieces(tensors(&catalog, &all).flat_map(Tensor::ranges), 1 << 16, |_| Costs::LOCAL);
        assert_eq!(brought.len(), 1);
        assert_eq!(brought.iter().map(|piece| piece.bytes).sum::<u64>(), 16_000);
        let large = Span { length: 200_000, ..SPAN };
        let divided = pieces([large].into_iter(), 1 << 16, |_| Costs::LOCAL);
        assert_eq!(
            divided.iter().map(|piece| piece.bytes).collect::<Vec<_>>(),
            [65_536, 65_536, 65_536, 3392]
        );
        assert!(divided.iter().all(|piece| piece.bytes == piece.span.length));
    }
}
