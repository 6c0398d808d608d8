//! Tensors of ggml's blocks as float32: a block decodes alone, so that of a cut only the blocks are read that it touches.
#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::ggml::BlockType;
use super::{PIECE, packed, too_large};
use crate::checked::index;
use crate::error::{Code, Error, Result};
use crate::kernels::swap::swap_bytes;
use crate::layouts::gguf::Gguf;
use crate::model::cut::Cut;
use crate::model::{Attributes, Label, Tensor};
use crate::read::widened::Unit;
use crate::read::{Reading, widened};
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::work;

impl BlockType {
    /// That of a tensor, whose entry is checked: a file of any format may hold such a layout, and only those of zTensor 2 were
    /// checked at open.
    pub(super) fn of_tensor(tensor: Tensor<'_>) -> Result<Self> {
        let (layout, shape) = (tensor.layout_name(), tensor.shape());
        let block = known(layout)?;
        let none = Attributes::default();
        let attributes = tensor.attributes().unwrap_or(&none);
        fits(block, layout, &Gguf::read(shape, attributes, tensor.components())?, shape)?;
        Ok(block)
    }

    fn unit(self) -> Result<Unit> {
        let (input, output) = (index(self.bytes, "a block")?, index(self.elements, "a block")? * 4);
        Ok(Unit { input, output })
    }

    /// Decodes blocks that are all of `input` into all of `out`.
    fn fill(self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let blocks = |length: usize, of: u64| {
            let length = length as u64;
            length.is_multiple_of(of).then(|| length / of)
        };
        let count = blocks(input.len(), self.bytes);
        if count.is_none() || count != blocks(out.len(), self.elements * 4) {
            return Err(Error::new(Code::Decode, "the data is not as many blocks as the shape asks for"));
        }
        self.decode(input, out.as_chunks_mut::<4>().0);
        Ok(())
    }
}

fn known(layout: &str) -> Result<BlockType> {
    let name = layout.strip_prefix("gguf.").and_then(|rest| rest.strip_suffix("/1"));
    name.and_then(BlockType::of).ok_or_else(|| {
        let known: Vec<_> = BlockType::names().collect();
        let message = format!(
            "the layout {layout:?} cannot be decoded to float32 here: zt.quant_group/1, zt.mx/1 and gguf.<type>/1 \
             of {} can; its components can be read as they are",
            known.join(", ")
        );
        Error::new(Code::BadLayout, message)
    })
}

/// The attributes are those of the type, and rows are whole blocks.
fn fits(block: BlockType, layout: &str, entry: &Gguf, shape: &[u64]) -> Result<()> {
    let (elements, bytes) = (entry.elems_per_block, entry.block_bytes);
    if (elements, bytes) != (block.elements, block.bytes) {
        let message = format!(
            "{layout} has {} elements in {} bytes, the attributes say {elements} in {bytes}",
            block.elements, block.bytes
        );
        return Err(Error::new(Code::BadLayout, message).rule("gguf.<type>/1 Attributes"));
    }
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(block.elements) {
        let message = format!("rows of {row} elements are not whole blocks of {}", block.elements);
        return Err(Error::new(Code::BadShape, message).rule("gguf.<type>/1 Validation"));
    }
    Ok(())
}

/// The blocks of a tensor as they stand in a file, decoded when their elements are asked for.
pub struct StoredBlocks<'a> {
    source: &'a dyn ReadAt,
    offset: u64,
    block: BlockType,
}

