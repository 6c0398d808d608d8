//! `tflite.quantized/1`: `(code - zero) * scale`, as in `tflite::reference_ops::Dequantize`: an integer difference, and
//! a product that is rounded once.
#![forbid(unsafe_code)]

use super::groups::{BLOCK, Groups};
use crate::checked::{index, slice};
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::layouts::affine::Codes;
use crate::model::DType;

#[derive(Clone, Copy, Debug)]
pub struct Affine {
    entry: layouts::affine::Affine,
    groups: Groups,
}

impl Affine {
    /// Creates the decoder. `elements` is the product of the shape.
    pub fn new(entry: layouts::affine::Affine, shape: &[u64], elements: u64) -> Result<Self> {
        let groups = match entry.scales {
            1 => Groups::of_axis(&[1, elements], 0)?,
            _ => Groups::of_axis(shape, entry.axis)?,
        };
        Ok(Self { entry, groups })
    }

    /// Returns the bytes of data, scales and zeros.
    pub fn lengths(&self) -> [u64; 3] {
        [self.entry.bytes, self.entry.scales.saturating_mul(4), self.entry.zeros.saturating_mul(8)]
    }

    /// Decodes elements from `first` on, a multiple of [`BLOCK`], until `out` is full.
    pub fn decode(
        &self,
        data: &[u8],
        scales: &[u8],
        zeros: &[u8],
        first: u64,
        out: &mut [[u8; 4]],
    ) -> Result<()> {
        let outside = || Error::new(Code::Internal, "a code outside its component");
        let mut codes = [0_i64; BLOCK];
        for (out, first) in out.chunks_mut(BLOCK).zip((first..).step_by(BLOCK)) {
            let codes = codes.get_mut(..out.len()).ok_or_else(outside)?;
            read(self.entry.codes, data, first, codes)?;
            let mut result = Ok(());
            self.groups.runs(first, out.len(), |range, factor| {
                let zero_at = if self.entry.zeros == 1 { 0 } else { factor };
                let scale = array::<4>(scales, factor).map(f32::from_le_bytes);
                let zero = array::<8>(zeros, zero_at).map(i64::from_le_bytes);
                let (Some(scale), Some(zero), Some(codes), Some(out)) =
                    (scale, zero, codes.get(range.clone()), out.get_mut(range))
                else {
                    result = Err(outside());
                    return;
                };
                for (out, &code) in out.iter_mut().zip(codes) {
                    *out = value(code, zero, scale).to_ne_bytes();
                }
            });
            result?;
        }
        Ok(())
    }
}

/// A difference of 32-bit numbers and its product with a float32 need only one rounding in float64.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn value(code: i64, zero: i64, scale: f32) -> f32 {
    (f64::from(scale) * code.wrapping_sub(zero) as f64) as f32
}

fn array<const N: usize>(bytes: &[u8], at: u64) -> Option<[u8; N]> {
    slice(bytes, at.checked_mul(N as u64)?, N as u64)?.try_into().ok()
}

