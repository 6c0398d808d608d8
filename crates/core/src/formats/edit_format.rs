//! How the files of a version are changed: what its row reads of one, and how it spells what is to become of it.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ciborium::Value;

use super::zt_trailer::Index;
use super::{Input, WriteFormat};
use crate::error::Result;
use crate::limits::Limits;
use crate::model::Catalog;

/// Reads the index of a file that begins with the row's magic.
pub type OpenEdit = fn(&Input<'_>) -> Result<Editable>;

/// A file as an edit finds it.
pub struct Editable {
    pub catalog: Catalog,
    pub index: Index,
    /// The row of its very version: several can share a magic.
    pub format: &'static WriteFormat,
    pub spelling: &'static dyn EditFormat,
}

/// Attributes to set, in the order of the calls; those without a value are taken out.
pub type AttributeChanges = Vec<(Value, Option<Value>)>;

/// What is to become of a tensor.
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

/// What is to become of a file.
#[derive(Default)]
pub struct Changes {
    /// By the tensor's place in the catalog.
    pub tensors: HashMap<usize, Change>,
    /// Of the file itself.
    pub attributes: AttributeChanges,
}

/// The new offset of a component, by the places of its tensor in the catalog and of the component in the tensor.
pub type Place<'p> = &'p dyn Fn(usize, usize) -> Option<u64>;

/// A version's way to change an index and to end a file with it.
pub trait EditFormat: Sync {
    /// Whether bytes are only ever added, so that an old index stays in the file as bytes that nothing refers to. A clone
    /// of another one ends before its old index.
    fn only_adds(&self) -> bool;

    /// Checks the name that a tensor is to have.
    fn check_name(&self, name: &str) -> Result<()>;

    /// Checks attributes that are set of a tensor. Those of the file are checked as the row says.
    fn check_attributes(&self, attributes: &[(Value, Value)]) -> Result<()>;

    /// The index of a file after `changes`, where the tensors of `added` are new.
    fn changed(&self, old: &Editable, changes: &Changes, added: &Catalog) -> Result<Vec<u8>>;

    /// The index of a file whose blobs were moved, each to its place. Fails where something in it is not known here: it
    /// might name a place in the file too.
    fn moved(&self, old: &Editable, place: Place<'_>) -> Result<Vec<u8>>;

    /// What stands behind blobs that end at `end`, of a file that aligns them to `alignment`. The index was read as an
    /// opening will read it.
    fn checked_tail(&self, index: &[u8], end: u64, alignment: u64, limits: &Limits) -> Result<Vec<u8>>;

    /// An index that stands at `at`, and what follows it.
    fn tail(&self, index: &[u8], at: u64) -> Vec<u8>;
}
