//! Files whose index comes before their data: the data was spooled, and is copied to its place.
#![forbid(unsafe_code)]

use super::Dialect;
use crate::error::{Code, Error, Result};
use crate::formats::{Assemble, Index};
use crate::model::{Catalog, Component};
use crate::sinks::{AtomicFile, Spool};
use crate::work::Stop;

/// Writes index and data to the file.
pub fn assemble(
    dialect: Dialect,
    catalog: &Catalog,
    spool: &Spool,
    file: &mut AtomicFile,
    stop: &Stop,
) -> Result<()> {
    let Index::First(put) = dialect.writing().index else {
        return Err(Error::new(Code::Internal, "the data was spooled, and the index comes behind it"));
    };
    let mut data = Data { spool, file, waiting: Vec::new(), stop };
    put(catalog, &mut data)?;
    data.flush()
}

/// Blobs below this are read and written together with their neighbours: to have the kernel copy one takes several calls.
const SMALL: u64 = 64 << 10;
/// Bytes written at once.
const PIECE: usize = 1 << 20;

/// The file, and what stands before its end and is not written yet.
struct Data<'a> {
    spool: &'a Spool,
    file: &'a mut AtomicFile,
    waiting: Vec<u8>,
    stop: &'a Stop,
}

impl Data<'_> {
    fn flush(&mut self) -> Result<()> {
        self.file.write(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

impl Assemble for Data<'_> {
    fn expect(&mut self, length: u64) {
        self.file.reserve(length);
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() < PIECE { Ok(()) } else { self.flush() }
    }

    fn blob(&mut self, blob: &Component) -> Result<()> {
        match usize::try_from(blob.stored_length()) {
            Ok(length) if blob.stored_length() < SMALL => {
                let start = self.waiting.len();
                self.waiting.resize(start + length, 0);
                self.spool.read_at(blob.offset(), self.waiting.get_mut(start..).unwrap_or_default())?;
                self.bytes(&[])
            }
            _ => {
                self.flush()?;
                let (from, stop) = (self.spool.file(), self.stop);
                self.file.copy_pieces(from, blob.offset(), blob.stored_length(), |_| stop.check())
            }
        }
    }
}
