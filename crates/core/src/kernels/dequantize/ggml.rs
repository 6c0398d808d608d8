//! ggml's blocks of 32 elements with a scale, and the table of all supported block types. The arithmetic is that of the `gguf` package,
//! operation by operation, so that results are bit-identical.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use multiversion::multiversion;

use super::{ggml_four, ggml_iq, ggml_k, ggml_ternary};
use crate::kernels::scalar::{Float, half};

/// A ggml block type: a fixed-size record that encodes a fixed number of elements of one row.
#[derive(Clone, Copy, Debug)]
pub struct BlockType {
    name: &'static str,
    pub elements: u64,
    pub bytes: u64,
    decode: fn(&[u8], &mut [[u8; 4]]),
}

/// Builds the table. Decoding is compiled once for the baseline and once for AVX2. `$decode` is called by name, because
/// a closure would not be inlined and would not use AVX2.
macro_rules! block_types {
    ($($name:literal $elements:literal $bytes:literal $decode:path;)*) => {
        const TYPES: &[BlockType] = &[$(BlockType {
            name: $name,
            elements: $elements,
            bytes: $bytes,
            decode: {
                #[multiversion(targets("x86_64+avx2+f16c"))]
                fn each(input: &[u8], out: &mut [[u8; 4]]) {
                    let blocks = input.as_chunks::<$bytes>().0.iter();
                    for (block, out) in blocks.zip(out.as_chunks_mut::<$elements>().0) {
                        $decode(block, out);
                    }
                }
                each
            },
        }),*];
    };
}

block_types! {
    "q4_0" 32 18 q4_0;
    "q4_1" 32 20 q4_1;
    "q5_0" 32 22 q5_0;
    "q5_1" 32 24 q5_1;
    "q8_0" 32 34 q8_0;
    "q2_k" 256 84 ggml_k::q2_k;
    "q3_k" 256 110 ggml_k::q3_k;
    "q4_k" 256 144 ggml_k::q4_k;
    "q5_k" 256 176 ggml_k::q5_k;
    "q6_k" 256 210 ggml_k::q6_k;
    "iq1_s" 256 50 ggml_iq::iq1_s;
    "iq1_m" 256 56 ggml_iq::iq1_m;
    "iq2_xxs" 256 66 ggml_iq::iq2_xxs;
    "iq2_xs" 256 74 ggml_iq::iq2_xs;
    "iq2_s" 256 82 ggml_iq::iq2_s;
    "iq3_xxs" 256 98 ggml_iq::iq3_xxs;
    "iq3_s" 256 110 ggml_iq::iq3_s;
    "iq4_nl" 32 18 ggml_four::iq4_nl;
    "iq4_xs" 256 136 ggml_four::iq4_xs;
    "tq1_0" 256 54 ggml_ternary::tq1_0;
    "tq2_0" 256 66 ggml_ternary::tq2_0;
    "mxfp4" 32 17 ggml_four::mxfp4;
    "nvfp4" 64 36 ggml_four::nvfp4;
}

impl BlockType {
    /// Returns the type with a lowercase ggml name, if it is supported.
    pub fn of(name: &str) -> Option<Self> {
        TYPES.iter().find(|known| known.name == name).copied()
    }

    /// Returns the names of all supported types.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TYPES.iter().map(|known| known.name)
    }

    /// Decodes whole blocks: `elements` values for each `bytes` bytes of `input`, in the byte order of the host.
    pub fn decode(&self, input: &[u8], out: &mut [[u8; 4]]) {
        (self.decode)(input, out);
    }
}

#[inline(always)]
fn q4_0(block: &[u8; 18], out: &mut [Float; 32]) {
    let d = half(block, 0);
    for j in 0..16 {
        let byte = block[2 + j];
        out[j] = (d * (f32::from(byte & 15) - 8.0)).to_ne_bytes();
        out[j + 16] = (d * (f32::from(byte >> 4) - 8.0)).to_ne_bytes();
    }
}

#[inline(always)]
fn q4_1(block: &[u8; 20], out: &mut [Float; 32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    for j in 0..16 {
        let byte = block[4 + j];
        out[j] = (d * f32::from(byte & 15) + m).to_ne_bytes();
        out[j + 16] = (d * f32::from(byte >> 4) + m).to_ne_bytes();
    }
}

/// Decodes 5-bit codes: the low four bits in halves of `low`, the fifth in the bits of `high`.
#[inline(always)]
fn five_bits(high: [u8; 4], low: &[u8], each: impl Fn(u8) -> f32, out: &mut [Float; 32]) {
    let high = u32::from_le_bytes(high);
    for (j, &byte) in low.iter().enumerate().take(16) {
        let fifth = |bit: usize| u8::from(high >> bit & 1 == 1) << 4;
        out[j] = each(byte & 15 | fifth(j)).to_ne_bytes();
        out[j + 16] = each(byte >> 4 | fifth(j + 16)).to_ne_bytes();
    }
}

#[inline(always)]
fn q5_0(block: &[u8; 22], out: &mut [Float; 32]) {
    let d = half(block, 0);
    let high = [block[2], block[3], block[4], block[5]];
    five_bits(high, &block[6..], |code| d * (f32::from(code) - 16.0), out);
}

#[inline(always)]
fn q5_1(block: &[u8; 24], out: &mut [Float; 32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    let high = [block[4], block[5], block[6], block[7]];
    five_bits(high, &block[8..], |code| d * f32::from(code) + m, out);
}

#[inline(always)]
fn q8_0(block: &[u8; 34], out: &mut [Float; 32]) {
    let d = half(block, 0);
    for (out, &code) in out.iter_mut().zip(&block[2..]) {
        *out = (f32::from(code.cast_signed()) * d).to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::BlockType;
    use crate::layouts::gguf::DECODED;

    #[test]
    fn the_layouts_that_are_known_are_decoded() {
        assert_eq!(BlockType::names().collect::<Vec<_>>(), DECODED);
    }
}
