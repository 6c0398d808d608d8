//! ggml's super-blocks of 256 elements ("K quants"): sixteen or eight groups, each with a scale, some with a
//! minimum, of a few bits, which are multiples of one or two float16 factors.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use super::ggml::half;

/// The codes of 2 bits stand four in a byte, 32 bytes apart: element 32 s + l of each half of the block is at bits
/// 2 s of byte l.
#[inline(always)]
fn two_bits(codes: &[u8], group: usize, lane: usize) -> u8 {
    codes[group / 8 * 32 + group % 2 * 16 + lane] >> (group / 2 % 4 * 2) & 3
}

#[inline(always)]
pub(super) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scales, codes) = block.split_at(16);
    let (d, min) = (half(block, 80), half(block, 82));
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group] & 15);
        let min = min * f32::from(scales[group] >> 4);
        for (lane, out) in out.iter_mut().enumerate() {
            *out = scale * f32::from(two_bits(codes, group, lane)) - min;
        }
    }
}

#[inline(always)]
pub(super) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let (high, rest) = block.split_at(32);
    let (codes, scales) = rest.split_at(64);
    let d = half(block, 108);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // A scale of 6 bits: four in the halves of the first eight bytes, two in the quarters of the last four.
        let low = scales[group % 8] >> (group / 8 * 4) & 15;
        let top = scales[8 + group % 4] >> (group / 4 * 2) & 3;
        let scale = d * (f32::from(low | top << 4) - 32.0);
        for (lane, out) in out.iter_mut().enumerate() {
            // A set bit of the mask means that nothing is taken off.
            let third = high[group % 2 * 16 + lane] >> (group / 2) & 1;
            let code = f32::from(two_bits(codes, group, lane)) - f32::from((third ^ 1) << 2);
            *out = scale * code;
        }
    }
}

/// Scale and minimum of one of eight groups, 6 bits each, out of 12 bytes.
#[inline(always)]
fn scale_and_min(packed: &[u8], group: usize) -> (f32, f32) {
    let (scale, min) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let both = packed[group + 4];
        (both & 15 | packed[group - 4] >> 6 << 4, both >> 4 | packed[group] >> 6 << 4)
    };
    (f32::from(scale), f32::from(min))
}

#[inline(always)]
pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, min) = (half(block, 0), half(block, 2));
    let (packed, codes) = block[4..].split_at(12);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, offset) = scale_and_min(packed, group);
        let (scale, offset) = (d * scale, min * offset);
        let bytes = &codes[group / 2 * 32..][..32];
        for (out, &byte) in out.iter_mut().zip(bytes) {
            *out = scale * f32::from(byte >> (group % 2 * 4) & 15) - offset;
        }
    }
}

#[inline(always)]
pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (d, min) = (half(block, 0), half(block, 2));
    let (packed, rest) = block[4..].split_at(12);
    let (high, codes) = rest.split_at(32);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, offset) = scale_and_min(packed, group);
        let (scale, offset) = (d * scale, min * offset);
        let bytes = codes[group / 2 * 32..][..32].iter().zip(high);
        for (out, (&byte, &high)) in out.iter_mut().zip(bytes) {
            let code = byte >> (group % 2 * 4) & 15 | (high >> group & 1) << 4;
            *out = scale * f32::from(code) - offset;
        }
    }
}

#[inline(always)]
pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let (low, rest) = block.split_at(128);
    let (high, scales) = rest.split_at(64);
    let d = half(block, 208);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group].cast_signed());
        // Of each half of 128 elements: 64 bytes hold low halves of 4 bits, 32 bytes hold four times 2 high bits.
        let (side, within) = (group / 8, group % 8);
        let low = &low[side * 64 + within % 4 * 16..][..16];
        let high = &high[side * 32 + within % 2 * 16..][..16];
        for (out, (&low, &high)) in out.iter_mut().zip(low.iter().zip(high)) {
            let code = low >> (within / 4 * 4) & 15 | (high >> (within / 2 * 2) & 3) << 4;
            *out = scale * (f32::from(code) - 32.0);
        }
    }
}
