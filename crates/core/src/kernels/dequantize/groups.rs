//! Factors shared by runs of elements along one axis: locates the factor of an element, and reads many at once.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::checked::{index, product};
use crate::error::{Code, Error, Result};
use crate::kernels::widen;
use crate::model::DType;

/// The number of elements processed at once: their factors and codes stay in the innermost cache.
pub const BLOCK: usize = 1024;

/// How elements, in row-major order, share factors. The factors are also in row-major order, of the same shape except that the axis is
/// divided by the group size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Distance between two adjacent elements along the axis.
    inner: u64,
    along: u64,
    size: u64,
    count: u64,
    lanes: Lanes,
}

/// Whether rows across the axis have separate factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lanes {
    Separate,
    Shared,
}

impl Groups {
    /// Creates groups of `size` adjacent elements along `axis`; `size` must divide the axis.
    pub fn new(shape: &[u64], axis: usize, size: u64) -> Result<Self> {
        let Some(&along) = shape.get(axis) else {
            let message = format!("the axis is {axis}, but the tensor has {} dimensions", shape.len());
            return Err(Error::new(Code::BadLayout, message));
        };
        if size == 0 || !along.is_multiple_of(size) {
            let message = format!("groups of {size} do not divide the {along} elements along axis {axis}");
            return Err(Error::new(Code::BadLayout, message));
        }
        let (elements, inner) = Self::products(shape, axis)?;
        // Groups of one have a factor each, like one long row.
        let (inner, along) = if size == 1 { (elements, 1) } else { (inner, along) };
        Ok(Self { inner, along, size, count: elements / size, lanes: Lanes::Separate })
    }

    /// Creates a factor for each index of `axis`, which all elements at that index share.
    pub fn of_axis(shape: &[u64], axis: usize) -> Result<Self> {
        let along = shape.get(axis).copied().unwrap_or(1);
        let (_, inner) = Self::products(shape, axis)?;
        Ok(Self { inner, along, size: 1, count: along, lanes: Lanes::Shared })
    }

    /// Returns the number of all elements, and of those between two adjacent ones along the axis.
    fn products(shape: &[u64], axis: usize) -> Result<(u64, u64)> {
        let inner = shape.get(axis + 1..).unwrap_or_default();
        let both = product(shape).zip(product(inner));
        both.ok_or_else(|| Error::new(Code::BadShape, "the product of the dimensions exceeds a u64"))
    }

    /// Returns the number of factors.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Calls `run` for each run of the elements from `first` on with the range among these elements and the factor of its first element.
    /// The elements of a run either share that factor or use consecutive ones.
    pub fn runs(&self, first: u64, length: usize, mut run: impl FnMut(Range<usize>, u64)) {
        let mut at = 0;
        while at < length {
            let element = first + at as u64;
            let (rest, factor) = if self.lanes == Lanes::Shared {
                (self.inner - element % self.inner, element / self.inner % self.along)
            } else if self.inner == 1 && self.size > 1 {
                (self.size - element % self.size, element / self.size)
            } else {
                let (row, column) = (element / self.inner, element % self.inner);
                let (outer, position) = (row / self.along, row % self.along);
                let factor_row = outer * (self.along / self.size) + position / self.size;
                (self.inner - column, factor_row * self.inner + column)
            };
            let end = usize::try_from(rest).map_or(length, |rest| length.min(at.saturating_add(rest)));
            run(at..end, factor);
            at = end;
        }
    }

