//! ggml's super-blocks of 256 elements ("K quants"): sixteen or eight groups, each with a scale, some with a minimum, of a few bits, which
//! are multiples of one or two float16 factors.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use crate::kernels::scalar::{Float, half};

/// Returns a 2-bit code. Codes are packed four per byte, 32 bytes apart: element 32 s + l of each half of the block is
/// at bits 2 s of byte l.
#[inline(always)]
fn two_bits(codes: &[u8], group: usize, lane: usize) -> u8 {
    codes[group / 8 * 32 + group % 2 * 16 + lane] >> (group / 2 % 4 * 2) & 3
}

/// Maps each byte. `array::map` is not always inlined.
#[inline(always)]
fn each<const CODES: usize>(codes: &[u8; CODES], with: impl Fn(u8) -> u8) -> [u8; CODES] {
    let mut mapped = [0; CODES];
    for (mapped, &code) in mapped.iter_mut().zip(codes) {
        *mapped = with(code);
    }
    mapped
}

#[inline(always)]
pub(super) fn q2_k(block: &[u8; 84], out: &mut [Float; 256]) {
    let (scales, codes) = block.split_at(16);
    let (d, min) = (half(block, 80), half(block, 82));
    let both = |scales: &[u8], codes: [u8; 32], out: &mut [Float; 32]| {
        for ((out, codes), scale) in groups(out, &codes).zip(scales) {
            spread(d * f32::from(scale & 15), codes, min * f32::from(scale >> 4), out);
        }
    };
    let halves = scales.as_chunks::<8>().0.iter().zip(codes.as_chunks::<32>().0);
    for ((scales, codes), out) in halves.zip(out.as_chunks_mut::<128>().0) {
        let [first, second, third, fourth] = out.as_chunks_mut::<32>().0 else { return };
        both(&scales[..2], each(codes, |code| code & 3), first);
        both(&scales[2..4], each(codes, |code| code >> 2 & 3), second);
        both(&scales[4..6], each(codes, |code| code >> 4 & 3), third);
        both(&scales[6..], each(codes, |code| code >> 6), fourth);
    }
}

#[inline(always)]
pub(super) fn q3_k(block: &[u8; 110], out: &mut [Float; 256]) {
    let (high, rest) = block.split_at(32);
    let (codes, scales) = rest.split_at(64);
    let d = half(block, 108);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // A 6-bit scale: four bits in the halves of the first eight bytes, two in the quarters of the last four.
        let low = scales[group % 8] >> (group / 8 * 4) & 15;
        let top = scales[8 + group % 4] >> (group / 4 * 2) & 3;
        let scale = d * (f32::from(low | top << 4) - 32.0);
        for (lane, out) in out.iter_mut().enumerate() {
            // A set bit of the mask means that nothing is subtracted.
            let third = high[group % 2 * 16 + lane] >> (group / 2) & 1;
            let code = f32::from(two_bits(codes, group, lane)) - f32::from((third ^ 1) << 2);
            *out = (scale * code).to_ne_bytes();
        }
    }
}

/// Decodes the numbers of a group with one code per byte: as a separate step, this is vectorized.
#[inline(always)]
fn spread<const CODES: usize>(scale: f32, codes: &[u8; CODES], offset: f32, out: &mut [Float; CODES]) {
    for (out, &code) in out.iter_mut().zip(codes) {
        *out = (scale * f32::from(code) - offset).to_ne_bytes();
    }
}

/// Returns the factor and the offset of one of eight groups: the two factors of the block times 6-bit numbers, which
/// are in the 12 bytes after the factors.
#[inline(always)]
fn factors<const BYTES: usize>(block: &[u8; BYTES], group: usize) -> (f32, f32) {
    let packed = &block[4..16];
    let (scale, min) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let both = packed[group + 4];
        (both & 15 | packed[group - 4] >> 6 << 4, both >> 4 | packed[group] >> 6 << 4)
    };
    (half(block, 0) * f32::from(scale), half(block, 2) * f32::from(min))
}

#[inline(always)]
pub(super) fn q4_k(block: &[u8; 144], out: &mut [Float; 256]) {
    let codes = block[16..].as_chunks::<32>().0;
    for (pair, (out, codes)) in out.as_chunks_mut::<64>().0.iter_mut().zip(codes).enumerate() {
        let [low, high] = out.as_chunks_mut::<32>().0 else { return };
        let (scale, offset) = factors(block, 2 * pair);
        spread(scale, &each(codes, |both| both & 15), offset, low);
        let (scale, offset) = factors(block, 2 * pair + 1);
        spread(scale, &each(codes, |both| both >> 4), offset, high);
    }
}

#[inline(always)]
pub(super) fn q5_k(block: &[u8; 176], out: &mut [Float; 256]) {
    let (high, codes) = block[16..].split_at(32);
    let codes = codes.as_chunks::<32>().0;
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let mut five = [0; 32];
        for (five, (&both, &high)) in five.iter_mut().zip(codes[group / 2].iter().zip(high)) {
            *five = both >> (group % 2 * 4) & 15 | (high >> group & 1) << 4;
        }
        let (scale, offset) = factors(block, group);
        spread(scale, &five, offset, out);
    }
}

#[inline(always)]
pub(super) fn q6_k(block: &[u8; 210], out: &mut [Float; 256]) {
    let (low, rest) = block.split_at(128);
    let (high, scales) = rest.split_at(64);
    let d = half(block, 208);
    for (at, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        // For each half of 128 elements: 64 bytes hold the low 4 bits, 32 bytes hold four times the 2 high bits.
        let (side, quarter) = (at / 4, at % 4);
        let low = &low[side * 64 + quarter % 2 * 32..][..32];
        let high = &high[side * 32..][..32];
        let mut codes = [0; 32];
        for (code, (&low, &high)) in codes.iter_mut().zip(low.iter().zip(high)) {
            *code = low >> (quarter / 2 * 4) & 15 | (high >> (quarter * 2) & 3) << 4;
        }
        for (side, (out, codes)) in groups(out, &codes).enumerate() {
            let scale = d * f32::from(scales[at * 2 + side].cast_signed());
            for (out, &code) in out.iter_mut().zip(codes) {
                *out = (scale * (f32::from(code) - 32.0)).to_ne_bytes();
            }
        }
    }
}

/// Returns the two groups of 16 elements, and their codes.
#[inline(always)]
fn groups<'a>(
    out: &'a mut [Float; 32],
    codes: &'a [u8; 32],
) -> impl Iterator<Item = (&'a mut [Float; 16], &'a [u8; 16])> {
    out.as_chunks_mut().0.iter_mut().zip(codes.as_chunks().0)
}
