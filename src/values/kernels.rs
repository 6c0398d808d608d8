//! Operations on arrays in JavaScript memory: widening, slicing, sparse conversions. The wrapper passes elements little-endian
//! (lib/values/byte-order.ts), and gets them in the byte order of the host.

use napi::bindgen_prelude::Uint8ArraySlice;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::kernels::cast::{cast, cast_from};
use ztensor_core::kernels::swap::swap_bytes;
use ztensor_core::kernels::widen;
use ztensor_core::layouts::coo::Coo;
use ztensor_core::layouts::csr::Csr;
use ztensor_core::layouts::indices::Indices;
use ztensor_core::model::DType;
use ztensor_core::model::slice::{Range, TensorSlice, shard};
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::Stop;

use crate::js::buffer::writable;
use crate::js::error::{misuse, throw};
use crate::js::panic::contain;
use crate::values::arguments::unsigned;
use ztensor_handover::number;

/// Converts little-endian elements to the byte order of the host.
pub fn to_host_order(dtype: Option<DType>, bytes: &mut [u8]) {
    if let (true, Some(dtype)) = (cfg!(target_endian = "big"), dtype) {
        swap_bytes(bytes, dtype.element_bytes());
    }
}

fn dtype(codes: &[u32], at: usize) -> Result<DType> {
    let code = codes.get(at).and_then(|&code| u8::try_from(code).ok());
    code.and_then(DType::from_code).ok_or_else(|| misuse("no such dtype code"))
}

fn numbers(values: &[f64]) -> CoreResult<Vec<u64>> {
    let all = values.iter().map(|&value| unsigned(value)).collect::<Option<Vec<_>>>();
    all.ok_or_else(|| CoreError::new(Code::InvalidArg, "a size must be a whole number from 0 to 2^53 - 1"))
}

/// Returns the slice given by `[start, stop, step, start, stop, step, …]`.
pub fn slice(shape: &[u64], flat: &[f64], bits: u32) -> CoreResult<TensorSlice> {
    TensorSlice::stepped(shape, &ranges(flat)?, bits)
}

/// Parses `[start, stop, step]` of each dimension from a flat array.
pub fn ranges(flat: &[f64]) -> CoreResult<Vec<Range>> {
    let numbers = numbers(flat)?;
    let ranges = numbers.as_chunks::<3>().0.iter();
    Ok(ranges.map(|&[start, stop, step]| Range { start, stop, step }).collect())
}

/// Widens elements to float32.
#[napi(catch_unwind)]
pub fn to_float32(
    env: Env,
    dtype_code: u32,
    input: Uint8ArraySlice<'_>,
    mut output: Uint8ArraySlice<'_>,
) -> Result<()> {
    let dtype = dtype(&[dtype_code], 0)?;
    let output = writable(&mut output, &[&input])?;
    throw(&env, contain(|| widen::to_float32_divided(dtype, &input, output, &Stop::default())))
}

/// A cast of elements from one type to another, like that of `convert`.
#[derive(Clone, Copy)]
pub struct Cast {
    pub from: DType,
    to: DType,
}

impl Cast {
    /// `codes`: those of the two types.
    pub fn new(codes: &[u32]) -> Result<Self> {
        Ok(Self { from: dtype(codes, 0)?, to: dtype(codes, 1)? })
    }

    /// Casts whole elements.
    pub fn of(self, elements: &Owned) -> CoreResult<Owned> {
        let count = elements.len() as u64 / u64::from(self.from.bits() / 8).max(1);
        let mut output = Owned::to_fill(count * u64::from(self.to.bits() / 8))?;
        cast(self.from, self.to, elements, &mut output)?;
        Ok(output)
    }
}

/// Casts elements to another type, like `convert`; `output` must have exactly the right size, and is little-endian as well. Errors count
/// elements from `first` on.
#[napi(catch_unwind)]
pub fn cast_elements(
    env: Env,
    from: u32,
    to: u32,
    first: f64,
    input: Uint8ArraySlice<'_>,
    mut output: Uint8ArraySlice<'_>,
) -> Result<()> {
    let (from, to) = (dtype(&[from], 0)?, dtype(&[to], 0)?);
    let output = writable(&mut output, &[&input])?;
    let first = unsigned(first).ok_or_else(|| misuse("an invalid element"))?;
    throw(&env, contain(|| cast_from(first, from, to, &input, output)))
}

/// The description of a slice.
#[napi(object)]
pub struct SlicePlan {
    pub shape: Vec<f64>,
    pub byte_length: f64,
    /// The offset of the slice in the tensor's bytes, if it is contiguous; -1 otherwise.
    pub start: f64,
}

