//! Ranges of stored bytes.
#![forbid(unsafe_code)]

use super::Encoding;
use crate::arrange::Arrange;
use crate::codecs::digest::Digest;

/// A range of stored bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Blob {
    /// The number of the file that holds it; 0 is the opened file.
    pub file: u32,
    pub encoding: Encoding,
    /// Offset in its file.
    pub offset: u64,
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes after decoding; `None` if unknown without decoding.
    pub decoded: Option<u64>,
    pub digest: Option<Digest>,
}

impl Blob {
    /// Creates a raw blob.
    pub fn raw(offset: u64, length: u64) -> Self {
        Self { file: 0, encoding: Encoding::RAW, offset, stored: length, decoded: Some(length), digest: None }
    }

    pub fn span(&self) -> Span {
        Span { file: self.file, offset: self.offset, length: self.stored }
    }

    pub(super) fn renumber(&mut self, first: u32, encoding: &mut dyn FnMut(Encoding) -> Encoding) {
        self.file = self.file.saturating_add(first);
        if self.encoding.is_encoded() {
            self.encoding = encoding(self.encoding);
        }
    }
}

/// A byte range of one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    pub file: u32,
    pub offset: u64,
    pub length: u64,
}

impl Span {
    /// Returns the offset after the last byte.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// Returns the spans sorted by file and offset, and merged if adjacent or overlapping.
    pub fn joined(mut spans: Vec<Self>) -> Vec<Self> {
        spans.arrange();
        spans.dedup_by(|next, last| {
            let touches = next.file == last.file && next.offset <= last.end();
            if touches {
                last.length = last.end().max(next.end()) - last.offset;
            }
            touches
        });
        spans
    }
}
