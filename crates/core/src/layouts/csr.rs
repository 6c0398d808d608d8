//! Compressed sparse rows.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::layouts::accumulate::{self, Accumulator};
use crate::layouts::indices::{self, DECODE_BLOCK as BLOCK, Indices, NO_INDEX};
use crate::layouts::packed;
use crate::model::DType;

/// A matrix by rows: row `r` has the values from `indptr[r]` to `indptr[r + 1]`, and their columns are in `indices`.
/// Columns within a row may be in any order, and may be repeated.
#[derive(Clone, Copy, Debug)]
pub struct Csr<'a> {
    /// Rows and columns.
    pub shape: [u64; 2],
    pub dtype: DType,
    /// Little-endian values, `nnz` of them.
    pub values: &'a [u8],
    /// Columns, `nnz` of them.
    pub indices: Indices<'a>,
    /// Row pointers, one more than rows.
    pub indptr: Indices<'a>,
}

impl Csr<'_> {
    /// Returns the number of stored values.
    pub fn nnz(&self) -> usize {
        self.indices.len()
    }

    /// Checks what only the data reveals: the lengths of the three arrays, that `indptr` ascends from 0 to `nnz`, and
    /// that each column is inside the shape. Fails with `ZT_BAD_SPARSE`; the error names the component, the position
    /// and the number there.
    pub fn check(&self) -> Result<()> {
        self.check_lengths()?;
        let mut pointers = Pointers::default();
        pointers.next(&self.indptr)?;
        pointers.end(self.nnz() as u64)?;
        check_columns(&self.indices, self.shape[1], 0)
    }

    /// Writes the dense matrix to `out`. Values for the same element are added. Checks the data rules again. Fails with
    /// `ZT_INVALID_ARG` unless `out` has exactly the bytes of rows x columns elements, and with `ZT_BAD_SPARSE` if an
    /// element of a 4-, 6- or 8-bit float has two values.
    pub fn to_dense(&self, out: &mut [u8]) -> Result<()> {
        let [rows, cols] = self.shape;
        let elements = rows.checked_mul(cols).ok_or_else(|| {
            Error::new(
                Code::BadShape,
                format!("the elements of shape [{rows}, {cols}] do not fit in 64 bits"),
            )
        })?;
        let mut dense = Accumulator::new(self.dtype, self.values, elements, out)?;
        let mut positions = [0; BLOCK];
        self.walk(|first, row, col| {
            for ((position, &row), &col) in positions.iter_mut().zip(row).zip(col) {
                // Both are inside the shape, whose product fits.
                *position = row * cols + col;
            }
            let positions = positions.get(..row.len()).unwrap_or_default();
            dense.add(first, positions).map_err(|error| error.component("indices"))
        })
    }

    /// Returns the type of the coordinates that [`to_coo_coords`](Self::to_coo_coords) writes: that of the columns if it can represent the
    /// last row, otherwise uint64.
    pub fn coords_dtype(&self) -> DType {
        let dtype = self.indices.dtype();
        if indices::fits(dtype, self.shape[0].saturating_sub(1)) { dtype } else { DType::Uint64 }
    }

    /// Writes the coordinates of the values, all rows and then all columns, as little-endian numbers of
    /// [`coords_dtype`](Self::coords_dtype). Both layouts use the same array of values. Checks the data rules again.
    /// Fails with `ZT_INVALID_ARG` unless `out` has exactly the bytes of 2 x `nnz` coordinates.
    pub fn to_coo_coords(&self, out: &mut [u8]) -> Result<()> {
        let dtype = self.coords_dtype();
        let width = dtype.element_bytes();
        let half = self.nnz().checked_mul(width).filter(|half| half.checked_mul(2) == Some(out.len()));
        let Some((rows, cols)) = half.and_then(|half| out.split_at_mut_checked(half)) else {
            return Err(Error::new(
                Code::InvalidArg,
                format!(
                    "the coordinates of {} values, {width} bytes each, are not the {} bytes given",
                    self.nnz(),
                    out.len()
                ),
            ));
        };
        self.walk(|first, row, col| {
            for (out, numbers) in [(&mut *rows, row), (&mut *cols, col)] {
                indices::encode(dtype, numbers, out.get_mut(first * width..).unwrap_or_default());
            }
            Ok(())
        })
    }

    fn check_lengths(&self) -> Result<()> {
        let lengths = [self.values.len(), self.nnz(), self.indptr.len()].map(|length| length as u64);
        check_lengths(self.shape[0], self.dtype, lengths)
    }

    /// Calls `visit` with the position of the first value, the rows and the columns of each block, all inside the shape. It does not rely
    /// on earlier checks, because the arrays may change concurrently.
    pub(super) fn walk(&self, mut visit: impl FnMut(usize, &[u64], &[u64]) -> Result<()>) -> Result<()> {
        self.check_lengths()?;
        let changed = || {
            // The scans of `check` find the error. If they find nothing, the arrays are changing concurrently.
            let found = self.check().err();
            found.unwrap_or_else(|| fault("indptr", "the index arrays change while they are read".to_owned()))
        };
        let nnz = self.nnz();
        let mut pointers =
            self.indptr.iter().map(|pointer| usize::try_from(pointer.unwrap_or(NO_INDEX)).ok());
        if pointers.next().flatten() != Some(0) {
            return Err(changed());
        }
        let mut started = 0_u64;
        let mut end = 0;
        let (mut rows, mut cols) = ([0; BLOCK], [0; BLOCK]);
        for first in (0..nnz).step_by(BLOCK) {
            let count = self.indices.decode(first, &mut cols);
            let (Some(rows), Some(cols)) = (rows.get_mut(..count), cols.get(..count)) else {
                return Err(changed());
            };
            if cols.iter().any(|&col| col >= self.shape[1]) {
                return Err(changed());
            }
            let mut at = 0;
            while at < count {
                while end <= first + at {
                    // The pointers end, or descend, with values left over.
                    match pointers.next().flatten() {
                        Some(next) if next >= end => end = next,
                        _ => return Err(changed()),
                    }
                    started += 1;
                }
                let stop = count.min(end - first);
                if let Some(rows) = rows.get_mut(at..stop) {
                    rows.fill(started - 1);
                }
                at = stop;
            }
            visit(first, rows, cols)?;
        }
        if end != nnz || pointers.any(|pointer| pointer != Some(nnz)) {
            return Err(changed());
        }
        Ok(())
    }
}

