//! The input of a parser: the bytes of its file, and other files in the same folder.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::limits::Limits;
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::sources::siblings::{Links, Neighbor, Siblings};
use crate::work::Stop;

/// A file whose index is read, and the limits for it.
#[derive(Clone, Copy)]
pub struct Input<'i> {
    /// The file's own bytes.
    pub source: &'i dyn ReadAt,
    pub limits: &'i Limits,
    /// Stops the reading.
    pub stop: &'i Stop,
    siblings: &'i dyn Siblings,
}

impl<'i> Input<'i> {
    pub fn new(
        source: &'i dyn ReadAt,
        limits: &'i Limits,
        stop: &'i Stop,
        siblings: &'i dyn Siblings,
    ) -> Self {
        Self { source, limits, stop, siblings }
    }

    /// Creates the input of a file without other files in its folder.
    pub fn alone(source: &'i dyn ReadAt, limits: &'i Limits, stop: &'i Stop) -> Self {
        Self::new(source, limits, stop, &Alone)
    }

    /// Returns the size of the file in bytes.
    pub fn length(&self) -> u64 {
        self.source.length()
    }

    /// Fills `buffer` from `offset`, or fails.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(offset, buffer, self.stop)
    }

    /// Returns `length` bytes from `offset`. Fails with `ZT_TRUNCATED` if the file has fewer.
    pub fn read_vec(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.source.read_vec(offset, length, self.stop)
    }

    /// Like [`Self::read_vec`], for many bytes, such as an index.
    pub fn read_owned(&self, offset: u64, length: u64) -> Result<Owned> {
        self.source.read_owned(offset, length, self.stop)
    }

    /// Returns the name of the file; `None` if it is unknown, as for a file in memory. It does not determine the format: it is for sets
    /// whose files refer to each other by name.
    pub fn name(&self) -> Option<&str> {
        self.siblings.name()
    }

    /// Like [`Self::name`], for a file whose data is in other files: also if the caller named it together with others of its format.
    pub fn own_name(&self) -> Option<&str> {
        self.siblings.own_name()
    }

    /// Finds a file of raw data by its path relative to this file, like [`Siblings::find`]. Links may not lead out of the folder. A
    /// catalog has such files or a table of shards ([`Catalog::shards`](crate::model::Catalog)), never both.
    pub fn sibling(&self, path: &str) -> Result<Neighbor> {
        self.siblings.find(path, Links::Inside)
    }

    /// Finds a file of the same format by its path relative to this file. Links may lead anywhere, because such a file identifies itself.
    pub fn part(&self, path: &str) -> Result<Neighbor> {
        self.siblings.find(path, Links::Anywhere)
    }

    /// Returns the bytes of a file that `sibling` or `part` found.
    pub fn open(&self, file: u32) -> Result<Arc<dyn ReadAt>> {
        self.siblings.open(file)
    }
}

struct Alone;

impl Siblings for Alone {
    fn find(&self, path: &str, _: Links) -> Result<Neighbor> {
        Err(Error::new(Code::Io, format!("{path:?} was not looked for")))
    }

    fn open(&self, file: u32) -> Result<Arc<dyn ReadAt>> {
        Err(Error::new(Code::Internal, format!("no file {file} was asked for")))
    }
}
