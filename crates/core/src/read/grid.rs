//! Chunked arrays: only the chunks that a slice overlaps are read and decoded, several at once, directly into place.
#![forbid(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::filters::take_back;
use super::{Reading, claimable, too_many, within};
use crate::checked::{index, product};
use crate::codecs::frames::Size;
use crate::error::{Code, Error, Result};
use crate::limits::{GRID_BYTES, TIMES_A_GRID};
use crate::model::slice::Range;
use crate::model::{Blob, Chunk, Grid};
use crate::sources::decoded::Place;
use crate::sources::owned::Owned;
use crate::sources::{ReadAt, scratch};
use crate::work;

/// Number of chunks processed together: enough that no core waits long for the last of them.
const GROUP: usize = 1024;

impl Reading<'_> {
    /// Returns the elements of a grid whose indices are in the given ranges, one per dimension.
    pub(super) fn grid(&self, blob: &Blob, grid: &Grid, ranges: &[Range]) -> Result<Owned> {
        let slice: Vec<u64> = ranges.iter().map(|range| range.count()).collect();
        let length =
            product(&slice).and_then(|elements| elements.checked_mul(grid.width)).ok_or_else(too_many)?;
        within(length, self.limits)?;
        let contradiction = |what: &str| Error::new(Code::BadIndex, format!("the chunks of the data {what}"));
        if grid.chunk.len() != grid.shape.len() || ranges.len() != grid.shape.len() {
            return Err(contradiction("have a different number of dimensions"));
        }
        if grid.chunk.contains(&0) || grid.width == 0 {
            return Err(contradiction("have no elements"));
        }
        if !grid.fill.is_empty() && grid.fill.len() as u64 != grid.width {
            return Err(contradiction("have a fill value of a different size"));
        }
        let held = grid.chunks.held();
        let source: &dyn ReadAt = match &held {
            Some(bytes) => bytes,
            None => self.sources.source(blob.file)?,
        };
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
        let read = |offset: u64, buffer: &mut [u8]| source.read_at(offset, buffer, &self.watch.stop);
        let all = ChunkIndices::new(grid, ranges);
        let chunks = all.first.iter().zip(&all.last).map(|(first, last)| last - first + 1);
        let chunks = chunks.fold(1, u64::saturating_mul);
        let chunk_bytes = grid.chunk_bytes().unwrap_or(u64::MAX);
        let once = held.is_none() && self.is_decoded_once(chunks, chunks.saturating_mul(chunk_bytes));
        let written = grid.chunks.written(&read, &all.first, &all.last)?;
        if written.is_some() {
            // There are fewer chunks than positions.
            fill(&grid.fill, &mut output);
        }
        let mut positions: Box<dyn Iterator<Item = Vec<u64>>> = match written {
            Some(written) => Box::new(written.into_iter()),
            None => Box::new(all),
        };
        loop {
            self.watch.stop.check()?;
            // Written chunks may lie between two steps.
            let touched = positions.by_ref().filter(|position| touches(grid, ranges, position));
            let parts: Vec<_> =
                touched.take(GROUP).map(|position| Part::of(grid, ranges, position)).collect();
            if parts.is_empty() {
                return Ok(output);
            }
            let (bands, owners) = bands(&parts, &mut output)?;
            work::try_each_on(work::cores(), parts.len(), |at| {
                let band = owners.get(at).and_then(|&band| bands.get(band));
                let Some((part, band)) = parts.get(at).zip(band) else { return Err(too_many()) };
                self.watch.stop.check()?;
                match grid.chunks.find(&read, &part.position)? {
                    Some(chunk) => self.chunk((source, once), blob, grid, part, chunk, band),
                    None => part.each_run(&mut lock(band), |_, output| {
                        fill(&grid.fill, output);
                        Some(())
                    }),
                }
            })?;
        }
    }

    /// Decodes a chunk, and copies its part of the slice into place. `once`: what it decodes is there for later slices.
    fn chunk(
        &self,
        (source, once): (&dyn ReadAt, bool),
        blob: &Blob,
        grid: &Grid,
        part: &Part,
        chunk: Chunk,
        band: &Band<'_>,
    ) -> Result<()> {
        claimable(source, chunk.offset, chunk.stored)?;
        let length = grid.chunk_bytes().ok_or_else(too_many)?;
        within(length, self.limits)?;
        let steps = self.steps(blob.encoding, chunk.skipped, Size::Exactly(length))?;
        if steps.is_empty() && chunk.stored != length {
            let message = format!("a chunk has {} bytes, not {length}", chunk.stored);
            return Err(Error::new(Code::Decode, message).at(chunk.offset));
        }
        let decode = |output: &mut [u8]| {
            if steps.is_empty() {
                return self.read_into(source, chunk.offset, output, None);
            }
            scratch::with(chunk.stored, |stored| {
                self.read_into(source, chunk.offset, stored, None)?;
                take_back(&steps, stored, output, &self.watch.stop)
            })
        };
        if part.is_whole && part.length == length {
            // It is the whole band, in the same order.
            return decode(&mut lock(band));
        }
        if steps.is_empty() {
            let (first, end) = part.span()?;
            return scratch::with(end - first, |read| {
                self.read_into(source, chunk.offset.saturating_add(first), read, None)?;
                let first = index(first, "a chunk")?;
                part.each_run(&mut lock(band), |from, output| {
                    let from = from.checked_sub(first)?;
                    output.copy_from_slice(read.get(from..from.checked_add(output.len())?)?);
                    Some(())
                })
            });
        }
        let copy = |decoded: &[u8]| {
            part.each_run(&mut lock(band), |from, output| {
                output.copy_from_slice(decoded.get(from..from.checked_add(output.len())?)?);
                Some(())
            })
        };
        if once {
            let Chunk { offset, stored, skipped } = chunk;
            let (file, encoding) = (blob.file, blob.encoding);
            let place = Place { file, offset, stored, decoded: length, encoding, skipped };
            let decoded = self.decoded_once(place, || {
                let mut output = Owned::to_fill(length)?;
                decode(&mut output)?;
                Ok(output)
            })?;
            return copy(&decoded);
        }
        scratch::with(length, |decoded| {
            decode(decoded)?;
            copy(decoded)
        })
    }
}

