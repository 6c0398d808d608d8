//! The attributes of a file as its readers will find them.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use ciborium::Value;

use super::Writer;
use crate::checked::index;
use crate::error::{Code, Error, Result};
use crate::formats::{Assembler, Formats, Index, Sharding, WriteFormat};
use crate::limits::Limits;
use crate::model::{Attributes, Builder, Component, SetPart};
use crate::open::{Lookup, Request, detect};
use crate::sources::memory::Memory;

/// The attributes that a file, or each file of a set, is expected to have.
pub struct ExpectedAttributes {
    format: &'static WriteFormat,
    alignment: u64,
    attributes: Attributes,
    formats: Formats,
    /// Those of a file that states no place in a set, as they are read.
    read: OnceLock<Attributes>,
}

impl Writer {
    /// Returns the attributes that readers find in the file once it is written. `formats` reads it.
    pub fn expected_attributes(&self, formats: Formats) -> ExpectedAttributes {
        ExpectedAttributes {
            format: self.settings.format,
            alignment: self.settings.alignment,
            attributes: self.settings.attributes.clone(),
            formats,
            read: OnceLock::new(),
        }
    }
}

impl ExpectedAttributes {
    /// Writes a file without data into memory, and returns its attributes.
    fn read(&self, part: Option<SetPart>) -> Result<Attributes> {
        let Self { format, formats, .. } = *self;
        let limits = Limits::default();
        let mut builder = Builder::new(format.container(), &limits);
        builder.set_attributes(self.attributes.clone());
        if let Some(part) = part {
            builder.set_part(part);
        }
        let catalog = builder.finish();
        let mut bytes = Bytes(format.magic.to_vec());
        match &format.index {
            Index::First(put) => {
                bytes.0.clear();
                put(&catalog, &mut bytes)?;
            }
            Index::Last(encode) => encode(&catalog, &mut |piece| bytes.bytes(piece))?,
            Index::Aligned(encode) => {
                let start = (bytes.0.len() as u64).next_multiple_of(self.alignment);
                bytes.0.resize(index(start, "the alignment")?, 0);
                encode(&catalog, &[], start, &mut |piece| bytes.bytes(piece))?;
            }
        }
        let memory = Memory::copy_of(&bytes.0)?;
        let formats = formats.only(format.format).unwrap_or(formats);
        // Not the other files of a set.
        let request = Request { formats, limits, lookup: Lookup::Unread, ..Request::default() };
        Ok(detect::parse_alone(&memory, &request)?.attributes)
    }

    /// Fails with `ZT_BAD_INDEX` if a file has other attributes, or the same with numbers of other types. `part`: the place in a set that it
    /// states. The message lacks its subject, which is the file.
    pub fn check(&self, found: &Attributes, part: Option<SetPart>) -> Result<()> {
        let wrong = |what: String| Err(Error::new(Code::BadIndex, what));
        let read = match self.read.get().filter(|_| part.is_none()) {
            Some(read) => read.clone(),
            None => self.read(part)?,
        };
        let differing = read.differences(found)?;
        if part.is_none() {
            // Files of many tasks are compared with it.
            let _ = self.read.set(read);
        }
        for key in differing {
            if let (Sharding::Checkpoint(set), Some(part)) = (self.format.shards, part)
                && set.position.contains(&&*key)
            {
                return wrong(format!("is not file {} of a set of {}", part.number + 1, part.count));
            }
            let implied =
                self.format.model.and_then(|rules| rules.implied).filter(|&(implied, _)| implied == key);
            if !found.has(&key)? {
                return wrong(format!("lacks the metadata {key:?}"));
            }
            let is_implied = match implied {
                Some((_, value)) => found
                    .values()?
                    .iter()
                    .any(|(name, found)| name.as_text() == Some(&*key) && *found == Value::from(value)),
                None => false,
            };
            if !is_implied {
                return wrong(format!("has other metadata {key:?} than planned"));
            }
        }
        Ok(())
    }
}

/// A file without data, in memory.
struct Bytes(Vec<u8>);

impl Assembler for Bytes {
    fn expect(&mut self, _: u64) {}

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn blob(&mut self, _: &Component) -> Result<()> {
        Ok(())
    }
}
