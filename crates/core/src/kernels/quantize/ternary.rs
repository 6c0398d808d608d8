//! ggml's ternary blocks of 256 elements: -1, 0 and 1 times a scale, stored as 0, 1 and 2.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use super::lanes::map;
use super::legacy::{blocks, largest};
use super::numbers::{half, inverse};

/// Returns the scale as float16, and the digits of the elements.
#[inline(always)]
fn digits(block: &[f32; 256]) -> (u16, [u8; 256]) {
    let scale = largest(block);
    let inverse = inverse(scale);
    // Where the scale is the largest magnitude, no quotient is much beyond 1.
    let default = inverse.is_finite() && block.iter().fold(true, |all, value| all & !value.is_nan());
    let digits = if default {
        map(block, |value| {
            let value = value * inverse;
            1 + u8::from(value >= 0.5) - u8::from(value <= -0.5)
        })
    } else {
        any_digits(block, inverse)
    };
    (half(scale), digits)
}

/// Like `lroundf` of the reference's build, of which 32 bits are used: what an i64 cannot hold, and NaN, become the smallest i64.
#[cold]
fn any_digits(block: &[f32; 256], inverse: f32) -> [u8; 256] {
    map(block, |value| match (value * inverse).round() as i64 {
        i64::MAX => 1,
        digit => (digit as u8).wrapping_add(1),
    })
}

/// Writes the digits of elements at a distance of `BYTES` as one number, and that as a fraction of 256, rounded up.
#[inline(always)]
fn pack<const BYTES: usize>(digits: &[u8], missing: u8, out: &mut [u8]) {
    let mut numbers = [0_u8; BYTES];
    for digits in digits.as_chunks::<BYTES>().0 {
        for (number, &digit) in numbers.iter_mut().zip(digits) {
            *number = number.wrapping_mul(3).wrapping_add(digit);
        }
    }
    for (out, number) in out.iter_mut().zip(numbers) {
        let number = number.wrapping_mul(missing);
        *out = (u16::from(number) * 256).wrapping_add(242).div_euclid(243) as u8;
    }
}

#[inline(always)]
pub(super) fn tq1_0(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<256, 54>(source, out) {
        let (scale, digits) = digits(block);
        pack::<32>(&digits[..160], 1, &mut out[..32]);
        pack::<16>(&digits[160..240], 1, &mut out[32..48]);
        // Four digits, of which the first one is the most significant of five, too.
        pack::<4>(&digits[240..], 3, &mut out[48..52]);
        out[52..].copy_from_slice(&scale.to_le_bytes());
    }
}

#[inline(always)]
pub(super) fn tq2_0(source: &[f32], out: &mut [u8]) {
    for (block, out) in blocks::<256, 66>(source, out) {
        let (scale, digits) = digits(block);
        for (digits, out) in digits.as_chunks::<128>().0.iter().zip(out.as_chunks_mut::<32>().0) {
            for (at, out) in out.iter_mut().enumerate() {
                let [a, b, c, d] = [0, 32, 64, 96].map(|group| digits[at + group] & 3);
                *out = a | b << 2 | c << 4 | d << 6;
            }
        }
        out[64..].copy_from_slice(&scale.to_le_bytes());
    }
}
