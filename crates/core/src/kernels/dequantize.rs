//! Dequantization to float32: `zt.quant_group/1`, `zt.mx/1`, `tflite.quantized/1` and the ggml blocks of `gguf.<type>/1`, in any file with
//! these layouts.
#![forbid(unsafe_code)]

mod affine;
mod blocks;
pub(super) mod codebooks;
mod ggml;
mod ggml_four;
mod ggml_iq;
mod ggml_k;
mod ggml_ternary;
mod groups;
mod mx;
mod quant_group;

use affine::Affine;
use std::borrow::Cow;

use ciborium::Value;
pub use ggml::BlockType;
pub(super) use ggml_four::{E2M1, IQ4, e4m3_halved};
use mx::Mx;
use quant_group::QuantGroup;

use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::model::{Attributes, Label, Tensor};
use crate::sources::owned::Owned;

/// The number of elements that a thread decodes between two checks of the stop flag. A multiple of every block size.
pub const PIECE: usize = 1 << 18;

/// A quantized tensor with separate codes and scales, whose parameters and lengths are consistent.
#[derive(Clone, Copy, Debug)]
pub struct Quantized {
    scheme: Scheme,
    /// Number of elements of the tensor.
    pub elements: u64,
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    Mx(Mx),
    QuantGroup(QuantGroup),
    Affine(Affine),
}

impl Quantized {
    /// Reads and checks the tensor's attributes. A file of any format may use such a layout, and only files of zTensor
    /// 2 were checked when they were opened. Returns `None` for other layouts.
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

    /// Returns the components in the order that `decode` takes them, and the required size of each.
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

    /// Decodes the elements from `first` on, a multiple of [`PIECE`], until `out` is full.
    pub fn decode(&self, parts: &[Owned], first: u64, out: &mut [[u8; 4]]) -> Result<()> {
        let part = |at: usize| parts.get(at).map_or(&[][..], |part| part);
        match &self.scheme {
            Scheme::Mx(mx) => mx.decode(part(0), part(1), first, out),
            Scheme::QuantGroup(group) => group.decode(part(0), part(1), part(2), first, out),
            Scheme::Affine(affine) => affine.decode(part(0), part(1), part(2), first, out),
        }
    }
}

/// Returns whether a layout can be decoded here, whatever the parameters of a tensor.
pub fn can_dequantize(layout: &str) -> bool {
    parameters(layout).is_some()
}

/// Returns the attributes that still hold when a tensor is decoded: all but the parameters of its layout. Returns `None`
/// if there are none. Attributes that cannot be read are returned as they are, so that the caller reports the error.
pub fn without_parameters(tensor: Tensor<'_>) -> Option<Cow<'_, Attributes>> {
    let attributes = tensor.attributes()?;
    let Ok(values) = attributes.values() else { return Some(Cow::Borrowed(attributes)) };
    let parameters = parameters(tensor.layout_name()).unwrap_or_default();
    let is_parameter = |key: &Value| key.as_text().is_some_and(|key| parameters.contains(&key));
    let others: Vec<_> = values.iter().filter(|(key, _)| !is_parameter(key)).cloned().collect();
    (!others.is_empty()).then(|| Cow::Owned(Attributes::from(others)))
}

/// Returns the attributes that are parameters of the tensor's layout; all of them if its parameters are unknown here.
pub fn only_parameters(tensor: Tensor<'_>) -> Option<Cow<'_, Attributes>> {
    let attributes = tensor.attributes()?;
    let Some(parameters) = parameters(tensor.layout_name()) else { return Some(Cow::Borrowed(attributes)) };
    let Ok(values) = attributes.values() else { return Some(Cow::Borrowed(attributes)) };
    let is_parameter = |key: &Value| key.as_text().is_some_and(|key| parameters.contains(&key));
    let own: Vec<_> = values.iter().filter(|(key, _)| is_parameter(key)).cloned().collect();
    Some(Cow::Owned(Attributes::from(own)))
}

/// The names of the attributes that are parameters of a layout; `None` if it cannot be decoded here.
fn parameters(layout: &str) -> Option<&'static [&'static str]> {
    layouts::parameters(layout).filter(|_| layouts::is_decoded(layout))
}

pub(crate) fn too_large() -> Error {
    Error::new(Code::BadShape, "the product of the dimensions exceeds a u64")
}
