//! Sparse arrays as a format stores them: index arrays as u64, and all in one blob where it has but one.
#![forbid(unsafe_code)]

use super::Dialect;
use crate::error::{Code, Error, Result};
use crate::layouts::indices::Indices;
use crate::model::DType;
use crate::sources::owned::Owned;

/// Bytes that BTF has around the arrays: N and RANK before the indices, N before the values.
pub const BTF_FRAMING: u64 = 24;

/// Indices as u64, which every zTensor and BTF asks for.
pub fn widened(dtype: DType, bytes: &[u8]) -> Result<Owned> {
    let indices = Indices::new(dtype, bytes)?;
    let mut output = Owned::zeroed(indices.len() as u64 * 8)?;
    for (index, output) in indices.iter().zip(output.chunks_exact_mut(8)) {
        let index = index.ok_or_else(|| Error::new(Code::BadSparse, "an index is negative or too large"))?;
        output.copy_from_slice(&index.to_le_bytes());
    }
    Ok(output)
}

/// The arrays of a CSR matrix in the order in which they are written; index arrays are u64 already.
pub fn csr<'a>(dialect: Dialect, values: &'a [u8], indices: &'a [u8], indptr: &'a [u8]) -> [&'a [u8]; 3] {
    if dialect == Dialect::Zt01 { [indptr, indices, values] } else { [values, indices, indptr] }
}

/// The one blob of a COO tensor, of u64 coordinates in dimension-major order, for a dialect that packs.
pub fn coo(dialect: Dialect, rank: usize, width: usize, values: &[u8], coords: &[u8]) -> Result<Owned> {
    let count = values.len() / width.max(1);
    let framing = if dialect == Dialect::Btf { BTF_FRAMING } else { 0 };
    let mut output = Owned::zeroed((values.len() + coords.len()) as u64 + framing)?;
    let coordinate = |dim: usize, at: usize| {
        let start = (dim * count + at) * 8;
        coords.get(start..start + 8).unwrap_or(&[0; 8])
    };
    if dialect != Dialect::Btf {
        let entries = output.chunks_exact_mut(rank * 8 + width).zip(values.chunks_exact(width.max(1)));
        for (at, (entry, value)) in entries.enumerate() {
            let (tuple, place) = entry.split_at_mut(rank * 8);
            for (dim, target) in tuple.chunks_exact_mut(8).enumerate() {
                target.copy_from_slice(coordinate(dim, at));
            }
            place.copy_from_slice(value);
        }
        return Ok(output);
    }
    let (head, rest) = output.split_at_mut(16);
    head[..8].copy_from_slice(&(count as u64).to_le_bytes());
    head[8..].copy_from_slice(&(rank as u64).to_le_bytes());
    let (tuples, rest) = rest.split_at_mut(coords.len());
    tuples.copy_from_slice(&self::tuples(rank, coords));
    rest[..8].copy_from_slice(&(count as u64).to_le_bytes());
    rest[8..].copy_from_slice(values);
    Ok(output)
}

/// u64 coordinates of dimension-major order as one tuple an entry.
pub fn tuples(rank: usize, coords: &[u8]) -> Vec<u8> {
    let count = coords.len() / (rank * 8).max(1);
    let mut output = vec![0; count * rank * 8];
    for (at, tuple) in output.chunks_exact_mut((rank * 8).max(1)).enumerate() {
        for (dim, target) in tuple.chunks_exact_mut(8).enumerate() {
            let start = (dim * count + at) * 8;
            target.copy_from_slice(coords.get(start..start + 8).unwrap_or(&[0; 8]));
        }
    }
    output
}
