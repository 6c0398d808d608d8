//! The end of a file: its index, and its name.
#![forbid(unsafe_code)]

use super::old_root::OldRoot;
use super::out::Out;
use super::{Dialect, Writer, index_first, parts, zt2};
use crate::codecs::digest::Algorithm;
use crate::edit::Edit;
use crate::error::{Code, Error, Result};
use crate::formats::zt2::encode;
use crate::formats::{zt, zt_trailer, zt01_encode, zt1_encode};
use crate::limits::Limits;
use crate::model::Builder;
use crate::sinks::Warning;
use crate::syntax::cbor_encode::Encoder;

/// Bytes of the index that are passed on at once, to be written.
const INDEX_PIECE: usize = 64 << 10;

/// What a finished file leaves to its caller.
#[derive(Default)]
pub struct Finished {
    /// Bytes to take yet, where the caller writes the file.
    pub rest: Vec<u8>,
    pub warnings: Vec<Warning>,
}

impl Writer {
    /// Writes the index and puts the file under its name, unless it is told to stop before it does that.
    pub fn finish(mut self) -> Result<Finished> {
        if let Some(open) = &self.open {
            return Err(Error::new(Code::InvalidArg, "the tensor is not complete").tensor(&open.name));
        }
        self.settle_packed()?;
        self.builder.attributes(std::mem::take(&mut self.settings.attributes));
        if let Some(generator) = self.settings.generator.take() {
            self.builder.generator(generator);
        }
        if self.edit.as_ref().is_some_and(Edit::is_empty) && self.builder.is_empty() {
            return Ok(Finished::default());
        }
        let dialect = self.settings.dialect;
        if self.edit.is_none() && matches!(dialect, Dialect::Zt10 | Dialect::Zt12) {
            return self.finish_zt1();
        }
        if let Some(mut behind) = self.behind.take() {
            behind.drain()?;
        }
        if dialect == Dialect::Zt2 && self.edit.is_none() {
            return self.finish_zt2();
        }
        let catalog = self.builder.finish();
        if let Out::Spool(mut spool, mut file) = self.out {
            spool.write(self.buffer.from(0))?;
            index_first::assemble(dialect, &catalog, &spool, &mut file, &self.settings.stop)?;
            self.settings.stop.check()?;
            let warnings = match self.parts {
                Some(mut parts) if !parts.is_empty() => {
                    let target = file.target().to_owned();
                    parts.keep(file, catalog);
                    parts.commit(&target, self.settings.overwrite)?
                }
                Some(_) => parts::commit_one(file)?,
                None => file.commit()?,
            };
            return Ok(Finished { rest: Vec::new(), warnings });
        }
        let tail = match &self.edit {
            Some(edit) => edit.tail(&catalog, self.position)?,
            None => zt_trailer::tail(&zt01_encode::encode(&catalog)?, b""),
        };
        self.buffer.extend(&tail)?;
        self.out.drain(&mut self.buffer)?;
        self.settings.stop.check()?;
        let warnings = self.out.commit()?;
        Ok(Finished { rest: self.buffer.take(), warnings })
    }

    /// The index is spelled while its beginning is written: of many small tensors it is larger than their data.
    fn finish_zt1(mut self) -> Result<Finished> {
        let dialect = self.settings.dialect;
        let empty = Builder::new(dialect.container(), &Limits::default());
        let catalog = std::mem::replace(&mut self.builder, empty).finish();
        let mut length = 0;
        let mut pass = |encoder: &mut Encoder, least: usize| {
            if encoder.bytes().len() >= least {
                length += encoder.bytes().len() as u64;
                self.buffer.extend(encoder.bytes())?;
                encoder.taken();
                self.flush_if_full()?;
            }
            Ok(())
        };
        let often = |encoder: &mut Encoder| pass(encoder, INDEX_PIECE);
        let (mut last, footer): (_, &[u8]) = match dialect {
            Dialect::Zt10 => (zt1_encode::zt10(&catalog, often)?, b""),
            _ => (zt1_encode::zt12(&catalog, often)?, zt::MAGIC_1),
        };
        pass(&mut last, 0)?;
        self.buffer.extend(&length.to_le_bytes())?;
        self.buffer.extend(footer)?;
        self.settle()?;
        self.settings.stop.check()?;
        let warnings = self.out.commit()?;
        Ok(Finished { rest: self.buffer.take(), warnings })
    }

    fn finish_zt2(mut self) -> Result<Finished> {
        let split = self.shards.is_split();
        if split {
            let last = self.end_shard()?;
            self.shards.keep(last);
            self.buffer.extend(&encode::MAGIC)?;
            self.position = self.buffer.len() as u64;
        }
        let mut catalog = self.builder.finish();
        if !split {
            self.shards.join(&mut catalog);
        }
        let mut end = self.position;
        if self.settings.canonical && matches!(self.out, Out::File(_)) {
            self.out.drain(&mut self.buffer)?;
        }
        if let Out::File(file) = &mut self.out
            && self.settings.canonical
        {
            end = zt2::arrange(file, &mut catalog, &self.settings.stop)?;
        }
        let algorithm = self.settings.digest.unwrap_or(Algorithm::Xxh3);
        let old = match &self.out {
            Out::File(root) if root.overwrites() && self.shards.largest.is_some() => {
                OldRoot::of(root.target())
            }
            _ => OldRoot::default(),
        };
        let table = self.shards.table(algorithm, &old)?;
        zt2::close(&catalog, &table, self.settings.alignment, end, &mut self.buffer)?;
        self.out.drain(&mut self.buffer)?;
        self.settings.stop.check()?;
        let warnings = match self.out {
            Out::File(root) => self.shards.commit(&table, root, &old)?,
            _ => Vec::new(),
        };
        Ok(Finished { rest: self.buffer.take(), warnings })
    }
}
