//! Encodes deflate streams (RFC 1951) in independent pieces, so that several threads can create one.
#![forbid(unsafe_code)]

use flate2::{Compress, Compression, FlushCompress, Status};

use crate::error::{Code, Error, Result};

/// Maximum compressing threads: each holds some 300 KiB.
pub const THREADS: u32 = 32;
/// The final block of a stream: no bytes, with fixed codes (RFC 1951 §3.2.6).
pub const END: [u8; 2] = [0x03, 0x00];

/// Encodes one piece after another, with the same tables.
pub struct Deflater(Compress);

impl Deflater {
    /// Creates an encoder. `level` is from 1, the fastest, to 9, the smallest.
    pub fn new(level: i32) -> Self {
        Self(Compress::new(Compression::new(level.clamp(1, 9).unsigned_abs()), false))
    }

    /// Returns the maximum size of a piece of `length` bytes: zlib's own bound for any setting, plus the empty block at its end.
    pub fn bound(length: usize) -> usize {
        length + length.div_ceil(8) + length.div_ceil(64) + 16
    }

    /// Encodes `bytes` as non-final blocks that end at a byte boundary, and returns their length; `output` must hold [`Deflater::bound`].
    pub fn piece(&mut self, bytes: &[u8], output: &mut [u8]) -> Result<usize> {
        self.0.reset();
        let status = self.0.compress(bytes, output, FlushCompress::Sync);
        let (read, written) = (self.0.total_in(), self.0.total_out());
        // If the output is full, more may follow.
        let whole = read == bytes.len() as u64 && written < output.len() as u64;
        match status {
            Ok(Status::Ok) if whole => {
                usize::try_from(written).map_err(|_| Error::new(Code::Internal, "a piece did not end"))
            }
            _ => Err(Error::new(Code::Internal, "deflate does not compress")),
        }
    }
}

/// Encodes bytes as non-final stored blocks (RFC 1951 §3.2.4).
pub fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::with_capacity(bytes.len() + 5);
    for piece in bytes.chunks(usize::from(u16::MAX)) {
        let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
        blocks.push(0);
        blocks.extend(length.to_le_bytes());
        blocks.extend((!length).to_le_bytes());
        blocks.extend(piece);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::deflate::decode;
    use crate::codecs::frames::Size;
    use crate::work::Stop;

    #[test]
    fn pieces_and_stored_blocks_form_one_stream() {
        let mut seed = 1_u32;
        let noise = (0..300_000).map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed.to_be_bytes()[0]
        });
        let parts = [Vec::new(), vec![7; 100_000], noise.collect::<Vec<u8>>(), b"abc".to_vec()];
        for level in [1, 6, 9] {
            let mut deflater = Deflater::new(level);
            let mut stream = Vec::new();
            for part in &parts {
                let mut output = vec![0; Deflater::bound(part.len())];
                let length = deflater.piece(part, &mut output).unwrap();
                stream.extend(&output[..length]);
                stream.extend(stored(part));
            }
            stream.extend(END);
            let plain: Vec<u8> = parts.iter().flat_map(|part| part.repeat(2)).collect();
            let size = Size::Exactly(plain.len() as u64);
            assert!(decode(&stream, false, size, &Stop::default()).unwrap() == plain);
        }
    }
}
