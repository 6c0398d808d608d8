//! The storage location of the bytes of a component.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::{Blob, Encoding, Piece, Pieces};
use crate::checked;
use crate::error::{Code, Error, Result};

/// The location of a component's bytes.
#[derive(Clone, Debug)]
pub enum Data {
    /// In the index itself: little-endian elements.
    Inline(Box<[u8]>),
    Blob(Blob),
    /// Chunks of an array within a range of a file. Encoding and digest apply to each chunk separately.
    Grid(Blob, Arc<Grid>),
    /// Several ranges of one or more files.
    Pieces(Arc<Pieces>),
    /// Only the file is known, which was not read.
    Unread {
        file: u32,
    },
}

impl Data {
    /// Creates data from pieces, in order; a single piece becomes a blob. Fails like [`Pieces::new`].
    pub fn pieces(rows: u64, pieces: Vec<Piece>) -> Result<Self> {
        let pieces = Pieces::new(rows, pieces)?;
        Ok(match pieces.all() {
            [Piece { blob, .. }] => Self::Blob(blob.clone()),
            _ => Self::Pieces(Arc::new(pieces)),
        })
    }

    /// Moves it to a larger name space: its files are numbered from `first` on, and its encoding is mapped.
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

/// An array in chunks of equal shape, row-major within each.
pub struct Grid {
    /// Shape of the whole array, in elements.
    pub shape: Box<[u64]>,
    /// Shape of a chunk, with the same rank. Chunks at the upper edges are stored whole.
    pub chunk: Box<[u64]>,
    /// Bytes of an element.
    pub width: u64,
    /// The element of chunks that were never written. Empty means zeros.
    pub fill: Box<[u8]>,
    /// Locates the chunks. Called when data is first read.
    pub chunks: Box<dyn Chunks>,
}

impl Grid {
    /// Returns the bytes of a chunk; `None` if they do not fit in 64 bits.
    pub fn chunk_bytes(&self) -> Option<u64> {
        checked::product(&self.chunk).and_then(|elements| elements.checked_mul(self.width))
    }
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
    /// A bit for each filter, from the lowest on, that was not applied to this chunk.
    pub skipped: u32,
}

/// Fills a buffer with the bytes of the grid's file from an offset on.
pub type ReadIndex<'a> = &'a (dyn Fn(u64, &mut [u8]) -> Result<()> + Sync);

/// The index of a grid, implemented by its format.
pub trait Chunks: Send + Sync {
    /// Returns the chunk at a position, in chunks from the beginning of each dimension; `None` if it was never written.
    fn find(&self, read: ReadIndex<'_>, position: &[u64]) -> Result<Option<Chunk>>;

    /// Returns the positions of the written chunks between two positions, both inclusive; `None` if querying each is as good. For a
    /// sparsely written array they are few.
    fn written(&self, _read: ReadIndex<'_>, _first: &[u64], _last: &[u64]) -> Result<Option<Vec<Vec<u64>>>> {
        Ok(None)
    }

    /// Returns the bytes that contain chunks and index, if they are in memory rather than in the grid's file.
    fn held(&self) -> Option<&[u8]> {
        None
    }
}

/// The chunks of an array whose index cannot be read: each fails.
struct Refused(Error);

impl Chunks for Refused {
    fn find(&self, _: ReadIndex<'_>, _: &[u64]) -> Result<Option<Chunk>> {
        Err(self.0.clone())
    }
}

/// A contiguous array whose file contains only the beginning, divided into parts small enough that most of it can be read.
struct ShortSlice {
    /// Shape of the array and of a part, in elements.
    shape: Box<[u64]>,
    part: Box<[u64]>,
    /// Bytes of an element, and of a part.
    width: u64,
    bytes: u64,
    offset: u64,
    /// Bytes of the array that are present.
    held: u64,
}

impl ShortSlice {
    /// Bytes of a part: the maximum of the present data that is lost.
    const PART: u64 = 4 << 10;

    /// Returns the shape of the parts: whole in the last dimensions, 1 in the first.
    fn parts(shape: &[u64], width: u64) -> Box<[u64]> {
        let mut left = (Self::PART / width.max(1)).max(1);
        let mut part: Vec<u64> = shape
            .iter()
            .rev()
            .map(|&dim| {
                let here = dim.clamp(1, left);
                left = if here == dim { left / here } else { 1 };
                left = left.max(1);
                here
            })
            .collect();
        part.reverse();
        part.into()
    }
}

impl Chunks for ShortSlice {
    fn find(&self, _: ReadIndex<'_>, position: &[u64]) -> Result<Option<Chunk>> {
        // Row-major, like the array. A part at the upper edge of a dimension continues into what follows it.
        let at = position
            .iter()
            .zip(&self.part)
            .zip(&self.shape)
            .try_fold(0_u64, |at, ((&position, &part), &dim)| {
                at.checked_mul(dim)?.checked_add(position.checked_mul(part)?)
            });
        let at = at.and_then(|at| at.checked_mul(self.width));
        let at = at.filter(|&at| at.checked_add(self.bytes).is_some_and(|end| end <= self.held));
        let Some(at) = at else {
            let message =
                format!("the file ends before the data does: only {} bytes of it are present", self.held);
            return Err(Error::new(Code::Truncated, message).at(self.offset));
        };
        Ok(Some(Chunk { offset: self.offset.saturating_add(at), stored: self.bytes, skipped: 0 }))
    }
}

impl Data {
    /// Returns data of an array that cannot be located: reading any of it fails with `error`, as does verification.
    pub fn refused(file: u32, shape: &[u64], width: u64, error: Error) -> Self {
        let grid = Grid {
            shape: shape.into(),
            chunk: shape.iter().map(|&dim| dim.max(1)).collect(),
            width,
            fill: Box::default(),
            chunks: Box::new(Refused(error)),
        };
        Self::Grid(Blob { file, decoded: None, ..Blob::raw(0, 0) }, Arc::new(grid))
    }

    /// Returns raw data at `offset` of a file of `total` bytes, which ends before the data does. The present part can be read in slices;
    /// the rest fails with `ZT_TRUNCATED`, as does verification.
    pub fn short_slice(file: u32, shape: &[u64], width: u64, offset: u64, total: u64) -> Self {
        let part = ShortSlice::parts(shape, width);
        let bytes = part.iter().fold(width, |bytes, &dim| bytes.saturating_mul(dim));
        let held = total.saturating_sub(offset);
        let grid = Grid {
            shape: shape.into(),
            chunk: part.clone(),
            width,
            fill: Box::default(),
            chunks: Box::new(ShortSlice { shape: shape.into(), part, width, bytes, offset, held }),
        };
        let stored = held.min(total);
        Self::Grid(Blob { file, decoded: None, ..Blob::raw(offset.min(total), stored) }, Arc::new(grid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_data_takes_no_memory_for_elements() {
        let error = Error::new(Code::Truncated, "it is not there");
        for data in [Data::refused(0, &[1], u64::MAX, error), Data::short_slice(0, &[1], u64::MAX, 8, 100)] {
            assert!(matches!(data, Data::Grid(_, grid) if grid.fill.is_empty() && grid.width == u64::MAX));
        }
    }
}
