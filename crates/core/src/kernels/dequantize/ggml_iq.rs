//! ggml's "I quants" of 256 elements: groups of 8 or 4 elements are points of a codebook, times a scale, some with signs.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use super::codebooks::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
use crate::kernels::scalar::{Float, float, half};

/// The offset added to or subtracted from the coordinates of `iq1_s` and `iq1_m` (`IQ1S_DELTA` of `ggml-common.h`).
const DELTA: f32 = 0.125;

/// The signs of 8 elements, of which 7 are stored: the number of negative ones is even (`ksigns_iq2xs` of `ggml-common.h`).
const SIGNS: [u8; 128] = {
    let mut signs = [0; 128];
    let mut at = 0;
    while at < 128 {
        #[allow(clippy::cast_possible_truncation)] // of numbers below 128
        let stored = at as u8;
        signs[at] = if stored.count_ones().is_multiple_of(2) { stored } else { stored | 128 };
        at += 1;
    }
    signs
};

#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at * 2], bytes[at * 2 + 1]])
}

#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at * 4], bytes[at * 4 + 1], bytes[at * 4 + 2], bytes[at * 4 + 3]])
}

/// Returns one of the 4-bit numbers packed two per byte, the first in the low half.
#[inline(always)]
fn nibble(bytes: &[u8], at: usize) -> f32 {
    f32::from(bytes[at / 2] >> (at % 2 * 4) & 15)
}

/// Decodes a point with signs: a set bit of `signs` means a negative coordinate.
#[inline(always)]
fn signed(point: &[i8; 8], scale: f32, signs: u8, out: &mut [Float]) {
    for (lane, (out, &coordinate)) in out.iter_mut().zip(point).enumerate() {
        let sign = u32::from(signs) << (31 - lane) & 0x8000_0000;
        *out = f32::from_bits((scale * f32::from(coordinate)).to_bits() ^ sign).to_ne_bytes();
    }
}

/// Decodes two points of 4 coordinates with signs.
#[inline(always)]
fn signed_pair(points: [&[i8; 4]; 2], scale: f32, signs: u8, out: &mut [Float]) {
    let mut point = [0; 8];
    for (half, coordinates) in point.as_chunks_mut::<4>().0.iter_mut().zip(points) {
        *half = *coordinates;
    }
    signed(&point, scale, signs, out);
}

#[inline(always)]
fn shifted(point: &[i8; 8], scale: f32, delta: f32, out: &mut [Float]) {
    for (out, &coordinate) in out.iter_mut().zip(point) {
        *out = (scale * (f32::from(coordinate) + delta)).to_ne_bytes();
    }
}

#[inline(always)]
pub(super) fn iq1_s(block: &[u8; 50], out: &mut [Float; 256]) {
    let d = half(block, 0);
    let (codes, high) = block[2..].split_at(32);
    for (at, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = u16_at(high, at / 4);
        let code = u16::from(codes[at]) | (word >> (at % 4 * 3) & 7) << 8;
        let scale = d * f32::from(2 * (word >> 12 & 7) + 1);
        let delta = if word & 0x8000 == 0 { DELTA } else { -DELTA };
        shifted(&IQ1[usize::from(code)], scale, delta, out);
    }
}

/// Not inlined, and so not compiled for AVX2, which would make it half as fast (3.2 G instead of 6.3 G elements/s).
#[inline(never)]
pub(super) fn iq1_m(block: &[u8; 56], out: &mut [Float; 256]) {
    let (codes, rest) = block.split_at(32);
    let (high, scales) = rest.split_at(16);
    // The factor is in the upper halves of the last byte of each word of scales.
    let words = [0, 1, 2, 3].map(|at| u16_at(scales, at));
    let d = float(words[0] >> 12 | words[1] >> 8 & 0xf0 | words[2] >> 4 & 0xf00 | words[3] & 0xf000);
    let scales = words.iter().rev().fold(0, |scales, &word| scales << 12 | u64::from(word & 0xfff));
    for (at, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        #[allow(clippy::cast_possible_truncation)] // 3 bits
        let bits = (scales >> (at * 3) & 7) as u32;
        let scale = d * small(2 * bits + 1);
        for (half, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let extra = high[at] >> (half * 4);
            let code = u16::from(codes[2 * at + half]) | u16::from(extra & 7) << 8;
            let sign = u32::from(extra & 8) << 28;
            shifted(&IQ1[usize::from(code)], scale, f32::from_bits(DELTA.to_bits() | sign), out);
        }
    }
}

#[inline(always)]
pub(super) fn iq2_xxs(block: &[u8; 66], out: &mut [Float; 256]) {
    let d = half(block, 0);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let codes = &block[2 + group * 8..][..8];
        let word = u32_at(codes, 1);
        let scale = d * (0.5 + small(word >> 28)) * 0.25;
        for (at, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let signs = SIGNS[(word >> (at * 7) & 127) as usize];
            signed(&IQ2_XXS[usize::from(codes[at])], scale, signs, out);
        }
    }
}

/// Converts a 4-bit number.
#[inline(always)]
fn small(bits: u32) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    f32::from(bits as u8)
}

#[inline(always)]
pub(super) fn iq2_xs(block: &[u8; 74], out: &mut [Float; 256]) {
    let d = half(block, 0);
    let (codes, scales) = block[2..].split_at(64);
    for (at, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let code = u16_at(codes, at);
        let scale = d * (0.5 + nibble(scales, at / 2)) * 0.25;
        signed(&IQ2_XS[usize::from(code & 511)], scale, SIGNS[usize::from(code >> 9)], out);
    }
}

#[inline(always)]
pub(super) fn iq2_s(block: &[u8; 82], out: &mut [Float; 256]) {
    let d = half(block, 0);
    let (codes, rest) = block[2..].split_at(32);
    let (signs, rest) = rest.split_at(32);
    let (high, scales) = rest.split_at(8);
    for (at, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let code = u16::from(codes[at]) | u16::from(high[at / 4] >> (at % 4 * 2) & 3) << 8;
        let scale = d * (0.5 + nibble(scales, at / 2)) * 0.25;
        signed(&IQ2_S[usize::from(code)], scale, signs[at], out);
    }
}

#[inline(always)]
pub(super) fn iq3_xxs(block: &[u8; 98], out: &mut [Float; 256]) {
    let d = half(block, 0);
    let (codes, words) = block[2..].split_at(64);
    for (at, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = u32_at(words, at / 4);
        let scale = d * (0.5 + small(word >> 28)) * 0.5;
        let signs = SIGNS[(word >> (at % 4 * 7) & 127) as usize];
        let points = [0, 1].map(|side| &IQ3_XXS[usize::from(codes[at * 2 + side])]);
        signed_pair(points, scale, signs, out);
    }
}

#[inline(always)]
pub(super) fn iq3_s(block: &[u8; 110], out: &mut [Float; 256]) {
    let d = half(block, 0);
    let (codes, rest) = block[2..].split_at(64);
    let (high, rest) = rest.split_at(8);
    let (signs, scales) = rest.split_at(32);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let scale = d * (1.0 + 2.0 * nibble(scales, group));
        // The ninth bits of the group's codes.
        let ninth = u16::from(high[group]);
        let codes = &codes[group * 8..][..8];
        let point = |at: usize| {
            let code = u16::from(codes[at]) | ninth << (8 - at) & 0x100;
            &IQ3_S[usize::from(code)]
        };
        for (at, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            signed_pair([point(at * 2), point(at * 2 + 1)], scale, signs[group * 4 + at], out);
        }
    }
}
