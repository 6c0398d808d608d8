//! Loads many dense tensors at once: small adjacent ones share one read and one block, large ones are divided, and the work is distributed
//! to all cores.
#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::plan::Rank;
use super::planner::{ALIGNMENT, Aim, Near, SMALL};
use super::{Reading, claim, compare, parallel, stored_hasher};
use crate::checked::{self, index};
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::model::slice::{TensorSlice, shard};
use crate::model::{Component, DType, Tensor};
use crate::sources::owned::Owned;
use crate::sources::{Costs, ReadAt};
use crate::work;

/// The location of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The block, or `None` for a tensor without bytes.
    pub block: Option<u32>,
    /// Offset in the block.
    pub offset: u64,
}

/// The loaded tensors.
pub struct Batch {
    pub blocks: Vec<Owned>,
    /// One for each requested tensor, in that order.
    pub locations: Vec<Location>,
}

/// A unit of reading and decoding.
enum Job<'a> {
    /// Adjacent tensors, sorted by offset, read at once.
    Span { file: u32, start: u64, end: u64, members: Vec<(Tensor<'a>, &'a Component)> },
    /// A single tensor of any kind.
    Whole(Tensor<'a>, &'a Component),
    /// Parts of tensors that share a block of this size, or a single one.
    Parts(Vec<Part<'a>>, u64),
}

/// A rank's part of a tensor.
struct Part<'a> {
    tensor: Tensor<'a>,
    component: &'a Component,
    slice: TensorSlice,
    /// Offset in the block.
    at: u64,
}

/// Which parts of tensors are loaded.
pub struct Division<'d> {
    /// The divided dimension of each requested tensor; `None` for one that is loaded whole.
    pub dims: &'d [Option<usize>],
    pub rank: Rank,
}

/// Target size of blocks shared by parts.
const SHARED: u64 = 1 << 20;

/// Loads the elements of dense tensors, given by their ordinals, at most this many at once; for divided tensors only the part of a rank.
/// `finish` converts the bytes of a dtype to the byte order of the host. Returns the first failure.
pub fn load(
    reading: Reading<'_>,
    ordinals: &[u32],
    division: Option<&Division<'_>>,
    at_once: usize,
    finish: impl Fn(Option<DType>, &mut [u8]) + Sync,
) -> Result<Batch> {
    let plan = plan(reading, ordinals, division)?;
    let blocks: Vec<Mutex<Option<Owned>>> = plan.jobs.iter().map(|_| Mutex::new(None)).collect();
    let run = |at: usize| {
        let Some(job) = plan.jobs.get(at) else { return Ok(()) };
        let mut block = job.run(reading, &finish)?;
        if let Job::Whole(_, component) = job {
            finish(component.dtype, &mut block);
        }
        if let Some(Ok(mut slot)) = blocks.get(at).map(Mutex::lock) {
            *slot = Some(block);
        }
        for _ in 0..job.tensors() {
            reading.watch.did_tensor();
        }
        Ok(())
    };
    // Jobs that divide their own read take all threads, one after the other; the others run concurrently.
    let (divided, whole): (Vec<usize>, Vec<usize>) = (0..plan.jobs.len()).partition(|&at| plan.divides(at));
    divided.into_iter().try_for_each(run)?;
    let threads = whole.first().and_then(|&at| plan.jobs.get(at)).map_or(1, |job| job.threads(reading));
    work::try_each_on(threads.min(at_once), whole.len(), |at| whole.get(at).map_or(Ok(()), |&at| run(at)))?;
    let blocks = blocks.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect();
    Ok(Batch { blocks, locations: plan.locations })
}

struct Plan<'a> {
    jobs: Vec<Job<'a>>,
    locations: Vec<Location>,
}

impl Plan<'_> {
    /// Returns whether a job divides its own read.
    fn divides(&self, at: usize) -> bool {
        match self.jobs.get(at) {
            Some(Job::Whole(_, component)) => {
                let hasher = component.blob().and_then(stored_hasher);
                component.is_raw_blob()
                    && component.stored_length() >= parallel::FROM
                    && hasher.is_none_or(|hasher| hasher.combines())
            }
            _ => false,
        }
    }
}