#[napi(catch_unwind)]
pub fn plan_slice(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    ranges: Vec<f64>,
    bits: u32,
) -> Result<SlicePlan> {
    let planned = throw(&env, contain(|| slice(&numbers(&shape)?, &ranges, bits)))?;
    Ok(SlicePlan {
        shape: planned.shape().iter().copied().map(number).collect(),
        byte_length: number(planned.byte_length()),
        start: planned.contiguous().map_or(-1.0, |(start, _)| number(start)),
    })
}

/// Packs a slice of `input` into `output`.
#[napi(catch_unwind)]
pub fn pack_slice(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    ranges: Vec<f64>,
    bits: u32,
    input: Uint8ArraySlice<'_>,
    mut output: Uint8ArraySlice<'_>,
) -> Result<()> {
    let output = writable(&mut output, &[&input])?;
    throw(&env, contain(|| slice(&numbers(&shape)?, &ranges, bits)?.pack_divided(&input, output)))
}

/// The ranges of one rank's share of dimension `dim`, as a flat array.
#[napi(catch_unwind)]
pub fn shard_ranges(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    dim: f64,
    rank: f64,
    world_size: f64,
) -> Result<Vec<f64>> {
    let ranges = contain(|| {
        let [dim, rank, world_size] = numbers(&[dim, rank, world_size])?[..] else { return Ok(Vec::new()) };
        shard(&numbers(&shape)?, usize::try_from(dim).unwrap_or(usize::MAX), rank, world_size)
    });
    Ok(throw(&env, ranges)?
        .into_iter()
        .flat_map(|(start, stop)| [number(start), number(stop), 1.0])
        .collect())
}

