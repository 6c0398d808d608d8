//! Quantization of float32 to ggml's blocks, bit for bit as llama.cpp does.
#![forbid(unsafe_code)]
// Conversions keep the low bits, as those of the reference do, and equal numbers have equal bits here.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::float_cmp
)]
// Sums have the names of their terms.
#![allow(clippy::similar_names, clippy::many_single_char_names)]

mod codebook;
mod iq1;
mod iq2_iq3;
mod iq4;
mod k_quants;
mod lanes;
mod legacy;
mod numbers;
mod search;
mod ternary;
mod weighted;

use multiversion::multiversion;

use crate::error::{Code, Error, Result};

/// A ggml block type that is written: a fixed-size record that encodes a fixed number of elements of one row.
#[derive(Clone, Copy, Debug)]
pub struct BlockEncoder {
    name: &'static str,
    elements: usize,
    bytes: usize,
    scales: Scales,
    widest: Functions,
    #[cfg(test)]
    baseline: Functions,
}

/// The scales of a block, as far as they can be infinite or NaN.
#[derive(Clone, Copy, Debug)]
enum Scales {
    /// One or two float16 at these offsets.
    Half(&'static [usize]),
    /// One float16, of which each of the four 16-bit integers from an offset on has four bits.
    SplitHalf(usize),
    /// A float32 at the start.
    Float,
    /// A power of two at the start (E8M0).
    Exponent,
    /// Every byte is a number.
    Finite,
}

/// The functions of a type, compiled for one set of instructions.
#[derive(Clone, Copy, Debug)]
struct Functions {
    /// `None` where the type needs importance.
    plain: Option<Plain>,
    /// `None` where the importance changes nothing.
    weighted: Option<Weighted>,
}

/// Takes the elements and the bytes to write.
type Plain = fn(&[f32], &mut [u8]);

/// Takes the elements, the length of a row, the importance of its elements, and the bytes to write.
type Weighted = fn(&[f32], usize, &[f32], &mut [u8]);

/// Compiles a function, if there is one, with attributes, which say for which instructions. It is called by name, because a closure would
/// not be inlined and would not use wide vectors.
macro_rules! compile {
    ([$($attribute:tt)*] () $($rest:tt)*) => { None };
    ([$($attribute:tt)*] ($function:path) $($argument:ident: $type:ty),*) => {{
        $($attribute)*
        fn compiled($($argument: $type),*) {
            $function($($argument),*);
        }
        Some(compiled)
    }};
}

/// Compiles the functions of a type.
macro_rules! functions {
    ([$($attribute:tt)*] ($($plain:path)?) ($($weighted:path)?)) => {
        Functions {
            plain: compile!([$($attribute)*] ($($plain)?) source: &[f32], out: &mut [u8]),
            weighted: compile!([$($attribute)*] ($($weighted)?)
                source: &[f32], row: usize, importance: &[f32], out: &mut [u8]),
        }
    };
}

/// Builds the table. A type has a function without importance, unless it needs that, and one with it, unless that changes nothing.
macro_rules! kinds {
    ($($name:literal $elements:literal $bytes:literal $scales:expr, ($($plain:path)?) ($($weighted:path)?);)*) => {
        const KINDS: &[BlockEncoder] = &[$(BlockEncoder {
            name: $name,
            elements: $elements,
            bytes: $bytes,
            scales: $scales,
            widest: functions!([#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]] ($($plain)?) ($($weighted)?)),
            #[cfg(test)]
            baseline: functions!([] ($($plain)?) ($($weighted)?)),
        }),*];
    };
}

kinds! {
    "q4_0" 32 18 Scales::Half(&[0]), (legacy::q4_0) (weighted::q4_0);
    "q4_1" 32 20 Scales::Half(&[0, 2]), (legacy::q4_1) (weighted::q4_1);
    "q5_0" 32 22 Scales::Half(&[0]), (legacy::q5_0) (weighted::q5_0);
    "q5_1" 32 24 Scales::Half(&[0, 2]), (legacy::q5_1) (weighted::q5_1);
    "q8_0" 32 34 Scales::Half(&[0]), (legacy::q8_0) ();
    "q2_k" 256 84 Scales::Half(&[80, 82]), (k_quants::q2_k) (weighted::q2_k);
    "q3_k" 256 110 Scales::Half(&[108]), (k_quants::q3_k) (weighted::q3_k);
    "q4_k" 256 144 Scales::Half(&[0, 2]), (k_quants::q4_k) (weighted::q4_k);
    "q5_k" 256 176 Scales::Half(&[0, 2]), (k_quants::q5_k) (weighted::q5_k);
    "q6_k" 256 210 Scales::Half(&[208]), (k_quants::q6_k) (weighted::q6_k);
    "q8_k" 256 292 Scales::Float, (legacy::q8_k) ();
    "iq4_nl" 32 18 Scales::Half(&[0]), (iq4::iq4_nl) (weighted::iq4_nl);
    "iq4_xs" 256 136 Scales::Half(&[0]), (iq4::iq4_xs) (weighted::iq4_xs);
    "iq2_xxs" 256 66 Scales::Half(&[0]), () (iq2_iq3::iq2_xxs);
    "iq2_xs" 256 74 Scales::Half(&[0]), () (iq2_iq3::iq2_xs);
    "iq2_s" 256 82 Scales::Half(&[0]), (iq2_iq3::iq2_s) (iq2_iq3::iq2_s_weighted);
    "iq3_xxs" 256 98 Scales::Half(&[0]), (iq2_iq3::iq3_xxs) (iq2_iq3::iq3_xxs_weighted);
    "iq3_s" 256 110 Scales::Half(&[0]), (iq2_iq3::iq3_s) (iq2_iq3::iq3_s_weighted);
    "iq1_s" 256 50 Scales::Half(&[0]), () (iq1::iq1_s);
    "iq1_m" 256 56 Scales::SplitHalf(48), () (iq1::iq1_m);
    "tq1_0" 256 54 Scales::Half(&[52]), (ternary::tq1_0) ();
    "tq2_0" 256 66 Scales::Half(&[64]), (ternary::tq2_0) ();
    "mxfp4" 32 17 Scales::Exponent, (iq4::mxfp4) ();
    "nvfp4" 64 36 Scales::Finite, (iq4::nvfp4) ();
}

/// Returns the index of the first element that is infinite or NaN.
pub fn first_not_finite(source: &[f32]) -> Option<usize> {
    if largest_bits(source) < f32::INFINITY.to_bits() {
        return None;
    }
    source.iter().position(|element| !element.is_finite())
}

/// Returns the largest bits of a magnitude. Those of infinity and NaN are above all others.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn largest_bits(source: &[f32]) -> u32 {
    let magnitudes = source.iter().map(|element| element.abs().to_bits().cast_signed());
    magnitudes.fold(0, i32::max).cast_unsigned()
}

impl BlockEncoder {
    /// Returns the type with a lowercase ggml name, if it can be written.
    pub fn of(name: &str) -> Option<Self> {
        KINDS.iter().find(|known| known.name == name).copied()
    }

    /// Returns the names of all types that can be written.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|known| known.name)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the number of elements of a block.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the number of bytes of a block.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the type can be written only with importance.
    pub fn needs_importance(&self) -> bool {
        self.widest.plain.is_none()
    }

    /// Encodes whole rows of `row` elements, which are whole blocks. `importance` has a weight for each element of a row; types that
    /// have no use for it ignore it. `out` becomes the bytes that `ggml_quantize_chunk` writes.
    ///
    /// Fails with `ZT_INVALID_ARG` unless the lengths match, and without importance for a type that needs it.
    pub fn quantize(
        &self,
        source: &[f32],
        row: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        self.run(self.widest, source, row, importance, out)
    }

    /// Returns the index of the first block with a scale that is infinite or NaN, which `ggml_validate_row_data` rejects.
    pub fn first_invalid_block(&self, blocks: &[u8]) -> Option<usize> {
        let half = |block: &[u8], at: usize| {
            block.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |&bytes| u16::from_le_bytes(bytes))
        };
        let is_finite = |half: u16| half & 0x7c00 != 0x7c00;
        blocks.chunks_exact(self.bytes).position(|block| match self.scales {
            Scales::Half(offsets) => !offsets.iter().all(|&at| is_finite(half(block, at))),
            Scales::SplitHalf(at) => {
                // The exponent has five bits of the last two parts.
                !is_finite(half(block, at + 6) & 0xf000 | half(block, at + 4) >> 4 & 0x0f00)
            }
            Scales::Float => !block.first_chunk().is_some_and(|&scale| f32::from_le_bytes(scale).is_finite()),
            Scales::Exponent => block.first() == Some(&0xff),
            Scales::Finite => false,
        })
    }

    fn run(
        &self,
        functions: Functions,
        source: &[f32],
        row: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        let invalid = |message: String| Err(Error::new(Code::InvalidArg, message));
        let Self { name, elements, bytes, .. } = *self;
        if row == 0 || !row.is_multiple_of(elements) {
            return invalid(format!("rows of {row} elements are not whole {name} blocks of {elements}"));
        }
        if !source.len().is_multiple_of(row) {
            return invalid(format!("{} elements are not whole rows of {row}", source.len()));
        }
        if source.len() / elements * bytes != out.len() {
            return invalid(format!("{} elements do not fill {} bytes of {name}", source.len(), out.len()));
        }
        match (functions, importance) {
            (_, Some(importance)) if importance.len() != row => {
                return invalid(format!("{} weights for rows of {row} elements", importance.len()));
            }
            (Functions { weighted: Some(weighted), .. }, Some(importance)) => {
                weighted(source, row, importance, out);
            }
            (Functions { plain: Some(plain), .. }, _) => plain(source, out),
            _ => {
                let message = format!("{name} needs an importance matrix, which a conversion takes");
                return Err(Error::new(Code::InvalidArg, message).option("imatrix"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers of all magnitudes, and of one in some blocks. Integers make them, so that they are the same on every machine.
    fn numbers(count: u32) -> Vec<f32> {
        let number = |at: u32| {
            let bits = (at ^ at >> 15).wrapping_mul(0x2c1b_3c6d);
            let bits = (bits ^ bits >> 12).wrapping_mul(0x297a_2d39);
            let bits = bits ^ bits >> 15;
            match at / 256 % 4 {
                0 => f32::from_bits(bits & 0x807f_ffff | ((bits >> 9) % 254 + 1) << 23),
                1 => f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000),
                _ => f32::from_bits(bits & 0x81ff_ffff | 0x3c00_0000),
            }
        };
        (0..count).map(number).collect()
    }

    #[test]
    fn wide_vectors_give_the_blocks_of_the_baseline() {
        let (source, row) = (numbers(3 << 12), 1 << 10);
        let importance: Vec<f32> = source[512..][..row].iter().map(|value| value.abs().min(1e6)).collect();
        for kind in KINDS {
            for importance in [None, Some(&importance[..])] {
                if kind.needs_importance() && importance.is_none() {
                    continue;
                }
                let mut blocks = [0, 0xff].map(|fill| vec![fill; source.len() / kind.elements * kind.bytes]);
                kind.run(kind.widest, &source, row, importance, &mut blocks[0]).unwrap();
                kind.run(kind.baseline, &source, row, importance, &mut blocks[1]).unwrap();
                let differs =
                    blocks[0].chunks(kind.bytes).zip(blocks[1].chunks(kind.bytes)).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{} {}", kind.name, importance.is_some());
            }
        }
    }
}
