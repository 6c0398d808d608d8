//! Finishes a file: writes its index, and gives it its name.
#![forbid(unsafe_code)]

use super::destination::Destination;
use super::index_first::{self, Assembly, Whole};
use super::previous_root::OldRoot;
use super::{Writer, canonical};
use crate::codecs::digest::Algorithm;
use crate::edit::Edit;
use crate::error::{Code, Error, Result};
use crate::formats::{EncodeIndex, EncodeIndexAt, Index, Sharding};
use crate::limits::Limits;
use crate::model::Builder;
use crate::sinks::Warning;

/// The result of finishing a file.
#[derive(Default)]
pub struct Finished {
    /// The bytes still to take, if the caller writes the file.
    pub rest: Vec<u8>,
    pub warnings: Vec<Warning>,
    /// The name of the file that opens a set, in the folder of the target; `None` if it is that of the target.
    pub name: Option<String>,
    /// How the caller puts the file together, if it keeps the data.
    pub assembly: Option<Assembly>,
}

impl Writer {
    /// Writes the index and publishes the file under its name, unless the writer is stopped first.
    pub fn finish(mut self) -> Result<Finished> {
        if let Some(open) = &self.open {
            return Err(Error::new(Code::InvalidArg, "the tensor is not complete").tensor(&open.name));
        }
        self.settle_packed()?;
        if let Some(mut planned) = self.planned.take() {
            self.finish_planned(&mut planned)?;
            return self.finish_settled();
        }
        self.builder.set_attributes(std::mem::take(&mut self.settings.attributes));
        if let Some(generator) = self.settings.generator.take() {
            self.builder.set_generator(generator);
        }
        if self.edit.as_ref().is_some_and(Edit::is_empty) && self.builder.is_empty() {
            return Ok(Finished::default());
        }
        let format = self.settings.format;
        if let (Index::Last(spell), None) = (&format.index, &self.edit) {
            return self.finish_last(*spell);
        }
        if let Some(mut behind) = self.behind.take() {
            behind.drain()?;
        }
        if let (Index::Aligned(spell), None) = (&format.index, &self.edit) {
            return self.finish_aligned(*spell);
        }
        if let Some(parts) = self.parts.as_ref().filter(|parts| !parts.is_empty()) {
            self.builder.set_part(parts.next());
        }
        let catalog = self.builder.finish();
        if matches!(self.out, Destination::Kept) {
            let assembly = Some(Assembly::of(format, &catalog)?);
            return Ok(Finished { rest: self.buffer.take(), assembly, ..Finished::default() });
        }
        if let Destination::Spool(mut spool, mut file) = self.out {
            spool.write(self.buffer.from(0))?;
            let whole = Whole::File(&mut file);
            index_first::assemble(format, &catalog, &spool, whole, &self.settings.stop)?;
            self.settings.stop.check()?;
            let mut name = None;
            let warnings = match self.parts {
                Some(mut parts) if !parts.is_empty() => {
                    let target = file.target().to_owned();
                    parts.keep(file, catalog);
                    name = parts.entry(&target).file_name().map(|name| name.to_string_lossy().into_owned());
                    parts.commit(&target, self.settings.overwrite)?
                }
                Some(parts) => parts.commit_one(file)?,
                None => file.commit()?,
            };
            return Ok(Finished { warnings, name, ..Finished::default() });
        }
        if let Destination::SpoolUpload(mut spool, mut upload) = self.out {
            spool.write(self.buffer.from(0))?;
            let whole = Whole::Upload(&mut *upload);
            index_first::assemble(format, &catalog, &spool, whole, &self.settings.stop)?;
            upload.complete()?;
            return Ok(Finished::default());
        }
        if let Some(edit) = &self.edit {
            self.buffer.extend(&edit.tail(&catalog, self.position)?)?;
        }
        self.out.drain(&mut self.buffer)?;
        self.settings.stop.check()?;
        let warnings = self.out.commit()?;
        Ok(Finished { rest: self.buffer.take(), warnings, ..Finished::default() })
    }

    /// Writes an index that comes last, in pieces: its beginning is written while the rest is encoded.
    fn finish_last(mut self, spell: EncodeIndex) -> Result<Finished> {
        let empty = Builder::new(self.settings.format.container(), &Limits::default());
        let catalog = std::mem::replace(&mut self.builder, empty).finish();
        spell(&catalog, &mut |bytes| {
            self.buffer.extend(bytes)?;
            self.flush_if_full()
        })?;
        self.finish_settled()
    }

    /// Writes what is still buffered, and commits the file.
    fn finish_settled(mut self) -> Result<Finished> {
        self.settle()?;
        self.settings.stop.check()?;
        let warnings = self.out.commit()?;
        Ok(Finished { rest: self.buffer.take(), warnings, ..Finished::default() })
    }

    /// Writes an aligned index: that of the file, or that of the root if there are data shards.
    fn finish_aligned(mut self, spell: EncodeIndexAt) -> Result<Finished> {
        let format = self.settings.format;
        let split = self.shards.is_split();
        if split {
            let last = self.end_shard()?;
            self.shards.keep(last);
            self.buffer.extend(format.magic)?;
            self.position = self.buffer.len() as u64;
        }
        let mut catalog = self.builder.finish();
        if !split {
            self.shards.join(&mut catalog);
        }
        let mut end = self.position;
        let form = format.canonical.filter(|_| self.settings.canonical);
        if form.is_some() && matches!(self.out, Destination::File(_)) {
            self.out.drain(&mut self.buffer)?;
        }
        if let (Destination::File(file), Some(form)) = (&mut self.out, form) {
            end = canonical::arrange(file, &mut catalog, format, &form, &self.settings.stop)?;
        }
        let algorithm = self.settings.digest.unwrap_or(Algorithm::Xxh3);
        let old = match (&self.out, format.shards) {
            (Destination::File(root), Sharding::Data(shards))
                if root.overwrites() && !root.is_remote() && self.shards.largest.is_some() =>
            {
                OldRoot::of(root.target(), shards)
            }
            _ => OldRoot::default(),
        };
        let table = self.shards.table(algorithm, &old)?;
        let at = end.next_multiple_of(self.settings.alignment);
        self.buffer.zeros(usize::try_from(at - end).unwrap_or(0))?;
        spell(&catalog, &table, at, &mut |bytes| self.buffer.extend(bytes))?;
        self.out.drain(&mut self.buffer)?;
        self.settings.stop.check()?;
        let warnings = match self.out {
            Destination::File(root) => self.shards.commit(&table, root, &old)?,
            out => out.commit()?,
        };
        Ok(Finished { rest: self.buffer.take(), warnings, ..Finished::default() })
    }
}
