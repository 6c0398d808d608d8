//! A tensor being pushed.
#![forbid(unsafe_code)]

use super::blob::Outgoing;
use super::settings::Stored;
use crate::model::{Attributes, Component, DType, Layout};

/// A tensor being pushed.
#[derive(Default)]
pub(super) struct Open {
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) layout: Layout,
    pub(super) dtype: Option<DType>,
    pub(super) attributes: Option<Attributes>,
    /// The blobs to store: the components, or a single blob for all of them.
    pub(super) stored: Vec<Stored>,
    pub(super) written: Vec<Component>,
    pub(super) blob: Option<Outgoing>,
    /// Whether other threads compress the blobs once they are complete. Their offsets are known only after that.
    pub(super) gathered: bool,
}

impl Open {
    /// Clears the tensor, but keeps the allocated memory.
    pub(super) fn clear(&mut self) {
        self.name.clear();
        self.shape.clear();
        self.attributes = None;
        self.stored.clear();
        self.written.clear();
        self.blob = None;
    }

    /// Returns whether the first blob still waits for the data before it in the file.
    pub(super) fn waits(&self) -> bool {
        self.blob.is_none() && self.written.is_empty() && !self.stored.is_empty()
    }
}
