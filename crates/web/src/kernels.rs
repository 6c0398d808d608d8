//! Operations on arrays of the host. Elements are little-endian, as on the host.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::kernels::cast::cast_from;
use ztensor_core::kernels::widen;
use ztensor_core::layouts::coo::Coo;
use ztensor_core::layouts::csr::Csr;
use ztensor_core::layouts::indices::Indices;
use ztensor_core::model::DType;
use ztensor_core::model::slice::{Range, TensorSlice, shard};
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::Stop;
use ztensor_handover::number;

use crate::message::{Message, whole};
use crate::reply::Reply;
use crate::state::State;

fn wholes(numbers: &[f64]) -> Result<Vec<u64>> {
    let all = numbers.iter().map(|&number| whole(number)).collect::<Option<_>>();
    all.ok_or_else(|| Error::new(Code::InvalidArg, "a size must be a whole number from 0 to 2^53 - 1"))
}

/// Parses `[start, stop, step]` of each dimension from a flat array.
pub fn ranges(flat: &[f64]) -> Result<Vec<Range>> {
    let numbers = wholes(flat)?;
    let ranges = numbers.as_chunks::<3>().0.iter();
    Ok(ranges.map(|&[start, stop, step]| Range { start, stop, step }).collect())
}

pub fn slice(shape: &[u64], flat: &[f64], bits: u32) -> Result<TensorSlice> {
    TensorSlice::stepped(shape, &ranges(flat)?, bits)
}

fn dtype(message: &mut Message) -> Result<DType> {
    let code = u8::try_from(message.small()?).ok().and_then(DType::from_code);
    code.ok_or_else(|| Error::new(Code::Internal, "no such dtype code"))
}

/// Widens elements to float32. The message has the number of bytes of the result.
pub fn to_float32(_state: &mut State, message: &mut Message) -> Result<Owned> {
    let dtype = dtype(message)?;
    let mut output = Owned::to_fill(message.whole()?)?;
    let input = message.range()?;
    widen::to_float32_divided(dtype, message.bytes(input), &mut output, &Stop::default())?;
    Ok(output)
}

/// Casts elements to another type. Errors count elements from `first` on.
pub fn cast_elements(_state: &mut State, message: &mut Message) -> Result<Owned> {
    let (from, to, first) = (dtype(message)?, dtype(message)?, message.whole()?);
    let mut output = Owned::to_fill(message.whole()?)?;
    let input = message.range()?;
    cast_from(first, from, to, message.bytes(input), &mut output)?;
    Ok(output)
}

fn sliced(message: &mut Message) -> Result<TensorSlice> {
    let shape = wholes(&message.numbers()?)?;
    let flat = message.numbers()?;
    slice(&shape, &flat, message.small()?)
}

/// The shape of a slice, its number of bytes, and its offset in the tensor's bytes, or -1 if it is not contiguous.
pub fn plan_slice(_state: &mut State, message: &mut Message) -> Result<Owned> {
    let planned = sliced(message)?;
    let mut reply = Reply::default();
    reply.numbers(planned.shape().iter().copied().map(number));
    reply.whole(planned.byte_length());
    reply.number(planned.contiguous().map_or(-1.0, |(start, _)| number(start)));
    Ok(reply.into())
}

pub fn pack_slice(_state: &mut State, message: &mut Message) -> Result<Owned> {
    let planned = sliced(message)?;
    let mut output = Owned::to_fill(message.whole()?)?;
    let input = message.range()?;
    planned.pack_divided(message.bytes(input), &mut output)?;
    Ok(output)
}

/// The ranges of one rank's share of a dimension.
pub fn shard_ranges(_state: &mut State, message: &mut Message) -> Result<Owned> {
    let shape = wholes(&message.numbers()?)?;
    let [dim, rank, world_size] = wholes(&message.numbers()?)?[..] else {
        return Err(Error::new(Code::Internal, "a share without a rank"));
    };
    let ranges = shard(&shape, usize::try_from(dim).unwrap_or(usize::MAX), rank, world_size)?;
    let flat: Vec<f64> =
        ranges.into_iter().flat_map(|(start, stop)| [number(start), number(stop), 1.0]).collect();
    let mut reply = Reply::default();
    reply.numbers(flat.into_iter());
    Ok(reply.into())
}

