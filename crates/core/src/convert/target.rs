//! A block type that tensors are quantized to.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::sync::Arc;

use crate::kernels::dequantize::without_parameters;
use crate::kernels::quantize::BlockEncoder;
use crate::layouts::gguf;
use crate::model::{Attributes, Tensor};

/// A block type that tensors are converted to, as the writer stores them.
#[derive(Clone, Debug)]
pub struct Target {
    pub kind: BlockEncoder,
    /// The name of the layout: `gguf.q4_k/1`.
    pub layout: Arc<str>,
    parameters: Attributes,
}

impl Target {
    pub fn new(kind: BlockEncoder) -> Self {
        let parameters = gguf::parameters_of(kind.elements() as u64, kind.bytes() as u64);
        Self { kind, layout: gguf::layout_of(kind.name()).into(), parameters }
    }

    /// Returns the parameters of the layout.
    pub fn parameters(&self) -> &Attributes {
        &self.parameters
    }

    /// Returns the attributes of the quantized tensor: the parameters of its layout, and with `own` those of the tensor that are not
    /// parameters of another layout.
    pub fn attributes(&self, tensor: Tensor<'_>, own: bool) -> Cow<'_, Attributes> {
        let Some(others) = without_parameters(tensor).filter(|_| own) else {
            return Cow::Borrowed(&self.parameters);
        };
        let (Ok(parameters), Ok(others)) = (self.parameters.values(), others.values()) else {
            return Cow::Borrowed(&self.parameters);
        };
        Cow::Owned([parameters, others].concat().into())
    }
}

/// How a tensor is quantized.
#[derive(Clone, Debug)]
pub(super) struct Quantizing {
    pub target: Arc<Target>,
    pub importance: Option<Arc<[f32]>>,
}
