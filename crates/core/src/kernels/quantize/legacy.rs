//! ggml's blocks of 32 elements whose scale is computed from their extremes: a pass over the memory.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use super::lanes::{map, nearest};
use super::numbers::{BELOW_HALF, floor, half, inverse, truncate};
use super::search::first_extreme;

type Block = [f32; 32];

/// Returns blocks of elements, and the bytes to write of each.
#[inline(always)]
pub(super) fn blocks<'a, const ELEMENTS: usize, const BYTES: usize>(
    source: &'a [f32],
    out: &'a mut [u8],
) -> impl Iterator<Item = (&'a [f32; ELEMENTS], &'a mut [u8; BYTES])> {
    source.as_chunks().0.iter().zip(out.as_chunks_mut().0)
}

/// Returns the largest magnitude as bits, which integers compare as floats do. NaN is above infinity.
#[inline(always)]
pub(super) fn magnitude(block: &[f32]) -> u32 {
    block.iter().fold(0, |max, value| max.max(value.to_bits() & 0x7fff_ffff))
}

const INFINITY: u32 = f32::INFINITY.to_bits();

/// Returns the largest magnitude. After a NaN, the reference starts again with what follows.
#[inline(always)]
pub(super) fn largest(block: &[f32]) -> f32 {
    let bits = magnitude(block);
    if bits > INFINITY { largest_of_some(block) } else { f32::from_bits(bits) }
}

#[cold]
fn largest_of_some(block: &[f32]) -> f32 {
    block.iter().fold(0.0, |max, value| if max > value.abs() { max } else { value.abs() })
}

/// Returns the largest magnitude. Ignores NaN.
#[inline(always)]
pub(super) fn largest_number(block: &[f32]) -> f32 {
    let bits = magnitude(block);
    if bits > INFINITY { first_extreme_of_some(block).abs() } else { f32::from_bits(bits) }
}

#[cold]
fn first_extreme_of_some(block: &[f32]) -> f32 {
    first_extreme(block)
}

