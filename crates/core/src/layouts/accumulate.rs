//! The dense form of a sparse tensor, accumulated value by value.
#![forbid(unsafe_code)]

use half::{bf16, f16};

use crate::error::{Code, Error, Result};
use crate::layouts::packed;
use crate::model::DType;

/// A dense tensor initialized to zeros. Values for the same element are added: integers wrap around, floats are rounded
/// to the nearest value of their own type, complex numbers are added by parts, and bools are combined with OR. A value
/// added to +0 is stored bit for bit, so a lone -0 or NaN is preserved. The 4-, 6- and 8-bit floats have no addition: a
/// second value for an element is rejected.
pub(super) struct Accumulator<'a> {
    dtype: DType,
    values: &'a [u8],
    out: &'a mut [u8],
    elements: u64,
    /// One bit per element, for the types without addition.
    written: Vec<u64>,
}

impl<'a> Accumulator<'a> {
    /// Zeroes `out`. Fails with `ZT_INVALID_ARG` unless it has exactly the bytes of `elements` elements, and with
    /// `ZT_BAD_DTYPE` for a type without a zero.
    pub(super) fn new(dtype: DType, values: &'a [u8], elements: u64, out: &'a mut [u8]) -> Result<Self> {
        if dtype == DType::Float8E8M0Fnu {
            return Err(Error::new(
                Code::BadDtype,
                "float8_e8m0fnu has no zero for the elements without a value: read the values and indices",
            ));
        }
        let needed = packed::byte_length(elements, dtype.bits());
        if needed.is_none() || needed != u64::try_from(out.len()).ok() {
            return Err(Error::new(
                Code::InvalidArg,
                format!(
                    "{elements} elements of {} in the dense form are not the {} bytes of the destination",
                    dtype.name(),
                    out.len()
                ),
            ));
        }
        let written = if has_addition(dtype) { Vec::new() } else { zeros(elements.div_ceil(64))? };
        out.fill(0);
        Ok(Self { dtype, values, out, elements, written })
    }

    /// Adds the values from `first` on to the elements at `positions`, one each.
    pub(super) fn add(&mut self, first: usize, positions: &[u64]) -> Result<()> {
        match self.dtype {
            DType::Float64 => self
                .sum(first, positions, |a, b| (f64::from_le_bytes(a) + f64::from_le_bytes(b)).to_le_bytes()),
            DType::Float32 => self.sum(first, positions, add_f32),
            // float32 has more than twice the digits of either type, so rounding twice still yields the nearest value.
            DType::Float16 => self.sum(first, positions, |a, b| {
                f16::from_f32(f16::from_le_bytes(a).to_f32() + f16::from_le_bytes(b).to_f32()).to_le_bytes()
            }),
            DType::BFloat16 => self.sum(first, positions, |a, b| {
                bf16::from_f32(bf16::from_le_bytes(a).to_f32() + bf16::from_le_bytes(b).to_f32())
                    .to_le_bytes()
            }),
            DType::Int64 | DType::Uint64 => self.sum(first, positions, |a, b| {
                u64::from_le_bytes(a).wrapping_add(u64::from_le_bytes(b)).to_le_bytes()
            }),
            DType::Int32 | DType::Uint32 => self.sum(first, positions, |a, b| {
                u32::from_le_bytes(a).wrapping_add(u32::from_le_bytes(b)).to_le_bytes()
            }),
            DType::Int16 | DType::Uint16 => self.sum(first, positions, |a, b| {
                u16::from_le_bytes(a).wrapping_add(u16::from_le_bytes(b)).to_le_bytes()
            }),
            DType::Int8 | DType::Uint8 => self.sum(first, positions, |[a], [b]| [a.wrapping_add(b)]),
            DType::Bool => self.sum(first, positions, |[a], [b]| [u8::from(a != 0 || b != 0)]),
            DType::Complex64 => self.sum(first, positions, |a, b| parts::<8, 4>(a, b, add_f32)),
            DType::Complex128 => self.sum(first, positions, |a, b| {
                parts::<16, 8>(a, b, |a, b| (f64::from_le_bytes(a) + f64::from_le_bytes(b)).to_le_bytes())
            }),
            DType::Float8E4M3Fn
            | DType::Float8E5M2
            | DType::Float8E4M3Fnuz
            | DType::Float8E5M2Fnuz
            | DType::Float8E8M0Fnu => self.copy_once(first, positions, |values, from, out, to| {
                *out.get_mut(usize::try_from(to).ok()?)? = *values.get(usize::try_from(from).ok()?)?;
                Some(())
            }),
            DType::Float6E2M3Fn | DType::Float6E3M2Fn | DType::Float4E2M1Fn => {
                let bits = self.dtype.bits();
                self.copy_once(first, positions, |values, from, out, to| {
                    packed::set(out, to, bits, packed::get(values, from, bits)?)
                })
            }
        }
    }

