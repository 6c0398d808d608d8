//! The source of a checkpoint: its files and tensors, and what the user sets.
#![forbid(unsafe_code)]

use ciborium::Value as Cbor;
use ztensor_core::error::{Error, Result};
use ztensor_core::model::DType;

use crate::value::VALUE;

/// The files in the folder of the weights.
pub trait Files {
    /// Returns the contents of a file by its path from the folder of the weights, or `None` if there is none. Fails with `ZT_LIMIT` if it
    /// has more than `max` bytes.
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>>;

    /// Returns the sorted names in a folder of the folder of the weights; none if it does not exist.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Returns the name of the folder of the weights, or of their repository; empty if it has none.
    fn name(&self) -> &str;
}

/// Metadata that the user sets, which takes precedence over that of the checkpoint.
#[derive(Clone, Default, Debug)]
pub struct MetadataOverrides {
    pub values: Vec<(Cbor, Cbor)>,
    /// The name of the model.
    pub name: Option<String>,
}

impl MetadataOverrides {
    /// Keys and values as attributes have them.
    pub fn new(values: Vec<(Cbor, Cbor)>) -> Self {
        Self { values, name: None }
    }

    /// Names the model, if the metadata does not.
    #[must_use]
    pub fn of_model(self, name: String) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Returns the text of a key, if it is set to a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        let (_, value) = self.values.iter().find(|(name, _)| name.as_text() == Some(key))?;
        match value {
            Cbor::Text(text) => Some(text),
            // A value that states its type.
            Cbor::Map(entries) => entries.iter().find(|(name, _)| name.as_text() == Some(VALUE))?.1.as_text(),
            _ => None,
        }
    }
}

/// A tensor of the checkpoint, in C order.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    pub name: &'a str,
    /// Outermost first.
    pub shape: &'a [u64],
    pub dtype: DType,
    /// Where the tensor is in the order in which the reference reads them.
    pub position: usize,
}

/// Adds how a file is written without knowledge of its architecture. `and` joins it to the message.
pub fn named_by_options(error: Error, and: &str) -> Error {
    error
        .hint("rename", format!("{and}give the names with option rename"))
        .hint("metadata", ", and the parameters with option metadata")
}
