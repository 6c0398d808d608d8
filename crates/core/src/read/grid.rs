//! Arrays in chunks: only the chunks that a cut touches are read and decoded, several at once.
#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::scratch::Scratch;
use super::{Reading, claimable, too_many, within};
use crate::checked::{index, product};
use crate::codecs::frames::Size;
use crate::error::{Code, Error, Result};
use crate::limits::{GRID_BYTES, TIMES_A_GRID};
use crate::model::cut::Cut;
use crate::model::{Blob, Grid};
use crate::sources::owned::Owned;
use crate::work;

/// The part of a cut that lies in one chunk.
struct Touched {
    /// In chunks from the beginning of each dimension.
    place: Vec<u64>,
    bytes: Option<Owned>,
}

impl Reading<'_> {
    /// The elements of a grid that a cut names.
    pub(super) fn grid_cut(&self, blob: &Blob, grid: &Grid, cut: &Cut) -> Result<Owned> {
        let ranges: Vec<_> = cut.ranges().iter().map(|range| (range.start, range.stop)).collect();
        let bytes = self.grid(blob, grid, &ranges)?;
        if !cut.has_steps() {
            return Ok(bytes);
        }
        // The chunks between are read too: few steps are wider than a chunk.
        let (shape, ranges): (Vec<_>, Vec<_>) = cut.ranges().iter().map(|range| range.rebased()).unzip();
        let bits = u32::try_from(grid.width.saturating_mul(8)).map_err(|_| too_many())?;
        let steps = Cut::stepped(&shape, &ranges, bits)?;
        let mut output = Owned::to_fill(steps.byte_length())?;
        steps.pack_divided(&bytes, &mut output)?;
        Ok(output)
    }

    /// The elements of a grid whose index lies in the given half-open ranges, one a dimension.
    pub(super) fn grid(&self, blob: &Blob, grid: &Grid, ranges: &[(u64, u64)]) -> Result<Owned> {
        let cut: Vec<u64> = ranges.iter().map(|&(start, stop)| stop.saturating_sub(start)).collect();
        let length =
            product(&cut).and_then(|elements| elements.checked_mul(grid.width)).ok_or_else(too_many)?;
        within(length, self.limits)?;
        let bad = |what: &str| Error::new(Code::BadIndex, format!("the chunks of the data {what}"));
        if grid.chunk.len() != grid.shape.len() || ranges.len() != grid.shape.len() {
            return Err(bad("have another number of dimensions"));
        }
        if grid.chunk.contains(&0) || grid.width == 0 || grid.fill.len() as u64 != grid.width {
            return Err(bad("have no elements"));
        }
        let source = self.sources.source(blob.file)?;
        if length > GRID_BYTES.max(source.length().saturating_mul(TIMES_A_GRID)) {
            let message = format!(
                "{length} bytes are more than {TIMES_A_GRID} times the file: most were never written; take slices of it"
            );
            return Err(Error::new(Code::Limit, message));
        }
        let mut output = Owned::to_fill(length)?;
        if length == 0 {
            return Ok(output);
        }
        fill(&grid.fill, &mut output);
        let mut places = Places::new(grid, ranges);
        let read = |offset: u64, buffer: &mut [u8]| source.read_at(offset, buffer, &self.watch.stop);
        let written = grid.chunks.written(&read, &places.first, &places.last)?;
        let mut places: Box<dyn Iterator<Item = Vec<u64>>> = match written {
            Some(written) => Box::new(written.into_iter()),
            None => Box::new(places.by_ref()),
        };
        let scratch = Scratch::default();
        loop {
            self.watch.stop.check()?;
            let group: Vec<_> = places.by_ref().take(2 * work::cores()).collect();
            if group.is_empty() {
                return Ok(output);
            }
            let group: Vec<_> =
                group.into_iter().map(|place| Mutex::new(Touched { place, bytes: None })).collect();
            work::try_each_on(work::cores(), group.len(), |at| {
                let Some(Ok(mut touched)) = group.get(at).map(Mutex::lock) else { return Ok(()) };
                touched.bytes = self.chunk(blob, grid, &touched.place, &scratch)?;
                Ok(())
            })?;
            for touched in group {
                let Ok(Touched { place, bytes: Some(bytes) }) = touched.into_inner() else { continue };
                copy(grid, ranges, &place, &bytes, &mut output)?;
                scratch.give(bytes);
            }
        }
    }

    /// The decoded bytes of a chunk, `None` where it was never written.
    fn chunk(&self, blob: &Blob, grid: &Grid, place: &[u64], scratch: &Scratch) -> Result<Option<Owned>> {
        let source = self.sources.source(blob.file)?;
        let Some(chunk) =
            grid.chunks.find(&|offset, buffer| source.read_at(offset, buffer, &self.watch.stop), place)?
        else {
            return Ok(None);
        };
        claimable(source, chunk.offset, chunk.stored)?;
        let stored = self.read(source, chunk.offset, chunk.stored, None)?;
        let length = product(&grid.chunk).and_then(|elements| elements.checked_mul(grid.width));
        let length = length.ok_or_else(too_many)?;
        within(length, self.limits)?;
        let decoded =
            self.unfiltered(blob.encoding, chunk.skipped, stored, Size::Exactly(length), scratch)?;
        if decoded.len() as u64 != length {
            let message = format!("a chunk has {} bytes, not {length}", decoded.len());
            return Err(Error::new(Code::Decode, message).at(chunk.offset));
        }
        Ok(Some(decoded))
    }
}

