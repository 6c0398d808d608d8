//! Sorts rows in memory into the order that version 2 requires.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::ops::Range;

use crate::error::{Code, Error, Result};
use crate::layouts::exact::CSR;
use crate::layouts::indices::Indices;
use crate::sources::owned::Owned;
use crate::work::Stop;

/// Returns values and columns of a checked matrix, with the columns of each row in rising order. `width` is the size of
/// a value in bytes, and `first` the number of the first row. Fails with `ZT_BAD_SPARSE` if a column occurs twice in a
/// row.
pub fn sorted(
    indices: Indices<'_>,
    indptr: Indices<'_>,
    values: &[u8],
    width: usize,
    first: u64,
    stop: &Stop,
) -> Result<(Owned, Owned)> {
    let (mut new_values, mut new_indices) = (copied(values)?, copied(indices.bytes())?);
    let index = indices.dtype().element_bytes();
    let (mut row, mut order): (Vec<u64>, Vec<usize>) = (Vec::new(), Vec::new());
    for at in 1..indptr.len() {
        stop.check()?;
        let bounds = bounds(indptr, at, indices.len());
        row.resize(bounds.len(), 0);
        indices.decode(bounds.start, &mut row);
        if row.is_sorted_by(|one, next| one < next) {
            continue;
        }
        order.clear();
        order.extend(0..row.len());
        order.arrange_by_key(|&index| row.get(index));
        if let Some(pair) = order.windows(2).find(|pair| row.get(pair[0]) == row.get(pair[1])) {
            let column = row.get(pair[0]).copied().unwrap_or_default();
            return Err(twice(column, first + (at - 1) as u64));
        }
        for (to, &from) in order.iter().enumerate() {
            move_item(values, &mut new_values, width, bounds.start + from, bounds.start + to);
            move_item(indices.bytes(), &mut new_indices, index, bounds.start + from, bounds.start + to);
        }
    }
    Ok((new_values, new_indices))
}

/// Returns the error for a column that occurs twice in a row.
pub fn twice(column: u64, row: u64) -> Error {
    let message = format!(
        "column {column} appears twice in row {row}; zTensor 2 has each cell once: add them up first"
    );
    Error::new(Code::BadSparse, message).component("indices").rule(CSR)
}

fn bounds(indptr: Indices<'_>, row: usize, nnz: usize) -> Range<usize> {
    let pointer =
        |at| indptr.get(at).and_then(|pointer| usize::try_from(pointer).ok()).unwrap_or(nnz).min(nnz);
    let start = pointer(row - 1);
    start..pointer(row).max(start)
}

fn copied(bytes: &[u8]) -> Result<Owned> {
    let mut copy = Owned::to_fill(bytes.len() as u64)?;
    copy.copy_from_slice(bytes);
    Ok(copy)
}

fn move_item(from: &[u8], to: &mut [u8], width: usize, source: usize, target: usize) {
    let range = |at: usize| at * width..(at + 1) * width;
    if let (Some(from), Some(to)) = (from.get(range(source)), to.get_mut(range(target))) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DType;

    fn u32s(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn sorted_u32(indices: &[u32], indptr: &[u32]) -> Result<(Vec<u8>, Vec<u8>)> {
        let (indices_bytes, indptr_bytes) = (u32s(indices), u32s(indptr));
        let values: Vec<u8> = (0..).take(indices.len()).collect();
        let (indices, indptr) =
            (Indices::new(DType::Uint32, &indices_bytes)?, Indices::new(DType::Uint32, &indptr_bytes)?);
        let sorted = sorted(indices, indptr, &values, 1, 0, &Stop::default())?;
        Ok((sorted.0.to_vec(), sorted.1.to_vec()))
    }

    #[test]
    fn rows_are_sorted_with_their_values() {
        assert_eq!(sorted_u32(&[0, 5, 1], &[0, 2, 3]).unwrap(), (vec![0, 1, 2], u32s(&[0, 5, 1])));
        assert_eq!(sorted_u32(&[], &[0, 0]).unwrap(), (vec![], vec![]));
        let (values, indices) = sorted_u32(&[3, 9, 1, 2, 0], &[0, 1, 1, 3, 5]).unwrap();
        assert_eq!((values, indices), (vec![0, 2, 1, 4, 3], u32s(&[3, 1, 9, 0, 2])));
        let error = sorted_u32(&[0, 2, 1, 2], &[0, 1, 4]).unwrap_err();
        assert_eq!((error.code(), error.component_role()), (Code::BadSparse, Some("indices")));
    }
}
