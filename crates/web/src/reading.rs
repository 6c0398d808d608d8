//! Operations that read data.
#![forbid(unsafe_code)]

use ztensor_core::analysis::compare::{self as comparing, Side, Tolerance, compare_all};
use ztensor_core::analysis::{nearest as search, stats as statistics};
use ztensor_core::checked;
use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::WriteFormat;
use ztensor_core::kernels::distance::Metric;
use ztensor_core::model::slice::TensorSlice;
use ztensor_core::model::{Component, DType, Tensor};
use ztensor_core::read::Reading;
use ztensor_core::read::batch as batches;
use ztensor_core::read::deferred::Reach;
use ztensor_core::read::plan::Rank;
use ztensor_core::sources::owned::Owned;
use ztensor_core::verify as verification;
use ztensor_handover::number;

use crate::kernels;
use crate::message::Message;
use crate::reply::Reply;
use crate::state::{File, State};
use crate::tensors::{form, verified};

impl State {
    /// Returns the file with the number that a message begins with, and what reads it.
    fn reader(&mut self, message: &mut Message) -> Result<(&File, Reading<'_>)> {
        let number = message.index()?;
        let file = self.files.get(number).ok_or_else(|| Error::new(Code::Internal, "no such file"))?;
        Ok((file, file.reading(&self.watch)?))
    }
}

/// The bytes of a component, or of a slice of it, or its elements as float32.
pub fn load(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading) = state.reader(message)?;
    let (tensor, component) = file.part(message.index()?, message.index()?)?;
    let widen = message.flag()?;
    let bits = component.dtype.map_or(8, DType::bits);
    let ranges = message.maybe_numbers()?;
    let slice = ranges.map(|ranges| kernels::slice(tensor.shape(), &ranges, bits)).transpose()?;
    let elements =
        checked::product(&slice.as_ref().map_or_else(|| tensor.shape().to_vec(), TensorSlice::shape));
    match (widen, component.dtype, elements, &slice) {
        (true, Some(dtype), Some(elements), slice) => {
            reading.float32(tensor, component, slice.as_ref(), dtype, elements)
        }
        (_, _, _, None) => reading.component(tensor, component),
        (_, _, _, Some(slice)) => reading.slice(tensor, component, slice),
    }
}

/// A quantized tensor as float32, or a slice of it.
pub fn dequantize(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading) = state.reader(message)?;
    let tensor = file.tensor(message.index()?)?;
    let ranges = message.maybe_numbers()?.map(|flat| kernels::ranges(&flat)).transpose()?;
    reading.dequantize(tensor, ranges.as_deref())
}

/// The elements at indices of a dimension.
pub fn take(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading) = state.reader(message)?;
    let ordinal = message.index()?;
    let part = match message.maybe()? {
        Some(component) => Some(file.part(ordinal, usize::try_from(component).unwrap_or(usize::MAX))?.1),
        None => None,
    };
    let (widen, axis) = (message.flag()?, message.index()?);
    reading.take(file.tensor(ordinal)?, form(part, widen)?, axis, &message.wholes()?)
}

/// Several arrays: their lengths, and then their bytes.
fn arrays(arrays: &[Owned]) -> Reply {
    let mut reply = Reply::default();
    reply.list(arrays, |reply, array| reply.bytes(array));
    reply
}

/// The arrays of a sparse tensor.
pub fn sparse(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading) = state.reader(message)?;
    let parts = reading.sparse(file.tensor(message.index()?)?)?;
    Ok(arrays(&parts).into())
}

/// Loads dense tensors, or the parts of a rank. `dims`: the divided dimension of each, -1 for one that is loaded whole.
pub fn batch(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (_, reading) = state.reader(message)?;
    let ordinals = message.smalls()?;
    let dims = message.maybe_numbers()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a dimension
    let dim = |dim: f64| (dim >= 0.0).then_some(dim as usize);
    let dims: Option<Vec<_>> = dims.map(|dims| dims.into_iter().map(dim).collect());
    let rank = Rank { rank: message.whole()?, world_size: message.whole()? };
    let division = dims.as_ref().map(|dims| batches::Division { dims, rank });
    let batch = batches::load(reading, &ordinals, division.as_ref(), 1, |_, _| {})?;
    let mut reply = arrays(&batch.blocks);
    reply.list(&batch.locations, |reply, location| {
        reply.number(location.block.map_or(-1.0, f64::from));
        reply.whole(location.offset);
    });
    Ok(reply.into())
}

pub fn stats(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading) = state.reader(message)?;
    let tensor = file.tensor(message.index()?)?;
    let bins = message.small()?;
    let range = match message.numbers()?[..] {
        [first, last] => Some((first, last)),
        _ => None,
    };
    let found = reading.stats(tensor, &statistics::Request { bins, range })?;
    let mut reply = Reply::default();
    let counts = [found.count, found.nan, found.positive_infinite, found.negative_infinite, found.zeros];
    for count in counts {
        reply.whole(count);
    }
    for value in [found.min, found.max, found.mean, found.std] {
        reply.number(value);
    }
    reply.maybe(found.histogram, |reply, histogram| {
        reply.numbers(histogram.edges.into_iter());
        reply.numbers(histogram.counts.into_iter().map(number));
    });
    Ok(reply.into())
}

pub fn nearest(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading) = state.reader(message)?;
    let tensor = file.tensor(message.index()?)?;
    #[expect(clippy::cast_possible_truncation)] // from float32
    let query = message.numbers()?.into_iter().map(|number| number as f32).collect();
    let k = message.index()?;
    let metric = Metric::from_name(&message.text()?);
    let metric = metric.ok_or_else(|| Error::new(Code::Internal, "a metric that does not exist"))?;
    let found = reading.nearest(tensor, &search::Request { query, k, metric })?;
    let mut reply = Reply::default();
    reply.numbers(found.iter().map(|found| number(found.row)));
    reply.numbers(found.iter().map(|found| found.score));
    Ok(reply.into())
}

