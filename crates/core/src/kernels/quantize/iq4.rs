//! ggml's blocks of 4-bit codes, each representing one of 16 numbers.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use multiversion::multiversion;

use super::lanes::{LANES, Lanes, map, nearest, transpose};
use super::legacy::{blocks, largest_number, nibbles};
use super::numbers::{half, inverse, truncate};
use super::search::{self, NOTHING, compiled, first_extreme};
use crate::kernels::dequantize::{E2M1, IQ4, e4m3_halved};

compiled! {
    scales(x: &[Lanes; 32], weights: &[Lanes; 32]) -> Lanes = best_scales;
}

/// The steps of the search to both sides.
const STEPS: i8 = 7;

/// Returns the middle between a number of `IQ4` and the next one, from which on the next one is nearer. Differences of float32 do not
/// move it.
const fn middle(at: usize) -> f32 {
    f32::midpoint(IQ4[at], IQ4[at + 1])
}

/// Returns the number of `IQ4` that is nearest. NaN becomes the last one.
#[inline(always)]
fn number(value: f32) -> f32 {
    let mut nearest = IQ4[0];
    for at in 0..15 {
        nearest = if value < middle(at) { nearest } else { IQ4[at + 1] };
    }
    nearest
}

/// Returns the index of the nearest number of `IQ4`.
#[inline(always)]
fn index(value: f32) -> u8 {
    let mut index = 0;
    for at in 0..15 {
        index = if value < middle(at) { index } else { at as u32 + 1 };
    }
    index as u8
}

/// Returns the sums of `weight * x * number` and of `weight * number * number`.
#[inline(always)]
fn sums(x: &[Lanes; 32], weights: &[Lanes; 32], inverse: Lanes) -> (Lanes, Lanes) {
    let (mut sum_x, mut sum_2) = (Lanes::ZERO, Lanes::ZERO);
    for (&x, &w) in x.iter().zip(weights) {
        let q = (inverse * x).map(number);
        let wq = w * q;
        sum_x = sum_x + wq * x;
        sum_2 = sum_2 + wq * q;
    }
    (sum_x, sum_2)
}

/// Finds the scales of sub-blocks with the least weighted error.
#[inline(always)]
fn best_scales(x: &[Lanes; 32], weights: &[Lanes; 32]) -> Lanes {
    let (max, extreme) = search::extreme(x);
    let (sum_x, sum_2) = sums(x, weights, Lanes::all(1.0) / (extreme.negative() / Lanes::all(IQ4[0])));
    let mut scale = sum_2.above(Lanes::ZERO).choose(sum_x / sum_2, Lanes::ZERO);
    let mut best = scale * sum_x;
    for step in -STEPS..=STEPS {
        let (sum_x, sum_2) = sums(x, weights, Lanes::all(f32::from(step) + IQ4[0]) / extreme);
        let better = sum_2.above(Lanes::ZERO).and((sum_x * sum_x).above(best * sum_2));
        scale = better.choose(sum_x / sum_2, scale);
        best = better.choose(scale * sum_x, best);
    }
    max.below(Lanes::all(NOTHING)).choose(Lanes::ZERO, scale)
}

#[inline(always)]
pub(super) fn iq4_nl(source: &[f32], out: &mut [u8]) {
    for (source, out) in source.chunks(LANES * 32).zip(out.chunks_mut(LANES * 18)) {
        let x = transpose(source);
        write_nonlinear(source, scales(&x, &map(&x, |x| x * x)), out);
    }
}

#[inline(always)]
pub(super) fn write_nonlinear(source: &[f32], scales: Lanes, out: &mut [u8]) {
    let blocks = source.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<18>().0);
    for ((block, out), scale) in blocks.zip(scales.0) {
        let inverse = inverse(scale);
        out[..2].copy_from_slice(&half(scale).to_le_bytes());
        nibbles(&map(block, |value| index(inverse * value)), &mut out[2..]);
    }
}

#[inline(always)]
pub(super) fn iq4_xs(source: &[f32], out: &mut [u8]) {
    for (source, out) in source.chunks(LANES * 32).zip(out.chunks_mut(2 * 136)) {
        let x = transpose(source);
        write_scaled(source, scales(&x, &map(&x, |x| x * x)), out);
    }
}

