//! The end of a file: its index, and its name.
#![forbid(unsafe_code)]

use super::out::Out;
use super::{Dialect, Writer, index_first, shards, zt2};
use crate::codec::digest::Algorithm;
use crate::edit::Edit;
use crate::error::{Code, Error, Result};
use crate::format::zt2::encode;
use crate::format::{zt_trailer, zt01_encode, zt1_encode};

impl Writer {
    /// Writes the index and puts the file under its name. Gives what the caller has to take yet.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        if let Some(open) = &self.open {
            return Err(Error::new(Code::InvalidArg, "the tensor is not complete").tensor(&open.spec.name));
        }
        self.settle_packed()?;
        self.builder.attributes(std::mem::take(&mut self.settings.attributes));
        if let Some(generator) = self.settings.generator.take() {
            self.builder.generator(generator);
        }
        if self.edit.as_ref().is_some_and(Edit::is_empty) && self.builder.is_empty() {
            return Ok(Vec::new());
        }
        let dialect = self.settings.dialect;
        if let Some(mut behind) = self.behind.take() {
            behind.drain()?;
        }
        if dialect == Dialect::Zt2 && self.edit.is_none() {
            return self.finish_zt2();
        }
        let catalog = self.builder.finish();
        if let Out::Spool(mut spool, mut file) = self.out {
            spool.write(self.buffer.from(0))?;
            index_first::assemble(dialect, &catalog, &spool, &mut file)?;
            match self.parts.filter(|parts| !parts.is_empty()) {
                Some(mut parts) => {
                    let target = file.target().to_owned();
                    parts.keep(file, catalog);
                    parts.commit(&target, self.settings.overwrite)?;
                }
                None => file.commit()?,
            }
            return Ok(Vec::new());
        }
        let tail = match (&self.edit, dialect) {
            (Some(edit), _) => edit.tail(&catalog, self.position)?,
            (None, Dialect::Zt01) => zt_trailer::tail(&zt01_encode::encode(&catalog), b""),
            (None, Dialect::Zt10) => zt_trailer::tail(&zt1_encode::zt10(&catalog), b""),
            (None, _) => zt_trailer::tail(&zt1_encode::zt12(&catalog), b"ZTEN1000"),
        };
        self.buffer.extend(&tail)?;
        self.out.drain(&mut self.buffer)?;
        self.out.commit()?;
        Ok(self.buffer.take())
    }

    pub(super) fn finish_zt2(mut self) -> Result<Vec<u8>> {
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
        if let Out::File(file) = &mut self.out
            && self.settings.canonical
        {
            file.write(self.buffer.from(0))?;
            self.buffer.truncate(0);
            end = zt2::arrange(file, &mut catalog)?;
        }
        let algorithm = self.settings.digest.unwrap_or(Algorithm::Xxh3);
        let table = self.shards.table(algorithm)?;
        zt2::close(&catalog, &table, self.settings.alignment, end, &mut self.buffer)?;
        self.out.drain(&mut self.buffer)?;
        if let Out::File(root) = self.out {
            // The root comes last: before it is there, nothing refers to the shards.
            let beside = self.shards.commit(&table, &root)?;
            root.commit().inspect_err(|_| shards::withdraw(&beside))?;
        }
        Ok(self.buffer.take())
    }
}