/// A range of the output, shared by the chunks in it.
type Band<'o> = Mutex<&'o mut [u8]>;

fn lock<'g, 'o>(band: &'g Band<'o>) -> MutexGuard<'g, &'o mut [u8]> {
    band.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Repeats an element.
fn fill(element: &[u8], output: &mut [u8]) {
    if element.iter().all(|byte| Some(byte) == element.first()) {
        output.fill(element.first().copied().unwrap_or(0));
        return;
    }
    output.chunks_exact_mut(element.len().max(1)).for_each(|slot| slot.copy_from_slice(element));
}

/// Returns the number of the chunk that contains the first index of the range at or after `index`; `None` if the range ends before.
fn chunk_of(range: Range, chunk: u64, index: u64) -> Option<u64> {
    range.at_or_after(index).map(|index| index / chunk)
}

/// Returns whether a chunk contains an index of each range.
fn touches(grid: &Grid, ranges: &[Range], position: &[u64]) -> bool {
    let has = |(&at, (&range, &chunk)): (&u64, (&Range, &u64))| {
        at.checked_mul(chunk).and_then(|begin| chunk_of(range, chunk, begin)) == Some(at)
    };
    position.len() == ranges.len() && position.iter().zip(ranges.iter().zip(&grid.chunk)).all(has)
}

/// The chunks that hold elements of a slice, in row-major order.
struct ChunkIndices {
    /// Range and chunk size of each dimension.
    dims: Vec<(Range, u64)>,
    first: Vec<u64>,
    last: Vec<u64>,
    next: Option<Vec<u64>>,
}

impl ChunkIndices {
    /// Requires a nonempty slice.
    fn new(grid: &Grid, ranges: &[Range]) -> Self {
        let dims: Vec<_> = ranges.iter().copied().zip(grid.chunk.iter().copied()).collect();
        let first: Vec<_> = dims.iter().map(|&(range, chunk)| range.start / chunk).collect();
        let last = dims.iter().map(|&(range, chunk)| range.last().unwrap_or(range.start) / chunk).collect();
        let next = Some(first.clone());
        Self { dims, first, last, next }
    }
}

impl Iterator for ChunkIndices {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let position = self.next.take()?;
        let mut next = position.clone();
        for ((at, &first), &(range, chunk)) in next.iter_mut().zip(&self.first).zip(&self.dims).rev() {
            let behind = at.checked_add(1).and_then(|at| at.checked_mul(chunk));
            if let Some(further) = behind.and_then(|index| chunk_of(range, chunk, index)) {
                *at = further;
                self.next = Some(next);
                break;
            }
            *at = first;
        }
        Some(position)
    }
}

