//! ggml's ternary blocks of 256 elements: -1, 0 and 1 times a scale.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use crate::kernels::scalar::{Float, half};

/// Decodes five elements per byte, the base 3 digits of a fraction of 256: multiplied by 3, the byte overflows into the
/// next digit.
#[inline(always)]
pub(super) fn tq1_0(block: &[u8; 54], out: &mut [Float; 256]) {
    let d = half(block, 52);
    let (large, rest) = out.split_at_mut(160);
    let (small, last) = rest.split_at_mut(80);
    digits::<32>(&block[..32], d, large);
    digits::<16>(&block[32..48], d, small);
    digits::<4>(&block[48..52], d, last);
}

/// Decodes the first digit of each byte, then the second of each and so on, until `out` is full.
#[inline(always)]
fn digits<const BYTES: usize>(bytes: &[u8], d: f32, out: &mut [Float]) {
    let mut power = 1_u8;
    for out in out.as_chunks_mut::<BYTES>().0 {
        for (out, &byte) in out.iter_mut().zip(bytes) {
            let digit = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
            *out = (d * (f32::from(digit) - 1.0)).to_ne_bytes();
        }
        power = power.wrapping_mul(3);
    }
}

#[inline(always)]
pub(super) fn tq2_0(block: &[u8; 66], out: &mut [Float; 256]) {
    let d = half(block, 64);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let bytes = &block[group / 4 * 32..][..32];
        for (out, &byte) in out.iter_mut().zip(bytes) {
            *out = (d * (f32::from(byte >> (group % 4 * 2) & 3) - 1.0)).to_ne_bytes();
        }
    }
}
