//! Writes files whose index comes before the data: the data was spooled, and is copied to its offset.
#![forbid(unsafe_code)]

use super::WriteFormat;
use crate::error::{Code, Error, Result};
use crate::formats::{Assembler, Index};
use crate::model::{Catalog, Component};
use crate::sinks::upload::Upload;
use crate::sinks::{AtomicFile, Spool};
use crate::work::Stop;

/// The destination of the index and the data.
pub enum Whole<'a> {
    File(&'a mut AtomicFile),
    Upload(&'a mut dyn Upload),
}

impl Whole<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Upload(upload) => upload.write(bytes),
        }
    }
}

/// Writes the index and the data.
pub fn assemble<'a>(
    format: &'static WriteFormat,
    catalog: &Catalog,
    spool: &'a Spool,
    file: Whole<'a>,
    stop: &'a Stop,
) -> Result<()> {
    let mut data = Data { spool, file, waiting: Vec::new(), stop };
    put(format, catalog, &mut data)?;
    data.flush()
}

fn put(format: &'static WriteFormat, catalog: &Catalog, assembler: &mut dyn Assembler) -> Result<()> {
    let Index::First(put) = format.index else {
        return Err(Error::new(Code::Internal, "the data was spooled, and the index comes behind it"));
    };
    put(catalog, assembler)
}

/// The order of a file whose data the caller keeps.
#[derive(Default)]
pub struct Assembly {
    /// The bytes before, between and after the blobs.
    pub bytes: Vec<u8>,
    /// Of each blob, in order, the end of the bytes before it, and its offset and length in what the caller keeps.
    pub blobs: Vec<[u64; 3]>,
}

impl Assembly {
    pub(super) fn of(format: &'static WriteFormat, catalog: &Catalog) -> Result<Self> {
        let mut assembly = Self::default();
        put(format, catalog, &mut assembly)?;
        Ok(assembly)
    }
}

impl Assembler for Assembly {
    fn expect(&mut self, _length: u64) {}

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn blob(&mut self, blob: &Component) -> Result<()> {
        self.blobs.push([self.bytes.len() as u64, blob.offset(), blob.stored_length()]);
        Ok(())
    }
}

/// Blobs smaller than this are read and written together with their neighbors: a copy by the kernel takes several calls
/// each.
const SMALL: u64 = 64 << 10;
/// The number of bytes written at once.
const PIECE: usize = 1 << 20;

/// The file, and the bytes at its end that are not written yet.
struct Data<'a> {
    spool: &'a Spool,
    file: Whole<'a>,
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

impl Assembler for Data<'_> {
    fn expect(&mut self, length: u64) {
        match &mut self.file {
            Whole::File(file) => file.reserve(length),
            Whole::Upload(upload) => upload.expect(length),
        }
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
                let (offset, length) = (blob.offset(), blob.stored_length());
                match &mut self.file {
                    Whole::File(file) => {
                        file.copy_pieces(self.spool.file(), offset, length, |_| self.stop.check())
                    }
                    Whole::Upload(upload) => send(self.spool, offset, length, &mut **upload, self.stop),
                }
            }
        }
    }
}

/// Uploads a spooled blob.
fn send(spool: &Spool, offset: u64, length: u64, upload: &mut dyn Upload, stop: &Stop) -> Result<()> {
    let mut piece = vec![0; usize::try_from(length).unwrap_or(PIECE).min(PIECE)];
    let mut done = 0;
    while done < length {
        stop.check()?;
        let count = usize::try_from(length - done).unwrap_or(PIECE).min(PIECE);
        let bytes = piece.get_mut(..count).unwrap_or_default();
        spool.read_at(offset + done, bytes)?;
        upload.write(bytes)?;
        done += count as u64;
    }
    Ok(())
}