/// The elements of a slice in one chunk. They lie in a band of the output: all rows from first to last along the first dimension in which
/// the slice has more than one index. Bands are disjoint ranges of the output, in the order of the chunks.
struct Part {
    position: Vec<u64>,
    dims: Vec<Dim>,
    width: u64,
    /// Start and size of the band in the output.
    start: u64,
    length: u64,
    /// Whether the slice contains the whole chunk.
    is_whole: bool,
}

/// One dimension: the first index of the slice that the chunk contains, relative to the chunk and to the slice; their number and step
/// within the chunk; the sizes of chunk and slice.
struct Dim {
    in_chunk: u64,
    in_slice: u64,
    count: u64,
    step: u64,
    chunk: u64,
    slice: u64,
}

impl Part {
    /// For a slice that fits in memory, so that nothing overflows, and a chunk that contains elements of it.
    fn of(grid: &Grid, ranges: &[Range], position: Vec<u64>) -> Self {
        let dims: Vec<_> = ranges
            .iter()
            .zip(position.iter().zip(&grid.chunk))
            .map(|(&range, (&at, &chunk))| {
                let begin = at.saturating_mul(chunk);
                let first = range.at_or_after(begin).unwrap_or(range.stop);
                let here = Range { start: first, stop: begin.saturating_add(chunk).min(range.stop), ..range };
                Dim {
                    in_chunk: first.saturating_sub(begin),
                    in_slice: (first - range.start) / range.step.max(1),
                    count: here.count(),
                    step: range.step,
                    chunk,
                    slice: range.count(),
                }
            })
            .collect();
        let axis = dims.iter().position(|dim| dim.slice > 1).unwrap_or(0);
        let row = dims.iter().skip(axis + 1).map(|dim| dim.slice).product::<u64>() * grid.width;
        let (first, rows) = dims.get(axis).map_or((0, 1), |dim| (dim.in_slice, dim.count));
        let is_whole = dims.iter().all(|dim| dim.count == dim.chunk);
        Self { position, width: grid.width, start: first * row, length: rows * row, is_whole, dims }
    }

    /// Returns the range of the chunk from its first byte to its last one.
    fn span(&self) -> Result<(u64, u64)> {
        let (mut first, mut last) = (0_u64, 0_u64);
        for dim in &self.dims {
            let at = |before: u64, here: u64| before.checked_mul(dim.chunk)?.checked_add(here);
            let here = dim.count.saturating_sub(1).saturating_mul(dim.step).saturating_add(dim.in_chunk);
            (first, last) = at(first, dim.in_chunk).zip(at(last, here)).ok_or_else(too_many)?;
        }
        let bytes = |elements: u64| elements.checked_mul(self.width).ok_or_else(too_many);
        Ok((bytes(first)?, bytes(last.checked_add(1).ok_or_else(too_many)?)?))
    }

