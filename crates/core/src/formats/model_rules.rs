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
    /// Where the attributes describe a model.
    pub keys: ModelKeys,
    /// Returns the mixtures of types by the value of `type_key`, with the names that programs show.
    pub mixtures: fn() -> Vec<(u32, String)>,
    /// The names of the embeddings of tokens and of the output. A model without the output uses the embeddings for both.
    pub tied: [&'static str; 2],
}

/// The keys of the attributes that describe a model. `{}` in a key is the architecture.
#[derive(Debug)]
pub struct ModelKeys {
    pub name: &'static str,
    pub architecture: &'static str,
    pub context_length: &'static str,
    /// The number of tokens, if the model states it.
    pub vocabulary_size: &'static str,
    /// The list of tokens.
    pub tokens: &'static str,
    pub chat_template: &'static str,
    pub license: &'static str,
}
