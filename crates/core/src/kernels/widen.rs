//! Widening of stored elements to float32.
#![forbid(unsafe_code)]

mod minifloat;

use std::sync::Mutex;

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::error::{Code, Error, Result};
use crate::inject;
use crate::model::DType;
use crate::work::{self, Stop};

/// The number of float16 elements converted at a time. Of 16 to 1024, 64 was the fastest on arrays larger than the
/// cache: 2.9 G elements/s, twice as many as with 256 or 1024, whose copies become calls of memcpy with stores that do
/// not overlap.
const FLOAT16_BLOCK: usize = 64;

/// Returns the number of elements that [`to_float32`] produces from `input_len` bytes. `None` if the dtype has no float32 form or the bytes
/// are not whole elements. Packed `float4_e2m1fn` has two per byte; the last may be padding.
pub fn float32_len(dtype: DType, input_len: usize) -> Option<usize> {
    let width = match dtype {
        DType::Complex64 | DType::Complex128 | DType::Float6E2M3Fn | DType::Float6E3M2Fn => return None,
        DType::Float4E2M1Fn => return input_len.checked_mul(2),
        _ => dtype.element_bytes(),
    };
    input_len.is_multiple_of(width).then_some(input_len / width)
}

/// Widens the little-endian elements of `input` to float32 in `out`, in the byte order of the host. `out` has four
/// bytes per element; for `float4_e2m1fn` (two per byte, low nibble first) it may be one element shorter.
///
/// Types of up to 16 bits are exact, including subnormals and signed zeros, and every NaN remains a NaN: bfloat16
/// retains its bits, float16 and `float8_e5m2` retain sign and payload and become quiet, as in hardware. 32- and 64-bit
/// integers and float64 are rounded to the nearest, ties to even; values too large for float32 become infinite. A
/// nonzero bool is 1.
///
/// Fails with `ZT_BAD_DTYPE` for complex and 6-bit types, and with `ZT_INVALID_ARG` if a length does not match.
pub fn to_float32(dtype: DType, input: &[u8], out: &mut [u8]) -> Result<()> {
    inject::panic_at("widen");
    let elements = elements(dtype, input.len())?;
    let (out, rest) = out.as_chunks_mut::<4>();
    let fits =
        out.len() == elements || (dtype == DType::Float4E2M1Fn && elements.checked_sub(1) == Some(out.len()));
    if !fits || !rest.is_empty() {
        return Err(Error::new(
            Code::InvalidArg,
            format!(
                "{elements} elements of {} need 4 bytes each as float32, but the destination has {}",
                dtype.name(),
                out.len() * 4 + rest.len()
            ),
        ));
    }
    match dtype {
        DType::Float64 => each(input, out, |b| narrow(f64::from_le_bytes(b)).to_ne_bytes()),
        DType::Float32 => each(input, out, |b| u32::from_le_bytes(b).to_ne_bytes()),
        DType::Float16 => float16(input, out),
        DType::BFloat16 => each(input, out, |b| (u32::from(u16::from_le_bytes(b)) << 16).to_ne_bytes()),
        DType::Int64 => each(input, out, |b| nearest_i64(i64::from_le_bytes(b)).to_ne_bytes()),
        DType::Int32 => each(input, out, |b| nearest_i32(i32::from_le_bytes(b)).to_ne_bytes()),
        DType::Int16 => each(input, out, |b| f32::from(i16::from_le_bytes(b)).to_ne_bytes()),
        DType::Int8 => each(input, out, |b| f32::from(i8::from_le_bytes(b)).to_ne_bytes()),
        DType::Uint64 => each(input, out, |b| nearest_u64(u64::from_le_bytes(b)).to_ne_bytes()),
        DType::Uint32 => each(input, out, |b| nearest_u32(u32::from_le_bytes(b)).to_ne_bytes()),
        DType::Uint16 => each(input, out, |b| f32::from(u16::from_le_bytes(b)).to_ne_bytes()),
        DType::Uint8 => each(input, out, |[b]| f32::from(b).to_ne_bytes()),
        DType::Bool => each(input, out, |[b]| f32::from(u8::from(b != 0)).to_ne_bytes()),
        DType::Float8E4M3Fn => lookup(input, out, &minifloat::FLOAT8_E4M3FN),
        DType::Float8E5M2 => lookup(input, out, &minifloat::FLOAT8_E5M2),
        DType::Float8E4M3Fnuz => lookup(input, out, &minifloat::FLOAT8_E4M3FNUZ),
        DType::Float8E5M2Fnuz => lookup(input, out, &minifloat::FLOAT8_E5M2FNUZ),
        DType::Float8E8M0Fnu => each(input, out, |[b]| minifloat::float8_e8m0fnu(b).to_ne_bytes()),
        DType::Float4E2M1Fn => float4(input, out),
        DType::Float6E2M3Fn | DType::Float6E3M2Fn | DType::Complex64 | DType::Complex128 => {
            return Err(no_float32(dtype));
        }
    }
    Ok(())
}

