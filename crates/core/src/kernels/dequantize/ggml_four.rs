//! ggml's blocks of 4-bit codes, each representing one of 16 numbers.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use crate::kernels::scalar::{Float, half};

/// The numbers of `iq4_nl` and `iq4_xs` (`kvalues_iq4nl` of `ggml-common.h`).
pub(in crate::kernels) const IQ4: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
];

/// The numbers of E2M1, doubled, as in ggml: the second zero has no sign.
pub(in crate::kernels) const E2M1: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// Decodes the low halves of `codes`, then the high ones.
#[inline(always)]
fn halves(numbers: &[f32; 16], d: f32, codes: &[u8], out: &mut [Float]) {
    let (low, high) = out.split_at_mut(codes.len());
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(codes) {
        *low = (d * numbers[usize::from(byte & 15)]).to_ne_bytes();
        *high = (d * numbers[usize::from(byte >> 4)]).to_ne_bytes();
    }
}

#[inline(always)]
pub(super) fn iq4_nl(block: &[u8; 18], out: &mut [Float; 32]) {
    halves(&IQ4, half(block, 0), &block[2..], out);
}

#[inline(always)]
pub(super) fn iq4_xs(block: &[u8; 136], out: &mut [Float; 256]) {
    let d = half(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low = block[4 + group / 2] >> (group % 2 * 4) & 15;
        let scale = u16::from(low) | (high >> (group * 2) & 3) << 4;
        halves(&IQ4, d * (f32::from(scale) - 32.0), &block[8 + group * 16..][..16], out);
    }
}

/// Decodes MXFP4. The scale is a power of two, halved because the numbers are doubled (OCP MX 1.0 §5.4.1).
#[inline(always)]
pub(super) fn mxfp4(block: &[u8; 17], out: &mut [Float; 32]) {
    let exponent = u32::from(block[0]);
    let bits = if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 };
    halves(&E2M1, f32::from_bits(bits), &block[1..], out);
}

/// Decodes NVFP4: four groups of 16 elements, each with a scale of E4M3, whose sign is ignored.
#[inline(always)]
pub(super) fn nvfp4(block: &[u8; 36], out: &mut [Float; 64]) {
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        halves(&E2M1, e4m3_halved(block[group]), &block[4 + group * 8..][..8], out);
    }
}

/// Returns half of an E4M3 scale. As in the reference, 0x7f, which is NaN, is read as zero, but 0xff is not.
#[inline(always)]
pub(in crate::kernels) fn e4m3_halved(byte: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(byte >> 3 & 15), f32::from(byte & 7));
    match (byte, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa * (1.0 / 1024.0),
        // 2^(exponent - 7), halved.
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((exponent + 127 - 8) << 23),
    }
}