fn plan<'a>(reading: Reading<'a>, ordinals: &[u32], division: Option<&Division<'_>>) -> Result<Plan<'a>> {
    let mut jobs: Vec<Job<'a>> = Vec::new();
    let mut slices = Slices::default();
    let mut locations = Vec::with_capacity(ordinals.len());
    // The read planner for the file of the last tensor.
    let mut last: Option<(u32, Near)> = None;
    for (nth, &ordinal) in ordinals.iter().enumerate() {
        let tensor = reading.catalog.tensor(ordinal as usize);
        let found = tensor.and_then(|tensor| Some((tensor, tensor.data()?)));
        let (tensor, component) = found.ok_or_else(|| Error::new(Code::Internal, "no such dense tensor"))?;
        let part = division.and_then(|division| Some((division.rank, (*division.dims.get(nth)?)?)));
        if let Some((rank, dim)) = part {
            let slice = slices.of(tensor, dim, rank).map_err(|error| error.tensor(tensor.name()))?;
            locations.push(part_location(&mut jobs, tensor, component, slice)?);
            continue;
        }
        let Some((offset, length)) = shareable(component) else {
            // Empty data may still have a digest, and an empty input is not a zstd frame.
            let empty = component.plain_range().is_some_and(|(_, length)| length == 0)
                && component.digest().is_none()
                && component.byte_length() == Some(0);
            let block = if empty { None } else { Some(number(jobs.len())?) };
            locations.push(Location { block, offset: 0 });
            if !empty {
                jobs.push(Job::Whole(tensor, component));
            }
            continue;
        };
        let next = offset.saturating_add(length);
        // A source that cannot be opened fails when it is read.
        let source = || reading.sources.source(component.file());
        let holds = |start: u64| source().map_or(true, |source| source.holds(start, next - start));
        let near = match &last {
            Some((file, near)) if *file == component.file() => near,
            _ => {
                let near = Aim::RETAINED.on(source().map_or(Costs::LOCAL, ReadAt::costs));
                &last.insert((component.file(), near)).1
            }
        };
        if let Some(Job::Span { file, start, end, members }) = jobs.last_mut()
            && *file == component.file()
            // Never two tensors over the same bytes: the caller owns what is loaded.
            && near.joins(&(*start..*end), &(offset..next))
            && holds(*start)
        {
            *end = next;
            members.push((tensor, component));
            locations.push(Location {
                block: Some(number(jobs.len() - 1)?),
                offset: offset - start_of(jobs.last()),
            });
            continue;
        }
        // A block begins at a multiple of this in the file, so that data aligned in the file is aligned in the block.
        let start = Some(offset - offset % ALIGNMENT).filter(|&start| holds(start)).unwrap_or(offset);
        locations.push(Location { block: Some(number(jobs.len())?), offset: offset - start });
        jobs.push(Job::Span { file: component.file(), start, end: next, members: vec![(tensor, component)] });
    }
    Ok(Plan { jobs, locations })
}

/// Adds a part of a tensor to the last block, or to a new one.
fn part_location<'a>(
    jobs: &mut Vec<Job<'a>>,
    tensor: Tensor<'a>,
    component: &'a Component,
    slice: TensorSlice,
) -> Result<Location> {
    let bytes = slice.byte_length();
    if bytes == 0 {
        return Ok(Location { block: None, offset: 0 });
    }
    if let Some(Job::Parts(parts, end)) = jobs.last_mut()
        && bytes <= SMALL
        && *end < SHARED
    {
        let at = end.next_multiple_of(ALIGNMENT);
        *end = at + bytes;
        parts.push(Part { tensor, component, slice, at });
        return Ok(Location { block: Some(number(jobs.len() - 1)?), offset: at });
    }
    // A large part fills its own block.
    let end = if bytes <= SMALL { bytes } else { bytes.max(SHARED) };
    jobs.push(Job::Parts(vec![Part { tensor, component, slice, at: 0 }], end));
    Ok(Location { block: Some(number(jobs.len() - 1)?), offset: 0 })
}

/// Caches the slice of the previous tensor by shape, dimension and element size: adjacent tensors are mostly similar.
#[derive(Default)]
struct Slices(Option<((u32, usize, u32), TensorSlice)>);

impl Slices {
    fn of(&mut self, tensor: Tensor<'_>, dim: usize, rank: Rank) -> Result<TensorSlice> {
        let bits = tensor.dtype().map_or(8, DType::bits);
        let key = (tensor.shape_id(), dim, bits);
        if let Some((same, slice)) = &self.0
            && *same == key
        {
            return Ok(slice.clone());
        }
        let ranges = shard(tensor.shape(), dim, rank.rank, rank.world_size)?;
        let slice = TensorSlice::new(tensor.shape(), &ranges, bits)?;
        self.0 = Some((key, slice.clone()));
        Ok(slice)
    }
}

