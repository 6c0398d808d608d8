//! Which factor belongs to which element.
#![forbid(unsafe_code)]

use crate::checked::index;
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::too_large;
use crate::model::{DType, Strided};

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
    pub(super) fn elements(&self) -> Result<u64> {
        self.order.byte_length().filter(|&elements| elements > 0 && self.order.run > 0).ok_or_else(too_large)
    }

    /// Multiplies the elements from `first` on, float32 in the byte order of the host.
    pub(super) fn apply(&self, factors: &[f32], first: u64, values: &mut [[u8; 4]]) -> Result<()> {
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

pub(super) fn wrong() -> Error {
    Error::new(Code::Decode, "elements and factors do not have the sizes that the shape requires")
}