    /// Fills `out` with the factors of the elements from `first` on, at most [`BLOCK`] of them. `read` returns factors from a position on.
    pub fn spread(
        &self,
        first: u64,
        out: &mut [f32],
        mut read: impl FnMut(u64, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        if self.inner == 1 && self.size > 1 && !out.is_empty() {
            // Adjacent elements share a factor, and their factors are adjacent: one call reads them.
            let mut factors = [0.0; BLOCK];
            let start = first / self.size;
            let last = (first + out.len() as u64 - 1) / self.size;
            let factors = &mut factors[..index(last - start + 1, "factors")?.min(BLOCK)];
            read(start, factors)?;
            self.runs(first, out.len(), |range, factor| {
                let at = usize::try_from(factor - start).unwrap_or_default();
                out[range].fill(factors[at]);
            });
            return Ok(());
        }
        let mut result = Ok(());
        self.runs(first, out.len(), |range, factor| {
            let out = &mut out[range];
            if result.is_err() || out.is_empty() {
                return;
            }
            if self.lanes == Lanes::Separate {
                result = read(factor, out);
                return;
            }
            result = read(factor, &mut out[..1]);
            let shared = out[0];
            out.fill(shared);
        });
        result
    }
}

/// Reads `out.len()` elements, at most [`BLOCK`], from element `first` of `bytes` on, as float32.
pub fn read(dtype: DType, bytes: &[u8], first: u64, out: &mut [f32]) -> Result<()> {
    let outside = || Error::new(Code::Internal, "a factor outside its component");
    let start = first.checked_mul(u64::from(dtype.bits())).ok_or_else(outside)? / 8;
    let length = (out.len() * dtype.bits() as usize).div_ceil(8);
    let input = crate::checked::slice(bytes, start, length as u64).ok_or_else(outside)?;
    let mut wide = [0; BLOCK * 4];
    let wide = wide.get_mut(..out.len() * 4).ok_or_else(outside)?;
    widen::to_float32(dtype, input, wide)?;
    for (out, &value) in out.iter_mut().zip(wide.as_chunks::<4>().0) {
        *out = f32::from_ne_bytes(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the factor of an element by its coordinates.
    fn by_definition(shape: &[u64], axis: usize, size: u64, element: u64) -> u64 {
        let mut rest = element;
        let mut coordinates = vec![0; shape.len()];
        for (at, &dim) in shape.iter().enumerate().rev() {
            coordinates[at] = rest % dim;
            rest /= dim;
        }
        coordinates[axis] /= size;
        shape
            .iter()
            .enumerate()
            .fold(0, |flat, (at, &dim)| flat * (if at == axis { dim / size } else { dim }) + coordinates[at])
    }

    #[test]
    fn factors_are_those_of_the_coordinates() {
        let cases: [(&[u64], usize, u64); 9] = [
            (&[64], 0, 32),
            (&[3, 8], 1, 4),
            (&[8, 3], 0, 4),
            (&[2, 6, 5], 1, 3),
            (&[2, 6, 5], 1, 6),
            (&[2, 6, 5], 1, 1),
            (&[4, 4], 0, 2),
            (&[4, 6, 1], 1, 3),
            (&[4, 1], 0, 4),
        ];
        for (shape, axis, size) in cases {
            let groups = Groups::new(shape, axis, size).unwrap();
            let elements: u64 = shape.iter().product();
            assert_eq!(groups.count(), elements / size);
            for first in 0..elements {
                let mut out = vec![0.0; usize::try_from(elements - first).unwrap()];
                #[expect(clippy::cast_precision_loss)]
                groups
                    .spread(first, &mut out, |factor, out| {
                        out.iter_mut().zip(factor..).for_each(|(out, factor)| *out = factor as f32);
                        Ok(())
                    })
                    .unwrap();
                for (at, factor) in (first..).zip(out) {
                    #[expect(clippy::cast_precision_loss)]
                    let expected = by_definition(shape, axis, size, at) as f32;
                    assert_eq!(
                        factor.to_bits(),
                        expected.to_bits(),
                        "{shape:?} axis {axis} size {size} at {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn lanes_share_the_factor_of_an_index() {
        let groups = Groups::of_axis(&[2, 3, 2], 1).unwrap();
        let mut out = [0.0; 12];
        groups
            .spread(0, &mut out, |factor, out| {
                out.fill([10.0, 20.0, 30.0][usize::try_from(factor).unwrap()]);
                Ok(())
            })
            .unwrap();
        let lane = [10.0, 10.0, 20.0, 20.0, 30.0, 30.0];
        assert_eq!((groups.count(), out.as_slice()), (3, [lane, lane].concat().as_slice()));
    }

    #[test]
    fn invalid_groups_are_rejected() {
        let cases: [(&[u64], usize, u64); 6] = [
            (&[], 0, 1),
            (&[8], 1, 4),
            (&[8], usize::MAX - 1, 4),
            (&[8], 0, 0),
            (&[8], 0, 3),
            (&[u64::MAX, u64::MAX], 1, u64::MAX),
        ];
        for (shape, axis, size) in cases {
            assert!(Groups::new(shape, axis, size).is_err(), "{shape:?} axis {axis} size {size}");
        }
    }
}
