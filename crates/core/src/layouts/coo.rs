//! Coordinate lists.
#![forbid(unsafe_code)]

use crate::checked;
use crate::error::{Code, Error, Result};
use crate::layouts::accumulate::Accumulator;
use crate::layouts::indices::{DECODE_BLOCK as BLOCK, Indices};
use crate::layouts::packed;
use crate::model::DType;

/// A tensor given by its values and their coordinates, in any order. Coordinates may be repeated.
#[derive(Clone, Copy, Debug)]
pub struct Coo<'a> {
    pub shape: &'a [u64],
    pub dtype: DType,
    /// Little-endian values, `nnz` of them.
    pub values: &'a [u8],
    /// Dimension-major: `nnz` indices into dimension 0, then `nnz` into dimension 1, and so on.
    pub coords: Indices<'a>,
}

impl<'a> Coo<'a> {
    /// Returns the number of stored values: the coordinates of each dimension, or the values themselves for rank 0.
    pub fn nnz(&self) -> usize {
        match self.shape.len() {
            0 => packed::fewest_elements(self.values.len(), self.dtype.bits()),
            rank => self.coords.len() / rank,
        }
    }

    /// Checks what only the data reveals: the lengths of both arrays, and that each coordinate is inside the shape.
    /// Fails with `ZT_BAD_SPARSE`; the error names the component, the position and the number there.
    pub fn check(&self) -> Result<()> {
        self.check_lengths()?;
        let nnz = self.nnz();
        for (d, &dim) in self.shape.iter().enumerate() {
            check_axis(&self.axis(d)?, d, dim, nnz as u64, 0)?;
        }
        Ok(())
    }

    /// Writes the dense tensor to `out`. Values for the same element are added. Checks the data rules again. Fails with
    /// `ZT_INVALID_ARG` unless `out` has exactly the right size, and with `ZT_BAD_SPARSE` if an element of a 4-, 6- or
    /// 8-bit float has two values.
    pub fn to_dense(&self, out: &mut [u8]) -> Result<()> {
        let elements = checked::product(self.shape).ok_or_else(|| {
            Error::new(
                Code::BadShape,
                format!("the elements of shape {:?} do not fit in 64 bits", self.shape),
            )
        })?;
        let mut dense = Accumulator::new(self.dtype, self.values, elements, out)?;
        self.check_lengths()?;
        let nnz = self.nnz();
        if elements == 0 && nnz > 0 {
            // Some dimension is empty; partial products may overflow.
            return Err(self.changed());
        }
        let (mut indices, mut positions) = ([0; BLOCK], [0_u64; BLOCK]);
        for first in (0..nnz).step_by(BLOCK) {
            let count = BLOCK.min(nnz - first);
            positions.fill(0);
            for (d, &dim) in self.shape.iter().enumerate() {
                let (Some(indices), Some(positions)) = (indices.get_mut(..count), positions.get_mut(..count))
                else {
                    return Err(self.changed());
                };
                self.decode(d, first, indices)?;
                for (position, &index) in positions.iter_mut().zip(&*indices) {
                    // The index is inside the dimension, so this stays below the product.
                    *position = *position * dim + index;
                }
            }
            let positions = positions.get(..count).unwrap_or_default();
            dense.add(first, positions).map_err(|error| error.component("coords"))?;
        }
        Ok(())
    }

    /// Calls `visit` with the position of the first value, the rows and the columns of each block of a two-dimensional tensor, all inside
    /// the shape.
    pub(super) fn walk(&self, mut visit: impl FnMut(usize, &[u64], &[u64]) -> Result<()>) -> Result<()> {
        let nnz = self.nnz();
        let (mut rows, mut cols) = ([0; BLOCK], [0; BLOCK]);
        for first in (0..nnz).step_by(BLOCK) {
            let count = BLOCK.min(nnz - first);
            let (Some(rows), Some(cols)) = (rows.get_mut(..count), cols.get_mut(..count)) else {
                return Err(self.changed());
            };
            self.decode(0, first, rows)?;
            self.decode(1, first, cols)?;
            visit(first, rows, cols)?;
        }
        Ok(())
    }

