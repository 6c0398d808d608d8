//! The plan of a GGUF file: its metadata and tensors.
#![forbid(unsafe_code)]

use ztensor_core::model::DType;

use super::factors::Factors;
use super::view::View;
use crate::value::Value;

/// What a checkpoint becomes.
#[derive(Debug)]
pub struct Plan {
    /// In the order of the reference. Without `general.name` and what else a model card says, and without `general.file_type`, which
    /// follows from the types that are written.
    pub metadata: Vec<(String, Value)>,
    pub tensors: Vec<Planned>,
    /// The dtype of matrices that have factors.
    pub dtype: DType,
    /// Names of tensors that GGUF does not have, and why.
    pub left_out: Vec<(String, &'static str)>,
    /// What else GGUF does not have.
    pub lost: Vec<String>,
    /// Peculiarities of the files.
    pub warnings: Vec<String>,
}

/// A tensor of GGUF.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    pub name: String,
    /// Outermost first.
    pub shape: Vec<u64>,
    pub element: Element,
    pub content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    Float32,
    /// The type of the source, or what it is quantized to.
    AsSource,
    /// Blocks of MXFP4, as they are.
    Mxfp4,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// Elements of tensors, one piece after the other.
    Pieces(Vec<Piece>),
    /// Numbers that follow from the configuration.
    Values(Vec<f32>),
    Blocks(Blocks),
}

/// Elements of a tensor of the checkpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct Piece {
    /// The index of the tensor.
    pub source: usize,
    pub view: View,
    /// Is added to each element, in float32.
    pub add: f32,
    /// By what the elements are multiplied, in float32.
    pub factors: Option<Factors>,
}

/// MXFP4 of two tensors of bytes: 16 bytes of two elements for each scale.
#[derive(Clone, PartialEq, Debug)]
pub struct Blocks {
    /// The indexes of the tensors.
    pub blocks: usize,
    pub scales: usize,
    /// Which of the scales, and blocks of 16 bytes, in which order.
    pub view: View,
}
