//! The block types of `gguf.<type>/1`: checks of a tensor's entry, and decoding of blocks to float32.
#![forbid(unsafe_code)]

use super::ggml::BlockType;
use crate::error::{Code, Error, Result};
use crate::layouts::gguf::Gguf;
use crate::model::{Attributes, Tensor};

impl BlockType {
    /// Returns the type of a tensor after checking its entry. A file of any format may use such a layout, and only
    /// files of zTensor 2 were checked when they were opened.
    pub fn of_tensor(tensor: Tensor<'_>) -> Result<Self> {
        let (layout, shape) = (tensor.layout_name(), tensor.shape());
        let block = known(layout)?;
        let none = Attributes::default();
        let attributes = tensor.attributes().unwrap_or(&none);
        fits(block, layout, &Gguf::read(shape, attributes, tensor.components())?, shape)?;
        Ok(block)
    }

    /// Decodes the blocks in `input` into `out`. Fails with `ZT_DECODE` unless `input` is whole blocks that fill `out`
    /// exactly.
    pub fn fill(self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let blocks = |length: usize, of: u64| {
            let length = length as u64;
            length.is_multiple_of(of).then(|| length / of)
        };
        let count = blocks(input.len(), self.bytes);
        if count.is_none() || count != blocks(out.len(), self.elements * 4) {
            return Err(Error::new(Code::Decode, "the number of blocks does not match the shape"));
        }
        self.decode(input, out.as_chunks_mut::<4>().0);
        Ok(())
    }
}

/// Returns the block type of a layout, if it can be decoded here.
pub(super) fn of_layout(layout: &str) -> Option<BlockType> {
    BlockType::of(layout.strip_prefix("gguf.")?.strip_suffix("/1")?)
}

fn known(layout: &str) -> Result<BlockType> {
    of_layout(layout).ok_or_else(|| {
        let known: Vec<_> = BlockType::names().collect();
        let message = format!(
            "the layout {layout:?} cannot be decoded to float32: supported are zt.quant_group/1, zt.mx/1, tflite.quantized/1 and \
             gguf.<type>/1 of {} can; its components can be read as they are",
            known.join(", ")
        );
        Error::new(Code::BadLayout, message)
    })
}

/// Checks that the attributes match the type, and that rows are whole blocks.
fn fits(block: BlockType, layout: &str, entry: &Gguf, shape: &[u64]) -> Result<()> {
    let (elements, bytes) = (entry.elems_per_block, entry.block_bytes);
    if (elements, bytes) != (block.elements, block.bytes) {
        let message = format!(
            "{layout} has {} elements in {} bytes, but the attributes state {elements} in {bytes}",
            block.elements, block.bytes
        );
        return Err(Error::new(Code::BadLayout, message).rule("gguf.<type>/1 Attributes"));
    }
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(block.elements) {
        let message =
            format!("rows of {row} elements are not a multiple of the block size {}", block.elements);
        return Err(Error::new(Code::BadShape, message).rule("gguf.<type>/1 Validation"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_must_match_the_output() {
        let block = BlockType::of("q8_0").unwrap();
        let fill =
            |bytes, length| block.fill(&vec![0; bytes], &mut vec![1; length]).map_err(|error| error.code());
        assert_eq!(fill(68, 256), Ok(()));
        for (bytes, length) in [(68, 128), (34, 256), (35, 128), (34, 127), (35, 127)] {
            assert_eq!(fill(bytes, length), Err(Code::Decode), "{bytes} {length}");
        }
    }
}