/// The number of elements that one core widens at once.
const DIVIDED: usize = 1 << 20;

/// Performs [`to_float32`] on all cores if there is much to widen. Stops if `stop` is set.
pub fn to_float32_divided(dtype: DType, input: &[u8], out: &mut [u8], stop: &Stop) -> Result<()> {
    if out.len() <= DIVIDED * 4 {
        return to_float32(dtype, input, out);
    }
    // Whole bytes of input for any element size; a length that does not match fails in the last part.
    let part = DIVIDED * dtype.bits() as usize / 8;
    let inputs: Vec<_> = input.chunks(part).collect();
    let outputs: Vec<_> = out.chunks_mut(DIVIDED * 4).map(|out| Mutex::new(Some(out))).collect();
    work::try_each_on(work::cores(), inputs.len().max(outputs.len()), |at| {
        stop.check()?;
        let out = outputs.get(at).and_then(|out| out.lock().ok()?.take()).unwrap_or_default();
        to_float32(dtype, inputs.get(at).copied().unwrap_or_default(), out)
    })
}

fn elements(dtype: DType, input_len: usize) -> Result<usize> {
    if let Some(elements) = float32_len(dtype, input_len) {
        return Ok(elements);
    }
    // 16 bytes are whole elements of every dtype that has a float32 form.
    if float32_len(dtype, 16).is_none() {
        return Err(no_float32(dtype));
    }
    Err(Error::new(Code::InvalidArg, format!("{input_len} bytes are not whole elements of {}", dtype.name())))
}

fn no_float32(dtype: DType) -> Error {
    let instead = match dtype {
        DType::Complex64 => "its data is already float32, real and imaginary parts interleaved",
        DType::Complex128 => "its data is float64, real and imaginary parts interleaved: convert each part",
        _ => "its packing differs between producers: read its bytes and unpack them",
    };
    Error::new(Code::BadDtype, format!("{} has no float32 form; {instead}", dtype.name()))
}

#[inline]
fn each<const W: usize>(input: &[u8], out: &mut [[u8; 4]], widen: impl Fn([u8; W]) -> [u8; 4]) {
    for (out, &element) in out.iter_mut().zip(input.as_chunks::<W>().0) {
        *out = widen(element);
    }
}

fn lookup(input: &[u8], out: &mut [[u8; 4]], table: &[u32; 256]) {
    for (out, &code) in out.iter_mut().zip(input) {
        *out = table[usize::from(code)].to_ne_bytes();
    }
}

fn float16(input: &[u8], out: &mut [[u8; 4]]) {
    let (blocks, rest) = input.as_chunks::<2>().0.as_chunks::<FLOAT16_BLOCK>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<FLOAT16_BLOCK>();
    for (block, out) in blocks.iter().zip(out_blocks) {
        let mut wide = [0_f32; FLOAT16_BLOCK];
        block.map(|b| f16::from_bits(u16::from_le_bytes(b))).convert_to_f32_slice(&mut wide);
        *out = wide.map(f32::to_ne_bytes);
    }
    for (out, &b) in out_rest.iter_mut().zip(rest) {
        *out = f16::from_bits(u16::from_le_bytes(b)).to_f32().to_ne_bytes();
    }
}

fn float4(input: &[u8], out: &mut [[u8; 4]]) {
    let (pairs, odd) = out.as_chunks_mut::<2>();
    for (out, &byte) in pairs.iter_mut().zip(input) {
        *out = minifloat::FLOAT4_PAIRS[usize::from(byte)].map(u32::to_ne_bytes);
    }
    if let ([out], Some(&byte)) = (odd, input.last()) {
        *out = minifloat::FLOAT4_PAIRS[usize::from(byte)][0].to_ne_bytes();
    }
}

// `as` rounds to the nearest float32, ties to even, as specified for these four types.

#[expect(clippy::cast_possible_truncation)]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[expect(clippy::cast_precision_loss)]
fn nearest_i64(value: i64) -> f32 {
    value as f32
}

#[expect(clippy::cast_precision_loss)]
fn nearest_i32(value: i32) -> f32 {
    value as f32
}

#[expect(clippy::cast_precision_loss)]
fn nearest_u64(value: u64) -> f32 {
    value as f32
}