/// Returns whether several values of one element are added. The small floats have no addition.
pub fn has_addition(dtype: DType) -> bool {
    accumulate::has_addition(dtype)
}

/// Checks that a matrix of `rows` has `lengths`: bytes of values, number of indices, number of row pointers.
pub fn check_lengths(rows: u64, dtype: DType, [values, nnz, pointers]: [u64; 3]) -> Result<()> {
    if pointers.checked_sub(1) != Some(rows) {
        let message = format!("indptr must have one entry more than the {rows} rows, but has {pointers}");
        return Err(fault("indptr", message));
    }
    if packed::byte_length(nnz, dtype.bits()) != Some(values) {
        let message = format!(
            "the values have {values} bytes, but must be {nnz} elements of {}, one for each index",
            dtype.name()
        );
        return Err(fault("values", message));
    }
    Ok(())
}

/// Checks the rules of row pointers, in pieces.
#[derive(Default)]
pub struct Pointers {
    seen: usize,
    last: i128,
}

impl Pointers {
    /// Checks the next pointers: they begin with 0 and never descend.
    pub fn next(&mut self, piece: &Indices<'_>) -> Result<()> {
        let pointer = |position: usize| piece.value(position).unwrap_or_default();
        if self.seen == 0 && pointer(0) != 0 {
            return Err(fault("indptr", format!("indptr must start with 0, not {}", pointer(0))));
        }
        let falls = if pointer(0) < self.last { Some(0) } else { piece.first_descent() };
        if let Some(position) = falls {
            let (before, here) = match position.checked_sub(1) {
                None => (self.last, pointer(0)),
                Some(before) => (pointer(before), pointer(position)),
            };
            let position = self.seen + position;
            let message = format!("indptr falls from {before} to {here} at position {position}");
            return Err(fault("indptr", message));
        }
        self.last = pointer(piece.len().saturating_sub(1));
        self.seen += piece.len();
        Ok(())
    }

    /// Checks that the last pointer is the number of indices.
    pub fn end(&self, nnz: u64) -> Result<()> {
        if self.last == i128::from(nnz) {
            return Ok(());
        }
        let message = format!("indptr must end with the number of indices, {nnz}, not {}", self.last);
        Err(fault("indptr", message))
    }
}

