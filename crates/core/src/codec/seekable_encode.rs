//! Writes zstd's seekable format as `zt.zstd-seekable/1` asks for it: frames of one content size, each with a
//! checksum, and behind them a seek table in a skippable frame.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use zstd::zstd_safe::{CCtx, CParameter, compress_bound, get_error_name};

use crate::error::{Code, Error, Result};
use crate::work::for_each;

/// The largest content of a frame.
pub const LARGEST_FRAME: u32 = 16 << 20;
const SKIPPABLE: u32 = 0x184D_2A5E;
const SEEKABLE: u32 = 0x8F92_EAB1;

/// A stream in the making. Its bytes depend on its input, the level and the frame size alone.
pub struct Seekable {
    level: i32,
    frame: usize,
    /// Bytes that are compressed together, as many frames as there are threads.
    batch: usize,
    pending: Vec<u8>,
    /// Compressed and plain bytes of each frame.
    table: Vec<(u32, u32)>,
}

impl Seekable {
    /// `frame`: bytes of content in each frame but the last, up to [`LARGEST_FRAME`].
    pub fn new(level: i32, frame: u32, threads: u32) -> Self {
        let frame = usize::try_from(frame.clamp(1, LARGEST_FRAME)).unwrap_or(1);
        let batch = frame * usize::try_from(threads.max(1)).unwrap_or(1);
        Self { level, frame, batch, pending: Vec::new(), table: Vec::new() }
    }

    /// Takes the next bytes and gives what of the stream is done.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>> {
        let mut output = Vec::new();
        while !bytes.is_empty() {
            let taken = bytes.len().min(self.batch - self.pending.len());
            let (now, later) = bytes.split_at(taken);
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() == self.batch {
                self.compress(&mut output)?;
            }
        }
        Ok(output)
    }

    /// The rest of the stream, with the seek table.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let mut output = Vec::new();
        self.compress(&mut output)?;
        let too_many =
            |_| Error::new(Code::Limit, "more frames than a seek table can hold; take larger ones");
        let frames = u32::try_from(self.table.len()).map_err(too_many)?;
        let length = u32::try_from(self.table.len() * 8 + 9).map_err(too_many)?;
        output.extend_from_slice(&SKIPPABLE.to_le_bytes());
        output.extend_from_slice(&length.to_le_bytes());
        for (packed, plain) in &self.table {
            output.extend_from_slice(&packed.to_le_bytes());
            output.extend_from_slice(&plain.to_le_bytes());
        }
        output.extend_from_slice(&frames.to_le_bytes());
        // No checksums in the table: the frames have theirs.
        output.push(0);
        output.extend_from_slice(&SEEKABLE.to_le_bytes());
        Ok(output)
    }

    fn compress(&mut self, output: &mut Vec<u8>) -> Result<()> {
        let frames: Vec<&[u8]> = self.pending.chunks(self.frame).collect();
        let packed: Vec<Mutex<Result<Vec<u8>>>> = frames.iter().map(|_| Mutex::new(Ok(Vec::new()))).collect();
        for_each(frames.len(), |at| {
            if let (Some(frame), Some(slot)) = (frames.get(at), packed.get(at)) {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = one_frame(self.level, frame);
            }
        });
        for (frame, packed) in frames.iter().zip(packed) {
            let packed = packed.into_inner().unwrap_or_else(PoisonError::into_inner)?;
            let small = |length: usize| u32::try_from(length).map_err(|_| failed("a frame of 4 GiB"));
            self.table.push((small(packed.len())?, small(frame.len())?));
            output.extend_from_slice(&packed);
        }
        self.pending.clear();
        Ok(())
    }
}

fn one_frame(level: i32, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut context = CCtx::create();
    let set = |context: &mut CCtx<'_>, parameter| {
        context.set_parameter(parameter).map(drop).map_err(|code| failed(get_error_name(code)))
    };
    set(&mut context, CParameter::CompressionLevel(level))?;
    set(&mut context, CParameter::ChecksumFlag(true))?;
    let mut packed = Vec::with_capacity(compress_bound(bytes.len()));
    context.compress2(&mut packed, bytes).map_err(|code| failed(get_error_name(code)))?;
    Ok(packed)
}

fn failed(why: &str) -> Error {
    Error::new(Code::Internal, format!("zstd does not compress: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_plain_zstd_and_does_not_depend_on_threads_or_pieces() {
        let bytes: Vec<u8> = (0..100_000_u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        let mut streams = Vec::new();
        for (threads, piece) in [(1, 1_000_000), (3, 977), (8, 65_536)] {
            let (mut seekable, mut output) = (Seekable::new(3, 65_536, threads), Vec::new());
            bytes.chunks(piece).for_each(|piece| output.extend(seekable.push(piece).unwrap()));
            output.extend(seekable.finish().unwrap());
            streams.push(output);
        }
        assert_eq!(streams[0], streams[1]);
        assert_eq!(streams[0], streams[2]);
        let frames = bytes.len().div_ceil(65_536);
        let table = streams[0].len() - (8 + frames * 8 + 9);
        assert_eq!(streams[0][table..table + 4], SKIPPABLE.to_le_bytes());
        let mut plain = Vec::new();
        zstd::stream::copy_decode(&streams[0][..table], &mut plain).unwrap();
        assert_eq!(plain, bytes);
        // Bit 2 of the descriptor: a content checksum follows the frame (RFC 8878, 3.1.1.1.1).
        assert_eq!(streams[0][4] & 4, 4);
    }
}
