//! Tensors whose elements have factors in another tensor, as in checkpoints of float8: one for blocks of 128 × 128 elements, for a row, or for
//! all. Each element is widened to float32, multiplied, and rounded once, as it is read.
#![forbid(unsafe_code)]

use super::dequantize::widened;
use super::scaling::wrong;
pub use super::scaling::{ScaledAxis, Scaling};
use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::too_large;
use crate::kernels::widen::{float32_len, to_float32};
use crate::model::{DType, Label, Tensor};
use crate::read::Reading;
use crate::write::Writer;

/// The layout of elements in "data" and their factors in "scales". [`Scaling`] says which is whose.
pub const SCALED: &str = "float.scaled/1";

/// The factors of a tensor, in memory: of blocks of 128 × 128 float8 elements, 1/4096 of their bytes.
pub(super) struct Scales<'s> {
    scaling: &'s Scaling,
    stored: DType,
    factors: Vec<f32>,
}

impl<'s> Scales<'s> {
    pub fn read(reading: Reading<'_>, tensor: Tensor<'_>, scaling: &'s Scaling) -> Result<Self> {
        let data = reading.component_of(tensor, Label::DATA)?;
        let scales = reading.component_of(tensor, Label::SCALES)?;
        let (stored, dtype) = data.dtype.zip(scales.dtype).ok_or_else(wrong)?;
        check_stored(stored)?;
        let bytes = reading.component(tensor, scales)?;
        let count = float32_len(dtype, bytes.len()).ok_or_else(wrong)?;
        let tensors = product(tensor.shape()).ok_or_else(too_large)?.div_ceil(scaling.elements()?);
        if tensors.checked_mul(scaling.factors) != Some(count as u64) {
            return Err(wrong());
        }
        let mut widened = vec![0; 4 * count];
        to_float32(dtype, &bytes, &mut widened)?;
        let factors = widened.as_chunks::<4>().0.iter().map(|&bytes| f32::from_ne_bytes(bytes)).collect();
        Ok(Self { scaling, stored, factors })
    }

    /// Returns the bytes of a stored element.
    pub fn width(&self) -> usize {
        self.stored.element_bytes()
    }

    /// Widens stored elements to float32 in the byte order of the host, from the element `first` on.
    pub fn widen(&self, first: u64, input: &[u8], out: &mut [u8]) -> Result<()> {
        to_float32(self.stored, input, out)?;
        self.scaling.apply(&self.factors, first, out.as_chunks_mut::<4>().0)
    }
}

fn check_stored(dtype: DType) -> Result<()> {
    if dtype.bits().is_multiple_of(8) && float32_len(dtype, 0).is_some() {
        return Ok(());
    }
    Err(Error::new(Code::BadDtype, format!("elements of {} have no factors", dtype.name())))
}

/// Pushes the elements of a tensor of [`SCALED`] into the writer as `dtype`.
pub(super) fn copy(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    scaling: &Scaling,
    dtype: DType,
    writer: &mut Writer,
) -> Result<()> {
    if tensor.shape().contains(&0) {
        return Ok(());
    }
    let scales = Scales::read(reading, tensor, scaling)?;
    let widen = |first, input: &[u8], out: &mut [u8]| scales.widen(first, input, out);
    widened(reading, tensor, (1, scales.width()), dtype, wrong, writer, widen)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::convert::cast::Casts;
    use crate::model::Strided;

    fn scaled(scaling: &Scaling, factors: &[f32], first: u64, values: &[f32]) -> Result<Vec<f32>> {
        let mut bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_ne_bytes()).collect();
        scaling.apply(factors, first, &mut bytes)?;
        Ok(bytes.into_iter().map(f32::from_ne_bytes).collect())
    }

    fn axis(extent: u64, block: u64, stride: u64) -> ScaledAxis {
        ScaledAxis { extent, block, stride }
    }

    fn order(start: u64, run: u64, loops: &[(u64, u64)]) -> Strided {
        Strided { start, run, loops: loops.into() }
    }

    #[test]
    fn blocks_share_factors_up_to_their_edges() {
        // 3 × 5 elements in blocks of 2 × 3: the last ones are not whole.
        let axes = vec![axis(3, 2, 2), axis(5, 3, 1)];
        let scaling = Scaling { dtype: DType::BFloat16, order: order(0, 15, &[]), axes, factors: 4 };
        let factors = [1.0, 2.0, 3.0, 4.0];
        let all = scaled(&scaling, &factors, 0, &[1.0; 15]).unwrap();
        let row = [1.0, 1.0, 1.0, 2.0, 2.0];
        assert_eq!(all, [row, row, [3.0, 3.0, 3.0, 4.0, 4.0]].concat());
        for first in 0..15 {
            let part = scaled(&scaling, &factors, first as u64, &vec![1.0; 15 - first]).unwrap();
            assert_eq!(part, all[first..], "{first}");
        }
        assert_eq!(scaled(&scaling, &factors[..3], 0, &[1.0; 15]).unwrap_err().code(), Code::Decode);
    }

    #[test]
    fn elements_in_another_order_have_the_factors_of_their_axes() {
        // 2 × 3 elements with a factor for each row, transposed; two such tensors one after the other.
        let axes = vec![axis(2, 1, 1), axis(3, 1, 0)];
        let scaling =
            Scaling { dtype: DType::BFloat16, order: order(0, 1, &[(3, 1), (2, 3)]), axes, factors: 2 };
        let all = scaled(&scaling, &[2.0, 3.0, 5.0, 7.0], 0, &[1.0; 12]).unwrap();
        assert_eq!(all, [2.0, 3.0, 2.0, 3.0, 2.0, 3.0, 5.0, 7.0, 5.0, 7.0, 5.0, 7.0]);
        // One factor for all.
        let axes = vec![axis(2, 1, 0), axis(3, 1, 0)];
        let one = Scaling { dtype: DType::BFloat16, order: order(3, 3, &[]), axes, factors: 1 };
        assert_eq!(scaled(&one, &[0.5], 0, &[4.0; 3]).unwrap(), [2.0; 3]);
    }

    #[test]
    fn a_scaling_needs_axes() {
        let mut casts = Casts::default();
        let scaling = Scaling { dtype: DType::BFloat16, order: order(0, 1, &[]), axes: vec![], factors: 1 };
        assert_eq!(casts.scale(0, Arc::new(scaling)).unwrap_err().code(), Code::InvalidArg);
    }
}
