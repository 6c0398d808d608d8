//! `zt.quant_group/1`: integer codes of 2, 4 or 8 bits packed into words. Each group along an axis has a scale and,
//! optionally, a zero point.
#![forbid(unsafe_code)]

use super::groups::{self, BLOCK, Groups};
use crate::checked::{index, slice};
use crate::error::{Code, Error, Result};
use crate::layouts::quant_group::{self, ScaleForm, ZeroPoint};
use crate::model::DType;

/// How codes are packed into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packing {
    bits: u32,
    /// Bytes of a word.
    word: usize,
    /// Whether the first code is in the high bits.
    high_first: bool,
    signed: bool,
}

/// The value subtracted from a code before scaling.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Zero {
    None,
    Implied(f32),
    Plain(DType),
    Packed,
}

#[derive(Clone, Copy, Debug)]
pub struct QuantGroup {
    packing: Packing,
    scales: DType,
    zero: Zero,
    groups: Groups,
}

const fn is_float(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Float64
            | DType::Float32
            | DType::Float16
            | DType::BFloat16
            | DType::Float8E4M3Fn
            | DType::Float8E5M2
            | DType::Float8E4M3Fnuz
            | DType::Float8E5M2Fnuz
            | DType::Float8E8M0Fnu
    )
}

impl Packing {
    fn new(entry: &quant_group::QuantGroup, data: Option<DType>) -> Self {
        let word = entry.word.element_bytes();
        // A word with several codes is only storage, whatever its sign. A word with a single code is the code.
        let signed = entry.per_word == 1 && data == Some(DType::Int8);
        Self { bits: entry.bits, word, high_first: entry.msb_first, signed }
    }

    /// Returns the bytes of `codes` codes; `None` if they do not fill whole words.
    fn byte_length(self, codes: u64) -> Option<u64> {
        let bits = u128::from(codes) * u128::from(self.bits);
        let bytes = u64::try_from(bits / 8).ok()?;
        (bits % 8 == 0 && bytes.is_multiple_of(self.word as u64)).then_some(bytes)
    }

    /// Reads codes from `first` on, at most slightly more than [`BLOCK`] of them.
    fn read(self, bytes: &[u8], first: u64, out: &mut [f32]) -> Result<()> {
        // Whole words, the first and last of which may be needed only in part.
        let per_word = self.word * 8 / self.bits as usize;
        let skipped = index(first % per_word as u64, "a code")?;
        let words = (skipped + out.len()).div_ceil(per_word);
        let start = first / per_word as u64 * self.word as u64;
        let outside = || Error::new(Code::Internal, "a code outside its component");
        let input = slice(bytes, start, (words * self.word) as u64).ok_or_else(outside)?;
        let mut codes = [0_u8; BLOCK + 128];
        let codes = codes.get_mut(..words * per_word).ok_or_else(outside)?;
        if self.high_first {
            // Bytes of a word are stored low first, so the codes of a word come in reverse.
            self.unpack(input, codes);
            codes.chunks_exact_mut(per_word).for_each(<[u8]>::reverse);
        } else {
            self.unpack(input, codes);
        }
        let codes = &codes[skipped..skipped + out.len()];
        if self.signed {
            out.iter_mut().zip(codes).for_each(|(out, &code)| *out = f32::from(code.cast_signed()));
        } else {
            out.iter_mut().zip(codes).for_each(|(out, &code)| *out = f32::from(code));
        }
        Ok(())
    }

    /// Unpacks codes with the lowest bits first, which is the byte order regardless of the word size.
    fn unpack(self, input: &[u8], codes: &mut [u8]) {
        match self.bits {
            2 => {
                for (codes, &byte) in codes.as_chunks_mut::<4>().0.iter_mut().zip(input) {
                    *codes = [byte & 3, byte >> 2 & 3, byte >> 4 & 3, byte >> 6];
                }
            }
            4 => {
                for (codes, &byte) in codes.as_chunks_mut::<2>().0.iter_mut().zip(input) {
                    *codes = [byte & 15, byte >> 4];
                }
            }
            _ => codes.copy_from_slice(input),
        }
    }
}

