//! Quantized tensors as float32: `zt.quant_group/1`, `zt.mx/1`, `tflite.quantized/1` and the ggml blocks of `gguf.<type>/1`, wherever
//! a file holds them under these layouts.
#![forbid(unsafe_code)]

mod affine;
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

use affine::Affine;
pub use ggml::BlockType;
use mx::Mx;
use quant_group::QuantGroup;

use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::model::{Attributes, Label, Tensor};
use crate::sources::owned::Owned;

/// Elements that a thread decodes between two looks at the stop flag. A multiple of every block.
pub const PIECE: usize = 1 << 18;

/// A quantized tensor whose codes and scales stand apart, and whose parameters and lengths agree.
#[derive(Clone, Copy, Debug)]
pub struct Quantized {
    scheme: Scheme,
    /// Elements of the tensor.
    pub elements: u64,
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    Mx(Mx),
    QuantGroup(QuantGroup),
    Affine(Affine),
}

impl Quantized {
    /// Reads what the tensor's attributes say and checks it: a file of any format may hold such a layout, and only
    /// those of zTensor 2 were checked at open. `None` of another layout.
    pub fn new(tensor: Tensor<'_>) -> Result<Option<Self>> {
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
            "tflite.quantized/1" => {
                let entry = layouts::affine::Affine::read(shape, attributes, components)?;
                Scheme::Affine(Affine::new(entry, shape, elements)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { scheme, elements }))
    }

    /// The components, in the order in which `decode` takes them, and the bytes that each must have.
    pub fn parts(&self) -> Vec<(Label, Option<u64>)> {
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
            Scheme::Affine(affine) => {
                let roles = [Label::DATA, Label::SCALES, Label::ZEROS].into_iter();
                roles.zip(affine.lengths().map(Some)).collect()
            }
        }
    }

    /// Decodes the elements from `first` on, a multiple of [`PIECE`], as many as `out` has places.
    pub fn decode(&self, parts: &[Owned], first: u64, out: &mut [[u8; 4]]) -> Result<()> {
        let part = |at: usize| parts.get(at).map_or(&[][..], |part| part);
        match &self.scheme {
            Scheme::Mx(mx) => mx.decode(part(0), part(1), first, out),
            Scheme::QuantGroup(group) => group.decode(part(0), part(1), part(2), first, out),
            Scheme::Affine(affine) => affine.decode(part(0), part(1), part(2), first, out),
        }
    }
}

/// Whether the layout of a tensor is one that is decoded here, whatever its parameters are.
pub fn can_dequantize(tensor: Tensor<'_>) -> bool {
    match tensor.layout_name() {
        "zt.mx/1" | "zt.quant_group/1" | "tflite.quantized/1" => true,
        layout => layout
            .strip_prefix("gguf.")
            .and_then(|name| name.strip_suffix("/1"))
            .is_some_and(|name| BlockType::of(name).is_some()),
    }
}

pub(crate) fn too_large() -> Error {
    Error::new(Code::BadShape, "the product of the dimensions exceeds a u64")
}
