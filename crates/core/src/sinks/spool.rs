//! Data on its way to a file whose index comes first, or that is put in another order.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::temporary::Temporary;
use crate::error::{Error, Result};

/// A file without a name in the target's folder, or in that for temporary files. Where an open file must have a name, it goes when this is dropped.
pub struct Spool {
    temporary: Temporary,
    /// What it is for, as errors name it.
    target: PathBuf,
}

impl Spool {
    pub fn in_folder_of(target: &Path) -> Result<Self> {
        let mut temporary = Temporary::in_folder_of(target, true).map_err(|error| error.file(target))?;
        temporary.hide();
        Ok(Self { temporary, target: target.to_owned() })
    }

    /// One in the folder for temporary files, for what goes elsewhere.
    pub fn in_temp_folder() -> Result<Self> {
        Self::in_folder_of(&std::env::temp_dir().join("ztensor"))
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file().write_all(bytes);
        written.map_err(|error| Error::io("write", &error).file(&self.target))
    }

    /// Fills `bytes` from `offset` on.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        crate::sources::file::read_at(self.file(), offset, bytes)
    }

    pub fn file(&self) -> &File {
        self.temporary.file()
    }
}