impl QuantGroup {
    /// Creates the decoder. `dtypes` are those of data, scales and zeros.
    pub fn new(entry: &quant_group::QuantGroup, shape: &[u64], dtypes: [Option<DType>; 3]) -> Result<Self> {
        let [data, scales, zeros] = dtypes;
        let along = shape.get(entry.axis).copied().unwrap_or_default();
        // "Per channel": as many scales as the axis is long, or as many as the profile's size equation yields.
        let groups = match entry.group_size {
            0 if entry.scales == along => Groups::of_axis(shape, entry.axis)?,
            size => Groups::new(shape, entry.axis, size.max(1))?,
        };
        let scales = scales.filter(|&dtype| match entry.scale_form {
            ScaleForm::F16Factors => matches!(dtype, DType::Float16 | DType::BFloat16),
            ScaleForm::F32Factors | ScaleForm::E8M0Exponent => true,
        });
        let scales = scales.ok_or_else(|| {
            let message =
                "f16_factors are float16 or bfloat16: rounding of wider ones to them is not specified";
            Error::new(Code::BadDtype, message).component("scales")
        })?;
        let zero = match entry.zero_point {
            ZeroPoint::None => Zero::None,
            ZeroPoint::Implied(value) => Zero::implied(value)?,
            ZeroPoint::Packed => Zero::Packed,
            ZeroPoint::Plain => Zero::plain(zeros)?,
        };
        Ok(Self { packing: Packing::new(entry, data), scales, zero, groups })
    }

    /// Returns the bytes of `data` for a number of elements.
    pub fn data_length(&self, elements: u64) -> Option<u64> {
        self.packing.byte_length(elements)
    }

    pub fn scales_length(&self) -> Option<u64> {
        self.groups.count().checked_mul(self.scales.element_bytes() as u64)
    }

    /// Returns the bytes of `zeros`; 0 if there is no such component, `None` if no length is valid.
    pub fn zeros_length(&self) -> Option<u64> {
        match self.zero {
            Zero::None | Zero::Implied(_) => Some(0),
            Zero::Plain(dtype) => self.groups.count().checked_mul(dtype.element_bytes() as u64),
            Zero::Packed => self.packing.byte_length(self.groups.count()),
        }
    }

    pub fn has_zeros(&self) -> bool {
        matches!(self.zero, Zero::Plain(_) | Zero::Packed)
    }

    /// Decodes elements from `first` on, a multiple of [`BLOCK`], until `out` is full: `(code - zero) * scale`, with
    /// each operation rounded to float32.
    pub fn decode(
        &self,
        data: &[u8],
        scales: &[u8],
        zeros: &[u8],
        first: u64,
        out: &mut [[u8; 4]],
    ) -> Result<()> {
        let (mut codes, mut factors, mut offsets) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        if let Zero::Implied(value) = self.zero {
            offsets.fill(value);
        }
        for (out, first) in out.chunks_mut(BLOCK).zip((first..).step_by(BLOCK)) {
            let (codes, factors) = (&mut codes[..out.len()], &mut factors[..out.len()]);
            let offsets = &mut offsets[..out.len()];
            self.packing.read(data, first, codes)?;
            self.groups.spread(first, factors, |at, out| groups::read(self.scales, scales, at, out))?;
            match self.zero {
                Zero::None | Zero::Implied(_) => {}
                Zero::Plain(dtype) => {
                    self.groups.spread(first, offsets, |at, out| groups::read(dtype, zeros, at, out))?;
                }
                Zero::Packed => {
                    self.groups.spread(first, offsets, |at, out| self.packing.read(zeros, at, out))?;
                }
            }
            let factors = factors.iter().zip(offsets);
            for (out, (code, (factor, offset))) in out.iter_mut().zip(codes.iter().zip(factors)) {
                *out = ((code - *offset) * factor).to_ne_bytes();
            }
        }
        Ok(())
    }
}

impl Zero {
    fn implied(value: i128) -> Result<Self> {
        // Values exact in float32; real ones are at most 128.
        let exact = i32::try_from(value).ok().filter(|value| value.unsigned_abs() <= 1 << 24);
        #[expect(clippy::cast_precision_loss)]
        exact.map(|value| Self::Implied(value as f32)).ok_or_else(|| {
            let message = format!("an implied zero point of {value} exceeds the exact range of float32");
            Error::new(Code::BadLayout, message)
        })
    }

    fn plain(zeros: Option<DType>) -> Result<Self> {
        let dtype = zeros.filter(|&dtype| dtype.is_index() || is_float(dtype));
        dtype.map(Self::Plain).ok_or_else(|| {
            Error::new(Code::BadDtype, "plain zero points must be integers or floats").component("zeros")
        })
    }
}
