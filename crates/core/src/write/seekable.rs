//! Writes a blob of `zt.zstd-seekable/1` or deflate that is too large to gather: other threads compress its frames as
//! they are pushed.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::packers::{Compressed, CompressedBatch, Packers, Task, Ticket};
use crate::codecs::seekable_encode::Table;
use crate::codecs::zstd_encode::Search;
use crate::error::{Code, Error, Result};
use crate::sinks::block::Block;

/// The number of bytes to pass on together.
const CHUNK: usize = 1 << 20;

/// A blob being compressed. The result depends only on the input, the level and the frame size.
pub struct Seekable {
    /// The number of bytes passed on together: whole frames.
    chunk: usize,
    search: Search,
    pending: Block,
    passed: VecDeque<Ticket>,
    table: Table,
}

impl Seekable {
    pub fn new(packers: &Packers, search: Search) -> Self {
        let frame = packers.how().frame();
        let chunk = frame * (CHUNK / frame).max(1);
        let (pending, passed, table) = (Block::default(), VecDeque::new(), Table::default());
        Self { chunk, search, pending, passed, table }
    }

    /// Takes the next bytes, and appends finished frames to `buffer`.
    pub fn push(&mut self, mut bytes: &[u8], packers: &mut Packers, buffer: &mut Block) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(self.chunk - self.pending.len()));
            self.pending.extend(now)?;
            bytes = later;
            if self.pending.len() == self.chunk {
                self.pass(packers)?;
            }
        }
        while let Some(ticket) = self.passed.front() {
            let wait = packers.is_full();
            let done = if wait { Some(packers.take(ticket)?) } else { packers.try_take(ticket)? };
            let Some(done) = done else { break };
            self.append(done, packers, buffer)?;
        }
        Ok(())
    }

    fn pass(&mut self, packers: &mut Packers) -> Result<()> {
        let raw = std::mem::replace(&mut self.pending, packers.block());
        self.passed.push_back(packers.pass(raw, Task::Frames(self.search))?);
        Ok(())
    }

    fn append(&mut self, done: CompressedBatch, packers: &mut Packers, buffer: &mut Block) -> Result<()> {
        let Compressed::Frames(table) = done.made else {
            return Err(Error::new(Code::Internal, "frames were asked for"));
        };
        self.passed.pop_front();
        self.table.extend(table);
        buffer.extend(done.out.from(0))?;
        packers.give_back(done.out);
        Ok(())
    }

    /// Appends the remaining frames of the blob, and the bytes after the last frame.
    pub fn finish(mut self, packers: &mut Packers, buffer: &mut Block) -> Result<()> {
        if !self.pending.is_empty() {
            self.pass(packers)?;
        }
        while let Some(ticket) = self.passed.front() {
            let done = packers.take(ticket)?;
            self.append(done, packers, buffer)?;
        }
        buffer.extend(&packers.how().end(self.table)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::deflate;
    use crate::codecs::digest::Over;
    use crate::codecs::frames::Size;
    use crate::formats::Method;
    use crate::work::Stop;
    use crate::write::Compression;
    use crate::write::pack::How;

    /// Returns the bytes as one blob. Asserts that it does not depend on the threads and the size of the pieces.
    fn blob(bytes: &[u8], method: Method) -> Vec<u8> {
        let mut blobs = Vec::new();
        for (threads, piece) in [(1, 10_000_000), (3, 9777), (8, 65_536)] {
            let compression = Compression { level: 3, min_savings: 0.0, threads, frame: 65_536 };
            let how = How { compression, method, digest: None, digest_over: Over::Decoded };
            let mut packers = Packers::new(how, Stop::default());
            let (mut seekable, mut output) = (Seekable::new(&packers, Search::Level), Block::default());
            for piece in bytes.chunks(piece) {
                seekable.push(piece, &mut packers, &mut output).unwrap();
            }
            seekable.finish(&mut packers, &mut output).unwrap();
            blobs.push(output.take());
        }
        assert!(blobs[0] == blobs[1] && blobs[0] == blobs[2]);
        blobs.swap_remove(0)
    }

    fn counted() -> Vec<u8> {
        (0..600_000_u32).flat_map(|i| (i / 7).to_le_bytes()).collect()
    }

    #[test]
    fn pieces_form_one_deflate_stream() {
        let bytes = counted();
        let stream = blob(&bytes, Method::Deflate);
        assert!(stream.len() < bytes.len() / 2);
        let size = Size::Exactly(bytes.len() as u64);
        assert!(deflate::decode(&stream, false, size, &Stop::default()).unwrap() == bytes);
    }

    #[test]
    fn the_blob_is_plain_zstd() {
        let bytes = counted();
        let blob = blob(&bytes, Method::ZstdSeekable);
        let frames = bytes.len().div_ceil(65_536);
        let table = blob.len() - (8 + frames * 8 + 9);
        assert_eq!(blob[table..table + 4], 0x184D_2A5E_u32.to_le_bytes());
        let mut plain = Vec::new();
        zstd::stream::copy_decode(&blob[..table], &mut plain).unwrap();
        assert!(plain == bytes);
        // Bit 2 of the descriptor: a content checksum follows the frame (RFC 8878, 3.1.1.1.1).
        assert_eq!(blob[4] & 4, 4);
    }
}