/// Calls `work` with a CSR tensor over JavaScript arrays; `codes` are the dtypes of the three.
fn with_csr<T>(
    env: &Env,
    shape: &[f64],
    codes: &[u32],
    arrays: [&[u8]; 3],
    work: impl FnOnce(Csr<'_>) -> CoreResult<T>,
) -> Result<T> {
    let dtypes = [dtype(codes, 0)?, dtype(codes, 1)?, dtype(codes, 2)?];
    throw(
        env,
        contain(|| {
            let shape = numbers(shape)?;
            let &[rows, columns] = shape.as_slice() else {
                return Err(CoreError::new(Code::InvalidArg, "a CSR tensor has 2 dimensions"));
            };
            let [values, indices, indptr] = arrays;
            let (indices, indptr) = (Indices::new(dtypes[1], indices)?, Indices::new(dtypes[2], indptr)?);
            work(Csr { shape: [rows, columns], dtype: dtypes[0], values, indices, indptr })
        }),
    )
}

fn with_coo<T>(
    env: &Env,
    shape: &[f64],
    codes: &[u32],
    arrays: [&[u8]; 2],
    work: impl FnOnce(Coo<'_>) -> CoreResult<T>,
) -> Result<T> {
    let dtypes = [dtype(codes, 0)?, dtype(codes, 1)?];
    throw(
        env,
        contain(|| {
            let (shape, [values, coords]) = (numbers(shape)?, arrays);
            work(Coo { shape: &shape, dtype: dtypes[0], values, coords: Indices::new(dtypes[1], coords)? })
        }),
    )
}

/// Checks the data rules of CSR.
#[napi(catch_unwind)]
pub fn check_csr(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    #[napi(ts_arg_type = "readonly number[]")] codes: Vec<u32>,
    values: Uint8ArraySlice<'_>,
    indices: Uint8ArraySlice<'_>,
    indptr: Uint8ArraySlice<'_>,
    strict: bool,
) -> Result<()> {
    with_csr(&env, &shape, &codes, [&values, &indices, &indptr], |csr| {
        if strict { csr.check_strictly() } else { csr.check() }
    })
}

/// Fills `output` with the dense elements.
#[napi(catch_unwind)]
pub fn csr_to_dense(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    #[napi(ts_arg_type = "readonly number[]")] codes: Vec<u32>,
    values: Uint8ArraySlice<'_>,
    indices: Uint8ArraySlice<'_>,
    indptr: Uint8ArraySlice<'_>,
    mut output: Uint8ArraySlice<'_>,
) -> Result<()> {
    let output = writable(&mut output, &[&values, &indices, &indptr])?;
    with_csr(&env, &shape, &codes, [&values, &indices, &indptr], |csr| {
        csr.to_dense(output)?;
        to_host_order(Some(csr.dtype), output);
        Ok(())
    })
}

/// The dtype code of the coordinates that `csrToCoords` writes.
#[napi(catch_unwind)]
pub fn csr_coords_dtype(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    #[napi(ts_arg_type = "readonly number[]")] codes: Vec<u32>,
    values: Uint8ArraySlice<'_>,
    indices: Uint8ArraySlice<'_>,
    indptr: Uint8ArraySlice<'_>,
) -> Result<u32> {
    with_csr(&env, &shape, &codes, [&values, &indices, &indptr], |csr| Ok(csr.coords_dtype() as u32))
}

/// Fills `output` with the coordinates of the values, all rows and then all columns.
#[napi(catch_unwind)]
pub fn csr_to_coords(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    #[napi(ts_arg_type = "readonly number[]")] codes: Vec<u32>,
    values: Uint8ArraySlice<'_>,
    indices: Uint8ArraySlice<'_>,
    indptr: Uint8ArraySlice<'_>,
    mut output: Uint8ArraySlice<'_>,
) -> Result<()> {
    let output = writable(&mut output, &[&values, &indices, &indptr])?;
    with_csr(&env, &shape, &codes, [&values, &indices, &indptr], |csr| {
        csr.to_coo_coords(output)?;
        to_host_order(Some(csr.coords_dtype()), output);
        Ok(())
    })
}

/// Checks the data rules of COO; with `strictly`, also those of zTensor 2, which requires unique cells.
#[napi(catch_unwind)]
pub fn check_coo(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    #[napi(ts_arg_type = "readonly number[]")] codes: Vec<u32>,
    values: Uint8ArraySlice<'_>,
    coords: Uint8ArraySlice<'_>,
    strictly: bool,
) -> Result<()> {
    let check = |coo: Coo<'_>| if strictly { coo.check_strictly() } else { coo.check() };
    with_coo(&env, &shape, &codes, [&values, &coords], check)
}

/// Fills `output` with the dense elements.
#[napi(catch_unwind)]
pub fn coo_to_dense(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    #[napi(ts_arg_type = "readonly number[]")] codes: Vec<u32>,
    values: Uint8ArraySlice<'_>,
    coords: Uint8ArraySlice<'_>,
    mut output: Uint8ArraySlice<'_>,
) -> Result<()> {
    let output = writable(&mut output, &[&values, &coords])?;
    with_coo(&env, &shape, &codes, [&values, &coords], |coo| {
        coo.to_dense(output)?;
        to_host_order(Some(coo.dtype), output);
        Ok(())
    })
}

/// The dtype code of the row pointers that `cooToCsr` writes.
#[napi(catch_unwind)]
pub fn coo_indptr_dtype(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    #[napi(ts_arg_type = "readonly number[]")] codes: Vec<u32>,
    values: Uint8ArraySlice<'_>,
    coords: Uint8ArraySlice<'_>,
) -> Result<u32> {
    with_coo(&env, &shape, &codes, [&values, &coords], |coo| Ok(coo.indptr_dtype() as u32))
}

/// Fills the arrays of the CSR form: `outputs` is values, indices and indptr.
#[napi(catch_unwind)]
pub fn coo_to_csr(
    env: Env,
    #[napi(ts_arg_type = "readonly number[]")] shape: Vec<f64>,
    #[napi(ts_arg_type = "readonly number[]")] codes: Vec<u32>,
    values: Uint8ArraySlice<'_>,
    coords: Uint8ArraySlice<'_>,
    #[napi(ts_arg_type = "[values: Uint8Array, indices: Uint8Array, indptr: Uint8Array]")] outputs: Vec<
        Uint8ArraySlice<'_>,
    >,
) -> Result<()> {
    let [mut values_out, mut indices_out, mut indptr_out] =
        <[Uint8ArraySlice<'_>; 3]>::try_from(outputs).map_err(|_| misuse("CSR has three arrays"))?;
    let values_out = writable(&mut values_out, &[&values, &coords])?;
    let indices_out = writable(&mut indices_out, &[&values, &coords, values_out])?;
    let indptr_out = writable(&mut indptr_out, &[&values, &coords, values_out, indices_out])?;
    with_coo(&env, &shape, &codes, [&values, &coords], |coo| {
        coo.to_csr(values_out, indices_out, indptr_out)?;
        to_host_order(Some(coo.dtype), values_out);
        to_host_order(Some(coo.coords.dtype()), indices_out);
        to_host_order(Some(coo.indptr_dtype()), indptr_out);
        Ok(())
    })
}
