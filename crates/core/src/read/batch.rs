//! Many dense tensors at once: small ones that are neighbours in the file come in one read and share a block, large
//! ones are divided, and everything goes to all cores.
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

/// Where a tensor's elements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The block, or `None` of a tensor without bytes.
    pub block: Option<u32>,
    /// Bytes into the block.
    pub offset: u64,
}

/// What was loaded.
pub struct Batch {
    pub blocks: Vec<Owned>,
    /// One for each tensor asked for, in that order.
    pub locations: Vec<Location>,
}

/// What is read or decoded by itself.
enum Job<'a> {
    /// Neighbours, in the order of their offsets, read in one go.
    Span { file: u32, start: u64, end: u64, members: Vec<(Tensor<'a>, &'a Component)> },
    /// One tensor, whatever it takes.
    Whole(Tensor<'a>, &'a Component),
    /// Parts of tensors that share a block of so many bytes, or one alone.
    Parts(Vec<Part<'a>>, u64),
}

/// What a rank has of a tensor.
struct Part<'a> {
    tensor: Tensor<'a>,
    component: &'a Component,
    cut: TensorSlice,
    /// Bytes into the block.
    at: u64,
}

/// Which parts of tensors are loaded.
pub struct Division<'d> {
    /// Of each tensor asked for the dimension that is divided; `None` for one that is loaded whole.
    pub dims: &'d [Option<usize>],
    pub rank: Rank,
}

/// Parts that share a block come to about so many bytes.
const SHARED: u64 = 1 << 20;

/// Loads the elements of dense tensors, given by their ordinals, at most so many at once; of those that are divided the part of
/// a rank. `finish` brings the bytes of a dtype into the order of the host. Fails with the first failure.
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
    // What is divided itself takes all threads, one after the other; the others go side by side.
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
    /// Whether a job divides its own read.
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
    let mut cuts = Cuts::default();
    let mut locations = Vec::with_capacity(ordinals.len());
    // What is near in the file that the last tensor is in.
    let mut last: Option<(u32, Near)> = None;
    for (nth, &ordinal) in ordinals.iter().enumerate() {
        let tensor = reading.catalog.tensor(ordinal as usize);
        let found = tensor.and_then(|tensor| Some((tensor, tensor.data()?)));
        let (tensor, component) = found.ok_or_else(|| Error::new(Code::Internal, "no such dense tensor"))?;
        let part = division.and_then(|division| Some((division.rank, (*division.dims.get(nth)?)?)));
        if let Some((rank, dim)) = part {
            let cut = cuts.of(tensor, dim, rank).map_err(|error| error.tensor(tensor.name()))?;
            locations.push(part_location(&mut jobs, tensor, component, cut)?);
            continue;
        }
        let Some((offset, length)) = shareable(component) else {
            // Of nothing there may still be a digest, and no bytes are no zstd frame.
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
        // What cannot be opened fails where it is read.
        let source = || reading.sources.source(component.file());
        let holds = |start: u64| source().map_or(true, |source| source.holds(start, next - start));
        let near = match &last {
            Some((file, near)) if *file == component.file() => near,
            _ => {
                let near = Aim::KEPT.on(source().map_or(Costs::LOCAL, ReadAt::costs));
                &last.insert((component.file(), near)).1
            }
        };
        if let Some(Job::Span { file, start, end, members }) = jobs.last_mut()
            && *file == component.file()
            // Never two tensors over the same bytes: what is loaded is the caller's own.
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
        // A block begins at a multiple of this in the file, so that what is aligned there is aligned in it.
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
    cut: TensorSlice,
) -> Result<Location> {
    let bytes = cut.byte_length();
    if bytes == 0 {
        return Ok(Location { block: None, offset: 0 });
    }
    if let Some(Job::Parts(parts, end)) = jobs.last_mut()
        && bytes <= SMALL
        && *end < SHARED
    {
        let at = end.next_multiple_of(ALIGNMENT);
        *end = at + bytes;
        parts.push(Part { tensor, component, cut, at });
        return Ok(Location { block: Some(number(jobs.len() - 1)?), offset: at });
    }
    // One that is large fills its block.
    let end = if bytes <= SMALL { bytes } else { bytes.max(SHARED) };
    jobs.push(Job::Parts(vec![Part { tensor, component, cut, at: 0 }], end));
    Ok(Location { block: Some(number(jobs.len() - 1)?), offset: 0 })
}

/// The cut of the tensor before, of its shape, dimension and bits of an element: neighbours are mostly alike.
#[derive(Default)]
struct Cuts(Option<((u32, usize, u32), TensorSlice)>);

impl Cuts {
    fn of(&mut self, tensor: Tensor<'_>, dim: usize, rank: Rank) -> Result<TensorSlice> {
        let bits = tensor.dtype().map_or(8, DType::bits);
        let key = (tensor.shape_id(), dim, bits);
        if let Some((same, cut)) = &self.0
            && *same == key
        {
            return Ok(cut.clone());
        }
        let ranges = shard(tensor.shape(), dim, rank.rank, rank.world_size)?;
        let cut = TensorSlice::new(tensor.shape(), &ranges, bits)?;
        self.0 = Some((key, cut.clone()));
        Ok(cut)
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

/// Where a small tensor stands, if a view of the file's own bytes is what is loaded.
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

    /// How many threads suit the batch, by its first job.
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

/// Reads parts of tensors, each as a slice is read.
fn together(
    reading: Reading<'_>,
    parts: &[Part<'_>],
    end: u64,
    finish: &impl Fn(Option<DType>, &mut [u8]),
) -> Result<Owned> {
    if let [Part { tensor, component, cut, .. }] = parts {
        let mut bytes = reading.slice(*tensor, component, cut)?;
        finish(component.dtype, &mut bytes);
        return Ok(bytes);
    }
    // What stands between the parts is seen by whoever has the block.
    let mut block = Owned::zeroed(end)?;
    for Part { tensor, component, cut, at } in parts {
        reading.watch.stop.check()?;
        let mut bytes = reading.slice(*tensor, component, cut)?;
        finish(component.dtype, &mut bytes);
        let at = index(*at, "a block")?;
        let place = block.get_mut(at..at + bytes.len());
        place.ok_or_else(|| Error::new(Code::Internal, "a part beyond its block"))?.copy_from_slice(&bytes);
    }
    Ok(block)
}

/// Reads neighbours and checks the digest of each.
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