#[expect(clippy::cast_precision_loss)]
fn nearest_u32(value: u32) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widen(dtype: DType, input: &[u8]) -> Vec<u32> {
        let mut out = vec![0xAA; float32_len(dtype, input.len()).unwrap() * 4];
        to_float32(dtype, input, &mut out).unwrap();
        out.as_chunks::<4>().0.iter().map(|&b| u32::from_ne_bytes(b)).collect()
    }

    fn every_u16() -> Vec<u8> {
        (0..=u16::MAX).flat_map(u16::to_le_bytes).collect()
    }

    /// float16 by its definition, in float64.
    fn float16_by_definition(bits: u16) -> f64 {
        let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
        let fraction = f64::from(bits % 1024) / 1024.0;
        match i32::from(bits >> 10 & 31) {
            0 => sign * fraction * 2_f64.powi(-14),
            31 if bits.trailing_zeros() >= 10 => sign * f64::INFINITY,
            31 => f64::NAN,
            exponent => sign * (1.0 + fraction) * 2_f64.powi(exponent - 15),
        }
    }

    #[test]
    fn every_float16_matches_its_definition() {
        for (bits, got) in (0..=u16::MAX).zip(widen(DType::Float16, &every_u16())) {
            let expected = float16_by_definition(bits);
            if expected.is_nan() {
                let expected = u32::from(bits & 0x8000) << 16 | 0x7fc0_0000 | u32::from(bits & 0x3ff) << 13;
                assert_eq!(got, expected, "{bits:#06x}");
            } else {
                assert_eq!(f64::from(f32::from_bits(got)).to_bits(), expected.to_bits(), "{bits:#06x}");
            }
        }
    }

    #[test]
    fn float16_blocks_and_remainders_agree() {
        let all = every_u16();
        let whole = widen(DType::Float16, &all);
        for length in [0, 1, 63, 64, 65, 129] {
            let from = 30_000;
            let part = widen(DType::Float16, &all[from * 2..(from + length) * 2]);
            assert_eq!(part, whole[from..from + length], "{length} elements");
        }
    }

    #[test]
    fn every_bfloat16_is_the_upper_half() {
        for (bits, got) in (0..=u16::MAX).zip(widen(DType::BFloat16, &every_u16())) {
            assert_eq!((got >> 16, got & 0xffff), (u32::from(bits), 0));
        }
    }

    #[test]
    fn every_8_and_16_bit_integer_is_exact() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (byte, got) in bytes.iter().zip(widen(DType::Uint8, &bytes)) {
            assert_eq!(got, f32::from(*byte).to_bits());
        }
        for (byte, got) in bytes.iter().zip(widen(DType::Int8, &bytes)) {
            assert_eq!(got, f32::from(byte.cast_signed()).to_bits());
        }
        for (byte, got) in bytes.iter().zip(widen(DType::Bool, &bytes)) {
            assert_eq!(got, if *byte == 0 { 0 } else { 1_f32.to_bits() });
        }
        for (value, got) in (0..=u16::MAX).zip(widen(DType::Uint16, &every_u16())) {
            assert_eq!(got, f32::from(value).to_bits());
        }
        for (value, got) in (0..=u16::MAX).zip(widen(DType::Int16, &every_u16())) {
            assert_eq!(got, f32::from(value.cast_signed()).to_bits());
        }
    }

    #[test]
    fn every_float8_comes_from_its_own_table() {
        let bytes: Vec<u8> = (0..=255).collect();
        let cases = [
            (DType::Float8E4M3Fn, 0x7e, 448_f32),
            (DType::Float8E5M2, 0x7b, 57344.0),
            (DType::Float8E4M3Fnuz, 0x7e, 224.0),
            (DType::Float8E5M2Fnuz, 0x7b, 28672.0),
            (DType::Float8E8M0Fnu, 0x7e, 0.5),
        ];
        for (dtype, code, expected) in cases {
            assert_eq!(widen(dtype, &bytes)[code], expected.to_bits(), "{}", dtype.name());
        }
    }

    #[test]
    fn wide_types_round_to_nearest_even() {
        let floats = [
            (1.0 + f64::EPSILON, 1_f32),
            (1.0 + 2_f64.powi(-24), 1.0),
            (1.0 + 3.0 * 2_f64.powi(-24), 1.0 + 2_f32.powi(-22)),
            (1e300, f32::INFINITY),
            (-1e-300, -0.0),
            (f64::NEG_INFINITY, f32::NEG_INFINITY),
            (2_f64.powi(-149), f32::from_bits(1)),
        ];
        for (value, expected) in floats {
            assert_eq!(widen(DType::Float64, &value.to_le_bytes()), [expected.to_bits()], "{value}");
        }
        assert!(f32::from_bits(widen(DType::Float64, &f64::NAN.to_le_bytes())[0]).is_nan());

        // 2^24 + 1 is a tie that rounds down to even, 2^24 + 3 one that rounds up.
        let (down, up) = ((1_u32 << 24) + 1, (1_u32 << 24) + 3);
        for (value, expected) in [(down, 16_777_216_f32), (up, 16_777_220.0)] {
            let signed = value.cast_signed();
            assert_eq!(widen(DType::Uint32, &value.to_le_bytes()), [expected.to_bits()]);
            assert_eq!(widen(DType::Int32, &(-signed).to_le_bytes()), [(-expected).to_bits()]);
            assert_eq!(widen(DType::Uint64, &u64::from(value).to_le_bytes()), [expected.to_bits()]);
            assert_eq!(widen(DType::Int64, &(-i64::from(signed)).to_le_bytes()), [(-expected).to_bits()]);
        }
        assert_eq!(widen(DType::Uint64, &u64::MAX.to_le_bytes()), [2_f32.powi(64).to_bits()]);
        assert_eq!(widen(DType::Int64, &i64::MIN.to_le_bytes()), [(-(2_f32.powi(63))).to_bits()]);
        assert_eq!(widen(DType::Int32, &i32::MIN.to_le_bytes()), [(-(2_f32.powi(31))).to_bits()]);
    }

    #[test]
    fn float32_keeps_every_bit() {
        let bits = [0x0000_0001, 0x8000_0000, 0x7f80_0001, 0xffc1_2345, 0x3f80_0000];
        let input: Vec<u8> = bits.into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(widen(DType::Float32, &input), bits);
    }

    #[test]
    fn float4_unpacks_the_low_nibble_first_and_may_end_in_padding() {
        let expected = [1_f32, -6.0, 0.5].map(f32::to_ne_bytes).concat();
        let input = [0xf2, 0x71];
        let mut odd = [0; 12];
        to_float32(DType::Float4E2M1Fn, &input, &mut odd).unwrap();
        assert_eq!(odd[..], expected);
        let mut even = [0; 16];
        to_float32(DType::Float4E2M1Fn, &input, &mut even).unwrap();
        assert_eq!(even[..12], expected);
        assert_eq!(even[12..], 6_f32.to_ne_bytes());
        to_float32(DType::Float4E2M1Fn, &[], &mut []).unwrap();
    }

    #[test]
    fn divided_widening_gives_the_same_bits() {
        let input: Vec<u8> = (0..5 << 20_u32).map(|at| u8::try_from((at >> 2) % 251).unwrap()).collect();
        for dtype in [DType::BFloat16, DType::Float4E2M1Fn, DType::Int8, DType::Float64] {
            let length = float32_len(dtype, input.len()).unwrap() * 4;
            let (mut whole, mut divided) = (vec![0; length], vec![1; length]);
            to_float32(dtype, &input, &mut whole).unwrap();
            to_float32_divided(dtype, &input, &mut divided, &Stop::default()).unwrap();
            assert!(whole == divided, "{}", dtype.name());
            divided.extend([0; 8]);
            assert!(
                to_float32_divided(dtype, &input, &mut divided, &Stop::default()).is_err(),
                "{}",
                dtype.name()
            );
        }
    }

    #[test]
    fn unaligned_memory_is_read_and_written() {
        let mut input = vec![0];
        input.extend((0..100_u16).flat_map(|i| (i << 7).to_le_bytes()));
        let mut out = vec![0; 401];
        to_float32(DType::BFloat16, &input[1..], &mut out[1..]).unwrap();
        for (i, got) in (0..100_u32).zip(out[1..].as_chunks::<4>().0) {
            assert_eq!(u32::from_ne_bytes(*got), i << 23);
        }
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        let cases = [
            (DType::Complex64, 16, 16, Code::BadDtype, "interleaved"),
            (DType::Complex128, 15, 16, Code::BadDtype, "interleaved"),
            (DType::Float6E2M3Fn, 3, 16, Code::BadDtype, "unpack"),
            (DType::Float6E3M2Fn, 3, 16, Code::BadDtype, "unpack"),
            (DType::Float16, 3, 4, Code::InvalidArg, "3 bytes"),
            (DType::Float64, 12, 4, Code::InvalidArg, "12 bytes"),
            (DType::Float16, 4, 7, Code::InvalidArg, "has 7"),
            (DType::Float16, 4, 9, Code::InvalidArg, "has 9"),
            (DType::Float16, 4, 4, Code::InvalidArg, "has 4"),
            (DType::Float4E2M1Fn, 2, 8, Code::InvalidArg, "has 8"),
            (DType::Float4E2M1Fn, 2, 20, Code::InvalidArg, "has 20"),
        ];
        for (dtype, input, out, code, part) in cases {
            let error = to_float32(dtype, &vec![0; input], &mut vec![0; out]).unwrap_err();
            assert_eq!(error.code(), code, "{}: {error}", dtype.name());
            assert!(error.to_string().contains(part), "{}: {error}", dtype.name());
        }
    }
}