/// Reads codes from `first` on, a multiple of [`BLOCK`].
fn read(codes: Codes, bytes: &[u8], first: u64, out: &mut [i64]) -> Result<()> {
    let bits = match codes {
        Codes::Of(dtype) => dtype.bits(),
        Codes::Packed { bits, .. } => bits,
    };
    let outside = || Error::new(Code::Internal, "a code outside its component");
    let start = first.checked_mul(u64::from(bits)).ok_or_else(outside)? / 8;
    let length = (out.len() as u64 * u64::from(bits)).div_ceil(8);
    let input = slice(bytes, start, length).ok_or_else(outside)?;
    match codes {
        Codes::Packed { bits, signed } => {
            let per_byte = index(u64::from(8 / bits), "codes of a byte")?;
            for (out, &byte) in out.chunks_mut(per_byte).zip(input) {
                for (out, shift) in out.iter_mut().zip((0..8).step_by(bits as usize)) {
                    // Shift to the top of a byte and back, which extends the sign.
                    let top = byte >> shift << (8 - bits);
                    *out = if signed {
                        i64::from(top.cast_signed() >> (8 - bits))
                    } else {
                        i64::from(top >> (8 - bits))
                    };
                }
            }
        }
        Codes::Of(DType::Int8) => each(input, out, |[byte]: [u8; 1]| i64::from(byte.cast_signed())),
        Codes::Of(DType::Uint8) => each(input, out, |[byte]: [u8; 1]| i64::from(byte)),
        Codes::Of(DType::Int16) => each(input, out, |bytes| i64::from(i16::from_le_bytes(bytes))),
        Codes::Of(DType::Uint16) => each(input, out, |bytes| i64::from(u16::from_le_bytes(bytes))),
        Codes::Of(DType::Int32) => each(input, out, |bytes| i64::from(i32::from_le_bytes(bytes))),
        Codes::Of(DType::Uint32) => each(input, out, |bytes| i64::from(u32::from_le_bytes(bytes))),
        Codes::Of(_) => each(input, out, i64::from_le_bytes),
    }
    Ok(())
}

