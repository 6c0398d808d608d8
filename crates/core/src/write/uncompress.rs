//! Undoes the compression of a blob that saved too little as a whole, which is known only at its end.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};

use super::Writer;
use super::blob::{Outgoing, Target, WrittenBlob};
use super::destination::Destination;
use super::pack::saving;
use crate::error::{Error, Result};
use crate::model::Encoding;
use crate::sinks::Spool;
use crate::sources::file::read_at;

/// The number of bytes moved at once.
const PIECE: usize = 1 << 20;

impl Writer {
    /// Returns the finished blob of `length` bytes, or the same blob stored raw. New files can go back, by way of a
    /// spool. For streams and for files that are appended to, the decision on the first 256 KiB is final.
    pub(super) fn judged(&mut self, done: WrittenBlob, length: u64) -> Result<WrittenBlob> {
        let Some(compression) = self.settings.compression else { return Ok(done) };
        let stored = self.position - done.offset;
        let unchanged = done.encoding == Encoding::RAW || saving(length, stored) >= compression.min_savings;
        if unchanged || !matches!(self.out, Destination::File(_)) {
            return Ok(done);
        }
        self.settle()?;
        let Destination::File(file) = &mut self.out else { return Ok(done) };
        let mut spool = file.spool()?;
        decode(file.file(), done.offset, stored, &mut spool)?;
        file.truncate(done.offset)?;
        self.position = done.offset;
        let mut blob = Outgoing::raw(length, done.offset, &self.settings);
        let mut at = 0;
        while !blob.is_full() {
            let left = usize::try_from(blob.left()).unwrap_or(usize::MAX);
            let count = left.min(PIECE);
            let mut target = Target { buffer: &mut self.buffer, position: &mut self.position, packers: None };
            blob.fill(count, &mut target, |bytes| spool.read_at(at, bytes))?;
            at += count as u64;
            self.write_full_blocks()?;
        }
        blob.finish(&mut Target { buffer: &mut self.buffer, position: &mut self.position, packers: None })
    }
}

/// Decodes a blob that this writer stored at `offset`.
fn decode(file: &File, offset: u64, length: u64, spool: &mut Spool) -> Result<()> {
    let failed = |error: io::Error| Error::io("write", &error);
    let stored = Stored { file, at: offset, end: offset + length };
    let mut decoder = zstd::stream::read::Decoder::new(stored).map_err(failed)?;
    io::copy(&mut decoder, &mut Spooled(spool)).map_err(failed).map(drop)
}

/// A range of the file, read at explicit offsets: the file position of the writer does not change.
struct Stored<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Stored<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let count = left.min(bytes.len());
        let bytes = bytes.get_mut(..count).unwrap_or_default();
        read_at(self.file, self.at, bytes).map_err(io::Error::other)?;
        self.at += count as u64;
        Ok(count)
    }
}

struct Spooled<'a>(&'a mut Spool);

impl Write for Spooled<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
