//! Blocks of sparse arrays as a format stores them.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use crate::checked;
use crate::error::{Code, Error, Result};
use crate::layouts::indices::Indices;
use crate::model::DType;

/// Bytes that BTF has around the arrays: N and RANK before the indices, N before the values.
pub const BTF_FRAMING: u64 = 24;

/// Indices as they stand, or as uint64.
pub fn indices(dtype: DType, bytes: Cow<'_, [u8]>, to: DType) -> Result<Cow<'_, [u8]>> {
    if dtype == to {
        return Ok(bytes);
    }
    let indices = Indices::new(dtype, &bytes)?;
    let mut output = Vec::with_capacity(indices.len() * 8);
    for index in &indices {
        let index = index.ok_or_else(|| Error::new(Code::BadSparse, "an index is negative or too large"))?;
        output.extend_from_slice(&index.to_le_bytes());
    }
    Ok(Cow::Owned(output))
}

/// The uint64 coordinates of each of `count` values, which come in dimension-major order, and its `width` bytes.
pub fn entries(coords: &[u8], rank: usize, values: &[u8], width: usize, count: u64) -> Result<Vec<u8>> {
    let count = checked::index(count, "a block")?;
    let mut output = Vec::with_capacity(count * (rank * 8 + width));
    let item = |bytes, width, at| {
        let item = checked::slice(bytes, (at * width) as u64, width as u64);
        item.ok_or_else(|| Error::new(Code::Internal, "a block is shorter than its entries"))
    };
    for at in 0..count {
        for dim in 0..rank {
            output.extend_from_slice(item(coords, 8, dim * count + at)?);
        }
        output.extend_from_slice(item(values, width, at)?);
    }
    Ok(output)
}
