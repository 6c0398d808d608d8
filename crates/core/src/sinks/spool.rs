//! Temporary storage for data whose file begins with its index, or that is reordered.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::temporary::Temporary;
use crate::error::{Error, Result};

/// An unnamed file in the target's folder or the temporary folder. If the system requires a name, the file is removed when this is dropped.
pub struct Spool {
    temporary: Temporary,
    /// The target, for error messages.
    target: PathBuf,
}

impl Spool {
    pub fn in_folder_of(target: &Path) -> Result<Self> {
        let mut temporary = Temporary::in_folder_of(target, true).map_err(|error| error.file(target))?;
        temporary.hide();
        Ok(Self { temporary, target: target.to_owned() })
    }

    /// Creates a spool in the temporary folder, for other targets.
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
