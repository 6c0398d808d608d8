//! Rules of a format whose files are models that programs run by their metadata.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use ciborium::Value;

use crate::error::Result;
use crate::model::DType;

/// Takes a reader, attributes and names of tensors.
pub type IsReadBy = fn(&str, &[(Value, Value)], &[Cow<'_, str>]) -> bool;

/// What programs need of a model, and how its metadata states what it has.
#[derive(Debug)]
pub struct ModelRules {
    /// Fails if the attributes of a file do not say which model it is.
    pub check: fn(&[(Value, Value)]) -> Result<()>,
    /// Returns whether one of the format's readers can use a file with these attributes and names of tensors.
    pub is_read_by: IsReadBy,
    /// Returns whether a tensor, by its name and shape, stays float32 when the others are cast: programs have no kernels for other types
    /// of it.
    pub is_float32: fn(&str, &[u64]) -> bool,
    /// Returns why programs compute with no tensors of a dtype, and what to do; `None` if they do.
    pub unsupported: fn(DType) -> Option<&'static str>,
    /// The formats of files that may be the weights of a checkpoint, which becomes a model of this format.
    pub checkpoints: &'static [&'static str],
    /// The attribute that states the type of most elements.
    pub type_key: &'static str,
    /// Returns the value of that attribute for a dtype or a layout, given by its name; `None` if it has none.
    pub type_number: fn(&str) -> Option<u32>,
    /// The attribute, and its value, that the encoder adds to a file with such tensors.
    pub implied: Option<(&'static str, u32)>,
    /// What a listing shows of a model: a title, and the key of an attribute. `{}` in a key is the value of the attribute before it.
    pub facts: &'static [(&'static str, &'static str)],
}
