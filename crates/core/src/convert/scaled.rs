//! Tensors whose elements have factors in another tensor, as in checkpoints of float8: one for blocks of 128 × 128 elements, for a row, or for
//! all. Each element is widened to float32, multiplied, and rounded once, as it is read.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::cast::Casts;
use super::dequantize::widened;
use crate::checked::{index, product};
use crate::error::{Code, Error, Result};
use crate::kernels::cast::can_cast;
use crate::kernels::dequantize::too_large;
use crate::kernels::widen::{float32_len, to_float32};
use crate::model::{DType, Label, Strided, Tensor};
use crate::read::Reading;
use crate::write::Writer;

/// The layout of elements in "data" and their factors in "scales". [`Scaling`] says which is whose.
pub const SCALED: &str = "float.scaled/1";

/// An axis of the tensor that the factors were made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScaledAxis {
    /// Number of elements.
    pub extent: u64,
    /// Number of elements with the same factor.
    pub block: u64,
    /// Factors from one block to the next; 0 if all of the axis have the same.
    pub stride: u64,
}

/// Which factor belongs to which element.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaling {
    /// The dtype that the tensor gets unless another one is asked for.
    pub dtype: DType,
    /// The order in which "data" has the elements of the axes: runs and strides in elements. It has as many as the axes, or fewer, or
    /// consists of that many tensors one after the other.
    pub order: Strided,
    /// Outermost first. Not empty.
    pub axes: Vec<ScaledAxis>,
    /// Number of factors of each of the tensors that are one after the other.
    pub factors: u64,
}

impl Scaling {
    /// Returns the number of elements of one of the tensors.
    fn elements(&self) -> Result<u64> {
        self.order.byte_length().filter(|&elements| elements > 0 && self.order.run > 0).ok_or_else(too_large)
    }

    /// Multiplies the elements from `first` on, float32 in the byte order of the host.
    fn apply(&self, factors: &[f32], first: u64, values: &mut [[u8; 4]]) -> Result<()> {
        let elements = self.elements()?;
        let (mut at, mut values) = (first, values);
        while !values.is_empty() {
            let (tensor, within) = (at / elements, at % elements);
            let (number, skipped) = (within / self.order.run, within % self.order.run);
            let count = (self.order.run - skipped).min(values.len() as u64);
            let (mut left, mut start) = (number, self.order.start.saturating_add(skipped));
            for &(count, stride) in self.order.loops.iter().rev() {
                start = start.saturating_add((left % count.max(1)).saturating_mul(stride));
                left /= count.max(1);
            }
            let (run, rest) = values.split_at_mut(index(count, "a run")?);
            self.apply_run(factors, tensor.saturating_mul(self.factors), start, run)?;
            (at, values) = (at + count, rest);
        }
        Ok(())
    }

    /// Multiplies elements that follow one another in the source from `start` on.
    fn apply_run(
        &self,
        factors: &[f32],
        base: u64,
        mut start: u64,
        mut values: &mut [[u8; 4]],
    ) -> Result<()> {
        let Some(last) = self.axes.last() else { return Err(wrong()) };
        while !values.is_empty() {
            let (mut left, mut number) = (start, base);
            for axis in self.axes.iter().rev() {
                let at = left % axis.extent.max(1);
                number = number.saturating_add((at / axis.block.max(1)).saturating_mul(axis.stride));
                left /= axis.extent.max(1);
            }
            let at = start % last.extent.max(1);
            let to_end = last.extent.max(1) - at;
            let same =
                if last.stride == 0 { to_end } else { to_end.min(last.block - at % last.block.max(1)) };
            let count = same.max(1).min(values.len() as u64);
            let factor = usize::try_from(number).ok().and_then(|number| factors.get(number));
            let factor = *factor.ok_or_else(wrong)?;
            let (now, later) = values.split_at_mut(index(count, "a run")?);
            for value in now {
                *value = (f32::from_ne_bytes(*value) * factor).to_ne_bytes();
            }
            (start, values) = (start + count, later);
        }
        Ok(())
    }
}

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

fn wrong() -> Error {
    Error::new(Code::Decode, "elements and factors do not have the sizes that the shape requires")
}

impl Casts {
    /// Multiplies a tensor of [`SCALED`] by its factors. Fails with `ZT_INVALID_ARG` for axes or an order without elements.
    pub fn scale(&mut self, ordinal: usize, scaling: Arc<Scaling>) -> Result<()> {
        if scaling.axes.is_empty() || !can_cast(DType::Float32, scaling.dtype) {
            return Err(Error::new(
                Code::InvalidArg,
                "factors without axes, or of another dtype than floats",
            ));
        }
        self.scaled.insert(ordinal, scaling);
        Ok(())
    }

    /// Returns how a tensor of [`SCALED`] is multiplied.
    pub fn scaling(&self, tensor: Tensor<'_>) -> Option<&Scaling> {
        self.scaled.get(&tensor.ordinal()).map(|scaling| &**scaling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
