//! Quantized tensors as float32: their components are read here and decoded by `kernels`.
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
    /// The elements of a quantized tensor, or those in a range of each dimension, as float32 in the byte order of
    /// the host. The digests of components that are read whole are checked. Of ggml's blocks no more are read and decoded than
    /// hold these elements, of other layouts no more pieces of some thousand elements decoded.
    ///
    /// Fails with `BadLayout` for other layouts and for parameters that contradict each other, with `BadShape` where
    /// a component's length is not what they ask for, and with `Limit` where the result would exceed
    /// `maxDecodedBytes`.
    pub fn dequantize(&self, tensor: Tensor<'_>, ranges: Option<&[Range]>) -> Result<Owned> {
        let Some(ranges) = ranges else { return self.dequantize_run(tensor, None) };
        let cut =
            TensorSlice::stepped(tensor.shape(), ranges, 32).map_err(|error| error.tensor(tensor.name()))?;
        let ranges = cut.ranges();
        let around: Vec<_> = ranges.iter().map(|range| (range.start, range.stop)).collect();
        let elements = self.dequantize_run(tensor, Some(&around))?;
        if ranges.iter().all(|range| range.step == 1) {
            return Ok(elements);
        }
        let (shape, steps): (Vec<_>, Vec<_>) = ranges.iter().map(|range| range.rebased()).unzip();
        packed(&TensorSlice::stepped(&shape, &steps, 32)?, &elements)
    }

    /// All elements, or those in a half-open range of each dimension.
    fn dequantize_run(&self, tensor: Tensor<'_>, ranges: Option<&[(u64, u64)]>) -> Result<Owned> {
        let dequantized = Quantized::new(tensor).and_then(|quantized| match quantized {
            Some(quantized) => self.elements(tensor, &quantized, ranges),
            None => self.blocks(tensor, BlockType::of_tensor(tensor)?, ranges),
        });
        dequantized.map_err(|error| error.tensor(tensor.name()))
    }

    /// All elements, or those in a range of each dimension: pieces that none of these are in are not decoded.
    fn elements(
        &self,
        tensor: Tensor<'_>,
        quantized: &Quantized,
        ranges: Option<&[(u64, u64)]>,
    ) -> Result<Owned> {
        let cut = ranges.map(|ranges| TensorSlice::new(tensor.shape(), ranges, 32)).transpose()?;
        let run = match ranges {
            Some(ranges) => Run::around(tensor.shape(), ranges),
            None => Run { first: 0, count: quantized.elements, shape: Vec::new(), ranges: Vec::new() },
        };
        self.float32_bytes(cut.as_ref().map_or(run.count, |cut| cut.byte_length() / 4))?;
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
        if cut.is_none() || run.count == 0 {
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
        let most = self.limits.max_decoded_bytes;
        elements.checked_mul(4).filter(|&bytes| bytes <= most).ok_or_else(|| {
            let message = format!("{elements} float32 are more than {most} bytes (option maxDecodedBytes)");
            Error::new(Code::Limit, message)
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
            format!("{name} has {} bytes, not what the shape and the attributes ask for", bytes.len());
        Err(Error::new(Code::BadShape, message).component(name))
    }
}

/// Elements one after the other that hold those of a cut, and the cut through them alone.
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
            // Without elements, the other dimensions may come to any number.
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

/// The elements of a cut through decoded bytes.
pub(super) fn packed(cut: &TensorSlice, bytes: &[u8]) -> Result<Owned> {
    let mut output = Owned::to_fill(cut.byte_length())?;
    cut.pack_divided(bytes, &mut output)?;
    Ok(output)
}
