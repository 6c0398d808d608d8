//! Casts of stored elements: between floats, from integers to floats, and between integers. An integer that the target cannot represent is
//! an error.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::kernels::widen::to_float32;
use crate::model::DType;

/// The number of elements widened to float32 at a time before narrowing: they stay in the first-level cache.
const BLOCK: usize = 1024;

/// Returns whether [`cast`] supports the pair. A type can always be cast to itself.
pub fn can_cast(from: DType, to: DType) -> bool {
    let between_integers = integer(from, to).is_some() || narrowing(from, to).is_some();
    from == to || between_integers || (is_float(to) && is_number(from))
}

fn is_float(dtype: DType) -> bool {
    use DType::{BFloat16, Float8E4M3Fn, Float8E5M2, Float16, Float32, Float64};
    matches!(dtype, Float64 | Float32 | Float16 | BFloat16 | Float8E4M3Fn | Float8E5M2)
}

/// Returns whether the type has a float32 form in whole bytes.
fn is_number(dtype: DType) -> bool {
    dtype.bits().is_multiple_of(8) && crate::kernels::widen::float32_len(dtype, 16).is_some()
}

/// Casts the little-endian elements of `input` to little-endian elements of `to` in `out`.
///
/// Floats and integers are rounded once to the nearest value of `to`, ties to even, including subnormals. Values that
/// are too large become infinite, or NaN in `float8_e4m3fn`, which has no infinity; nothing saturates. A NaN remains a
/// quiet NaN with its sign and the high bits of its payload. A nonzero bool is 1.
///
/// Fails with `ZT_BAD_DTYPE` for pairs that [`can_cast`] rejects and for an integer that `to` cannot represent, and with
/// `ZT_INVALID_ARG` unless `out` has exactly the right size.
pub fn cast(from: DType, to: DType, input: &[u8], out: &mut [u8]) -> Result<()> {
    cast_from(0, from, to, input, out)
}

/// Like [`cast`], for a part of the elements of a tensor that begins at the element `first`, which errors count from.
pub fn cast_from(first: u64, from: DType, to: DType, input: &[u8], out: &mut [u8]) -> Result<()> {
    if !can_cast(from, to) {
        let message = format!("{} cannot be cast to {}", from.name(), to.name());
        return Err(Error::new(Code::BadDtype, message));
    }
    let (width, wanted) = (from.element_bytes(), to.element_bytes());
    if !input.len().is_multiple_of(width) || (input.len() / width).checked_mul(wanted) != Some(out.len()) {
        let message =
            format!("{} bytes of {} do not make {} of {}", input.len(), from.name(), out.len(), to.name());
        return Err(Error::new(Code::InvalidArg, message));
    }
    if from == to {
        out.copy_from_slice(input);
        return Ok(());
    }
    if let Some(kernel) = integer(from, to) {
        kernel(input, out);
        return Ok(());
    }
    if let Some(kernel) = narrowing(from, to) {
        return kernel(input, out).map_err(|(at, value)| {
            let at = first.saturating_add(at as u64);
            let message = format!("element {at} is {value}, which {} cannot represent", to.name());
            Error::new(Code::BadDtype, message)
        });
    }
    match from {
        DType::Float64 => from_float64(to, input, out),
        DType::Int64 => from_integer(to, input, out, |b| i64::from_le_bytes(b).into()),
        DType::Uint64 => from_integer(to, input, out, |b| u64::from_le_bytes(b).into()),
        DType::Int32 => from_integer(to, input, out, |b| i32::from_le_bytes(b).into()),
        DType::Uint32 => from_integer(to, input, out, |b| u32::from_le_bytes(b).into()),
        _ => {
            // Every other type is exact in float32.
            let mut wide = [0; 4 * BLOCK];
            for (input, out) in input.chunks(BLOCK * width).zip(out.chunks_mut(BLOCK * wanted)) {
                let wide = wide.get_mut(..4 * (input.len() / width)).unwrap_or_default();
                to_float32(from, input, wide)?;
                match to {
                    DType::Float64 => each(wide, out, |b| wide_float64(u32::from_ne_bytes(b)).to_le_bytes()),
                    DType::Float32 => each(wide, out, |b| quiet_float32(u32::from_ne_bytes(b)).to_le_bytes()),
                    _ => narrow(to, wide, out, u32::from_ne_bytes),
                }
            }
        }
    }
    Ok(())
}

#[inline]
fn each<const W: usize, const N: usize>(input: &[u8], out: &mut [u8], element: impl Fn([u8; W]) -> [u8; N]) {
    for (out, &input) in out.as_chunks_mut::<N>().0.iter_mut().zip(input.as_chunks::<W>().0) {
        *out = element(input);
    }
}

