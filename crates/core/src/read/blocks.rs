//! Dequantizes ggml blocks to float32: blocks decode independently, so only those that a slice overlaps are read.
#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::dequantize::packed;
use super::widened::Unit;
use super::{Reading, widened};
use crate::checked::{index, product};
use crate::error::Result;
use crate::kernels::dequantize::{BlockType, PIECE, Quantized, too_large};
use crate::kernels::swap::swap_bytes;
use crate::model::slice::TensorSlice;
use crate::model::{Component, Data, Label, Tensor, View};
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::work::{self, Stop};

/// The blocks of a tensor as stored in a file, decoded on request.
pub struct StoredBlocks<'a> {
    source: &'a dyn ReadAt,
    offset: u64,
    block: BlockType,
    stop: &'a Stop,
}

impl StoredBlocks<'_> {
    /// Sets `out` to the `count` elements from `first` on, as little-endian float32.
    pub fn read(&self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<()> {
        let BlockType { elements, bytes, .. } = self.block;
        let end = first.checked_add(count).ok_or_else(too_large)?;
        let (start, stop) = (first / elements, end.div_ceil(elements));
        let range = (start.checked_mul(bytes), (stop - start).checked_mul(bytes));
        let (Some(start), Some(length)) = range else { return Err(too_large()) };
        let stored = self.source.read_vec(self.offset.saturating_add(start), length, self.stop)?;
        out.resize(index(length / bytes * elements * 4, "a piece")?, 0);
        self.block.fill(&stored, out)?;
        if cfg!(target_endian = "big") {
            swap_bytes(out, 4);
        }
        out.drain(..index(first % elements * 4, "a piece")?);
        out.truncate(index(count * 4, "a piece")?);
        Ok(())
    }
}