/// Returns the bits of a float so that integers compare as floats do. Negative NaN is below, other NaN above all numbers.
#[inline(always)]
pub(super) fn ordered(value: f32) -> i32 {
    let bits = value.to_bits().cast_signed();
    // The other bits are turned around where the sign is set.
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

/// Returns the smallest and the largest element, unless there are infinities or NaN.
#[inline(always)]
fn ends(block: &[f32]) -> Option<(f32, f32)> {
    let (mut low, mut high) = (i32::MAX, i32::MIN);
    for &value in block {
        low = low.min(ordered(value));
        high = high.max(ordered(value));
    }
    let float =
        |ordered: i32| f32::from_bits(ordered.cast_unsigned() ^ ((ordered >> 31).cast_unsigned() >> 1));
    let finite = low > ordered(f32::NEG_INFINITY) && high < ordered(f32::INFINITY);
    finite.then_some((float(low), float(high)))
}

/// Returns the first element with the largest magnitude, with its sign. Ignores NaN; 0 has no sign.
#[inline(always)]
fn extreme(block: &[f32]) -> f32 {
    match ends(block) {
        Some((low, high)) if high > -low => high,
        Some((low, high)) if high < -low => low,
        _ => first_extreme_of_some(block),
    }
}

/// Returns the smallest and the largest element, without NaN.
#[inline(always)]
fn range(block: &Block) -> (f32, f32) {
    match ends(block) {
        // Of zeros, the first one decides on the sign.
        Some((low, high)) if low != 0.0 => (low, high),
        _ => range_of_some(block),
    }
}

#[cold]
fn range_of_some(block: &Block) -> (f32, f32) {
    block.iter().fold((f32::MAX, -f32::MAX), |(low, high), &value| {
        (if value < low { value } else { low }, if value > high { value } else { high })
    })
}

/// Returns the code of any number: without its fraction, the low byte, at most `max`.
fn code(value: f32, max: i8) -> u8 {
    (truncate(value) as i8).min(max).cast_unsigned()
}

/// Writes the low four bits of each code: of the first 16 elements in low halves of bytes, of the others in high halves.
#[inline(always)]
pub(super) fn nibbles(codes: &[u8; 32], out: &mut [u8]) {
    let (low, high) = codes.split_at(16);
    for (out, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
        *out = low & 15 | high << 4;
    }
}

/// Returns the fifth bits of the codes.
#[inline(always)]
fn fifths(codes: &[u8; 32]) -> [u8; 4] {
    let mut bits = 0;
    for (at, &code) in codes.iter().enumerate() {
        bits |= u32::from(code >> 4 & 1) << at;
    }
    bits.to_le_bytes()
}

#[inline(always)]
pub(super) fn write_4_0(scale: f32, codes: &[u8; 32], out: &mut [u8; 18]) {
    out[..2].copy_from_slice(&half(scale).to_le_bytes());
    nibbles(codes, &mut out[2..]);
}

#[inline(always)]
pub(super) fn write_4_1(factors: [u16; 2], codes: &[u8; 32], out: &mut [u8; 20]) {
    out[..4].copy_from_slice(factors.map(u16::to_le_bytes).as_flattened());
    nibbles(codes, &mut out[4..]);
}

#[inline(always)]
pub(super) fn write_5_0(scale: f32, codes: &[u8; 32], out: &mut [u8; 22]) {
    out[..2].copy_from_slice(&half(scale).to_le_bytes());
    out[2..6].copy_from_slice(&fifths(codes));
    nibbles(codes, &mut out[6..]);
}

#[inline(always)]
pub(super) fn write_5_1(factors: [u16; 2], codes: &[u8; 32], out: &mut [u8; 24]) {
    out[..4].copy_from_slice(factors.map(u16::to_le_bytes).as_flattened());
    out[4..8].copy_from_slice(&fifths(codes));
    nibbles(codes, &mut out[8..]);
}

/// Returns the scale of a symmetric type with codes from 0 to `max`, and the codes.
#[inline(always)]
fn symmetric(block: &Block, max: u8) -> (f32, [u8; 32]) {
    let lowest = -f32::from(max / 2 + 1);
    let scale = extreme(block) / lowest;
    let inverse = inverse(scale);
    let offset = 0.5 - lowest;
    let codes = if ends(block).is_some() && inverse.is_finite() {
        map(block, |value| floor(value * inverse + offset).min(max))
    } else {
        symmetric_of_any(block, inverse, offset, max.cast_signed())
    };
    (scale, codes)
}

#[cold]
fn symmetric_of_any(block: &Block, inverse: f32, offset: f32, max: i8) -> [u8; 32] {
    map(block, |value| code(value * inverse + offset, max))
}

/// Returns the scale and the smallest element of a type with codes from 0 to `max`, and the codes. `limit` bounds the codes of
/// unusual blocks.
#[inline(always)]
fn asymmetric(block: &Block, max: u8, limit: i8) -> ([u16; 2], [u8; 32]) {
    let (low, high) = range(block);
    let scale = (high - low) / f32::from(max);
    let inverse = inverse(scale);
    let codes = if ends(block).is_some() && scale.is_finite() && inverse.is_finite() {
        map(block, |value| floor((value - low) * inverse + 0.5).min(max))
    } else {
        asymmetric_of_any(block, low, inverse, limit)
    };
    ([half(scale), half(low)], codes)
}

#[cold]
fn asymmetric_of_any(block: &Block, low: f32, inverse: f32, limit: i8) -> [u8; 32] {
    map(block, |value| code((value - low) * inverse + 0.5, limit))
}

#[inline(always)]
pub(super) fn q4_0(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<32, 18>(source, out) {
        let (scale, codes) = symmetric(block, 15);
        write_4_0(scale, &codes, out);
    }
}

#[inline(always)]
pub(super) fn q4_1(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<32, 20>(source, out) {
        let (factors, codes) = asymmetric(block, 15, 15);
        write_4_1(factors, &codes, out);
    }
}

#[inline(always)]
pub(super) fn q5_0(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<32, 22>(source, out) {
        let (scale, codes) = symmetric(block, 31);
        write_5_0(scale, &codes, out);
    }
}

#[inline(always)]
pub(super) fn q5_1(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<32, 24>(source, out) {
        let (factors, codes) = asymmetric(block, 31, i8::MAX);
        write_5_1(factors, &codes, out);
    }
}

#[cold]
fn bytes_of_any(block: &Block, inverse: f32) -> [u8; 32] {
    map(block, |value| truncate(value * inverse + BELOW_HALF.copysign(value * inverse)) as u8)
}

#[inline(always)]
pub(super) fn q8_0(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<32, 34>(source, out) {
        let scale = largest(block) / 127.0;
        let inverse = inverse(scale);
        out[..2].copy_from_slice(&half(scale).to_le_bytes());
        let codes = if scale.is_finite() && inverse.is_finite() && magnitude(block) < INFINITY {
            map(block, |value| {
                let value = value * inverse;
                let code = floor(value.abs() + BELOW_HALF);
                if value < 0.0 { code.wrapping_neg() } else { code }
            })
        } else {
            bytes_of_any(block, inverse)
        };
        out[2..].copy_from_slice(&codes);
    }
}

#[inline(always)]
pub(super) fn q8_k(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<256, 292>(source, out) {
        let extreme = extreme(block);
        if extreme == 0.0 {
            out.fill(0);
            continue;
        }
        let inverse = -127.0 / extreme;
        let (scale, rest) = out.split_at_mut(4);
        let (codes, sums) = rest.split_at_mut(256);
        scale.copy_from_slice(&(1.0 / inverse).to_le_bytes());
        for (out, &value) in codes.iter_mut().zip(block) {
            *out = nearest(inverse * value).min(127) as u8;
        }
        for (codes, sum) in codes.as_chunks::<16>().0.iter().zip(sums.as_chunks_mut::<2>().0) {
            let total: i16 = codes.iter().map(|&code| i16::from(code.cast_signed())).sum();
            *sum = total.to_le_bytes();
        }
    }
}
