//! What the sparse profiles of zTensor 2 ask of their data beyond other formats: columns that rise strictly within
//! each row.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::error::{Code, Error, Result};
use crate::layouts::exact::CSR;
use crate::layouts::indices::Indices;
use crate::model::DType;
use crate::sources::owned::Owned;

/// The index type of an array as version 2 holds it: uint32 and uint64 stay, all others become uint64.
pub fn index_dtype(dtypes: impl IntoIterator<Item = Option<DType>>) -> DType {
    if dtypes.into_iter().all(|dtype| dtype == Some(DType::Uint32)) { DType::Uint32 } else { DType::Uint64 }
}

/// Sorts the columns of each row of a checked matrix, whose values move along: `None` where all rise already.
/// A column that stands twice in a row is `ZT_BAD_SPARSE`. `width`: bytes of a value; `first`: the number of the first row.
pub fn rising_rows(
    indices: Indices<'_>,
    indptr: Indices<'_>,
    values: &[u8],
    width: usize,
    first: u64,
) -> Result<Option<(Owned, Owned)>> {
    let mut sorted: Option<(Owned, Owned)> = None;
    let (mut row, mut order): (Vec<u64>, Vec<usize>) = (Vec::new(), Vec::new());
    for at in 1..indptr.len() {
        let bounds = bounds(indptr, at, indices.len());
        row.resize(bounds.len(), 0);
        indices.decode(bounds.start, &mut row);
        if row.is_sorted_by(|one, next| one < next) {
            continue;
        }
        order.clear();
        order.extend(0..row.len());
        order.sort_by_key(|&place| row.get(place));
        if let Some(pair) = order.windows(2).find(|pair| row.get(pair[0]) == row.get(pair[1])) {
            let column = row.get(pair[0]).copied().unwrap_or_default();
            return Err(twice(column, first + (at - 1) as u64));
        }
        let (new_values, new_indices) = match &mut sorted {
            Some(sorted) => sorted,
            None => sorted.insert((copied(values)?, copied(indices.bytes())?)),
        };
        let index = indices.bytes().len() / indices.len().max(1);
        for (place, &from) in order.iter().enumerate() {
            move_item(values, new_values, width, bounds.start + from, bounds.start + place);
            move_item(indices.bytes(), new_indices, index, bounds.start + from, bounds.start + place);
        }
    }
    Ok(sorted)
}

/// The refusal of a column that stands twice in a row.
pub fn twice(column: u64, row: u64) -> Error {
    let message =
        format!("column {column} stands twice in row {row}; zTensor 2 has each cell once: add them up first");
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

    fn u32s(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn sorted(indices: &[u32], indptr: &[u32]) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let (indices_bytes, indptr_bytes) = (u32s(indices), u32s(indptr));
        let values: Vec<u8> = (0..).take(indices.len()).collect();
        let (indices, indptr) =
            (Indices::new(DType::Uint32, &indices_bytes)?, Indices::new(DType::Uint32, &indptr_bytes)?);
        Ok(rising_rows(indices, indptr, &values, 1, 0)?
            .map(|(values, indices)| (values.to_vec(), indices.to_vec())))
    }

    #[test]
    fn rows_are_sorted_with_their_values() {
        assert_eq!(sorted(&[0, 5, 1], &[0, 2, 3]).unwrap(), None);
        assert_eq!(sorted(&[], &[0, 0]).unwrap(), None);
        let (values, indices) = sorted(&[3, 9, 1, 2, 0], &[0, 1, 1, 3, 5]).unwrap().unwrap();
        assert_eq!((values, indices), (vec![0, 2, 1, 4, 3], u32s(&[3, 1, 9, 0, 2])));
        let error = sorted(&[0, 2, 1, 2], &[0, 1, 4]).unwrap_err();
        assert_eq!((error.code(), error.component_role()), (Code::BadSparse, Some("indices")));
    }
}
