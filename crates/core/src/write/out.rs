//! Where a writer's bytes go until the end.
#![forbid(unsafe_code)]

use std::fs::File;
use std::path::Path;

use crate::error::Result;
use crate::sinks::block::Block;
use crate::sinks::in_place::InPlaceFile;
use crate::sinks::replacement::Replacement;
use crate::sinks::upload::Upload;
use crate::sinks::{AtomicFile, Spool, Warning};

pub enum Out {
    File(AtomicFile),
    /// The file waits for its index; the data goes into the spool.
    Spool(Spool, AtomicFile),
    /// A file of a store, which takes the bytes as they come.
    Upload(Box<dyn Upload>),
    /// The same, which waits for its index; the data goes into the spool.
    SpoolUpload(Spool, Box<dyn Upload>),
    /// A file that is there, on a clone of it.
    Replacement(Box<Replacement>),
    /// A file that is there, in place.
    InPlaceFile(InPlaceFile),
    /// Whoever drives the writer takes the bytes out of its buffer.
    Taken,
    /// The same, while somebody takes blocks at the other end.
    Passed(Box<dyn Passing>),
}

impl Out {
    /// What is written, once it is begun; nothing where it is taken.
    pub fn file(&self) -> Option<&File> {
        match self {
            Self::File(file) => Some(file.file()),
            Self::Spool(spool, _) | Self::SpoolUpload(spool, _) => Some(spool.file()),
            Self::Replacement(file) => file.begun(),
            Self::InPlaceFile(file) => file.begun(),
            Self::Upload(_) | Self::Taken | Self::Passed(_) => None,
        }
    }

    /// The path that is written for, where the caller's own is not the only one.
    pub fn target(&self) -> Option<&Path> {
        match self {
            Self::File(file) | Self::Spool(_, file) => Some(file.target()),
            _ => None,
        }
    }

    /// Writes a block, which is empty then; one that is taken stays.
    pub fn drain(&mut self, block: &mut Block) -> Result<()> {
        match self {
            Self::File(file) => file.write_block(block)?,
            Self::Spool(spool, _) | Self::SpoolUpload(spool, _) => spool.write(block.from(0))?,
            Self::Upload(upload) => upload.write(block.from(0))?,
            Self::Replacement(file) => file.write(block.from(0))?,
            Self::InPlaceFile(file) => file.write(block.from(0))?,
            Self::Taken => return Ok(()),
            Self::Passed(blocks) => return blocks.pass(block.take()),
        }
        block.clear();
        Ok(())
    }

    /// Puts everything on the disk and under its name.
    pub fn commit(self) -> Result<Vec<Warning>> {
        match self {
            Self::File(file) | Self::Spool(_, file) => file.commit(),
            Self::Replacement(file) => file.commit(),
            Self::InPlaceFile(file) => file.commit().map(|()| Vec::new()),
            Self::Upload(upload) | Self::SpoolUpload(_, upload) => upload.complete().map(|()| Vec::new()),
            Self::Taken | Self::Passed(_) => Ok(Vec::new()),
        }
    }
}

/// The end of a way on which blocks go to whoever takes them.
pub trait Passing: Send {
    /// Waits until there is room for the block. Fails where nobody takes it any more.
    fn pass(&mut self, block: Vec<u8>) -> Result<()>;
}
