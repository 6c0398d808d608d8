//! Appends to an existing file: its data stays, and new data is written after it.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{Compression, Destination, Settings, WriteFormat, Writer};
use crate::codecs::digest::Algorithm;
use crate::edit::{AttributeChanges, Edit};
use crate::error::{Code, Error, Result};
use crate::formats::Formats;
use crate::limits::Limits;
use crate::model::Attributes;
use crate::sinks::existing::ExistingFile;
use crate::sinks::in_place::InPlaceFile;
use crate::sinks::replacement::Replacement;
use crate::work::Stop;

/// The default frame size in bytes.
const DEFAULT_FRAME: u32 = 1 << 20;

/// Which digest new blobs get.
#[derive(Clone, Copy, Debug)]
pub enum Hashing {
    /// The default of the version: crc32c up to 1.2, xxh3 in 2.
    Default,
    Without,
    With(Algorithm),
}

impl Hashing {
    /// Returns the algorithm. Fails with `ZT_INVALID_ARG` if the version does not support it.
    fn of(self, format: &'static WriteFormat) -> Result<Option<Algorithm>> {
        let digests = format.digests;
        match self {
            Self::Default => Ok(digests.first().copied()),
            Self::Without => Ok(None),
            Self::With(algorithm) if !digests.contains(&algorithm) => {
                let message = format!("{} has no such digest: ask for another, or for none", format.title);
                Err(Error::new(Code::InvalidArg, message))
            }
            Self::With(algorithm) => Ok(Some(algorithm)),
        }
    }
}

/// How to append to a file.
pub struct Appending {
    /// Write to the file itself, not to a clone that replaces it.
    pub in_place: bool,
    /// The alignment of new blobs in bytes; `None` for that of the old ones.
    pub alignment: Option<u64>,
    pub digest: Hashing,
    /// A frame size of 0 means the default.
    pub compression: Option<Compression>,
    /// The formats to accept. Only some versions of zTensor can be appended to; the others fail with an error.
    pub formats: Formats,
    /// The limits for reading the index.
    pub limits: Limits,
    /// Stops the copying and everything after it.
    pub stop: Stop,
}

/// Returns the compression with its frame size.
fn framed(asked: Compression) -> Compression {
    Compression { frame: if asked.frame == 0 { DEFAULT_FRAME } else { asked.frame }, ..asked }
}

impl Writer {
    /// Begins to append to the file at `path`, in its own version. On a clone, new blobs begin where the old index was.
    /// In place, and always in version 2, they begin after the end of the file, so that no old byte changes.
    pub fn append(path: &Path, request: Appending) -> Result<Self> {
        let original = ExistingFile::open(path, request.in_place)?;
        let edit = Edit::open(original.source(), request.formats, &request.limits)?;
        let settings = Settings {
            format: edit.format(),
            alignment: request.alignment.unwrap_or_else(|| edit.alignment()),
            digest: request.digest.of(edit.format())?,
            compression: request.compression.map(framed),
            canonical: false,
            max_shard: None,
            overwrite: true,
            attributes: Attributes::default(),
            generator: None,
            stop: request.stop.clone(),
        };
        settings.check()?;
        let (position, out) = if request.in_place {
            (original.length(), Destination::InPlaceFile(InPlaceFile::new(original, edit.old_index())))
        } else {
            let retained = edit.retained(original.length());
            (retained, Destination::Replacement(Box::new(Replacement::new(original, retained, request.stop))))
        };
        let mut writer = Self::at(position, out, settings);
        writer.edit = Some(edit);
        Ok(writer)
    }

    fn edit(&mut self) -> Result<&mut Edit> {
        let new = || Error::new(Code::InvalidArg, "only a file that is appended to can be edited");
        self.edit.as_mut().ok_or_else(new)
    }

    /// Fails with `ZT_INVALID_ARG` for a tensor that this writer added: those cannot be edited.
    fn not_added(&self, name: &str) -> Result<()> {
        if !self.has_added(name) {
            return Ok(());
        }
        let message = "the tensor was added by this very edit: finish it, then begin another";
        Err(Error::new(Code::InvalidArg, message).tensor(name))
    }

    /// Renames a tensor of the file.
    pub fn rename(&mut self, name: &str, to: &str) -> Result<()> {
        self.not_added(name)?;
        if self.has_added(to) {
            return Err(Error::new(Code::BadIndex, "another tensor has this name already").tensor(to));
        }
        self.edit()?.rename(name, to)
    }

    /// Removes a tensor of the file from its index.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.not_added(name)?;
        self.edit()?.remove(name)
    }

    /// Changes the attributes of a tensor of the file, or of the file itself if `name` is `None`.
    pub fn change_attributes(&mut self, name: Option<&str>, changes: AttributeChanges) -> Result<()> {
        let Some(name) = name else {
            return self.edit()?.attributes(changes);
        };
        self.not_added(name)?;
        self.edit()?.tensor_attributes(name, changes)
    }
}