/// Repeats an element.
fn fill(element: &[u8], output: &mut [u8]) {
    if element.iter().all(|byte| Some(byte) == element.first()) {
        output.fill(element.first().copied().unwrap_or(0));
        return;
    }
    output.chunks_exact_mut(element.len().max(1)).for_each(|place| place.copy_from_slice(element));
}

/// The chunks that a cut touches, in row-major order.
struct Places {
    first: Vec<u64>,
    last: Vec<u64>,
    next: Option<Vec<u64>>,
}

impl Places {
    /// Of a cut that is not empty.
    fn new(grid: &Grid, ranges: &[(u64, u64)]) -> Self {
        let of = |at: fn(&(u64, u64)) -> u64| {
            ranges.iter().zip(&grid.chunk).map(|(range, &chunk)| at(range) / chunk).collect::<Vec<_>>()
        };
        let (first, last) = (of(|range| range.0), of(|range| range.1.saturating_sub(1)));
        let next = Some(first.clone());
        Self { first, last, next }
    }
}

impl Iterator for Places {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let place = self.next.take()?;
        let mut next = place.clone();
        for ((at, &first), &last) in next.iter_mut().zip(&self.first).zip(&self.last).rev() {
            if *at < last {
                *at += 1;
                self.next = Some(next);
                break;
            }
            *at = first;
        }
        Some(place)
    }
}

/// Copies what a chunk has of a cut to its place there, run by run along the last dimension.
fn copy(grid: &Grid, ranges: &[(u64, u64)], place: &[u64], chunk: &[u8], output: &mut [u8]) -> Result<()> {
    // Of each dimension: where the overlap begins in the chunk and in the cut, and how long it is.
    let overlaps: Vec<(u64, u64, u64)> = ranges
        .iter()
        .zip(place.iter().zip(&grid.chunk))
        .map(|(&(start, stop), (&at, &size))| {
            let begin = at.saturating_mul(size);
            let (from, to) = (begin.max(start), begin.saturating_add(size).min(stop));
            (from - begin, from - start, to.saturating_sub(from))
        })
        .collect();
    let run = overlaps.last().map_or(1, |&(.., count)| count) * grid.width;
    let outer = overlaps.split_last().map_or(&[][..], |(_, outer)| outer);
    let mut steps = vec![0; outer.len()];
    loop {
        // Row-major offsets; both arrays fit in memory, so that nothing overflows.
        let (mut from, mut to) = (0, 0);
        for (d, &(in_chunk, in_cut, _)) in overlaps.iter().enumerate() {
            let step = steps.get(d).copied().unwrap_or(0);
            let (size, range) = (grid.chunk.get(d), ranges.get(d));
            from = from * size.copied().unwrap_or(1) + in_chunk + step;
            to = to * range.map_or(1, |&(start, stop)| stop - start) + in_cut + step;
        }
        let (from, to) = (index(from * grid.width, "a chunk")?, index(to * grid.width, "a chunk")?);
        let run = index(run, "a chunk")?;
        let (input, place) = (chunk.get(from..from + run), output.get_mut(to..to + run));
        let (Some(input), Some(place)) = (input, place) else { return Err(too_many()) };
        place.copy_from_slice(input);
        let moved = steps.iter_mut().zip(outer).rev().any(|(step, &(.., count))| {
            *step = if *step + 1 < count { *step + 1 } else { 0 };
            *step > 0
        });
        if !moved {
            return Ok(());
        }
    }
}
