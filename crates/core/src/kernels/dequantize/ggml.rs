//! ggml's blocks of 32 elements, and the table of all block types that are decoded here. The arithmetic is that
//! of the `gguf` package, operation for operation, so that results agree bit for bit.
#![forbid(unsafe_code)]

use half::f16;

use super::ggml_k;

/// A ggml block type: a fixed record of bytes that encodes a fixed number of elements of one row.
#[derive(Clone, Copy, Debug)]
pub struct BlockType {
    name: &'static str,
    pub elements: u64,
    pub bytes: u64,
    decode: fn(&[u8], &mut [[u8; 4]]),
}

const fn block_type(
    name: &'static str,
    elements: u64,
    bytes: u64,
    decode: fn(&[u8], &mut [[u8; 4]]),
) -> BlockType {
    BlockType { name, elements, bytes, decode }
}

const TYPES: [BlockType; 10] = [
    block_type("q4_0", 32, 18, |input, out| each(input, out, q4_0)),
    block_type("q4_1", 32, 20, |input, out| each(input, out, q4_1)),
    block_type("q5_0", 32, 22, |input, out| each(input, out, q5_0)),
    block_type("q5_1", 32, 24, |input, out| each(input, out, q5_1)),
    block_type("q8_0", 32, 34, |input, out| each(input, out, q8_0)),
    block_type("q2_k", 256, 84, |input, out| each(input, out, ggml_k::q2_k)),
    block_type("q3_k", 256, 110, |input, out| each(input, out, ggml_k::q3_k)),
    block_type("q4_k", 256, 144, |input, out| each(input, out, ggml_k::q4_k)),
    block_type("q5_k", 256, 176, |input, out| each(input, out, ggml_k::q5_k)),
    block_type("q6_k", 256, 210, |input, out| each(input, out, ggml_k::q6_k)),
];

impl BlockType {
    /// The type of a lowercase ggml name, if it is decoded here.
    pub fn of(name: &str) -> Option<Self> {
        TYPES.into_iter().find(|known| known.name == name)
    }

    /// The names of all types that are decoded here.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TYPES.into_iter().map(|known| known.name)
    }

    /// Decodes whole blocks: `elements` values for each `bytes` bytes of `input`, in the byte order of the host.
    pub fn decode(&self, input: &[u8], out: &mut [[u8; 4]]) {
        (self.decode)(input, out);
    }
}

fn each<const BYTES: usize, const ELEMENTS: usize>(
    input: &[u8],
    out: &mut [[u8; 4]],
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    for (block, out) in input.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let mut values = [0.0; ELEMENTS];
        decode(block, &mut values);
        *out = values.map(f32::to_ne_bytes);
    }
}

/// The float16 at `at`.
pub(super) fn half<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half(block, 0);
    for j in 0..16 {
        let byte = block[2 + j];
        out[j] = d * (f32::from(byte & 15) - 8.0);
        out[j + 16] = d * (f32::from(byte >> 4) - 8.0);
    }
}

fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    for j in 0..16 {
        let byte = block[4 + j];
        out[j] = d * f32::from(byte & 15) + m;
        out[j + 16] = d * f32::from(byte >> 4) + m;
    }
}

/// The codes of 5 bits: the low four in halves of `low`, the fifth in the bits of `high`.
#[inline]
fn five_bits(high: [u8; 4], low: &[u8], each: impl Fn(u8) -> f32, out: &mut [f32; 32]) {
    let high = u32::from_le_bytes(high);
    for (j, &byte) in low.iter().enumerate().take(16) {
        let fifth = |bit: usize| u8::from(high >> bit & 1 == 1) << 4;
        out[j] = each(byte & 15 | fifth(j));
        out[j + 16] = each(byte >> 4 | fifth(j + 16));
    }
}

fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = half(block, 0);
    let high = [block[2], block[3], block[4], block[5]];
    five_bits(high, &block[6..], |code| d * (f32::from(code) - 16.0), out);
}

fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    let high = [block[4], block[5], block[6], block[7]];
    five_bits(high, &block[8..], |code| d * f32::from(code) + m, out);
}

fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half(block, 0);
    for (out, &code) in out.iter_mut().zip(&block[2..]) {
        *out = f32::from(code.cast_signed()) * d;
    }
}
