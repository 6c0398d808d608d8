//! Continues in another file when the current one is full.
#![forbid(unsafe_code)]

use super::Writer;
use super::index_first::{self, Whole};
use super::out::Out;
use crate::error::{Code, Error, Result};
use crate::limits::Limits;
use crate::model::Builder;
use crate::sinks::AtomicFile;

impl Writer {
    /// Ends the current data shard and begins another one.
    pub(super) fn next_shard(&mut self) -> Result<()> {
        let finished = self.end_shard()?;
        self.shards.next(finished);
        self.buffer.extend(self.settings.format.magic)?;
        self.position = self.buffer.len() as u64;
        Ok(())
    }

    /// Ends and returns the current data shard. A new file takes its place.
    pub(super) fn end_shard(&mut self) -> Result<AtomicFile> {
        self.buffer.extend(self.shards.footer())?;
        self.settle()?;
        let Out::File(file) = &mut self.out else {
            return Err(Error::new(Code::InvalidArg, "several files cannot be written to a stream"));
        };
        let next = file.another()?;
        Ok(std::mem::replace(file, next))
    }

    /// Ends the current file of a checkpoint and begins another one.
    pub(super) fn next_part(&mut self) -> Result<()> {
        self.settle()?;
        let format = self.settings.format;
        let (Out::Spool(spool, file), Some(parts)) = (&mut self.out, &mut self.parts) else { return Ok(()) };
        self.position = 0;
        // The tensor that begins the next file was checked before, with these labels.
        let empty = Builder::new(format.container(), &Limits::default()).with_labels_of(&self.builder);
        let mut builder = std::mem::replace(&mut self.builder, empty);
        builder.set_attributes(self.settings.attributes.clone());
        builder.set_part(parts.next());
        let catalog = builder.finish();
        index_first::assemble(format, &catalog, spool, Whole::File(file), &self.settings.stop)?;
        *spool = file.spool()?;
        let next = file.another()?;
        parts.keep(std::mem::replace(file, next), catalog);
        Ok(())
    }
}
