//! Conversions of numbers as the reference's build for x86-64 makes them, also where C leaves the result open.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

/// Returns the float16 nearest to a number, ties to even. NaN loses its payload.
#[inline(always)]
pub(super) fn half(value: f32) -> u16 {
    let (bits, sign) = (value.to_bits() & 0x7fff_ffff, (value.to_bits() >> 16) & 0x8000);
    let rest = if bits > 0x7f80_0000 {
        0x7e00
    } else if bits >= 0x4780_0000 {
        // 65,536 and more.
        0x7c00
    } else if bits < 0x3880_0000 {
        // Below 2^-14: the sum with 1/2 has multiples of 2^-24 in its low bits.
        (f32::from_bits(bits) + 0.5).to_bits() - 0x3f00_0000
    } else {
        // The carry of rounding may pass into the exponent, up to infinity.
        (bits + 0xfff + (bits >> 13 & 1) - (112 << 23)) >> 13
    };
    (rest | sign) as u16
}

/// Drops the fraction, as `cvttss2si` does: what an i32 cannot hold, and NaN, become the smallest i32.
#[inline(always)]
pub(super) fn truncate(value: f32) -> i32 {
    let integer = value as i32;
    // `as` gives the largest i32, which is no float32, to what is too large, and 0 to NaN.
    if value.is_nan() { i32::MIN } else { integer.wrapping_add((integer == i32::MAX).into()) }
}

/// The largest float32 below 1/2. The integer part of its sum with a magnitude is the nearest integer, ties away from zero. With 1/2,
/// this number itself would become 1.
pub(super) const BELOW_HALF: f32 = 0.499_999_97;

/// Drops the fraction of a number from 0 to 255. Unlike a conversion by `as`, of vectors, too.
#[inline(always)]
pub(super) fn floor(value: f32) -> u8 {
    /// 2^23: the sum with a smaller number has the nearest integer in its low bits.
    const MAGIC: f32 = 8_388_608.0;
    let sum = value + MAGIC;
    (sum.to_bits() - u32::from(sum - MAGIC > value)) as u8
}

/// Returns 1 divided by a number, and 0 for 0.
#[inline(always)]
pub(super) fn inverse(value: f32) -> f32 {
    if value == 0.0 { 0.0 } else { 1.0 / value }
}