/// Checks that columns are inside the shape. `first` is the number of columns before this piece.
pub fn check_columns(indices: &Indices<'_>, cols: u64, first: usize) -> Result<()> {
    let Some(position) = indices.first_not_below(cols) else { return Ok(()) };
    let (col, position) = (indices.value(position).unwrap_or_default(), first + position);
    Err(fault(
        "indices",
        format!("column {col} at position {position} is out of range: the matrix has {cols} columns"),
    ))
}

fn fault(component: &str, message: String) -> Error {
    Error::new(Code::BadSparse, message).component(component)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn int32(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// A float8 matrix of 3 x 4: row 0 has two values out of order, row 1 none, row 2 one.
    const INDPTR: [i32; 4] = [0, 2, 2, 3];
    const INDICES: [i32; 3] = [3, 0, 1];

    fn with_matrix<T>(
        shape: [u64; 2],
        indptr: &[i32],
        indices: &[i32],
        values: &[u8],
        f: impl Fn(Csr) -> T,
    ) -> T {
        let (indptr, indices) = (int32(indptr), int32(indices));
        f(Csr {
            shape,
            dtype: DType::Float8E5M2,
            values,
            indices: Indices::new(DType::Int32, &indices).unwrap(),
            indptr: Indices::new(DType::Int32, &indptr).unwrap(),
        })
    }

    #[test]
    fn rows_are_expanded() {
        with_matrix([3, 4], &INDPTR, &INDICES, &[7, 8, 9], |csr| {
            csr.check().unwrap();
            let mut dense = [0xEE; 12];
            csr.to_dense(&mut dense).unwrap();
            assert_eq!(dense, [8, 0, 0, 7, 0, 0, 0, 0, 0, 9, 0, 0]);

            assert_eq!(csr.coords_dtype(), DType::Int32);
            let mut coords = [0xEE; 24];
            csr.to_coo_coords(&mut coords).unwrap();
            assert_eq!(coords[..], int32(&[0, 0, 2, 3, 0, 1]));
        });
    }

    #[test]
    fn matrices_without_values_are_converted() {
        for (shape, indptr) in [([0, 4], vec![0]), ([3, 0], vec![0; 4]), ([2, 2], vec![0; 3])] {
            with_matrix(shape, &indptr, &[], &[], |csr| {
                csr.check().unwrap();
                let mut dense = vec![1; usize::try_from(shape[0] * shape[1]).unwrap()];
                csr.to_dense(&mut dense).unwrap();
                assert!(dense.iter().all(|&byte| byte == 0));
                csr.to_coo_coords(&mut []).unwrap();
            });
        }
    }

    #[test]
    fn check_and_conversions_report_the_same_errors() {
        type Case<'a> = ([u64; 2], &'a [i32], &'a [i32], usize, &'a str, &'a str);
        let cases: [Case; 14] = [
            ([3, 4], &[], &INDICES, 3, "indptr", "3 rows, but has 0"),
            ([3, 4], &[0, 2, 3], &INDICES, 3, "indptr", "3 rows, but has 3"),
            ([u64::MAX, 1], &INDPTR, &INDICES, 3, "indptr", "18446744073709551615 rows"),
            ([3, 4], &INDPTR, &INDICES, 4, "values", "4 bytes, but must be 3 elements of float8_e5m2"),
            ([3, 4], &INDPTR, &INDICES, 2, "values", "2 bytes"),
            ([3, 4], &[1, 2, 2, 3], &INDICES, 3, "indptr", "start with 0, not 1"),
            ([3, 4], &[-1, 2, 2, 3], &INDICES, 3, "indptr", "start with 0, not -1"),
            ([3, 4], &[0, 2, 1, 3], &INDICES, 3, "indptr", "falls from 2 to 1 at position 2"),
            ([3, 4], &[0, -5, 2, 3], &INDICES, 3, "indptr", "falls from 0 to -5 at position 1"),
            ([3, 4], &[0, 2, 2, 2], &INDICES, 3, "indptr", "number of indices, 3, not 2"),
            ([3, 4], &[0, 2, 9, 9], &INDICES, 3, "indptr", "number of indices, 3, not 9"),
            (
                [3, 4],
                &INDPTR,
                &[3, 4, 1],
                3,
                "indices",
                "column 4 at position 1 is out of range: the matrix has 4 columns",
            ),
            ([3, 4], &INDPTR, &[3, 0, -1], 3, "indices", "column -1 at position 2"),
            (
                [3, 0],
                &INDPTR,
                &INDICES,
                3,
                "indices",
                "column 3 at position 0 is out of range: the matrix has 0 columns",
            ),
        ];
        for (shape, indptr, indices, values, component, part) in cases {
            with_matrix(shape, indptr, indices, &vec![1; values], |csr| {
                let mut errors = vec![csr.check().unwrap_err()];
                errors.push(
                    csr.to_coo_coords(&mut vec![0; 2 * csr.coords_dtype().element_bytes() * 3]).unwrap_err(),
                );
                if shape[0] < 100 {
                    let mut dense = vec![0; usize::try_from(shape[0] * shape[1]).unwrap()];
                    errors.push(csr.to_dense(&mut dense).unwrap_err());
                }
                for error in errors {
                    assert_eq!(error.code(), Code::BadSparse, "{error}");
                    assert_eq!(error.component_role(), Some(component), "{error}");
                    assert!(error.message().contains(part), "{error}");
                }
            });
        }
    }

    #[test]
    fn duplicates_without_addition_are_rejected() {
        with_matrix([3, 4], &INDPTR, &[3, 3, 1], &[0, 8, 9], |csr| {
            csr.check().unwrap();
            let error = csr.to_dense(&mut [0; 12]).unwrap_err();
            assert_eq!((error.code(), error.component_role()), (Code::BadSparse, Some("indices")));
            let mut dense = [0; 12];
            Csr { dtype: DType::Uint8, ..csr }.to_dense(&mut dense).unwrap();
            assert_eq!(dense, [0, 0, 0, 8, 0, 0, 0, 0, 0, 9, 0, 0]);
        });
    }

    #[test]
    fn destinations_have_their_exact_length() {
        with_matrix([3, 4], &INDPTR, &INDICES, &[7, 8, 9], |csr| {
            for length in [0, 11, 13] {
                assert_eq!(csr.to_dense(&mut vec![0; length]).unwrap_err().code(), Code::InvalidArg);
            }
            for length in [0, 12, 23, 25] {
                assert_eq!(csr.to_coo_coords(&mut vec![0; length]).unwrap_err().code(), Code::InvalidArg);
            }
        });
        with_matrix([1 << 33, 1 << 33], &INDPTR, &INDICES, &[7, 8, 9], |csr| {
            assert_eq!(csr.to_dense(&mut []).unwrap_err().code(), Code::BadShape);
        });
    }

    #[test]
    fn rows_beyond_the_type_of_the_columns_widen_the_coordinates() {
        for (rows, dtype) in [(0, DType::Int8), (128, DType::Int8), (129, DType::Uint64)] {
            let csr = Csr {
                shape: [rows, 4],
                dtype: DType::Uint8,
                values: &[1],
                indices: Indices::new(DType::Int8, &[3]).unwrap(),
                indptr: Indices::new(DType::Uint8, &[]).unwrap(),
            };
            assert_eq!(csr.coords_dtype(), dtype, "{rows} rows");
        }
        let mut indptr = vec![0; 200];
        indptr.push(1);
        let csr = Csr {
            shape: [200, 4],
            dtype: DType::Uint8,
            values: &[1],
            indices: Indices::new(DType::Int8, &[3]).unwrap(),
            indptr: Indices::new(DType::Uint8, &indptr).unwrap(),
        };
        let mut coords = [0; 16];
        csr.to_coo_coords(&mut coords).unwrap();
        assert_eq!(coords, [199, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn conversions_reject_whatever_the_check_rejects(
            rows in 0_u64..5, cols in 0_u64..5,
            mut indptr in prop::collection::vec(-1_i32..6, 0..7),
            indices in prop::collection::vec(-1_i32..6, 0..6),
            sorted in any::<bool>(),
        ) {
            if sorted {
                indptr.sort_unstable();
            }
            let values = vec![1; indices.len()];
            with_matrix([rows, cols], &indptr, &indices, &values, |csr| {
                let csr = Csr { dtype: DType::Int8, ..csr };
                let checked = csr.check().is_ok();
                let mut dense = vec![0; usize::try_from(rows * cols).unwrap()];
                assert_eq!(csr.to_dense(&mut dense).is_ok(), checked);
                assert_eq!(csr.to_coo_coords(&mut vec![0; indices.len() * 8]).is_ok(), checked);
            });
        }
    }
}