/// Narrows the float32 bits that `bits` returns: exact, or rounded to odd. Rounding to odd sets the last bit if
/// anything was lost, so that the single rounding to a narrower type equals that of the exact value.
fn narrow<const W: usize>(to: DType, input: &[u8], out: &mut [u8], bits: impl Fn([u8; W]) -> u32) {
    match to {
        DType::BFloat16 => each(input, out, |b| bfloat16(bits(b)).to_le_bytes()),
        DType::Float16 => each(input, out, |b| FLOAT16.narrow(bits(b)).to_le_bytes()),
        DType::Float8E5M2 => each(input, out, |b| [FLOAT8_E5M2.narrow(bits(b)).to_le_bytes()[0]]),
        _ => each(input, out, |b| [FLOAT8_E4M3FN.narrow(bits(b)).to_le_bytes()[0]]),
    }
}

fn from_float64(to: DType, input: &[u8], out: &mut [u8]) {
    match to {
        DType::Float32 => each(input, out, |b| nearest_float32(f64::from_le_bytes(b)).to_le_bytes()),
        _ => narrow(to, input, out, |b| odd_float32(f64::from_le_bytes(b))),
    }
}

/// Casts integers. `value` returns numbers of up to 65 bits.
#[expect(clippy::cast_precision_loss, reason = "`as` rounds to the nearest, ties to even")]
fn from_integer<const W: usize>(to: DType, input: &[u8], out: &mut [u8], value: impl Fn([u8; W]) -> i128) {
    match to {
        DType::Float64 => each(input, out, |b| (value(b) as f64).to_le_bytes()),
        DType::Float32 => each(input, out, |b| (value(b) as f32).to_le_bytes()),
        _ => narrow(to, input, out, |b| odd_integer(value(b))),
    }
}

const INFINITY: u32 = 0x7f80_0000;
const QUIET: u32 = 0x0040_0000;

fn quiet_float32(bits: u32) -> u32 {
    if bits & 0x7fff_ffff > INFINITY { bits | QUIET } else { bits }
}

fn wide_float64(bits: u32) -> u64 {
    let nan = u64::from(bits & 0x8000_0000) << 32 | 0x7ff8 << 48 | u64::from(bits & 0x007f_ffff) << 29;
    if bits & 0x7fff_ffff > INFINITY { nan } else { f64::from(f32::from_bits(bits)).to_bits() }
}

#[expect(clippy::cast_possible_truncation, reason = "`as` rounds to the nearest, ties to even")]
fn nearest_float32(value: f64) -> u32 {
    if value.is_nan() { nan_float32(value) } else { (value as f32).to_bits() }
}

/// Returns the bits of a NaN with its sign and the high bits of its payload, which the hardware may not preserve.
fn nan_float32(value: f64) -> u32 {
    let sign = if value.is_sign_negative() { 1 << 31 } else { 0 };
    let payload = u32::try_from(value.to_bits() >> 29 & 0x007f_ffff).unwrap_or(0);
    sign | INFINITY | QUIET | payload
}

/// Returns the float32 rounded to odd: its last bit is set if anything was lost.
#[expect(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "what is lost is looked for, bit by bit"
)]
fn odd_float32(value: f64) -> u32 {
    let near = value as f32;
    let back = f64::from(near);
    let toward_zero = near.to_bits().wrapping_sub(u32::from(back.abs() > value.abs()));
    let odd = if back == value { near.to_bits() } else { toward_zero | 1 };
    if value.is_nan() { nan_float32(value) } else { odd }
}

#[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
fn odd_integer(value: i128) -> u32 {
    let sign = u32::from(value < 0) << 31;
    let magnitude = value.unsigned_abs();
    let lost = (128 - magnitude.leading_zeros()).saturating_sub(24);
    let retained = u32::try_from(magnitude >> lost).unwrap_or(0);
    let sticky = u32::from(magnitude & ((1 << lost) - 1) != 0);
    sign | (((retained | sticky) as f32).to_bits() + (lost << 23))
}

fn bfloat16(bits: u32) -> u16 {
    let high = |bits: u32| {
        let [.., low, high] = bits.to_le_bytes();
        u16::from_le_bytes([low, high])
    };
    let nearest = high(bits.wrapping_add(0x7fff + (bits >> 16 & 1)));
    if bits & 0x7fff_ffff > INFINITY { high(bits | QUIET) } else { nearest }
}

/// A float type narrower than float32 in both fields.
#[derive(Clone, Copy)]
struct Narrow {
    mantissa_bits: u32,
    bias: u32,
    /// The code, without sign, for overflow: infinity, or the only NaN.
    beyond: u32,
    /// The code, without sign, of the NaN without payload.
    nan: u32,
    /// The payload bits of a NaN.
    payload: u32,
    sign: u32,
}

const FLOAT16: Narrow =
    Narrow { mantissa_bits: 10, bias: 15, beyond: 0x7c00, nan: 0x7e00, payload: 0x1ff, sign: 0x8000 };
