//! Quantized tensors as float32: `zt.quant_group/1`, `zt.mx/1` and the ggml blocks of `gguf.<type>/1`, wherever
//! a file holds them under these layouts.
#![forbid(unsafe_code)]

mod ggml;
mod ggml_k;
mod groups;
mod mx;
mod quant_group;

use std::sync::{Mutex, PoisonError};

use ggml::BlockType;
use mx::Mx;
use quant_group::QuantGroup;

use crate::checked::{index, product};
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::layouts::gguf::Gguf;
use crate::model::{Attributes, Label, Tensor};
use crate::read::Reading;
use crate::sources::owned::Owned;
use crate::work;

/// Elements that a thread decodes between two looks at the stop flag. A multiple of every block.
const PIECE: usize = 1 << 18;

/// A quantized tensor whose parameters and lengths agree.
#[derive(Clone, Copy, Debug)]
struct Quantized {
    scheme: Scheme,
    elements: u64,
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    Ggml(BlockType),
    Mx(Mx),
    QuantGroup(QuantGroup),
}

fn block_type(layout: &str) -> Option<BlockType> {
    layout.strip_prefix("gguf.").and_then(|rest| rest.strip_suffix("/1")).and_then(BlockType::of)
}

impl Quantized {
    /// Reads what the tensor's attributes say and checks it: a file of any format may hold such a layout, and only
    /// those of zTensor 2 were checked at open.
    fn new(tensor: Tensor<'_>) -> Result<Self> {
        let (layout, shape, components) = (tensor.layout_name(), tensor.shape(), tensor.components());
        let too_large = || Error::new(Code::BadShape, "the product of the dimensions exceeds a u64");
        let elements = product(shape).ok_or_else(too_large)?;
        let none = Attributes::default();
        let attributes = tensor.attributes().unwrap_or(&none);
        let dtype = |role| tensor.component(role).and_then(|component| component.dtype);
        let scheme = match layout {
            "zt.mx/1" => Scheme::Mx(Mx::new(&layouts::mx::Mx::read(shape, attributes, components)?, shape)?),
            "zt.quant_group/1" => {
                let entry = layouts::quant_group::QuantGroup::read(shape, attributes, components)?;
                let dtypes = [Label::DATA, Label::SCALES, Label::ZEROS].map(dtype);
                Scheme::QuantGroup(QuantGroup::new(&entry, shape, dtypes)?)
            }
            _ => {
                let block = known_block(layout)?;
                fits(block, layout, &Gguf::read(shape, attributes, components)?, shape)?;
                Scheme::Ggml(block)
            }
        };
        Ok(Self { scheme, elements })
    }

    /// The components, in the order in which `decode` takes them, and the bytes that each must have.
    fn parts(&self) -> Vec<(Label, Option<u64>)> {
        match &self.scheme {
            Scheme::Ggml(block) => {
                let blocks = self.elements / block.elements;
                vec![(Label::DATA, blocks.checked_mul(block.bytes))]
            }
            Scheme::Mx(mx) => {
                vec![(Label::DATA, mx.data_length(self.elements)), (Label::SCALES, Some(mx.scales()))]
            }
            Scheme::QuantGroup(group) => {
                let mut parts = vec![
                    (Label::DATA, group.data_length(self.elements)),
                    (Label::SCALES, group.scales_length()),
                ];
                if group.has_zeros() {
                    parts.push((Label::ZEROS, group.zeros_length()));
                }
                parts
            }
        }
    }

    /// Decodes the elements from `first` on, a multiple of [`PIECE`], as many as `out` has places.
    fn decode(&self, parts: &[Owned], first: u64, out: &mut [[u8; 4]]) -> Result<()> {
        let part = |at: usize| parts.get(at).map_or(&[][..], |part| part);
        match &self.scheme {
            Scheme::Ggml(block) => {
                let start = index(first / block.elements * block.bytes, "a block")?;
                block.decode(part(0).get(start..).unwrap_or_default(), out);
                Ok(())
            }
            Scheme::Mx(mx) => mx.decode(part(0), part(1), first, out),
            Scheme::QuantGroup(group) => group.decode(part(0), part(1), part(2), first, out),
        }
    }
}

fn known_block(layout: &str) -> Result<BlockType> {
    block_type(layout).ok_or_else(|| {
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

impl Reading<'_> {
    /// The elements of a quantized tensor as float32, in the byte order of the host, after the digests of
    /// its components were checked.
    ///
    /// Fails with `BadLayout` for other layouts and for parameters that contradict each other, with `BadShape` where
    /// a component's length is not what they ask for, and with `Limit` where the result would exceed
    /// `maxDecodedBytes`.
    pub fn dequantize(&self, tensor: Tensor<'_>) -> Result<Owned> {
        self.dequantized(tensor).map_err(|error| error.tensor(tensor.name()))
    }

    fn dequantized(&self, tensor: Tensor<'_>) -> Result<Owned> {
        let quantized = Quantized::new(tensor)?;
        let bytes = quantized.elements.checked_mul(4).filter(|&bytes| bytes <= self.limits.max_decoded_bytes);
        let bytes = bytes.ok_or_else(|| {
            let most = self.limits.max_decoded_bytes;
            let message =
                format!("{} float32 are more than {most} bytes (option maxDecodedBytes)", quantized.elements);
            Error::new(Code::Limit, message)
        })?;
        let parts = quantized.parts().into_iter();
        let parts =
            parts.map(|(role, expected)| self.part(tensor, role, expected)).collect::<Result<Vec<_>>>()?;
        let mut output = Owned::zeroed(bytes)?;
        let pieces: Vec<_> = output.as_chunks_mut::<4>().0.chunks_mut(PIECE).map(Mutex::new).collect();
        let failure = Mutex::new(None);
        work::for_each(pieces.len(), |at| {
            let Some(piece) = pieces.get(at) else { return };
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            let first = at as u64 * PIECE as u64;
            let decoded = self.watch.stop.check().and_then(|()| quantized.decode(&parts, first, &mut piece));
            if let Err(error) = decoded {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        drop(pieces);
        failure.map_or(Ok(output), Err)
    }

    fn part(&self, tensor: Tensor<'_>, role: Label, expected: Option<u64>) -> Result<Owned> {
        let name = self.catalog.label(role);
        let missing =
            || Error::new(Code::BadLayout, format!("the component {name:?} is missing")).component(name);
        let component = tensor.component(role).ok_or_else(missing)?;
        let bytes = self.component(tensor, component)?;
        if Some(bytes.len() as u64) == expected {
            return Ok(bytes);
        }
        let message =
            format!("{name} has {} bytes, not what the shape and the attributes ask for", bytes.len());
        Err(Error::new(Code::BadShape, message).component(name))
    }
}