impl<'a> Reading<'a> {
    /// Returns the blocks of a tensor that are stored unencoded; `None` for others. No digest is verified.
    pub fn stored_blocks(&self, tensor: Tensor<'_>) -> Result<Option<StoredBlocks<'a>>> {
        if !tensor.layout_name().starts_with("gguf.") {
            return Ok(None);
        }
        let block = BlockType::of_tensor(tensor)?;
        let component = self.component_of(tensor, Label::DATA)?;
        let Some((offset, _)) = component.plain_range() else { return Ok(None) };
        Ok(Some(StoredBlocks { source: self.source(component)?, offset, block, stop: &self.watch.stop }))
    }
}

impl Reading<'_> {
    /// Returns the component of a tensor of ggml blocks that is encoded and can be decoded in pieces.
    pub fn encoded_blocks<'t>(&self, tensor: Tensor<'t>) -> Result<Option<(&'t Component, BlockType)>> {
        if !tensor.layout_name().starts_with("gguf.") {
            return Ok(None);
        }
        let block = BlockType::of_tensor(tensor)?;
        let component = self.component_of(tensor, Label::DATA)?;
        let length =
            product(tensor.shape()).and_then(|elements| (elements / block.elements).checked_mul(block.bytes));
        let is_encoded = matches!(component.data, Data::Blob(_)) && component.plain_range().is_none();
        Ok((is_encoded && component.byte_length() == length).then_some((component, block)))
    }

    /// Returns the elements in a half-open range of each dimension, from the blocks that contain them.
    pub(super) fn blocks(
        &self,
        tensor: Tensor<'_>,
        block: BlockType,
        ranges: Option<&[(u64, u64)]>,
    ) -> Result<Owned> {
        let mut shape = tensor.shape().to_vec();
        let whole = all(&shape);
        let mut held = ranges.unwrap_or(&whole).to_vec();
        TensorSlice::new(&shape, &held, 32)?; // says what is wrong with the ranges, in elements
        let is_whole = held == whole;
        let (Some(dim), Some(last)) = (shape.last_mut(), held.last_mut()) else { return Err(too_large()) };
        let (start, stop) = *last;
        *dim /= block.elements;
        *last = (start / block.elements, stop.div_ceil(block.elements));
        let before = last.0 * block.elements;
        let slice =
            TensorSlice::new(&shape, &held, u32::try_from(block.bytes * 8).map_err(|_| too_large())?)?;
        let elements = if start == stop { 0 } else { slice.byte_length() / block.bytes * block.elements };
        let decoded = match elements {
            0 => return Owned::zeroed(0),
            _ => self.decoded(tensor, block, (!is_whole).then_some(&slice), elements)?,
        };
        let mut rows = slice.shape();
        let mut wanted = all(&rows);
        if let (Some(dim), Some(last)) = (rows.last_mut(), wanted.last_mut()) {
            *dim *= block.elements;
            *last = (start - before, stop - before);
            if *last == (0, *dim) {
                return Ok(decoded);
            }
        }
        packed(&TensorSlice::new(&rows, &wanted, 32)?, &decoded)
    }

    /// Returns all elements of a slice of the blocks.
    fn decoded(
        &self,
        tensor: Tensor<'_>,
        block: BlockType,
        slice: Option<&TensorSlice>,
        elements: u64,
    ) -> Result<Owned> {
        let component = self.component_of(tensor, Label::DATA)?;
        let bytes = self.float32_bytes(elements)?;
        let decode = |input: &[u8], out: &mut [u8]| block.fill(input, out);
        let unit = unit(block)?;
        if let Some(stored) = widened::stored(component, slice) {
            let converted = self.convert_stored(component, stored, unit, elements, decode);
            return converted.map_err(|error| self.name(error, tensor, component));
        }
        let stored = match (slice, component.plain_range()) {
            (Some(slice), Some((offset, length))) => {
                self.read_slice(self.source(component)?, offset, length, slice)?
            }
            // Only what the slice needs of compressed blocks is in memory.
            (Some(slice), None)
                if component.view == View::Whole && matches!(component.data, Data::Blob(_)) =>
            {
                let read = self.slice_unjudged(tensor, component, slice);
                read.map_err(|error| self.name(error, tensor, component))?
            }
            (Some(slice), None) => packed(slice, &self.component(tensor, component)?)?,
            (None, _)
                if Self::is_picked(component)
                    && component.byte_length() == (elements / block.elements).checked_mul(block.bytes) =>
            {
                return self.decoded_in_pieces(tensor, component, block, elements);
            }
            (None, _) => self.component(tensor, component)?,
        };
        let mut output = Owned::to_fill(bytes)?;
        self.fill_blocks(block, &stored, &mut output)?;
        Ok(output)
    }

    /// Returns all elements of large compressed blocks, which are decoded in pieces.
    fn decoded_in_pieces(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        block: BlockType,
        elements: u64,
    ) -> Result<Owned> {
        let Unit { input, output: decoded } = unit(block)?;
        self.check_decoded(component, component.byte_length().unwrap_or_default())?;
        let mut output = Owned::to_fill(self.float32_bytes(elements)?)?;
        let mut rest = &mut *output;
        // The beginning of a block whose end is in the next piece.
        let mut begun: Vec<u8> = Vec::new();
        let mut fill = |stored: &[u8]| {
            let length = stored.len() / input * decoded;
            let (now, later) =
                std::mem::take(&mut rest).split_at_mut_checked(length).ok_or_else(too_large)?;
            rest = later;
            self.fill_blocks(block, stored, now)
        };
        self.pieces(tensor, component, |piece| {
            let mut stored = &*piece;
            if !begun.is_empty() {
                let (end, others) = stored.split_at((input - begun.len()).min(stored.len()));
                begun.extend_from_slice(end);
                stored = others;
                if begun.len() < input {
                    return Ok(());
                }
                fill(&begun)?;
                begun.clear();
            }
            let (whole, beginning) = stored.split_at(stored.len() / input * input);
            begun.extend_from_slice(beginning);
            fill(whole)
        })?;
        if rest.is_empty() && begun.is_empty() { Ok(output) } else { Err(too_large()) }
    }

    /// Decodes whole blocks on all cores.
    pub(crate) fn fill_blocks(&self, block: BlockType, stored: &[u8], output: &mut [u8]) -> Result<()> {
        let unit = unit(block)?;
        let pieces: Vec<_> = output.chunks_mut(PIECE * 4).map(|piece| Mutex::new(Some(piece))).collect();
        let inputs: Vec<_> = stored.chunks(PIECE / unit.output * 4 * unit.input).collect();
        work::try_each_on(work::cores(), pieces.len().max(inputs.len()), |at| {
            self.watch.stop.check()?;
            let piece = pieces.get(at).and_then(|piece| piece.lock().ok()?.take()).unwrap_or_default();
            block.fill(inputs.get(at).copied().unwrap_or_default(), piece)
        })
    }

    /// Returns the component of a tensor of ggml blocks whose rows of `inner` elements are whole blocks, and the stored bytes of a row.
    pub(super) fn block_rows<'t>(
        &self,
        tensor: Tensor<'t>,
        inner: u64,
    ) -> Result<Option<(&'t Component, u64, BlockType)>> {
        if Quantized::new(tensor)?.is_some() {
            return Ok(None);
        }
        let block = BlockType::of_tensor(tensor)?;
        let component = self.component_of(tensor, Label::DATA)?;
        let row = (inner / block.elements).checked_mul(block.bytes).ok_or_else(too_large)?;
        let is_whole = component.view == View::Whole && inner.is_multiple_of(block.elements);
        Ok(is_whole.then_some((component, row, block)))
    }
}

fn unit(block: BlockType) -> Result<Unit> {
    let (input, output) = (index(block.bytes, "a block")?, index(block.elements, "a block")? * 4);
    Ok(Unit { input, output })
}

fn all(shape: &[u64]) -> Vec<(u64, u64)> {
    shape.iter().map(|&dim| (0, dim)).collect()
}
