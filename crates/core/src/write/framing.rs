//! The layout of a file that is planned: its tensors, and the bytes around their blobs.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::settings::Stored;
use crate::error::Result;
use crate::formats::Assembler;
use crate::model::{Catalog, Component};

/// The tensors to come, and their offsets.
pub(super) struct Planned {
    /// Each tensor has one component, whose offset is its index in `stored`.
    pub catalog: Catalog,
    pub stored: Vec<Stored>,
    pub framing: Framing,
}

impl Planned {
    /// Marks the tensor that was begun as complete.
    pub(super) fn end(&mut self) {
        self.framing.blobs.pop_front();
    }
}

/// The bytes before, between and after the blobs.
#[derive(Default)]
pub(super) struct Framing {
    pub bytes: Vec<u8>,
    /// The number of bytes written.
    pub written: usize,
    /// The end of the bytes before each blob, and the index of that blob.
    pub blobs: VecDeque<(usize, usize)>,
    pub length: u64,
}

impl Framing {
    /// Returns the unwritten bytes up to `end`.
    pub fn take(&mut self, end: usize) -> &[u8] {
        let start = std::mem::replace(&mut self.written, end);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

impl Assembler for Framing {
    fn expect(&mut self, length: u64) {
        self.length = length;
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn blob(&mut self, blob: &Component) -> Result<()> {
        let position = usize::try_from(blob.offset()).unwrap_or(usize::MAX);
        self.blobs.push_back((self.bytes.len(), position));
        Ok(())
    }
}