    /// Calls `each` for each run of elements that is contiguous in chunk and output, with its offset in the chunk and its bytes in the
    /// band.
    fn each_run(&self, band: &mut [u8], mut each: impl FnMut(usize, &mut [u8]) -> Option<()>) -> Result<()> {
        let inner = self.dims.last().filter(|dim| dim.step == 1 || dim.count == 1);
        let run = index(inner.map_or(1, |dim| dim.count) * self.width, "a chunk")?;
        let outer = self.dims.get(..self.dims.len() - usize::from(inner.is_some())).unwrap_or_default();
        let mut counters = vec![0; outer.len()];
        loop {
            // Row-major offsets.
            let (mut from, mut to) = (0, 0);
            for (d, dim) in self.dims.iter().enumerate() {
                let nth = counters.get(d).copied().unwrap_or(0);
                from = from * dim.chunk + dim.in_chunk + nth * dim.step;
                to = to * dim.slice + dim.in_slice + nth;
            }
            let to = (to * self.width).checked_sub(self.start).ok_or_else(too_many)?;
            let (from, to) = (index(from * self.width, "a chunk")?, index(to, "a chunk")?);
            let output = to.checked_add(run).and_then(|end| band.get_mut(to..end));
            output.and_then(|output| each(from, output)).ok_or_else(too_many)?;
            let moved = counters.iter_mut().zip(outer).rev().any(|(nth, dim)| {
                *nth = if *nth + 1 < dim.count { *nth + 1 } else { 0 };
                *nth > 0
            });
            if !moved {
                return Ok(());
            }
        }
    }
}