fn each<const N: usize>(input: &[u8], out: &mut [i64], of: impl Fn([u8; N]) -> i64) {
    out.iter_mut().zip(input.as_chunks::<N>().0).for_each(|(out, &bytes)| *out = of(bytes));
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(
        codes: Codes,
        data: &[u8],
        shape: &[u64],
        axis: usize,
        scales: &[f32],
        zeros: &[i64],
    ) -> Vec<f32> {
        decoded_from(codes, data, shape, axis, scales, zeros, 0, u64::MAX)
    }

    #[expect(clippy::too_many_arguments)]
    fn decoded_from(
        codes: Codes,
        data: &[u8],
        shape: &[u64],
        axis: usize,
        scales: &[f32],
        zeros: &[i64],
        first: u64,
        max: u64,
    ) -> Vec<f32> {
        let elements: u64 = shape.iter().product();
        let (scale_count, zero_count) = (scales.len() as u64, zeros.len() as u64);
        let entry = layouts::affine::Affine {
            codes,
            axis,
            scales: scale_count,
            zeros: zero_count,
            bytes: data.len() as u64,
        };
        let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let zeros: Vec<u8> = zeros.iter().flat_map(|zero| zero.to_le_bytes()).collect();
        let mut out = vec![[0; 4]; usize::try_from(max.min(elements - first)).unwrap()];
        Affine::new(entry, shape, elements).unwrap().decode(data, &scales, &zeros, first, &mut out).unwrap();
        out.into_iter().map(f32::from_ne_bytes).collect()
    }

    #[test]
    fn codes_of_all_types_are_decoded() {
        let int4 = Codes::Packed { bits: 4, signed: true };
        assert_eq!(decoded(int4, &[0x8f, 0x07], &[3], 0, &[0.5], &[1]), [-1.0, -4.5, 3.0]);
        let int2 = Codes::Packed { bits: 2, signed: true };
        assert_eq!(decoded(int2, &[0b11_10_01_00], &[4], 0, &[1.0], &[0]), [0.0, 1.0, -2.0, -1.0]);
        let uint4 = Codes::Packed { bits: 4, signed: false };
        assert_eq!(decoded(uint4, &[0x8f], &[2], 0, &[1.0], &[0]), [15.0, 8.0]);
        assert_eq!(decoded(Codes::Of(DType::Int8), &[255, 128], &[2], 0, &[2.0], &[-3]), [4.0, -250.0]);
        assert_eq!(decoded(Codes::Of(DType::Uint8), &[255], &[], 0, &[2.0], &[128]), [254.0]);
        assert_eq!(decoded(Codes::Of(DType::Int16), &[0, 128], &[1], 0, &[1.0], &[0]), [-32768.0]);
    }

    #[test]
    fn each_index_of_the_axis_has_a_scale() {
        let data = [1; 12];
        let found = decoded(Codes::Of(DType::Int8), &data, &[2, 3, 2], 1, &[1.0, 2.0, 3.0], &[0, 1, -1]);
        let lane = [1.0, 1.0, 0.0, 0.0, 6.0, 6.0];
        assert_eq!(found, [lane, lane].concat());
        let shared = decoded(Codes::Of(DType::Int8), &data, &[12], 0, &[2.0; 12], &[1]);
        assert_eq!(shared, [0.0; 12]);
    }

    const KINDS: [Codes; 11] = [
        Codes::Packed { bits: 2, signed: true },
        Codes::Packed { bits: 4, signed: true },
        Codes::Packed { bits: 4, signed: false },
        Codes::Of(DType::Int8),
        Codes::Of(DType::Uint8),
        Codes::Of(DType::Int16),
        Codes::Of(DType::Uint16),
        Codes::Of(DType::Int32),
        Codes::Of(DType::Uint32),
        Codes::Of(DType::Int64),
        Codes::Of(DType::Uint64),
    ];

    /// Returns the code of one element from its bits alone.
    fn code_at(kind: Codes, data: &[u8], element: usize) -> i64 {
        let (bits, signed) = match kind {
            Codes::Packed { bits, signed } => (bits as usize, signed),
            Codes::Of(dtype) => {
                let signed = [DType::Int8, DType::Int16, DType::Int32, DType::Int64].contains(&dtype);
                (dtype.bits() as usize, signed)
            }
        };
        let set = |bit: usize| data[bit / 8] >> (bit % 8) & 1 == 1;
        let value = (0..bits).filter(|&bit| set(element * bits + bit)).fold(0_u64, |sum, bit| sum | 1 << bit);
        let negative = signed && value >> (bits - 1) == 1 && bits < 64;
        value.cast_signed() - if negative { 1 << bits } else { 0 }
    }

    proptest! {
        /// Compares each element with its code, in pieces that begin where a thread may begin.
        #[test]
        fn each_element_is_decoded_from_its_own_code(
            kind in proptest::sample::select(&KINDS[..]),
            shape in proptest::collection::vec(1..9_u64, 0..5),
            axis in 0..4_usize,
            (per_axis, own_zeros) in (any::<bool>(), any::<bool>()),
            seed in any::<u64>(),
        ) {
            let mut state = seed | 1;
            let mut random = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let elements: u64 = shape.iter().product();
            let along = shape.get(axis).copied().filter(|_| per_axis).unwrap_or(1);
            let bits = match kind {
                Codes::Packed { bits, .. } => bits,
                Codes::Of(dtype) => dtype.bits(),
            };
            let bytes = (elements * u64::from(bits)).div_ceil(8);
            let data: Vec<u8> = (0..bytes).map(|_| random().to_le_bytes()[3]).collect();
            let scales: Vec<f32> = (0..along).map(|_| random() as f32 / 1e19).collect();
            let zeros: Vec<i64> =
                (0..if own_zeros { along } else { 1 }).map(|_| i64::from(random() as i32)).collect();
            let found = decoded(kind, &data, &shape, axis, &scales, &zeros);
            let inner: u64 = shape.iter().skip(axis + 1).product();
            for (at, &found) in found.iter().enumerate() {
                let index = if along == 1 { 0 } else { at / inner as usize % along as usize };
                let zero = zeros[if zeros.len() == 1 { 0 } else { index }];
                let code = code_at(kind, &data, at);
                let expected = (f64::from(scales[index]) * code.wrapping_sub(zero) as f64) as f32;
                prop_assert_eq!(found.to_bits(), expected.to_bits(), "element {}", at);
            }
            let parts: Vec<f32> = (0..elements)
                .step_by(BLOCK)
                .flat_map(|first| decoded_from(kind, &data, &shape, axis, &scales, &zeros, first, BLOCK as u64))
                .collect();
            prop_assert_eq!(parts, found);
        }
    }
}
