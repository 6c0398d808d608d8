//! How the files of a version are edited: how its index is read, and how changes to it are encoded.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ciborium::Value;

use crate::error::Result;
use crate::limits::Limits;
use crate::model::Catalog;

/// Attributes to change, in the order of the calls. Those without a value are removed.
pub type AttributeChanges = Vec<(Value, Option<Value>)>;

/// A change to a tensor.
#[derive(Default)]
pub struct Change {
    pub removed: bool,
    pub name: Option<String>,
    pub attributes: AttributeChanges,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        !self.removed && self.name.is_none() && self.attributes.is_empty()
    }
}

/// The changes to a file.
#[derive(Default)]
pub struct Changes {
    /// Changes by the ordinal of the tensor in the catalog.
    pub tensors: HashMap<usize, Change>,
    /// Changes to the attributes of the file itself.
    pub attributes: AttributeChanges,
}

/// Returns the new offset of a component, given the ordinal of its tensor in the catalog and its index in the tensor.
pub type NewOffset<'p> = &'p dyn Fn(usize, usize) -> Option<u64>;

/// How a version changes an index and ends a file with it.
pub trait EditFormat: Sync {
    /// Returns whether edits only append bytes, so that an old index stays in the file as unreferenced bytes. If not, a
    /// clone ends before its old index.
    fn only_adds(&self) -> bool;

    /// Checks the new name of a tensor.
    fn check_name(&self, name: &str) -> Result<()>;

    /// Checks attributes to set on a tensor. The [`WriteFormat`] defines the check for those of the file.
    fn check_attributes(&self, attributes: &[(Value, Value)]) -> Result<()>;

    /// Checks the name of an attribute to set on a tensor, or to remove.
    fn check_attribute_name(&self, _: &Value) -> Result<()> {
        Ok(())
    }

    /// Returns the index after `changes` to `index`, which `old` was read from, with the new tensors of `added`.
    fn changed(&self, old: &Catalog, index: &[u8], changes: &Changes, added: &Catalog) -> Result<Vec<u8>>;

    /// Returns the index after each blob has moved to its new offset. Fails with `ZT_UNSUPPORTED_VERSION` if the index
    /// has an unknown key, which might contain an offset too.
    fn moved(&self, index: &[u8], offset: NewOffset<'_>) -> Result<Vec<u8>>;

    /// Returns the bytes after blobs that end at `end`, in a file that aligns them to `alignment`. Parses the index
    /// like a reader to check it.
    fn checked_tail(&self, index: &[u8], end: u64, alignment: u64, limits: &Limits) -> Result<Vec<u8>>;

    /// Returns an index at offset `at`, and the bytes after it.
    fn tail(&self, index: &[u8], at: u64) -> Vec<u8>;
}