/// Divides the output into the bands of some parts in row-major order: returns the bands, and that of each part.
fn bands<'o>(parts: &[Part], output: &'o mut [u8]) -> Result<(Vec<Band<'o>>, Vec<usize>)> {
    let (mut bands, mut owners) = (Vec::new(), Vec::with_capacity(parts.len()));
    let (mut rest, mut at, mut last) = (output, 0, None);
    for part in parts {
        if last != Some(part.start) {
            let skipped = index(part.start.checked_sub(at).ok_or_else(too_many)?, "a band")?;
            let (_, from) = rest.split_at_mut_checked(skipped).ok_or_else(too_many)?;
            let length = index(part.length, "a band")?;
            let (band, behind) = from.split_at_mut_checked(length).ok_or_else(too_many)?;
            bands.push(Mutex::new(band));
            (rest, at, last) = (behind, part.start + part.length, Some(part.start));
        }
        owners.push(bands.len() - 1);
    }
    Ok((bands, owners))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::limits::Limits;
    use crate::model::{Builder, Chunks, Container, Encoding, Filter, ReadIndex};
    use crate::work::Watch;

    /// Chunks in row-major order, some of which were never written.
    struct TestChunks {
        counts: Vec<u64>,
        chunks: Vec<Option<Chunk>>,
        /// Whether it can list the written ones at once.
        lists: bool,
    }

    impl Chunks for TestChunks {
        fn find(&self, _: ReadIndex<'_>, position: &[u64]) -> Result<Option<Chunk>> {
            let nth = self.counts.iter().zip(position).fold(0, |nth, (count, at)| nth * count + at);
            Ok(self.chunks[usize::try_from(nth).unwrap()])
        }

        fn written(&self, _: ReadIndex<'_>, first: &[u64], last: &[u64]) -> Result<Option<Vec<Vec<u64>>>> {
            let dims =
                first.iter().zip(last).map(|(&first, &last)| (Range::from((first, last + 1)), 1)).collect();
            let all = ChunkIndices { dims, first: first.into(), last: last.into(), next: Some(first.into()) };
            let there = |position: &Vec<u64>| self.find(&|_, _| Ok(()), position).unwrap().is_some();
            Ok(self.lists.then(|| all.filter(there).collect()))
        }
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    proptest! {
        #[test]
        fn a_slice_with_steps_of_chunked_data_has_the_elements_of_the_array(
            dims in prop::collection::vec((1_u64..9, 1_u64..6, 0_u64..9, 0_u64..9, 1_u64..10), 1..5),
            width in 1_u64..5,
            missing in prop::collection::vec(any::<bool>(), 1..20),
            all_there: bool,
            lists: bool,
            deflated: bool,
            fill in any::<[u8; 4]>(),
            zeros: bool,
        ) {
            let shape: Vec<_> = dims.iter().map(|dim| dim.0).collect();
            let chunk: Vec<_> = dims.iter().map(|dim| dim.1).collect();
            let range = |&(dim, _, a, b, step): &(u64, u64, u64, u64, u64)| {
                Range { start: a.min(b).min(dim), stop: a.max(b).min(dim), step }
            };
            let ranges: Vec<_> = dims.iter().map(range).collect();
            let counts: Vec<_> = shape.iter().zip(&chunk).map(|(dim, chunk)| dim.div_ceil(*chunk)).collect();
            let length = usize::try_from(chunk.iter().product::<u64>() * width).unwrap();
            let count = usize::try_from(counts.iter().product::<u64>()).unwrap();
            let content = |nth: usize| (0..length).map(|at| u8::try_from((nth * 31 + at * 7) % 251).unwrap()).collect::<Vec<_>>();
            let is_there = |nth: usize| all_there || !missing[nth % missing.len()];
            let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
            for nth in 0..count {
                let stored = if deflated { packed(&content(nth)) } else { content(nth) };
                let (offset, stored_length) = (bytes.len() as u64, stored.len() as u64);
                chunks.push(is_there(nth).then_some(Chunk { offset, stored: stored_length, skipped: 0 }));
                bytes.extend(stored);
            }
            let (limits, watch) = (Limits::default(), Watch::default());
            let mut builder = Builder::new(Container::named("hdf5"), &limits);
            let filter = Filter::named(builder.intern("deflate"));
            let encoding = if deflated { builder.encoding(&[filter], true) } else { Encoding::RAW };
            let catalog = builder.finish();
            let reading = Reading { sources: &&*bytes, catalog: &catalog, limits: &limits, watch: &watch };
            let blob = Blob { encoding, decoded: None, ..Blob::raw(0, bytes.len() as u64) };
            let fill = if zeros { [0; 4] } else { fill };
            let fill = &fill[..usize::try_from(width).unwrap()];
            let grid = Grid {
                shape: shape.into(),
                chunk: chunk.clone().into(),
                width,
                fill: if zeros { Box::default() } else { fill.into() },
                chunks: Box::new(TestChunks { counts: counts.clone(), chunks, lists }),
            };
            let slice = reading.grid(&blob, &grid, &ranges).unwrap();
            let mut expected: Vec<u8> = Vec::new();
            let extent: Vec<_> = ranges
                .iter()
                .map(|range| (range.start..range.stop).step_by(usize::try_from(range.step).unwrap()).count() as u64)
                .collect();
            for at in 0..extent.iter().product::<u64>() {
                let (mut rest, mut position) = (at, vec![0; extent.len()]);
                for (at, dim) in position.iter_mut().zip(&extent).rev() {
                    (*at, rest) = (rest % dim, rest / dim);
                }
                let (mut nth, mut within) = (0, 0);
                for (((position, range), count), chunk) in position.iter().zip(&ranges).zip(&counts).zip(&chunk) {
                    let at = range.start + position * range.step;
                    (nth, within) = (nth * count + at / chunk, within * chunk + at % chunk);
                }
                let (nth, from) = (usize::try_from(nth).unwrap(), usize::try_from(within * width).unwrap());
                if is_there(nth) {
                    expected.extend(&content(nth)[from..from + fill.len()]);
                } else {
                    expected.extend(fill);
                }
            }
            prop_assert!(*slice == *expected);
        }
    }
}
