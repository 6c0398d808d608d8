//! ggml's blocks of 256 elements, the "K quants": sub-blocks with a scale of a few bits, and the scale of the scales.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use super::lanes::{LANES, Lanes, map, nearest, transpose};
use super::legacy::blocks;
use super::numbers::half;
use super::search::{
    Affine, NOTHING, Plan, affine_16_absolute, affine_32, first_extreme, refined_16, symmetric_16,
};
use crate::kernels::scalar::float;

/// The elements of a block.
pub(super) const BLOCK: usize = 256;

/// Replaces the codes of a sub-block by those that its rounded factors give: `(value + offset) / scale`. A scale of 0 leaves them.
#[inline(always)]
fn recode<const LENGTH: usize>(
    x: &[f32; LENGTH],
    scale: f32,
    offset: f32,
    low: i32,
    high: i32,
) -> [u8; LENGTH] {
    map(x, |value| (nearest((value + offset) / scale).clamp(low, high) - low) as u8)
}

/// Writes codes of two bits: each byte has the codes of four elements at a distance of 32.
#[inline(always)]
fn two_bits(codes: &[u8; BLOCK], out: &mut [u8]) {
    for (codes, out) in codes.as_chunks::<128>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        for (at, out) in out.iter_mut().enumerate() {
            *out = codes[at] | codes[at + 32] << 2 | codes[at + 64] << 4 | codes[at + 96] << 6;
        }
    }
}

#[inline(always)]
fn larger(max: f32, value: f32) -> f32 {
    if value > max { value } else { max }
}

/// Returns the scale of the scales, which are `parts` of it, as float16, and the parts.
#[inline(always)]
fn parts<const COUNT: usize>(scales: &[f32; COUNT], top: f32) -> (u16, [i32; COUNT]) {
    let max = scales.iter().copied().fold(0.0, larger);
    if max > 0.0 {
        let inverse = top / max;
        (half(max / top), map(scales, |scale| nearest(inverse * scale)))
    } else {
        (half(0.0), [0; COUNT])
    }
}

#[inline(always)]
pub(super) fn q2_k(source: &[f32], out: &mut [u8]) {
    const PLAN: Plan = Plan { top: 3, first: -0.5, step: 0.1, steps: 15 };
    for (block, out) in blocks::<BLOCK, 84>(source, out) {
        let x = transpose::<16>(block);
        let found = affine_16_absolute(&x, &map(&x, Lanes::abs), PLAN);
        let (d, scales) = parts(&found.scale.0, 15.0);
        let (dmin, offsets) = parts(&found.offset.0, 15.0);
        let mut packed = [0; 16];
        for (packed, (scale, offset)) in packed.iter_mut().zip(scales.into_iter().zip(offsets)) {
            *packed = (scale | offset << 4) as u8;
        }
        finish_two(block, &found, packed, [d, dmin], out);
    }
}

#[inline(always)]
pub(super) fn finish_two(
    block: &[f32; BLOCK],
    found: &Affine,
    packed: [u8; 16],
    factors: [u16; 2],
    out: &mut [u8; 84],
) {
    let [d, dmin] = factors.map(float);
    let mut codes = [0; BLOCK];
    let parts = block.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<16>().0);
    for (lane, ((x, codes), packed)) in parts.zip(packed).enumerate() {
        let scale = d * f32::from(packed & 15);
        *codes = if scale == 0.0 {
            map(x, |value| found.code(lane, value, 3))
        } else {
            recode(x, scale, dmin * f32::from(packed >> 4), 0, 3)
        };
    }
    out[..16].copy_from_slice(&packed);
    two_bits(&codes, &mut out[16..80]);
    out[80..].copy_from_slice(factors.map(u16::to_le_bytes).as_flattened());
}

