//! Converts elements of any dtype to floats: float32 if it represents all values, float64 otherwise.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::kernels::widen;
use crate::model::DType;

/// Numbers decoded at once: they stay in the innermost cache.
pub const BLOCK: usize = 1024;

/// Decoded numbers.
#[derive(Clone, Copy)]
pub enum Numbers<'a> {
    Single(&'a [f32]),
    Double(&'a [f64]),
}

/// Returns whether every value of the dtype is representable as float32.
pub const fn fit_float32(dtype: DType) -> bool {
    !matches!(
        dtype,
        DType::Float64 | DType::Int64 | DType::Int32 | DType::Uint64 | DType::Uint32 | DType::Complex128
    )
}

/// A buffer for a block of numbers.
pub struct Decoder {
    wide: [u8; BLOCK * 4],
    single: [f32; BLOCK],
    double: [f64; BLOCK],
}

impl Default for Decoder {
    fn default() -> Self {
        Self { wide: [0; BLOCK * 4], single: [0.0; BLOCK], double: [0.0; BLOCK] }
    }
}

impl Decoder {
    /// Calls `each` with `count` little-endian elements in blocks of [`BLOCK`]. 64-bit integers are rounded to the nearest float64. A
    /// complex number counts as two. Fails with `BadDtype` for 6-bit types.
    pub fn each(
        &mut self,
        dtype: DType,
        bytes: &[u8],
        count: usize,
        mut each: impl FnMut(Numbers<'_>) -> Result<()>,
    ) -> Result<()> {
        let dtype = match dtype {
            DType::Complex64 => DType::Float32,
            DType::Complex128 => DType::Float64,
            other => other,
        };
        let step = BLOCK * dtype.bits() as usize / 8;
        let mut left = count;
        for input in bytes.chunks(step) {
            let length = left.min(BLOCK);
            left -= length;
            if dtype == DType::Float32 {
                let single = &mut self.single[..length];
                convert(input, single, f32::from_le_bytes);
                each(Numbers::Single(single))?;
            } else if fit_float32(dtype) {
                let wide = &mut self.wide[..length * 4];
                widen::to_float32(dtype, input, wide)?;
                let single = &mut self.single[..length];
                for (out, &bytes) in single.iter_mut().zip(wide.as_chunks::<4>().0) {
                    *out = f32::from_ne_bytes(bytes);
                }
                each(Numbers::Single(single))?;
            } else {
                let double = &mut self.double[..length];
                doubles(dtype, input, double);
                each(Numbers::Double(double))?;
            }
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss)] // documented: the nearest
fn doubles(dtype: DType, input: &[u8], out: &mut [f64]) {
    match dtype {
        DType::Int32 => convert(input, out, |bytes| f64::from(i32::from_le_bytes(bytes))),
        DType::Uint32 => convert(input, out, |bytes| f64::from(u32::from_le_bytes(bytes))),
        DType::Int64 => convert(input, out, |bytes| i64::from_le_bytes(bytes) as f64),
        DType::Uint64 => convert(input, out, |bytes| u64::from_le_bytes(bytes) as f64),
        _ => convert(input, out, f64::from_le_bytes),
    }
}

#[inline]
fn convert<const W: usize, N>(input: &[u8], out: &mut [N], number: impl Fn([u8; W]) -> N) {
    for (out, &bytes) in out.iter_mut().zip(input.as_chunks::<W>().0) {
        *out = number(bytes);
    }
}