    /// Fills `out` with the indices into dimension `d`, beginning with value `first`. All of them are inside the
    /// dimension. It does not rely on earlier checks, because the coordinates may change concurrently.
    fn decode(&self, d: usize, first: usize, out: &mut [u64]) -> Result<()> {
        let dim = self.shape.get(d).copied().unwrap_or_default();
        if self.axis(d)?.decode(first, out) != out.len() || out.iter().any(|&index| index >= dim) {
            return Err(self.changed());
        }
        Ok(())
    }

    pub(super) fn axis(&self, d: usize) -> Result<Indices<'a>> {
        let nnz = self.nnz();
        let start = d.checked_mul(nnz);
        let axis = start.and_then(|start| self.coords.slice(start, start.checked_add(nnz)?));
        axis.ok_or_else(|| fault("coords", format!("there are no coordinates of dimension {d}")))
    }

    pub(super) fn check_lengths(&self) -> Result<()> {
        let lengths = [self.values.len(), self.nnz(), self.coords.len()].map(|length| length as u64);
        check_lengths(self.shape.len(), self.dtype, lengths)
    }

    /// Returns the error for coordinates outside the shape, as found by the scans of `check`. If they find nothing, the
    /// array is changing concurrently.
    pub(super) fn changed(&self) -> Error {
        let found = self.check().err();
        found.unwrap_or_else(|| fault("coords", "the coordinates change while they are read".to_owned()))
    }
}

/// Checks that a tensor of `rank` dimensions has `lengths`: bytes of values, values, coordinates of all dimensions.
pub fn check_lengths(rank: usize, dtype: DType, [values, nnz, coords]: [u64; 3]) -> Result<()> {
    if nnz.checked_mul(rank as u64) != Some(coords) {
        let message = format!("{coords} coordinates cannot be divided evenly among {rank} dimensions");
        return Err(fault("coords", message));
    }
    if packed::byte_length(nnz, dtype.bits()) != Some(values) {
        let message = format!(
            "the values have {values} bytes, but must be {nnz} elements of {}, one for each coordinate",
            dtype.name()
        );
        return Err(fault("values", message));
    }
    Ok(())
}

/// Checks that coordinates of dimension `d` are inside the shape. `axis` is a piece of the `nnz` coordinates, after the
/// first `first` ones.
pub fn check_axis(axis: &Indices<'_>, d: usize, dim: u64, nnz: u64, first: u64) -> Result<()> {
    let Some(position) = axis.first_not_below(dim) else { return Ok(()) };
    let (index, position) = (axis.value(position).unwrap_or_default(), first + position as u64);
    let at = d as u64 * nnz + position;
    let message =
        format!("index {index} at position {at} (value {position}) is out of range: dimension {d} has {dim}");
    Err(fault("coords", message))
}

