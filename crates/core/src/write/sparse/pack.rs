//! Encodes blocks of sparse arrays as a format stores them.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use crate::error::{Code, Error, Result};
use crate::layouts::indices::Indices;
use crate::model::DType;

/// Returns indices unchanged, or converted to uint32 or uint64.
pub fn indices(dtype: DType, bytes: Cow<'_, [u8]>, to: DType) -> Result<Cow<'_, [u8]>> {
    if dtype == to {
        return Ok(bytes);
    }
    let indices = Indices::new(dtype, &bytes)?;
    let width = to.element_bytes();
    let mut output = vec![0; indices.len() * width];
    for (index, output) in indices.iter().zip(output.chunks_exact_mut(width.max(1))) {
        let index = index.filter(|index| width >= 8 || index >> (8 * width) == 0);
        let index = index.ok_or_else(|| Error::new(Code::BadSparse, "an index is negative or too large"))?;
        output.copy_from_slice(index.to_le_bytes().get(..width).unwrap_or_default());
    }
    Ok(Cow::Owned(output))
}

/// Returns the uint64 coordinates of each value followed by its `width` bytes. `coords` is in dimension-major order. If
/// `width` is 0, returns only the coordinates.
pub fn entries(coords: &[u8], rank: usize, values: &[u8], width: usize) -> Vec<u8> {
    let count = values.len().checked_div(width).unwrap_or_else(|| coords.len() / (rank * 8).max(1));
    let entry = rank * 8 + width;
    let mut output = vec![0; count * entry];
    for (dim, axis) in coords.as_chunks::<8>().0.chunks(count.max(1)).take(rank).enumerate() {
        for (entry, index) in output.chunks_exact_mut(entry.max(1)).zip(axis) {
            if let Some(slot) = entry.get_mut(dim * 8..dim * 8 + 8) {
                slot.copy_from_slice(index);
            }
        }
    }
    for (entry, value) in output.chunks_exact_mut(entry.max(1)).zip(values.chunks_exact(width.max(1))) {
        if let Some(slot) = entry.get_mut(rank * 8..) {
            slot.copy_from_slice(value);
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_of_a_value_are_contiguous() {
        let le =
            |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        let coords = le(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(entries(&coords, 2, &[], 0), le(&[1, 4, 2, 5, 3, 6]));
        let with = entries(&coords, 2, &[7, 7, 8, 8, 9, 9], 2);
        assert_eq!(
            with,
            [le(&[1, 4]), vec![7, 7], le(&[2, 5]), vec![8, 8], le(&[3, 6]), vec![9, 9]].concat()
        );
        assert_eq!(entries(&[], 0, &[7, 8], 1), [7, 8]);
        assert!(entries(&[], 0, &[], 0).is_empty());
    }

    #[test]
    fn indices_are_widened_or_rejected() {
        let wide = indices(DType::Int8, Cow::Borrowed(&[5, 127]), DType::Uint64).unwrap();
        assert_eq!(*wide, [5, 0, 0, 0, 0, 0, 0, 0, 127, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(*indices(DType::Uint32, Cow::Borrowed(&[1; 4]), DType::Uint32).unwrap(), [1; 4]);
        assert!(indices(DType::Int8, Cow::Borrowed(&[255]), DType::Uint64).is_err());
    }
}
