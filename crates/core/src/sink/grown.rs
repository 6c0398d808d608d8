//! A file that grows in place. Its old bytes are never touched, so giving it up is cutting it back.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use super::original::Original;
use crate::error::{Code, Error, Result};

pub struct Grown {
    original: Original,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Untouched,
    /// There may be more than before. The file's own position is the end.
    Growing,
    Committed,
}

impl Grown {
    pub fn new(original: Original) -> Self {
        Self { original, state: State::Untouched }
    }

    /// The file, once it has begun to grow.
    pub fn begun(&self) -> Option<&File> {
        (self.state == State::Growing).then(|| self.original.file())
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut file = self.original.file();
        if self.state == State::Untouched {
            self.original.unchanged()?;
            file.seek(SeekFrom::Start(self.original.length())).map_err(|error| Error::io("lseek", &error))?;
            self.state = State::Growing;
        }
        file.write_all(bytes).map_err(|error| Error::io("write", &error))
    }

    /// Puts what was added on the disk.
    pub fn commit(mut self) -> Result<()> {
        let mut file = self.original.file();
        let end = file.stream_position().map_err(|error| Error::io("lseek", &error))?;
        let length = file.metadata().map_err(|error| Error::io("fstat", &error))?.len();
        if self.state == State::Growing && length != end {
            return Err(Error::new(Code::Io, "somebody else wrote to the file while it was edited in place"));
        }
        file.sync_all().map_err(|error| Error::io("fsync", &error))?;
        self.state = State::Committed;
        Ok(())
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        if self.state == State::Growing {
            // There is nobody to tell, and cutting a file shorter needs nothing that could be lacking.
            let _ = self.original.file().set_len(self.original.length());
            let _ = self.original.file().sync_all();
        }
    }
}