fn start_of(job: Option<&Job<'_>>) -> u64 {
    match job {
        Some(Job::Span { start, .. }) => *start,
        _ => 0,
    }
}

fn number(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| Error::new(Code::Limit, "more than 2^32 - 1 tensors at once"))
}

/// Returns the location of a small tensor, if its loaded form equals its bytes in the file.
fn shareable(component: &Component) -> Option<(u64, u64)> {
    let (offset, length) = component.plain_range()?;
    let width = component.dtype.map_or(1, DType::element_bytes) as u64;
    let in_host_order = width == 1 || cfg!(target_endian = "little");
    let whole = component.is_raw_blob() && component.rule.is_none();
    let small = length > 0 && length <= SMALL;
    (small && whole && in_host_order && offset.is_multiple_of(width.max(1))).then_some((offset, length))
}

impl Job<'_> {
    fn run(&self, reading: Reading<'_>, finish: &impl Fn(Option<DType>, &mut [u8])) -> Result<Owned> {
        inject::panic_at("batch");
        match self {
            Job::Span { file, start, end, members } => span(reading, *file, *start, *end, members),
            Job::Whole(tensor, component) => reading.component(*tensor, component),
            Job::Parts(parts, end) => together(reading, parts, *end, finish),
        }
    }

    fn tensors(&self) -> usize {
        match self {
            Job::Span { members, .. } => members.len(),
            Job::Whole(..) => 1,
            Job::Parts(parts, _) => parts.len(),
        }
    }

    /// Returns the number of threads suitable for the batch, judging by its first job.
    fn threads(&self, reading: Reading<'_>) -> usize {
        let (file, offset, length) = match self {
            Job::Span { file, start, end, .. } => (*file, *start, *end - *start),
            Job::Whole(_, component) => (component.file(), component.offset(), component.stored_length()),
            Job::Parts(parts, _) => match parts.first().map(|part| part.component) {
                Some(first) => (first.file(), first.offset(), first.stored_length()),
                None => return 1,
            },
        };
        match reading.sources.source(file) {
            Ok(source) => parallel::threads(source, offset, length),
            Err(_) => work::cores(),
        }
    }
}

/// Reads parts of tensors like slices.
fn together(
    reading: Reading<'_>,
    parts: &[Part<'_>],
    end: u64,
    finish: &impl Fn(Option<DType>, &mut [u8]),
) -> Result<Owned> {
    if let [Part { tensor, component, slice, .. }] = parts {
        let mut bytes = reading.slice(*tensor, component, slice)?;
        finish(component.dtype, &mut bytes);
        return Ok(bytes);
    }
    // Zeroed, because the gaps between the parts are visible to users of the block.
    let mut block = Owned::zeroed(end)?;
    for Part { tensor, component, slice, at } in parts {
        reading.watch.stop.check()?;
        let mut bytes = reading.slice(*tensor, component, slice)?;
        finish(component.dtype, &mut bytes);
        let at = index(*at, "a block")?;
        let target = block.get_mut(at..at + bytes.len());
        target
            .ok_or_else(|| Error::new(Code::Internal, "a part is outside its block"))?
            .copy_from_slice(&bytes);
    }
    Ok(block)
}

/// Reads adjacent tensors and verifies the digest of each.
fn span(
    reading: Reading<'_>,
    file: u32,
    start: u64,
    end: u64,
    members: &[(Tensor<'_>, &Component)],
) -> Result<Owned> {
    reading.watch.stop.check()?;
    let named = |error: Error, member: Option<&(Tensor<'_>, &Component)>| match member {
        Some(&(tensor, component)) => reading.name(error, tensor, component),
        None => error,
    };
    let source = reading.sources.source(file).map_err(|error| named(error, members.first()))?;
    let mut block = claim(source, start, end - start).map_err(|error| named(error, members.last()))?;
    source
        .read_bulk(start, &mut block, &reading.watch.stop)
        .map_err(|error| named(error, members.first()))?;
    for member in members {
        let (_, component) = member;
        let bytes = checked::slice(&block, component.offset() - start, component.stored_length());
        if let (Some(bytes), Some((blob, mut hasher))) =
            (bytes, component.blob().and_then(|blob| Some((blob, stored_hasher(blob)?))))
        {
            hasher.update(bytes);
            compare(blob, Some(hasher)).map_err(|error| named(error, Some(member)))?;
        }
        reading.watch.did_bytes(component.stored_length());
    }
    Ok(block)
}