const FLOAT8_E5M2: Narrow =
    Narrow { mantissa_bits: 2, bias: 15, beyond: 0x7c, nan: 0x7e, payload: 1, sign: 0x80 };
const FLOAT8_E4M3FN: Narrow =
    Narrow { mantissa_bits: 3, bias: 7, beyond: 0x7f, nan: 0x7f, payload: 0, sign: 0x80 };

impl Narrow {
    /// Returns the code nearest to a float32, ties to even. Branch-free, so that it is vectorized.
    #[inline]
    fn narrow(self, bits: u32) -> u16 {
        let magnitude = bits & 0x7fff_ffff;
        let shift = 23 - self.mantissa_bits;
        let half = (1 << (shift - 1)) - 1 + (magnitude >> shift & 1);
        let normal = ((magnitude + half) >> shift).wrapping_sub((127 - self.bias) << self.mantissa_bits);
        // The last bit of this sum is that of a subnormal, so the addition rounds correctly.
        let magic = (128 + shift - self.bias) << 23;
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(magic)).to_bits().wrapping_sub(magic);
        let min_normal = (128 - self.bias) << 23;
        let code = if magnitude < min_normal { subnormal } else { normal };
        let code = code.min(self.beyond);
        let nan = self.nan | magnitude >> shift & self.payload;
        let code = if magnitude > INFINITY { nan } else { code };
        let signed = code | if bits >> 31 == 1 { self.sign } else { 0 };
        let [low, high, ..] = signed.to_le_bytes();
        u16::from_le_bytes([low, high])
    }
}

/// Fills the second slice with the converted elements of the first.
type Kernel = fn(&[u8], &mut [u8]);

/// Returns the kernel that widens one integer type to another that holds all its values.
fn integer(from: DType, to: DType) -> Option<Kernel> {
    macro_rules! widening {
        ($($from:ident $narrow:ty => $($to:ident $wide:ty),+;)+) => {
            match (from, to) {
                $($((DType::$from, DType::$to) => Some(|input, out| {
                    each(input, out, |b| <$wide>::from(<$narrow>::from_le_bytes(b)).to_le_bytes());
                }),)+)+
                _ => None,
            }
        };
    }
    widening! {
        Int8 i8 => Int16 i16, Int32 i32, Int64 i64;
        Int16 i16 => Int32 i32, Int64 i64;
        Int32 i32 => Int64 i64;
        Uint8 u8 => Uint16 u16, Uint32 u32, Uint64 u64, Int16 i16, Int32 i32, Int64 i64;
        Uint16 u16 => Uint32 u32, Uint64 u64, Int32 i32, Int64 i64;
        Uint32 u32 => Uint64 u64, Int64 i64;
    }
}

/// Fills the second slice with the converted elements of the first. Fails with the position and the value of the first that does not fit.
type Narrowing = fn(&[u8], &mut [u8]) -> std::result::Result<(), (usize, i128)>;

/// Returns the kernel that converts one integer type to another that does not hold all its values.
fn narrowing(from: DType, to: DType) -> Option<Narrowing> {
    macro_rules! narrowing {
        ($($from:ident $wide:ty => $($to:ident $narrow:ty),+;)+) => {
            match (from, to) {
                $($((DType::$from, DType::$to) => Some(|input, out| {
                    each_fitting(
                        input,
                        out,
                        |b| <$narrow>::try_from(<$wide>::from_le_bytes(b)).ok().map(<$narrow>::to_le_bytes),
                        |b| <$wide>::from_le_bytes(b).into(),
                    )
                }),)+)+
                _ => None,
            }
        };
    }
    narrowing! {
        Int64 i64 => Int8 i8, Int16 i16, Int32 i32, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64;
        Int32 i32 => Int8 i8, Int16 i16, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64;
        Int16 i16 => Int8 i8, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64;
        Int8 i8 => Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64;
        Uint64 u64 => Int8 i8, Int16 i16, Int32 i32, Int64 i64, Uint8 u8, Uint16 u16, Uint32 u32;
        Uint32 u32 => Int8 i8, Int16 i16, Int32 i32, Uint8 u8, Uint16 u16;
        Uint16 u16 => Int8 i8, Int16 i16, Uint8 u8;
        Uint8 u8 => Int8 i8;
    }
}

fn each_fitting<const W: usize, const N: usize>(
    input: &[u8],
    out: &mut [u8],
    element: impl Fn([u8; W]) -> Option<[u8; N]>,
    value: impl Fn([u8; W]) -> i128,
) -> std::result::Result<(), (usize, i128)> {
    let pairs = out.as_chunks_mut::<N>().0.iter_mut().zip(input.as_chunks::<W>().0);
    for (at, (out, &input)) in pairs.enumerate() {
        *out = element(input).ok_or_else(|| (at, value(input)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
