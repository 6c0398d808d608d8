//! Where the bytes of a component are stored.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::{Encoding, Pieces};
use crate::codecs::digest::Digest;
use crate::error::Result;

/// Where a component's bytes are.
#[derive(Clone, Debug)]
pub enum Data {
    /// In the index itself: little-endian elements.
    Inline(Box<[u8]>),
    Blob(Blob),
    /// Chunks of an array, which lie in a run of bytes of a file. Encoding and digest are those of each chunk by itself.
    Grid(Blob, Arc<Grid>),
    /// Several runs of bytes, of one file or of several.
    Pieces(Arc<Pieces>),
    /// Only the file is known, which was not read.
    Unread {
        file: u32,
    },
}

impl Data {
    /// Moves it into a larger name space: its files get numbers from `first` on, its encoding another number.
    pub(super) fn renumber(&mut self, first: u32, encoding: &mut dyn FnMut(Encoding) -> Encoding) {
        match self {
            Self::Inline(_) => {}
            Self::Unread { file } => *file = file.saturating_add(first),
            Self::Blob(blob) | Self::Grid(blob, _) => blob.renumber(first, encoding),
            Self::Pieces(pieces) => {
                Arc::make_mut(pieces).blobs_mut().for_each(|blob| blob.renumber(first, encoding));
            }
        }
    }
}

/// A run of stored bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Blob {
    /// Which file of the name space holds it; 0 is the one that was opened.
    pub file: u32,
    pub encoding: Encoding,
    /// Offset in its file.
    pub offset: u64,
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes after decoding; `None` where only decoding can tell.
    pub decoded: Option<u64>,
    pub digest: Option<Digest>,
}

impl Blob {
    /// Raw bytes.
    pub fn raw(offset: u64, length: u64) -> Self {
        Self { file: 0, encoding: Encoding::RAW, offset, stored: length, decoded: Some(length), digest: None }
    }

    pub fn span(&self) -> Span {
        Span { file: self.file, offset: self.offset, length: self.stored }
    }

    fn renumber(&mut self, first: u32, encoding: &mut dyn FnMut(Encoding) -> Encoding) {
        self.file = self.file.saturating_add(first);
        if self.encoding.is_encoded() {
            self.encoding = encoding(self.encoding);
        }
    }
}

/// An array in chunks of equal shape, in row-major order within each.
pub struct Grid {
    /// Of the whole array, in elements.
    pub shape: Box<[u64]>,
    /// Of a chunk, as many dimensions. Chunks at the far edges are stored whole.
    pub chunk: Box<[u64]>,
    /// Bytes of an element.
    pub width: u64,
    /// The element of chunks that were never written.
    pub fill: Box<[u8]>,
    /// Where the chunks are. Asked when data is first read.
    pub chunks: Box<dyn Chunks>,
}

impl fmt::Debug for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grid").field("shape", &self.shape).field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

/// One stored chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    pub offset: u64,
    pub stored: u64,
    /// A bit for each filter, from the lowest on, that this chunk did not go through.
    pub skipped: u32,
}

/// Fills a buffer with the bytes of the grid's file from an offset on.
pub type ReadIndex<'a> = &'a (dyn Fn(u64, &mut [u8]) -> Result<()> + Sync);

/// The index of a grid, which its format knows how to read.
pub trait Chunks: Send + Sync {
    /// The chunk at a place, given in chunks from the beginning of each dimension; `None` where it was never written.
    fn find(&self, read: ReadIndex<'_>, place: &[u64]) -> Result<Option<Chunk>>;

    /// The places of the chunks between two places, both of them included, that were written; `None` where asking for each is as
    /// good. Of an array of which most was never written they are few.
    fn written(&self, _read: ReadIndex<'_>, _first: &[u64], _last: &[u64]) -> Result<Option<Vec<Vec<u64>>>> {
        Ok(None)
    }
}

/// A run of bytes of one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    pub file: u32,
    pub offset: u64,
    pub length: u64,
}

impl Span {
    /// The offset behind the last byte.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// The spans in the order of the files and their bytes, joined where they touch or overlap.
    pub fn joined(mut spans: Vec<Self>) -> Vec<Self> {
        spans.sort_unstable();
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
