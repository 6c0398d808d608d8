//! `zt.quant_group/1`: integer codes of 2, 4 or 8 bits packed into words, with a scale and perhaps a zero point for
//! each group along an axis.
#![forbid(unsafe_code)]

use super::groups::{self, BLOCK, Groups};
use super::parameters::Parameters;
use crate::catalog::DType;
use crate::checked::{index, slice};
use crate::error::{Code, Error, Result};

/// How codes sit in their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packing {
    bits: u32,
    /// Bytes of a word.
    word: usize,
    /// The first code stands in the high bits.
    high_first: bool,
    signed: bool,
}

/// What is taken off a code before it is scaled.
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

/// The dtypes of the parts, as far as they are known.
#[derive(Clone, Copy)]
pub struct Dtypes {
    pub data: Option<DType>,
    pub scales: Option<DType>,
    pub zeros: Option<DType>,
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadLayout, message)
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
    fn new(parameters: Parameters<'_>, data: Option<DType>) -> Result<Self> {
        let bits = parameters.number("bits")?;
        let packing = parameters.map("packing")?;
        let (name, order) = (packing.text("word")?, packing.text("order")?);
        let word = match name {
            "u8" => 1,
            "u16" => 2,
            "u32" => 4,
            "u64" => 8,
            _ => return Err(bad(format!("the word must be u8, u16, u32 or u64, not {name:?}"))),
        };
        let high_first = match order {
            "lsb_first" => false,
            "msb_first" => true,
            _ => return Err(bad(format!("the order must be lsb_first or msb_first, not {order:?}"))),
        };
        // 3, 5 and 6 bits divide no word.
        let bits = match bits {
            2 => 2,
            4 => 4,
            8 => 8,
            _ => return Err(bad(format!("codes of {bits} bits do not fill words of {name}"))),
        };
        let word_bits = word as u64 * 8;
        let per_word = packing.number("per_word")?;
        if per_word != word_bits / u64::from(bits) {
            return Err(bad(format!(
                "{} codes of {bits} bits fill a word of {name}, per_word says {per_word}",
                word_bits / u64::from(bits)
            )));
        }
        match data {
            Some(dtype) if dtype.is_index() && dtype.element_bytes() == word => {
                // A word of several codes is storage, whatever its sign. A word that is one code is the code.
                let signed = per_word == 1 && dtype == DType::Int8;
                Ok(Self { bits, word, high_first, signed })
            }
            other => {
                let found = other.map_or("of unknown type", DType::name);
                let message = format!("the words are {found}, the packing says {name}");
                Err(Error::new(Code::BadDtype, message).component("data"))
            }
        }
    }

    /// Bytes of `codes` codes; `None` where they do not fill whole words.
    fn byte_length(self, codes: u64) -> Option<u64> {
        let bits = u128::from(codes) * u128::from(self.bits);
        let bytes = u64::try_from(bits / 8).ok()?;
        (bits % 8 == 0 && bytes.is_multiple_of(self.word as u64)).then_some(bytes)
    }

    /// Codes from `first` on, at most a little over [`BLOCK`] of them.
    fn read(self, bytes: &[u8], first: u64, out: &mut [f32]) -> Result<()> {
        // Whole words, of which the first and the last may be needed in part.
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

    /// Codes with the lowest bits first, which is the order of the bytes whatever the word.
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
    pub fn new(parameters: Parameters<'_>, shape: &[u64], dtypes: Dtypes) -> Result<Self> {
        let packing = Packing::new(parameters, dtypes.data)?;
        // "Per channel" has as many scales as codes by the profile's own size equation: groups of one.
        let size = parameters.number("group_size")?.max(1);
        let groups = Groups::new(shape, parameters.number("axis")?, size)?;
        let form = parameters.text("scale_form")?;
        let scales = dtypes.scales.filter(|&dtype| match form {
            "f32_factors" => is_float(dtype),
            "f16_factors" => matches!(dtype, DType::Float16 | DType::BFloat16),
            "e8m0_exponent" => dtype == DType::Float8E8M0Fnu,
            _ => false,
        });
        let scales = scales.ok_or_else(|| {
            let found = dtypes.scales.map_or("of unknown type", DType::name);
            bad(format!("the scale_form {form:?} does not take scales {found}")).component("scales")
        })?;
        let zero = Zero::new(parameters.map("zero_point")?, dtypes.zeros)?;
        Ok(Self { packing, scales, zero, groups })
    }

    /// Bytes of `data` for so many elements.
    pub fn data_length(&self, elements: u64) -> Option<u64> {
        self.packing.byte_length(elements)
    }

    pub fn scales_length(&self) -> Option<u64> {
        self.groups.count().checked_mul(self.scales.element_bytes() as u64)
    }

    /// Bytes of `zeros`; 0 where there is no such component, `None` where no length would do.
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

    /// Elements from `first` on, a multiple of [`BLOCK`], as many as `out` has places: `(code - zero) * scale`, each
    /// operation rounded to float32.
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
    fn new(parameters: Parameters<'_>, zeros: Option<DType>) -> Result<Self> {
        let form = parameters.text("form")?;
        match form {
            "none" => Ok(Self::None),
            "implied" => {
                let value = parameters.integer("value")?;
                // What float32 holds exactly; real ones are at most 128.
                let exact = i32::try_from(value).ok().filter(|value| value.unsigned_abs() <= 1 << 24);
                #[expect(clippy::cast_precision_loss)]
                exact.map(|value| Self::Implied(value as f32)).ok_or_else(|| {
                    bad(format!("an implied zero point of {value} is more than float32 holds exactly"))
                })
            }
            "tensor" => match parameters.text("packing")? {
                "same_as_data" => Ok(Self::Packed),
                "plain" => {
                    let dtype = zeros.filter(|&dtype| dtype.is_index() || is_float(dtype));
                    dtype.map(Self::Plain).ok_or_else(|| {
                        let message = "plain zero points must be integers or floats";
                        Error::new(Code::BadDtype, message).component("zeros")
                    })
                }
                other => Err(bad(format!("zero points are packed same_as_data or plain, not {other:?}"))),
            },
            other => {
                Err(bad(format!("the form of the zero point must be none, implied or tensor, not {other:?}")))
            }
        }
    }
}