impl StoredBlocks<'_> {
    /// Makes `out` the `count` elements from `first` on, as little-endian float32.
    pub fn read(&self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<()> {
        let BlockType { elements, bytes, .. } = self.block;
        let end = first.checked_add(count).ok_or_else(too_large)?;
        let (start, stop) = (first / elements, end.div_ceil(elements));
        let range = (start.checked_mul(bytes), (stop - start).checked_mul(bytes));
        let (Some(start), Some(length)) = range else { return Err(too_large()) };
        let stored = self.source.read_vec(self.offset.saturating_add(start), length)?;
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
    /// The blocks of a tensor that stand in a file as they are; `None` of others. No digest is checked.
    pub fn stored_blocks(&self, tensor: Tensor<'_>) -> Result<Option<StoredBlocks<'a>>> {
        if !tensor.layout_name().starts_with("gguf.") {
            return Ok(None);
        }
        let block = BlockType::of_tensor(tensor)?;
        let component = self.component_of(tensor, Label::DATA)?;
        let Some((offset, _)) = component.plain_range() else { return Ok(None) };
        Ok(Some(StoredBlocks { source: self.source(component)?, offset, block }))
    }
}

impl Reading<'_> {
    /// The elements in a half-open range of each dimension, out of the blocks that hold them.
    pub(super) fn blocks(
        &self,
        tensor: Tensor<'_>,
        block: BlockType,
        ranges: Option<&[(u64, u64)]>,
    ) -> Result<Owned> {
        let mut shape = tensor.shape().to_vec();
        let whole = all(&shape);
        let mut held = ranges.unwrap_or(&whole).to_vec();
        Cut::new(&shape, &held, 32)?; // says what is wrong with the ranges, in elements
        let is_whole = held == whole;
        let (Some(dim), Some(last)) = (shape.last_mut(), held.last_mut()) else { return Err(too_large()) };
        let (start, stop) = *last;
        *dim /= block.elements;
        *last = (start / block.elements, stop.div_ceil(block.elements));
        let before = last.0 * block.elements;
        let cut = Cut::new(&shape, &held, u32::try_from(block.bytes * 8).map_err(|_| too_large())?)?;
        let elements = if start == stop { 0 } else { cut.byte_length() / block.bytes * block.elements };
        let decoded = match elements {
            0 => return Owned::zeroed(0),
            _ => self.decoded(tensor, block, (!is_whole).then_some(&cut), elements)?,
        };
        let mut rows = cut.shape();
        let mut wanted = all(&rows);
        if let (Some(dim), Some(last)) = (rows.last_mut(), wanted.last_mut()) {
            *dim *= block.elements;
            *last = (start - before, stop - before);
            if *last == (0, *dim) {
                return Ok(decoded);
            }
        }
        packed(&Cut::new(&rows, &wanted, 32)?, &decoded)
    }

    /// All elements of a cut through the blocks.
    fn decoded(
        &self,
        tensor: Tensor<'_>,
        block: BlockType,
        cut: Option<&Cut>,
        elements: u64,
    ) -> Result<Owned> {
        let component = self.component_of(tensor, Label::DATA)?;
        let bytes = self.float32_bytes(elements)?;
        let decode = |input: &[u8], out: &mut [u8]| block.fill(input, out);
        let unit = block.unit()?;
        if let Some(stored) = widened::stored(component, cut) {
            let converted = self.convert_stored(component, stored, unit, elements, decode);
            return converted.map_err(|error| self.name(error, tensor, component));
        }
        let stored = match (cut, component.plain_range()) {
            (Some(cut), Some((offset, length))) => {
                self.read_cut(self.source(component)?, offset, length, cut)?
            }
            (Some(cut), None) => packed(cut, &self.component(tensor, component)?)?,
            (None, _) => self.component(tensor, component)?,
        };
        let mut output = Owned::to_fill(bytes)?;
        let pieces: Vec<_> = output.chunks_mut(PIECE * 4).map(|piece| Mutex::new(Some(piece))).collect();
        let inputs: Vec<_> = stored.chunks(PIECE / unit.output * 4 * unit.input).collect();
        work::try_each_on(work::cores(), pieces.len().max(inputs.len()), |at| {
            self.watch.stop.check()?;
            let piece = pieces.get(at).and_then(|piece| piece.lock().ok()?.take()).unwrap_or_default();
            decode(inputs.get(at).copied().unwrap_or_default(), piece)
        })?;
        drop(pieces);
        Ok(output)
    }
}

fn all(shape: &[u64]) -> Vec<(u64, u64)> {
    shape.iter().map(|&dim| (0, dim)).collect()
}
