//! Where a writer's bytes go until the end.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::sink::{AtomicFile, Spool};

pub enum Out {
    File(AtomicFile),
    /// The file waits for its index; the data goes into the spool.
    Spool(Spool, AtomicFile),
    /// Whoever drives the writer takes the bytes out of its buffer.
    Taken,
}

impl Out {
    /// Empties the buffer into its place.
    pub fn drain(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::File(file) => file.write(buffer)?,
            Self::Spool(spool, _) => spool.write(buffer)?,
            Self::Taken => return Ok(()),
        }
        buffer.clear();
        Ok(())
    }
}