/// Packs eight scales and eight offsets of six bits.
#[inline(always)]
pub(super) fn pack_sixes(scales: [u8; 8], offsets: [u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    for at in 0..4 {
        let (scale, offset) = (scales[at + 4], offsets[at + 4]);
        packed[at] = scales[at] | scale >> 4 << 6;
        packed[at + 4] = offsets[at] | offset >> 4 << 6;
        packed[at + 8] = scale & 15 | (offset & 15) << 4;
    }
    packed
}

/// Returns a scale and an offset of those that are packed.
#[inline(always)]
fn six(packed: &[u8; 12], at: usize) -> [u8; 2] {
    if at < 4 {
        [packed[at] & 63, packed[at + 4] & 63]
    } else {
        let both = packed[at + 4];
        [both & 15 | packed[at - 4] >> 6 << 4, both >> 4 | packed[at] >> 6 << 4]
    }
}

/// Returns the inputs of `pack_sixes`, and the factors as float16.
#[inline(always)]
fn sixes(scales: &[f32; 8], offsets: &[f32; 8]) -> ([u8; 12], [u16; 2]) {
    let of = |values: &[f32; 8]| {
        let (factor, parts) = parts(values, 63.0);
        (factor, parts.map(|part| (part as u8).min(63)))
    };
    let ((d, scales), (dmin, offsets)) = (of(scales), of(offsets));
    (pack_sixes(scales, offsets), [d, dmin])
}

/// Encodes blocks of eight sub-blocks of 32 elements, two blocks at a time. `write` gets a block's factors and codes.
#[inline(always)]
fn eights<const BYTES: usize>(
    source: &[f32],
    out: &mut [u8],
    plan: Plan,
    write: impl Fn(&[u8; BLOCK], &mut [u8; BYTES]),
) {
    for (source, out) in source.chunks(2 * BLOCK).zip(out.chunks_mut(2 * BYTES)) {
        let x = transpose::<32>(source);
        let sum = x.iter().fold(Lanes::ZERO, |sum, &x| sum + x * x);
        let mean = (sum / Lanes::all(32.0)).sqrt();
        let found = affine_32(&x, &map(&x, |x| mean + x.abs()), plan);
        let blocks = source.as_chunks::<BLOCK>().0.iter().zip(out.as_chunks_mut::<BYTES>().0);
        for (at, (block, out)) in blocks.enumerate() {
            let of = |lanes: &[f32; LANES]| lanes.as_chunks::<8>().0[at];
            let (packed, factors) = sixes(&of(&found.scale.0), &of(&found.offset.0));
            finish_eight(block, &found, at * 8, plan.top.cast_unsigned(), packed, factors, out, &write);
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn finish_eight<const BYTES: usize>(
    block: &[f32; BLOCK],
    found: &Affine,
    first: usize,
    top: u8,
    packed: [u8; 12],
    factors: [u16; 2],
    out: &mut [u8; BYTES],
    write: impl Fn(&[u8; BLOCK], &mut [u8; BYTES]),
) {
    let [d, dmin] = factors.map(float);
    let mut codes = [0; BLOCK];
    for (at, (x, codes)) in block.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<32>().0).enumerate() {
        let [scale, offset] = six(&packed, at);
        let scale = d * f32::from(scale);
        *codes = if scale == 0.0 {
            map(x, |value| found.code(first + at, value, top))
        } else {
            recode(x, scale, dmin * f32::from(offset), 0, top.into())
        };
    }
    out[..4].copy_from_slice(factors.map(u16::to_le_bytes).as_flattened());
    out[4..16].copy_from_slice(&packed);
    write(&codes, out);
}

/// Writes the low four bits of the codes: of 32 elements in low halves of bytes, of the next 32 in their high halves.
#[inline(always)]
fn four_bits(codes: &[u8; BLOCK], out: &mut [u8]) {
    for (codes, out) in codes.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        for (at, out) in out.iter_mut().enumerate() {
            *out = codes[at] & 15 | codes[at + 32] << 4;
        }
    }
}

/// Writes bit `bit` of each code: a byte has those of eight elements at a distance of 32.
#[inline(always)]
fn single_bits(codes: &[u8; BLOCK], bit: u32, out: &mut [u8]) {
    for (at, out) in out.iter_mut().enumerate().take(32) {
        *out = (0..8).fold(0, |bits, group| bits | (codes[at + group * 32] >> bit & 1) << group);
    }
}

#[inline(always)]
pub(super) fn q4_k(source: &[f32], out: &mut [u8]) {
    const PLAN: Plan = Plan { top: 15, first: -1.0, step: 0.1, steps: 20 };
    eights(source, out, PLAN, write_four);
}

#[inline(always)]
pub(super) fn q5_k(source: &[f32], out: &mut [u8]) {
    const PLAN: Plan = Plan { top: 31, first: -0.5, step: 0.1, steps: 15 };
    eights(source, out, PLAN, write_five);
}

#[inline(always)]
pub(super) fn write_four(codes: &[u8; BLOCK], out: &mut [u8; 144]) {
    four_bits(codes, &mut out[16..]);
}

#[inline(always)]
pub(super) fn write_five(codes: &[u8; BLOCK], out: &mut [u8; 176]) {
    single_bits(codes, 4, &mut out[16..48]);
    four_bits(codes, &mut out[48..]);
}

#[inline(always)]
pub(super) fn q3_k(source: &[f32], out: &mut [u8]) {
    for (source, out) in source.chunks(2 * BLOCK).zip(out.chunks_mut(2 * 110)) {
        let mut x = [[Lanes::ZERO; 16]; 2];
        for (x, block) in x.iter_mut().zip(source.as_chunks::<BLOCK>().0) {
            *x = transpose(block);
        }
        let found = refined_16(&x, 4);
        let found = found.scales.iter().zip(&found.codes);
        for ((block, out), (scales, codes)) in blocks::<BLOCK, 110>(source, out).zip(found) {
            let max = first_extreme(&scales.0);
            let (mut d, mut parts) = (half(0.0), [0; 16]);
            if max != 0.0 {
                let inverse = -32.0 / max;
                d = half(1.0 / inverse);
                for (part, scale) in parts.iter_mut().zip(scales.0) {
                    *part = ((nearest(inverse * scale) as i8).clamp(-32, 31) + 32).cast_unsigned();
                }
            }
            finish_three(block, parts, d, |lane, at| codes[at].0[lane] as u8, out);
        }
    }
}

/// `parts` are the scales of six bits. `found` returns the code of an element of a sub-block whose scale is 0.
#[inline(always)]
pub(super) fn finish_three(
    block: &[f32; BLOCK],
    parts: [u8; 16],
    d: u16,
    found: impl Fn(usize, usize) -> u8,
    out: &mut [u8; 110],
) {
    let mut codes = [0; BLOCK];
    let blocks = block.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<16>().0);
    for (lane, ((x, codes), part)) in blocks.zip(parts).enumerate() {
        let scale = float(d) * (f32::from(part) - 32.0);
        *codes = if scale == 0.0 {
            std::array::from_fn(|at| found(lane, at))
        } else {
            recode(x, scale, 0.0, -4, 3)
        };
    }
    single_bits(&codes, 2, &mut out[..32]);
    two_bits(&map(&codes, |code| code & 3), &mut out[32..96]);
    for (at, out) in out[96..104].iter_mut().enumerate() {
        *out = parts[at] & 15 | parts[at + 8] << 4;
    }
    for (at, out) in out[104..108].iter_mut().enumerate() {
        *out = (0..4).fold(0, |bits, group| bits | parts[at + group * 4] >> 4 << (group * 2));
    }
    out[108..].copy_from_slice(&d.to_le_bytes());
}

#[inline(always)]
pub(super) fn q6_k(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<BLOCK, 210>(source, out) {
        let x = transpose::<16>(block);
        six_bits(block, &x, &map(&x, |x| x * x), out);
    }
}

#[inline(always)]
pub(super) fn six_bits(block: &[f32; BLOCK], x: &[Lanes; 16], weights: &[Lanes; 16], out: &mut [u8; 210]) {
    let found = symmetric_16(x, weights, 32);
    let max = first_extreme(&found.scale.0);
    if max.abs() < NOTHING {
        out.fill(0);
        return;
    }
    let inverse = -128.0 / max;
    let d = half(1.0 / inverse);
    let parts = map(&found.scale.0, |scale| nearest(inverse * scale).min(127) as i8);
    let mut codes = [0; BLOCK];
    let blocks = block.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<16>().0);
    for (lane, ((x, codes), part)) in blocks.zip(parts).enumerate() {
        let scale = float(d) * f32::from(part);
        *codes = if scale == 0.0 {
            map(x, |value| found.code(lane, value, 32))
        } else {
            recode(x, scale, 0.0, -32, 31)
        };
    }
    for (side, codes) in codes.as_chunks::<128>().0.iter().enumerate() {
        for at in 0..32 {
            let [a, b, c, d] = [0, 32, 64, 96].map(|group| codes[at + group]);
            out[side * 64 + at] = a & 15 | c << 4;
            out[side * 64 + 32 + at] = b & 15 | d << 4;
            out[128 + side * 32 + at] = a >> 4 | b >> 4 << 2 | c >> 4 << 4 | d >> 4 << 6;
        }
    }
    out[192..208].copy_from_slice(&map(&parts, i8::cast_unsigned));
    out[208..].copy_from_slice(&d.to_le_bytes());
}
