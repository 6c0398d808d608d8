//! What a parser reads: the bytes of its own file, and those of files beside it.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::limits::Limits;
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::sources::siblings::{Links, Neighbor, Siblings};
use crate::work::Stop;

/// A file whose index is to be read, and the bounds for that.
#[derive(Clone, Copy)]
pub struct Input<'i> {
    /// The file's own bytes.
    pub source: &'i dyn ReadAt,
    pub limits: &'i Limits,
    /// Ends the reading.
    pub stop: &'i Stop,
    beside: &'i dyn Siblings,
}

impl<'i> Input<'i> {
    pub fn new(source: &'i dyn ReadAt, limits: &'i Limits, stop: &'i Stop, beside: &'i dyn Siblings) -> Self {
        Self { source, limits, stop, beside }
    }

    /// A file beside which nothing is.
    pub fn alone(source: &'i dyn ReadAt, limits: &'i Limits, stop: &'i Stop) -> Self {
        Self::new(source, limits, stop, &Alone)
    }

    /// Bytes of the file.
    pub fn length(&self) -> u64 {
        self.source.length()
    }

    /// Fills `buffer` from `offset`, or fails.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(offset, buffer, self.stop)
    }

    /// `length` bytes from `offset`. Fails with `ZT_TRUNCATED` where the file has fewer.
    pub fn read_vec(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.source.read_vec(offset, length, self.stop)
    }

    /// The same for many bytes, such as an index.
    pub fn read_owned(&self, offset: u64, length: u64) -> Result<Owned> {
        self.source.read_owned(offset, length, self.stop)
    }

    /// What the file itself is called; `None` where that is not known, as in memory. It says nothing of the format: it is for
    /// sets whose files find each other by their names.
    pub fn name(&self) -> Option<&str> {
        self.beside.name()
    }

    /// The same for a file whose data is in others: also where it was named with others of its format.
    pub fn own_name(&self) -> Option<&str> {
        self.beside.own_name()
    }

    /// Asks for a file of raw data beside this one by a relative path, as [`Siblings::find`] does: no link leads out of the folder. A
    /// catalog has such files or a table of shards ([`Catalog::shards`](crate::model::Catalog)), never both.
    pub fn sibling(&self, path: &str) -> Result<Neighbor> {
        self.beside.find(path, Links::Inside)
    }

    /// Asks for a file of the same format beside this one, which says itself what it is: a link may lead anywhere.
    pub fn part(&self, path: &str) -> Result<Neighbor> {
        self.beside.find(path, Links::Anywhere)
    }

    /// The bytes of a file that was asked for.
    pub fn open(&self, file: u32) -> Result<Arc<dyn ReadAt>> {
        self.beside.open(file)
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