    #[inline]
    fn sum<const W: usize>(
        &mut self,
        first: usize,
        positions: &[u64],
        plus: impl Fn([u8; W], [u8; W]) -> [u8; W],
    ) -> Result<()> {
        let values = self.values.as_chunks::<W>().0.get(first..);
        let Some(values) = values.and_then(|values| values.get(..positions.len())) else {
            return Err(outside());
        };
        let out = self.out.as_chunks_mut::<W>().0;
        for (&position, &value) in positions.iter().zip(values) {
            let Some(sum) = usize::try_from(position).ok().and_then(|position| out.get_mut(position)) else {
                return Err(outside());
            };
            *sum = if *sum == [0; W] { value } else { plus(*sum, value) };
        }
        Ok(())
    }

    /// Writes each element once. `copy` copies the value at its second argument to the element at its fourth.
    fn copy_once(
        &mut self,
        first: usize,
        positions: &[u64],
        copy: impl Fn(&[u8], u64, &mut [u8], u64) -> Option<()>,
    ) -> Result<()> {
        let first = u64::try_from(first).map_err(|_| outside())?;
        for (&position, from) in positions.iter().zip(first..) {
            let word = usize::try_from(position / 64).ok().and_then(|word| self.written.get_mut(word));
            let Some(word) = word.filter(|_| position < self.elements) else {
                return Err(outside());
            };
            let bit = 1 << (position % 64);
            if *word & bit != 0 {
                return Err(Error::new(
                    Code::BadSparse,
                    format!(
                        "element {position} of the dense tensor is given twice, again by value {from}, \
                         and {} has no addition",
                        self.dtype.name()
                    ),
                ));
            }
            *word |= bit;
            copy(self.values, from, self.out, position).ok_or_else(outside)?;
        }
        Ok(())
    }
}

pub(super) fn has_addition(dtype: DType) -> bool {
    !matches!(
        dtype,
        DType::Float8E4M3Fn
            | DType::Float8E5M2
            | DType::Float8E4M3Fnuz
            | DType::Float8E5M2Fnuz
            | DType::Float8E8M0Fnu
            | DType::Float6E2M3Fn
            | DType::Float6E3M2Fn
            | DType::Float4E2M1Fn
    )
}