#[inline(always)]
pub(super) fn write_scaled(source: &[f32], scales: Lanes, out: &mut [u8]) {
    let blocks = source.as_chunks::<256>().0.iter().zip(out.as_chunks_mut::<136>().0);
    for ((block, out), scales) in blocks.zip(scales.0.as_chunks::<8>().0) {
        let d = -first_extreme(scales) / 32.0;
        let scaled = inverse(d);
        let parts = scales.map(|scale| nearest(scaled * scale).clamp(-32, 31) as i8);
        let codes = out[8..].as_chunks_mut::<16>().0.iter_mut();
        for ((x, out), part) in block.as_chunks::<32>().0.iter().zip(codes).zip(parts) {
            let inverse = inverse(d * f32::from(part));
            nibbles(&map(x, |value| index(inverse * value)), out);
        }
        let parts = parts.map(|part| (part + 32).cast_unsigned());
        let mut high = 0;
        for (at, part) in parts.into_iter().enumerate() {
            high |= u16::from(part >> 4) << (at * 2);
        }
        out[..2].copy_from_slice(&half(d).to_le_bytes());
        out[2..4].copy_from_slice(&high.to_le_bytes());
        for (out, [low, high]) in out[4..8].iter_mut().zip(parts.as_chunks().0) {
            *out = low & 15 | high << 4;
        }
    }
}

/// Returns the codes of the numbers of `E2M1` that are nearest to `value / scale`, the smaller one of two.
#[inline(always)]
fn minifloats<const LENGTH: usize>(values: &[f32; LENGTH], scale: f32) -> [u8; LENGTH] {
    let (mut codes, mut min) = ([0_u32; LENGTH], [0.0; LENGTH]);
    for (min, &value) in min.iter_mut().zip(values) {
        *min = value.abs();
    }
    for (at, number) in E2M1.into_iter().enumerate().take(8).skip(1) {
        let number = number * scale;
        for ((code, min), &value) in codes.iter_mut().zip(&mut min).zip(values) {
            let error = (number - value.abs()).abs();
            let less = error < *min;
            *code = if less { at as u32 } else { *code };
            *min = if less { error } else { *min };
        }
    }
    let mut bytes = [0; LENGTH];
    for ((byte, code), &value) in bytes.iter_mut().zip(codes).zip(values) {
        // Zero has no sign.
        *byte = (if value < 0.0 && code > 0 { code | 8 } else { code }) as u8;
    }
    bytes
}

/// Returns the largest integer that is not above the logarithm to base 2, which the reference computes as a float32: it may round up to
/// an integer.
#[inline(always)]
fn logarithm(value: f32) -> i32 {
    let bits = value.to_bits();
    // The exponent, and the distance of the mantissa from 2, in units of 2^-23.
    let (exponent, distance) = if bits < 1 << 23 {
        let shift = bits.leading_zeros() - 8;
        (-126 - shift.cast_signed(), (1 << 24) - (bits << shift))
    } else {
        ((bits >> 23).cast_signed() - 127, (1 << 23) - (bits & 0x7f_ffff))
    };
    // A distance is that many times 2^-24 / ln 2 of the logarithm, and half a unit of its last place is `power` times 2^-24.
    let whole = if exponent < 0 { -1 - exponent } else { exponent };
    let power = if whole == 0 { 0 } else { 1 << whole.ilog2() };
    exponent + i32::from(f64::from(distance) <= f64::from(power) * std::f64::consts::LN_2)
}

#[inline(always)]
pub(super) fn mxfp4(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<32, 17>(source, out) {
        let max = largest_number(block);
        let exponent = match max {
            0.0 | f32::INFINITY => 0,
            max => (logarithm(max) + 125) as u8,
        };
        let bits = if exponent < 2 { 0x0020_0000 << exponent } else { (u32::from(exponent) - 1) << 23 };
        let scale = f32::from_bits(bits);
        out[0] = exponent;
        nibbles(&minifloats(block, scale), &mut out[1..]);
    }
}

/// Returns the E4M3 number nearest to a number that is not negative: ties go up, 448 is the largest.
#[inline(always)]
fn e4m3(value: f32) -> u8 {
    let bits = value.to_bits();
    if bits < 121 << 23 {
        // Below 2^-6: multiples of 2^-9.
        return truncate(value * 512.0 + 0.5).clamp(0, 7) as u8;
    }
    let code = ((bits + (1 << 19)) >> 20) - (120 << 3);
    if code < 0x78 { code as u8 } else { 0x7e }
}

#[inline(always)]
pub(super) fn nvfp4(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<64, 36>(source, out) {
        let (scales, codes) = out.split_at_mut(4);
        let groups = block.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<8>().0);
        for ((group, out), byte) in groups.zip(scales) {
            *byte = e4m3(largest_number(group) / 6.0);
            let scale = e4m3_halved(*byte);
            let codes = minifloats(group, scale);
            let (low, high) = codes.split_at(8);
            for (out, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
                *out = low | high << 4;
            }
        }
    }
}