pub fn verify(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (_, reading) = state.reader(message)?;
    verification::verify(reading, &message.smalls()?).map(|outcome| verified(&outcome).into())
}

pub fn canonical(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (_, reading) = state.reader(message)?;
    verification::canonical::check(reading).map(|outcome| verified(&outcome).into())
}

pub fn content_digest(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (_, reading) = state.reader(message)?;
    let algorithm = Algorithm::from_name(&message.text()?);
    let algorithm = algorithm.ok_or_else(|| Error::new(Code::Internal, "no such digest"))?;
    let format = WriteFormat::of(reading.catalog).and_then(|format| format.content_digest);
    let Some(digest) = format else {
        return Err(Error::new(Code::UnsupportedVersion, "only zTensor 2 defines a content digest"));
    };
    let digest = digest(reading.sources.source(0)?, algorithm, reading.limits, &reading.watch.stop)?;
    let mut reply = Reply::default();
    reply.text(&digest.text());
    Ok(reply.into())
}

fn side(file: &File, place: [f64; 2]) -> Result<Side<'_>> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // ordinals
    let [ordinal, component] = place.map(|number| number as usize);
    if place[1] < 0.0 {
        return Ok(Side { tensor: file.tensor(ordinal)?, component: None });
    }
    let (tensor, component) = file.part(ordinal, component)?;
    Ok(Side { tensor, component: Some(component) })
}

/// Compares tensors or components of the two files. `places`: four numbers for each pair.
pub fn compare(state: &mut State, message: &mut Message) -> Result<Owned> {
    let [first, second] = &state.files;
    let places = message.numbers()?;
    let tolerance = Tolerance { absolute: message.number()?, relative: message.number()? };
    let request = comparing::Request { tolerance, norms: message.flag()? };
    let pairs = places.as_chunks::<4>().0.iter();
    let pairs = pairs.map(|&[tensor, part, other, other_part]| {
        Ok([side(first, [tensor, part])?, side(second, [other, other_part])?])
    });
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    let readings = [first.reading(&state.watch)?, second.reading(&state.watch)?];
    let mut reply = Reply::default();
    reply.list(compare_all(readings, &pairs, request)?, |reply, found| match found {
        Ok((elements, found)) => {
            reply.flag(true);
            reply.whole(elements);
            reply.flag(found.identical);
            reply.whole(found.differing);
            reply.maybe_number(found.first.map(number));
            reply.whole(found.unmatched_nan);
            reply.number(found.max_absolute);
            reply.number(found.max_relative);
            reply.maybe_number(found.norms.and_then(|norms| norms.relative_change()));
            reply.maybe_number(found.norms.and_then(|norms| norms.cosine()));
        }
        Err(error) => {
            reply.flag(false);
            reply.error(&error);
        }
    });
    Ok(reply.into())
}

/// Prepares elements as float32 to be decoded piece by piece: of a component, or without one of a quantized tensor. The reply is their
/// number of bytes, or negative if they must be loaded at once.
pub fn defer(state: &mut State, message: &mut Message) -> Result<Owned> {
    let number_of_file = message.index()?;
    let file = state.files.get(number_of_file).ok_or_else(|| Error::new(Code::Internal, "no such file"))?;
    let reading = file.reading(&state.watch)?;
    let ordinal = message.index()?;
    let deferred = match message.maybe()? {
        Some(component) => {
            let (tensor, component): (Tensor<'_>, &Component) =
                file.part(ordinal, usize::try_from(component).unwrap_or(usize::MAX))?;
            reading.deferred_float32(tensor, component, Reach::Anywhere)?
        }
        None => reading.deferred_blocks(file.tensor(ordinal)?, Reach::Anywhere)?,
    };
    let mut reply = Reply::default();
    reply.number(deferred.as_ref().map_or(-1.0, |deferred| number(deferred.byte_length())));
    state.files[number_of_file].deferred = deferred;
    Ok(reply.into())
}

/// A piece of what [`defer`] has prepared.
pub fn fill(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let (start, length) = (message.whole()?, message.whole()?);
    let deferred = file.deferred.as_ref().ok_or_else(|| Error::new(Code::Internal, "nothing is prepared"))?;
    let mut piece = Owned::to_fill(length)?;
    deferred.fill(&file.opened()?.files, start, &mut piece)?;
    Ok(piece)
}

/// Begins to check the digest of a component, whose bytes the host has.
pub fn hashing(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let (_, component) = file.part(message.index()?, message.index()?)?;
    let hashing = component.digest().and_then(|digest| Some((digest.clone(), digest.hasher()?)));
    file.hashing = Some(hashing.ok_or_else(nothing_hashed)?);
    Ok(Reply::default().into())
}

fn nothing_hashed() -> Error {
    Error::new(Code::Internal, "no digest is being checked")
}

/// Hashes the next bytes of what [`hashing`] began.
pub fn hash(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let range = message.range()?;
    let (_, hasher) = file.hashing.as_mut().ok_or_else(nothing_hashed)?;
    hasher.update(message.bytes(range));
    Ok(Reply::default().into())
}

/// Checks the digest of a component, all of whose bytes were hashed.
pub fn hashed(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let (ordinal, component) = (message.index()?, message.index()?);
    let (digest, hasher) = file.hashing.take().ok_or_else(nothing_hashed)?;
    let (tensor, component) = file.part(ordinal, component)?;
    let role = file.opened()?.catalog.label(component.role);
    digest.check(hasher).map_err(|error| error.tensor(tensor.name()).component(role))?;
    Ok(Reply::default().into())
}
