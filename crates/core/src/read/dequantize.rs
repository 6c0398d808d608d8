//! Dequantization to float32: reads components, which `kernels` decodes.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use super::Reading;
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::{BlockType, PIECE, Quantized};
use crate::model::slice::{Range, TensorSlice};
use crate::model::{Component, Label, Tensor};
use crate::sources::owned::Owned;
use crate::work;

impl Reading<'_> {
    /// Returns the elements of a quantized tensor, or those in a range of each dimension, as float32 in the byte order of the host. Digests
    /// of components that are read whole are verified. For ggml blocks only those that contain these elements are read and decoded; for
    /// other layouts only the pieces of some thousand elements that contain them are decoded.
    ///
    /// Fails with `BadLayout` for other layouts and for contradictory parameters, with `BadShape` if the length of a component does not
    /// match, and with `Limit` if the result would exceed `maxDecodedBytes`.
    pub fn dequantize(&self, tensor: Tensor<'_>, ranges: Option<&[Range]>) -> Result<Owned> {
        let Some(ranges) = ranges else { return self.dequantize_run(tensor, None) };
        let slice =
            TensorSlice::stepped(tensor.shape(), ranges, 32).map_err(|error| error.tensor(tensor.name()))?;
        let ranges = slice.ranges();
        let around: Vec<_> = ranges.iter().map(|range| (range.start, range.stop)).collect();
        let elements = self.dequantize_run(tensor, Some(&around))?;
        if ranges.iter().all(|range| range.step == 1) {
            return Ok(elements);
        }
        let (shape, steps): (Vec<_>, Vec<_>) = ranges.iter().map(|range| range.rebased()).unzip();
        packed(&TensorSlice::stepped(&shape, &steps, 32)?, &elements)
    }

    /// Returns all elements, or those in a half-open range of each dimension.
    fn dequantize_run(&self, tensor: Tensor<'_>, ranges: Option<&[(u64, u64)]>) -> Result<Owned> {
        let dequantized = Quantized::new(tensor).and_then(|quantized| match quantized {
            Some(quantized) => self.elements(tensor, &quantized, ranges),
            None => self.blocks(tensor, BlockType::of_tensor(tensor)?, ranges),
        });
        dequantized.map_err(|error| error.tensor(tensor.name()))
    }

    /// Returns all elements, or those in a range of each dimension; pieces without such elements are not decoded.
    fn elements(
        &self,
        tensor: Tensor<'_>,
        quantized: &Quantized,
        ranges: Option<&[(u64, u64)]>,
    ) -> Result<Owned> {
        let slice = ranges.map(|ranges| TensorSlice::new(tensor.shape(), ranges, 32)).transpose()?;
        let run = match ranges {
            Some(ranges) => Run::around(tensor.shape(), ranges),
            None => Run { first: 0, count: quantized.elements, shape: Vec::new(), ranges: Vec::new() },
        };
        self.float32_bytes(slice.as_ref().map_or(run.count, |slice| slice.byte_length() / 4))?;
        let before = run.first % PIECE as u64;
        let start = run.first - before;
        let bytes = self.float32_bytes(before + run.count)?;
        let parts = self.quantized_parts(tensor, quantized)?;
        let mut output = Owned::zeroed(bytes)?;
        let pieces: Vec<_> = output.as_chunks_mut::<4>().0.chunks_mut(PIECE).map(Mutex::new).collect();
        work::try_each_on(work::cores(), pieces.len(), |at| {
            self.watch.stop.check()?;
            let Some(piece) = pieces.get(at) else { return Ok(()) };
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            quantized.decode(&parts, start + at as u64 * PIECE as u64, &mut piece)
        })?;
        drop(pieces);
        if slice.is_none() || run.count == 0 {
            return Ok(output);
        }
        let decoded = checked::slice(&output, before * 4, run.count * 4).unwrap_or_default();
        packed(&TensorSlice::new(&run.shape, &run.ranges, 32)?, decoded)
    }

    /// The components of a quantized tensor, decoded, in the order in which [`Quantized::decode`] takes them.
    pub(crate) fn quantized_parts(&self, tensor: Tensor<'_>, quantized: &Quantized) -> Result<Vec<Owned>> {
        let parts = quantized.parts().into_iter();
        parts.map(|(role, expected)| self.part(tensor, role, expected)).collect()
    }

    /// Bytes of so many float32, within `maxDecodedBytes`.
    pub(super) fn float32_bytes(&self, elements: u64) -> Result<u64> {
        let max = self.limits.max_decoded_bytes;
        elements.checked_mul(4).filter(|&bytes| bytes <= max).ok_or_else(|| {
            let message = format!("{elements} float32 are more than {max} bytes");
            Error::new(Code::Limit, message).option("maxDecodedBytes")
        })
    }

    pub(crate) fn component_of<'t>(&self, tensor: Tensor<'t>, role: Label) -> Result<&'t Component> {
        let name = self.catalog.label(role);
        let missing =
            || Error::new(Code::BadLayout, format!("the component {name:?} is missing")).component(name);
        tensor.component(role).ok_or_else(missing)
    }

    fn part(&self, tensor: Tensor<'_>, role: Label, expected: Option<u64>) -> Result<Owned> {
        let component = self.component_of(tensor, role)?;
        let bytes = self.component(tensor, component)?;
        if Some(bytes.len() as u64) == expected {
            return Ok(bytes);
        }
        let name = self.catalog.label(role);
        let message =
            format!("{name} has {} bytes, which does not match the shape and the attributes", bytes.len());
        Err(Error::new(Code::BadShape, message).component(name))
    }
}

/// A contiguous run of elements that contains a slice, and the slice relative to it.
struct Run {
    first: u64,
    count: u64,
    shape: Vec<u64>,
    ranges: Vec<(u64, u64)>,
}

impl Run {
    /// `ranges` are those of a [`TensorSlice`] of this shape.
    fn around(shape: &[u64], ranges: &[(u64, u64)]) -> Self {
        let (mut shape, mut ranges, mut first) = (shape.to_vec(), ranges.to_vec(), 0);
        if ranges.iter().any(|(start, stop)| start == stop) {
            // Without elements, the other dimensions may have any size.
            return Self { first: 0, count: 0, shape, ranges };
        }
        loop {
            let inner: u64 = shape.iter().skip(1).product();
            let Some((dim, (start, stop))) = shape.first_mut().zip(ranges.first_mut()) else { break };
            first += *start * inner;
            (*dim, *start, *stop) = (*stop - *start, 0, *stop - *start);
            if *dim != 1 {
                break;
            }
            shape.remove(0);
            ranges.remove(0);
        }
        Self { first, count: shape.iter().product(), shape, ranges }
    }
}

/// Returns the elements of a slice of decoded bytes.
pub(super) fn packed(slice: &TensorSlice, bytes: &[u8]) -> Result<Owned> {
    let mut output = Owned::to_fill(slice.byte_length())?;
    slice.pack_divided(bytes, &mut output)?;
    Ok(output)
}
