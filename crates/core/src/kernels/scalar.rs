//! Single elements of the kernels.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

/// The in-memory bytes of a float32 in the byte order of the host, so that it is written only once.
pub(super) type Float = [u8; 4];

/// Returns the float16 at `at`.
#[inline(always)]
pub(super) fn half<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> f32 {
    float(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Converts float16 bits without branches or calls, which would prevent vectorization of the surrounding code. The
/// exponent moves to its position in float32 and is corrected by a factor. That is exact, including subnormals.
#[inline(always)]
pub(super) fn float(bits: u16) -> f32 {
    let (sign, rest) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff) << 13);
    // Infinities and NaN have all exponent bits set.
    let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    let number = f32::from_bits(rest) * TWO_TO_112;
    f32::from_bits(number.to_bits() | special | sign)
}

/// 2^112: the difference of the biases of float32 and float16.
const TWO_TO_112: f32 = f32::from_bits((127 + 112) << 23);