/// Calls `work` with a CSR tensor: its shape, the dtypes of values, indices and row pointers, and these arrays.
fn with_csr<T>(message: &mut Message, work: impl FnOnce(Csr<'_>, &mut [u64]) -> Result<T>) -> Result<T> {
    let shape = wholes(&message.numbers()?)?;
    let &[rows, columns] = shape.as_slice() else {
        return Err(Error::new(Code::InvalidArg, "a CSR tensor has 2 dimensions"));
    };
    let dtypes = [dtype(message)?, dtype(message)?, dtype(message)?];
    let mut lengths = message.wholes()?;
    let [values, indices, indptr] = [message.range()?, message.range()?, message.range()?];
    let csr = Csr {
        shape: [rows, columns],
        dtype: dtypes[0],
        values: message.bytes(values),
        indices: Indices::new(dtypes[1], message.bytes(indices))?,
        indptr: Indices::new(dtypes[2], message.bytes(indptr))?,
    };
    work(csr, &mut lengths)
}

fn with_coo<T>(message: &mut Message, work: impl FnOnce(Coo<'_>, &mut [u64]) -> Result<T>) -> Result<T> {
    let shape = wholes(&message.numbers()?)?;
    let dtypes = [dtype(message)?, dtype(message)?];
    let mut lengths = message.wholes()?;
    let [values, coords] = [message.range()?, message.range()?];
    let coords = Indices::new(dtypes[1], message.bytes(coords))?;
    work(Coo { shape: &shape, dtype: dtypes[0], values: message.bytes(values), coords }, &mut lengths)
}

/// A block for each array of the result, whose lengths the host knows.
fn outputs<const COUNT: usize>(lengths: &[u64]) -> Result<[Owned; COUNT]> {
    let blocks = lengths.iter().map(|&length| Owned::zeroed(length)).collect::<Result<Vec<_>>>()?;
    blocks.try_into().map_err(|_| Error::new(Code::Internal, "the wrong number of arrays"))
}

fn code(dtype: DType) -> Owned {
    let mut reply = Reply::default();
    reply.number(f64::from(dtype as u8));
    reply.into()
}

/// Whether to check strictly comes as the only length.
fn is_strict(lengths: &[u64]) -> bool {
    lengths.first().is_some_and(|&strict| strict != 0)
}

pub fn check_csr(_state: &mut State, message: &mut Message) -> Result<Owned> {
    with_csr(message, |csr, strict| if is_strict(strict) { csr.check_strictly() } else { csr.check() })?;
    Ok(Reply::default().into())
}

pub fn csr_to_dense(_state: &mut State, message: &mut Message) -> Result<Owned> {
    with_csr(message, |csr, lengths| {
        let [mut output] = outputs(lengths)?;
        csr.to_dense(&mut output)?;
        Ok(output)
    })
}

pub fn csr_coords_dtype(_state: &mut State, message: &mut Message) -> Result<Owned> {
    with_csr(message, |csr, _| Ok(code(csr.coords_dtype())))
}

pub fn csr_to_coords(_state: &mut State, message: &mut Message) -> Result<Owned> {
    with_csr(message, |csr, lengths| {
        let [mut output] = outputs(lengths)?;
        csr.to_coo_coords(&mut output)?;
        Ok(output)
    })
}

pub fn check_coo(_state: &mut State, message: &mut Message) -> Result<Owned> {
    with_coo(message, |coo, strict| if is_strict(strict) { coo.check_strictly() } else { coo.check() })?;
    Ok(Reply::default().into())
}

pub fn coo_to_dense(_state: &mut State, message: &mut Message) -> Result<Owned> {
    with_coo(message, |coo, lengths| {
        let [mut output] = outputs(lengths)?;
        coo.to_dense(&mut output)?;
        Ok(output)
    })
}

pub fn coo_indptr_dtype(_state: &mut State, message: &mut Message) -> Result<Owned> {
    with_coo(message, |coo, _| Ok(code(coo.indptr_dtype())))
}

/// The three arrays of the CSR form.
pub fn coo_to_csr(_state: &mut State, message: &mut Message) -> Result<Owned> {
    with_coo(message, |coo, lengths| {
        let [mut values, mut indices, mut indptr] = outputs(lengths)?;
        coo.to_csr(&mut values, &mut indices, &mut indptr)?;
        let mut reply = Reply::default();
        for array in [values, indices, indptr] {
            reply.bytes(&array);
        }
        Ok(reply.into())
    })
}