fn fault(component: &str, message: String) -> Error {
    Error::new(Code::BadSparse, message).component(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coo<'a>(shape: &'a [u64], dtype: DType, values: &'a [u8], coords: &'a [u8]) -> Coo<'a> {
        Coo { shape, dtype, values, coords: Indices::new(DType::Int8, coords).unwrap() }
    }

    #[test]
    fn coordinates_are_read_by_dimension() {
        let tensor = coo(&[2, 3, 2], DType::Uint8, &[5, 6, 7], &[1, 0, 1, 2, 1, 2, 1, 0, 1]);
        tensor.check().unwrap();
        let mut dense = [0xEE; 12];
        tensor.to_dense(&mut dense).unwrap();
        // (1, 2, 1) holds 5 + 7, (0, 1, 0) holds 6.
        assert_eq!(dense, [0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 12]);
    }

    #[test]
    fn the_values_of_a_scalar_add_up() {
        for (values, sum) in [(vec![], 0), (vec![3], 3), (vec![3, 4, 5], 12)] {
            let scalar = coo(&[], DType::Uint8, &values, &[]);
            scalar.check().unwrap();
            assert_eq!(scalar.nnz(), values.len());
            let mut dense = [0xEE];
            scalar.to_dense(&mut dense).unwrap();
            assert_eq!(dense, [sum]);
        }
        let mut dense = [0];
        coo(&[], DType::Float4E2M1Fn, &[0x0b], &[]).to_dense(&mut dense).unwrap();
        assert_eq!(dense, [0x0b]);
    }

    #[test]
    fn empty_dimensions_hold_no_values() {
        let shape = [u64::MAX, u64::MAX, 0];
        let empty = coo(&shape, DType::Float64, &[], &[]);
        empty.check().unwrap();
        empty.to_dense(&mut []).unwrap();
        let one = coo(&shape, DType::Float64, &[0; 8], &[1, 1, 0]);
        assert_eq!(one.to_dense(&mut []).unwrap_err().message(), one.check().unwrap_err().message());
    }

    #[test]
    fn check_and_conversions_report_the_same_errors() {
        type Case<'a> = (&'a [u64], &'a [u8], &'a [u8], &'a str, &'a str);
        let cases: [Case; 7] = [
            (&[2, 3], &[1, 2], &[0, 1, 2], "coords", "3 coordinates"),
            (&[], &[1, 2], &[0], "coords", "1 coordinates cannot be divided evenly among 0 dimensions"),
            (&[2, 3], &[1], &[0, 1, 0, 2], "values", "1 bytes, but must be 2 elements of uint8"),
            (&[2, 3], &[1, 2, 3], &[0, 1, 0, 2], "values", "3 bytes"),
            (
                &[2, 3],
                &[1, 2],
                &[0, 2, 0, 2],
                "coords",
                "index 2 at position 1 (value 1) is out of range: dimension 0 has 2",
            ),
            (
                &[2, 3],
                &[1, 2],
                &[0, 1, 0, 3],
                "coords",
                "index 3 at position 3 (value 1) is out of range: dimension 1 has 3",
            ),
            (&[2, 3], &[1, 2], &[0, 1, 0xff, 2], "coords", "index -1 at position 2"),
        ];
        for (shape, values, coords, component, part) in cases {
            let tensor = coo(shape, DType::Uint8, values, coords);
            let mut dense = vec![0; usize::try_from(shape.iter().product::<u64>()).unwrap()];
            let mut errors = vec![tensor.check().unwrap_err(), tensor.to_dense(&mut dense).unwrap_err()];
            if shape.len() == 2 {
                let (mut values_out, mut indices_out) = (vec![0; values.len()], vec![0; coords.len() / 2]);
                errors.push(tensor.to_csr(&mut values_out, &mut indices_out, &mut [0; 3]).unwrap_err());
            }
            for error in errors {
                assert_eq!(error.code(), Code::BadSparse, "{error}");
                assert_eq!(error.component_role(), Some(component), "{error}");
                assert!(error.message().contains(part), "{error}");
            }
        }
    }

    #[test]
    fn duplicates_without_addition_are_rejected() {
        let error = coo(&[4], DType::Float8E4M3Fn, &[0, 1], &[2, 2]).to_dense(&mut [0; 4]).unwrap_err();
        assert_eq!((error.code(), error.component_role()), (Code::BadSparse, Some("coords")));
    }

    #[test]
    fn destinations_and_shapes_must_fit() {
        let tensor = coo(&[2, 3], DType::Uint8, &[1], &[0, 0]);
        for length in [0, 5, 7] {
            assert_eq!(tensor.to_dense(&mut vec![0; length]).unwrap_err().code(), Code::InvalidArg);
        }
        let huge = coo(&[1 << 33, 1 << 33], DType::Uint8, &[1], &[0, 0]);
        assert_eq!(huge.to_dense(&mut []).unwrap_err().code(), Code::BadShape);
    }
}