fn add_f32(a: [u8; 4], b: [u8; 4]) -> [u8; 4] {
    (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes()
}

/// Adds the `P`-byte parts of two `W`-byte numbers.
fn parts<const W: usize, const P: usize>(
    mut a: [u8; W],
    b: [u8; W],
    plus: impl Fn([u8; P], [u8; P]) -> [u8; P],
) -> [u8; W] {
    for (a, &b) in a.as_chunks_mut::<P>().0.iter_mut().zip(b.as_chunks::<P>().0) {
        *a = plus(*a, b);
    }
    a
}

/// Allocates zeros whose number a file determined. Fails with `ZT_LIMIT` if there is not enough memory.
pub(super) fn zeros<T: Copy + Default>(count: u64) -> Result<Vec<T>> {
    let mut zeros = Vec::new();
    let reserved = usize::try_from(count).ok().filter(|&count| zeros.try_reserve_exact(count).is_ok());
    let Some(count) = reserved else {
        let bytes = u128::from(count) * size_of::<T>() as u128;
        return Err(Error::new(Code::Limit, format!("no memory for {bytes} bytes of working space")));
    };
    zeros.resize(count, T::default());
    Ok(zeros)
}

fn outside() -> Error {
    Error::new(Code::BadSparse, "a value belongs to an element outside the tensor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(dtype: DType, values: &[u8], elements: u64, positions: &[u64]) -> Result<Vec<u8>> {
        let mut out =
            vec![0xEE; usize::try_from(packed::byte_length(elements, dtype.bits()).unwrap()).unwrap()];
        Accumulator::new(dtype, values, elements, &mut out)?.add(0, positions)?;
        Ok(out)
    }

    fn half(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect()
    }

    fn brain(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect()
    }

    fn single(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn double(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// Three values: the first and last belong to element 1 of 3, the second to element 2.
    #[test]
    fn values_of_one_element_are_added_in_their_type() {
        let cases = [
            (DType::Float64, double(&[0.1, 5.0, 0.2]), double(&[0.0, 0.1 + 0.2, 5.0])),
            (DType::Float32, single(&[0.1, 5.0, 0.2]), single(&[0.0, 0.1 + 0.2, 5.0])),
            // Ties round to even: 2048 + 1 stays, 2050 + 1 becomes 2052.
            (DType::Float16, half(&[2048.0, 5.0, 1.0]), half(&[0.0, 2048.0, 5.0])),
            (DType::Float16, half(&[2050.0, 5.0, 1.0]), half(&[0.0, 2052.0, 5.0])),
            (DType::BFloat16, brain(&[256.0, 5.0, 1.0]), brain(&[0.0, 256.0, 5.0])),
            (DType::BFloat16, brain(&[258.0, 5.0, 1.0]), brain(&[0.0, 260.0, 5.0])),
            (DType::Int8, vec![127, 5, 2], vec![0, 129, 5]),
            (DType::Uint8, vec![255, 5, 2], vec![0, 1, 5]),
            (DType::Bool, vec![1, 1, 1], vec![0, 1, 1]),
            (DType::Int16, vec![0xff, 0x7f, 5, 0, 1, 0], vec![0, 0, 0, 0x80, 5, 0]),
            (DType::Uint16, vec![0xff, 0xff, 5, 0, 2, 0], vec![0, 0, 1, 0, 5, 0]),
            (
                DType::Complex64,
                single(&[1.0, 2.0, 5.0, 6.0, 10.0, -2.0]),
                single(&[0.0, 0.0, 11.0, 0.0, 5.0, 6.0]),
            ),
            (
                DType::Complex128,
                double(&[1.0, 2.0, 5.0, 6.0, 10.0, -2.0]),
                double(&[0.0, 0.0, 11.0, 0.0, 5.0, 6.0]),
            ),
        ];
        for (dtype, values, expected) in cases {
            assert_eq!(dense(dtype, &values, 3, &[1, 2, 1]).unwrap(), expected, "{}", dtype.name());
        }
        for (dtype, width) in [(DType::Int32, 4), (DType::Uint32, 4), (DType::Int64, 8), (DType::Uint64, 8)] {
            let number = |value: i64| value.to_le_bytes()[..width].to_vec();
            let values = [number(-1), number(5), number(3)].concat();
            let expected = [number(0), number(2), number(5)].concat();
            assert_eq!(dense(dtype, &values, 3, &[1, 2, 1]).unwrap(), expected, "{}", dtype.name());
        }
    }

    #[test]
    fn a_single_value_keeps_its_bits() {
        let cases = [
            (DType::Float32, vec![0, 0, 0, 0x80]),
            (DType::Float32, vec![1, 0, 0x80, 0x7f]),
            (DType::Float16, vec![1, 0x7c]),
            (DType::BFloat16, vec![0, 0x80]),
            (DType::Bool, vec![7]),
        ];
        for (dtype, value) in cases {
            assert_eq!(dense(dtype, &value, 1, &[0]).unwrap(), value, "{}", dtype.name());
        }
    }

    #[test]
    fn small_floats_are_placed_once() {
        assert_eq!(dense(DType::Float8E5M2, &[0, 9], 200, &[199, 64]).unwrap()[64], 9);
        assert_eq!(dense(DType::Float4E2M1Fn, &[0x21, 0x03], 5, &[4, 0, 3]).unwrap(), [0x02, 0x30, 0x01]);
        let sixes = dense(DType::Float6E2M3Fn, &[0b0111_1111, 0], 4, &[1, 3]).unwrap();
        assert_eq!(sixes, [0b1100_0000, 0b0000_1111, 0b0000_0100]);
        for dtype in [DType::Float8E4M3Fn, DType::Float8E4M3Fnuz, DType::Float8E5M2Fnuz, DType::Float4E2M1Fn]
        {
            // The first value is zero: what matters is that it was written, not its value.
            let error = dense(dtype, &[0, 1, 2], 3, &[1, 2, 1]).unwrap_err();
            assert_eq!(error.code(), Code::BadSparse);
            assert!(error.message().contains("element 1") && error.message().contains("value 2"), "{error}");
        }
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let cases = [
            (DType::Float8E8M0Fnu, vec![1], 1, vec![0], Code::BadDtype),
            (DType::Float32, vec![0; 4], 3, vec![3], Code::BadSparse),
            (DType::Float32, vec![0; 4], 3, vec![u64::MAX], Code::BadSparse),
            (DType::Float8E5M2, vec![0; 4], 3, vec![3], Code::BadSparse),
            (DType::Float8E5M2, vec![0; 1], 3, vec![0, 1], Code::BadSparse),
            (DType::Float4E2M1Fn, vec![0; 4], 3, vec![3], Code::BadSparse),
        ];
        for (dtype, values, elements, positions, code) in cases {
            let error = dense(dtype, &values, elements, &positions).unwrap_err();
            assert_eq!(error.code(), code, "{}", dtype.name());
        }
        for (elements, out) in [(3, 11), (3, 13), (u64::MAX, 0), (0, 1)] {
            let mut out = vec![0; out];
            let code =
                Accumulator::new(DType::Float32, &[], elements, &mut out).err().map(|error| error.code());
            assert_eq!(code, Some(Code::InvalidArg));
        }
        assert_eq!(zeros::<u64>(u64::MAX / 8).unwrap_err().code(), Code::Limit);
    }
}
