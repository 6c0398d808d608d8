//! The destination of a writer's bytes.
#![forbid(unsafe_code)]

use std::fs::File;
use std::path::Path;

use crate::error::Result;
use crate::sinks::block::Block;
use crate::sinks::in_place::InPlaceFile;
use crate::sinks::replacement::Replacement;
use crate::sinks::upload::Upload;
use crate::sinks::{AtomicFile, Spool, Warning};

pub enum Destination {
    File(AtomicFile),
    /// A file whose index comes first: the data goes into the spool until the index is written.
    Spool(Spool, AtomicFile),
    /// A file in a store, uploaded as it is written.
    Upload(Box<dyn Upload>),
    /// Like `Upload`, for a file whose index comes first: the data goes into the spool.
    SpoolUpload(Spool, Box<dyn Upload>),
    /// An existing file, edited on a clone.
    Replacement(Box<Replacement>),
    /// An existing file, edited in place.
    InPlaceFile(InPlaceFile),
    /// The caller takes the bytes out of the buffer.
    Taken,
    /// Like `Taken`, for a file whose index comes first: the caller keeps the data, and writes it when the index is there.
    Kept,
    /// Like `Taken` or `Kept`, while a consumer receives blocks.
    Passed {
        blocks: Box<dyn ByteStream>,
        is_kept: bool,
    },
}

impl Destination {
    /// Returns the file being written, once it exists; `None` for uploads and if the caller takes the bytes.
    pub fn file(&self) -> Option<&File> {
        match self {
            Self::File(file) => Some(file.file()),
            Self::Spool(spool, _) | Self::SpoolUpload(spool, _) => Some(spool.file()),
            Self::Replacement(file) => file.begun(),
            Self::InPlaceFile(file) => file.begun(),
            Self::Upload(_) | Self::Taken | Self::Kept | Self::Passed { .. } => None,
        }
    }

    /// Returns the target path of a new file; `None` for other destinations.
    pub fn target(&self) -> Option<&Path> {
        match self {
            Self::File(file) | Self::Spool(_, file) => Some(file.target()),
            _ => None,
        }
    }

    /// Writes a block and clears it. If the caller takes the bytes, the block stays as it is.
    pub fn drain(&mut self, block: &mut Block) -> Result<()> {
        match self {
            Self::File(file) => file.write_block(block)?,
            Self::Spool(spool, _) | Self::SpoolUpload(spool, _) => spool.write(block.from(0))?,
            Self::Upload(upload) => upload.write(block.from(0))?,
            Self::Replacement(file) => file.write(block.from(0))?,
            Self::InPlaceFile(file) => file.write(block.from(0))?,
            Self::Taken | Self::Kept => return Ok(()),
            Self::Passed { blocks, .. } => return blocks.pass(block.take()),
        }
        block.clear();
        Ok(())
    }

    /// Flushes everything to disk and publishes the file under its name.
    pub fn commit(self) -> Result<Vec<Warning>> {
        match self {
            Self::File(file) | Self::Spool(_, file) => file.commit(),
            Self::Replacement(file) => file.commit(),
            Self::InPlaceFile(file) => file.commit().map(|()| Vec::new()),
            Self::Upload(upload) | Self::SpoolUpload(_, upload) => upload.complete().map(|()| Vec::new()),
            Self::Taken | Self::Kept | Self::Passed { .. } => Ok(Vec::new()),
        }
    }
}

/// Passes blocks to their consumer.
pub trait ByteStream: Send {
    /// Passes a block on. Blocks until the consumer is ready for it; fails if the consumer has gone.
    fn pass(&mut self, block: Vec<u8>) -> Result<()>;
}
