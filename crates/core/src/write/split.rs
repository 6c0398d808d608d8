//! Continues in another file when the current one is full.
#![forbid(unsafe_code)]

use super::Writer;
use super::destination::Destination;
use super::index_first::{self, Whole};
use crate::error::{Code, Error, Result};
use crate::limits::{self, Limits};
use crate::model::Builder;
use crate::sinks::AtomicFile;

impl Writer {
    /// Ends the current data shard and begins another one.
    pub(super) fn next_shard(&mut self) -> Result<()> {
        check_count(self.shards.count())?;
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
        let Destination::File(file) = &mut self.out else {
            return Err(Error::new(Code::InvalidArg, "several files cannot be written to a stream"));
        };
        let next = file.another()?;
        Ok(std::mem::replace(file, next))
    }

    /// Ends the current file of a checkpoint and begins another one.
    pub(super) fn next_part(&mut self) -> Result<()> {
        check_count(self.parts.as_ref().map_or(0, |parts| parts.count() + 1))?;
        self.settle()?;
        let format = self.settings.format;
        let (Destination::Spool(spool, file), Some(parts)) = (&mut self.out, &mut self.parts) else {
            return Ok(());
        };
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

/// Fails if a set of `count` files gets another one that readers do not accept.
fn check_count(count: usize) -> Result<()> {
    if count < limits::FILES {
        return Ok(());
    }
    let message =
        format!("a set would have more than {} files, which is the most that can be opened", limits::FILES);
    Err(Error::new(Code::Limit, message).option("maxShardBytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_no_more_files_than_readers_accept() {
        assert!(check_count(limits::FILES - 1).is_ok());
        let error = check_count(limits::FILES).unwrap_err();
        assert_eq!((error.code(), error.message().contains("maxShardBytes")), (Code::Limit, true));
    }
}
