//! Quantized tensors as float32: `zt.quant_group/1`, `zt.mx/1` and the ggml blocks of `gguf.<type>/1`, wherever
//! a file holds them under these layouts.
#![forbid(unsafe_code)]

mod blocks;
mod codebooks;
mod ggml;
mod ggml_four;
mod ggml_iq;
mod ggml_k;
mod ggml_ternary;
mod groups;
mod mx;
mod quant_group;

use std::sync::{Mutex, PoisonError};

pub use blocks::StoredBlocks;
use ggml::BlockType;
use mx::Mx;
use quant_group::QuantGroup;

use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::model::cut::{Cut, Range};
use crate::model::{Attributes, Component, Label, Tensor};
use crate::read::Reading;
use crate::sources::owned::Owned;
use crate::work;

/// Elements that a thread decodes between two looks at the stop flag. A multiple of every block.
const PIECE: usize = 1 << 18;

/// A quantized tensor whose codes and scales stand apart, and whose parameters and lengths agree.
#[derive(Clone, Copy, Debug)]
struct Quantized {
    scheme: Scheme,
    elements: u64,
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    Mx(Mx),
    QuantGroup(QuantGroup),
}

impl Quantized {
    /// Reads what the tensor's attributes say and checks it: a file of any format may hold such a layout, and only
    /// those of zTensor 2 were checked at open. `None` of another layout.
    fn new(tensor: Tensor<'_>) -> Result<Option<Self>> {
        let (layout, shape, components) = (tensor.layout_name(), tensor.shape(), tensor.components());
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
            _ => return Ok(None),
        };
        Ok(Some(Self { scheme, elements }))
    }

    /// The components, in the order in which `decode` takes them, and the bytes that each must have.
    fn parts(&self) -> Vec<(Label, Option<u64>)> {
        match &self.scheme {
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
            Scheme::Mx(mx) => mx.decode(part(0), part(1), first, out),
            Scheme::QuantGroup(group) => group.decode(part(0), part(1), part(2), first, out),
        }
    }
}

impl Reading<'_> {
    /// The elements of a quantized tensor, or those in a range of each dimension, as float32 in the byte order of
    /// the host. The digests of components that are read whole are checked. Of ggml's blocks no more are read and decoded than
    /// hold these elements.
    ///
    /// Fails with `BadLayout` for other layouts and for parameters that contradict each other, with `BadShape` where
    /// a component's length is not what they ask for, and with `Limit` where the result would exceed
    /// `maxDecodedBytes`.
    pub fn dequantize(&self, tensor: Tensor<'_>, ranges: Option<&[Range]>) -> Result<Owned> {
        let Some(ranges) = ranges else { return self.dequantize_run(tensor, None) };
        let around: Vec<_> = ranges.iter().map(|range| (range.start, range.stop)).collect();
        let elements = self.dequantize_run(tensor, Some(&around))?;
        if ranges.iter().all(|range| range.step == 1) {
            return Ok(elements);
        }
        let (shape, steps): (Vec<_>, Vec<_>) = ranges.iter().map(|range| range.rebased()).unzip();
        packed(&Cut::stepped(&shape, &steps, 32)?, elements)
    }

    /// All elements, or those in a half-open range of each dimension.
    fn dequantize_run(&self, tensor: Tensor<'_>, ranges: Option<&[(u64, u64)]>) -> Result<Owned> {
        let dequantized = Quantized::new(tensor).and_then(|quantized| match quantized {
            Some(quantized) => self.elements(tensor, &quantized, ranges),
            None => self.blocks(tensor, BlockType::of_tensor(tensor)?, ranges),
        });
        dequantized.map_err(|error| error.tensor(tensor.name()))
    }

    /// All elements, of which only some are given.
    fn elements(
        &self,
        tensor: Tensor<'_>,
        quantized: &Quantized,
        ranges: Option<&[(u64, u64)]>,
    ) -> Result<Owned> {
        let bytes = self.float32_bytes(quantized.elements)?;
        let parts = quantized.parts().into_iter();
        let parts =
            parts.map(|(role, expected)| self.part(tensor, role, expected)).collect::<Result<Vec<_>>>()?;
        let mut output = Owned::zeroed(bytes)?;
        let pieces: Vec<_> = output.as_chunks_mut::<4>().0.chunks_mut(PIECE).map(Mutex::new).collect();
        work::try_each_on(work::cores(), pieces.len(), |at| {
            self.watch.stop.check()?;
            let Some(piece) = pieces.get(at) else { return Ok(()) };
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            quantized.decode(&parts, at as u64 * PIECE as u64, &mut piece)
        })?;
        drop(pieces);
        match ranges {
            Some(ranges) => packed(&Cut::new(tensor.shape(), ranges, 32)?, &output),
            None => Ok(output),
        }
    }

    /// Bytes of so many float32, within `maxDecodedBytes`.
    fn float32_bytes(&self, elements: u64) -> Result<u64> {
        let most = self.limits.max_decoded_bytes;
        elements.checked_mul(4).filter(|&bytes| bytes <= most).ok_or_else(|| {
            let message = format!("{elements} float32 are more than {most} bytes (option maxDecodedBytes)");
            Error::new(Code::Limit, message)
        })
    }

    fn component_of<'t>(&self, tensor: Tensor<'t>, role: Label) -> Result<&'t Component> {
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

/// The elements of a cut through decoded bytes.
fn packed(cut: &Cut, bytes: &[u8]) -> Result<Owned> {
    let mut output = Owned::to_fill(cut.byte_length())?;
    cut.pack_divided(bytes, &mut output)?;
    Ok(output)
}

fn too_large() -> Error {
    Error::new(Code::BadShape, "the product of the dimensions exceeds a u64")
}
