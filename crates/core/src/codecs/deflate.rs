//! Deflate (RFC 1951), bare or in a zlib stream (RFC 1950).
#![forbid(unsafe_code)]

use flate2::{Decompress, DecompressError, FlushDecompress, Status};

use super::deflate_whole;
use super::frames::Size;
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// Decoded bytes between two checks of the stop flag. They are still in the core's own cache for the next consumer.
const PIECE: usize = 256 << 10;
/// Increment of growing memory.
const GROWTH: usize = 4 << 20;
/// Maximum output size that is decoded by one call: 30 ms at 0.55 GB/s.
const AT_ONCE: usize = 16 << 20;
/// Maximum input size that is decoded by one call, because blocks may be empty.
const AT_ONCE_INPUT: usize = 2 * AT_ONCE;

/// A stream being decoded.
struct Stream<'a> {
    input: &'a [u8],
    decoder: Decompress,
    /// Whether its last block was decoded.
    ended: bool,
}

impl<'a> Stream<'a> {
    fn new(input: &'a [u8], zlib: bool) -> Self {
        Self { input, decoder: Decompress::new(zlib), ended: false }
    }

    /// Fills `output` until it is full or the stream ends, and returns the number of bytes.
    fn fill(&mut self, output: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < output.len() && !self.ended {
            let (read, written) = (self.decoder.total_in(), self.decoder.total_out());
            let rest = usize::try_from(read).ok().and_then(|read| self.input.get(read..)).unwrap_or_default();
            let target = output.get_mut(filled..).unwrap_or_default();
            let status = self.decoder.decompress(rest, target, FlushDecompress::None);
            let status = status.map_err(|error| damaged(&error))?;
            let made = self.decoder.total_out() - written;
            filled += usize::try_from(made).unwrap_or(0);
            self.ended = status == Status::StreamEnd;
            if !self.ended && made == 0 && self.decoder.total_in() == read {
                break;
            }
        }
        Ok(filled)
    }

    /// Checks that the stream ends here, with the right size, and that the input ends with it.
    fn finish(mut self, size: Size) -> Result<()> {
        if self.fill(&mut [0])? > 0 {
            return Err(match size {
                Size::Exactly(length) => {
                    Error::new(Code::Decode, format!("the deflate stream holds more than {length} bytes"))
                }
                Size::UpTo(limit) => {
                    Error::new(Code::Limit, format!("the deflate stream decodes to more than {limit} bytes"))
                        .option("maxDecodedBytes")
                }
            });
        }
        if !self.ended {
            return Err(Error::new(Code::Decode, "the deflate stream ends early"));
        }
        if self.decoder.total_in() != self.input.len() as u64 {
            return Err(Error::new(Code::Decode, "unexpected data after the deflate stream"));
        }
        match (self.decoder.total_out(), size) {
            (found, Size::Exactly(length)) if found != length => {
                let message = format!("the deflate stream holds {found} bytes, not {length}");
                Err(Error::new(Code::Decode, message))
            }
            _ => Ok(()),
        }
    }
}

/// Decodes `input`, which must consist of exactly one stream, into `output`, which must be filled completely. Passes decoded bytes to
/// `see`, piece by piece. Fails with `ZT_DECODE` if the stream is damaged or has a different size.
///
/// Errors are determined by the piecewise decoder: the whole-stream decoder is faster, but only reports that it failed.
pub fn decode_into(
    input: &[u8],
    zlib: bool,
    output: &mut [u8],
    stop: &Stop,
    mut see: impl FnMut(&[u8]),
) -> Result<()> {
    stop.check()?;
    let is_short = output.len() <= AT_ONCE && input.len() <= AT_ONCE_INPUT;
    if is_short && deflate_whole::decodes(input, zlib, output) {
        output.chunks(PIECE).for_each(see);
        return Ok(());
    }
    let length = output.len() as u64;
    let mut stream = Stream::new(input, zlib);
    for piece in output.chunks_mut(PIECE) {
        stop.check()?;
        if stream.fill(piece)? < piece.len() {
            break;
        }
        see(piece);
    }
    stream.finish(Size::Exactly(length))
}

/// Decodes `input`, which must consist of exactly one stream. Memory grows with the output, never with a claimed size. Fails with
/// `ZT_DECODE` if the stream is damaged or has a different size, and with `ZT_LIMIT` if it exceeds a limit.
pub fn decode(input: &[u8], zlib: bool, size: Size, stop: &Stop) -> Result<Vec<u8>> {
    let (Size::Exactly(max) | Size::UpTo(max)) = size;
    let mut stream = Stream::new(input, zlib);
    let mut output = Vec::new();
    while !stream.ended && (output.len() as u64) < max {
        stop.check()?;
        let start = output.len();
        let growth = usize::try_from(max - start as u64).unwrap_or(GROWTH).min(GROWTH);
        output.try_reserve(growth).map_err(|_| Error::new(Code::Limit, "not enough memory to decode"))?;
        output.resize(start + growth, 0);
        let filled = stream.fill(output.get_mut(start..).unwrap_or_default())?;
        output.truncate(start + filled);
        if filled < growth {
            break;
        }
    }
    stream.finish(size).map(|()| output)
}

/// Stored bytes that are held at once.
const INPUT: usize = 1 << 20;

/// Decodes a bare stream of `stored` bytes, which `read` returns in sequence, to exactly `length` bytes. Passes them to `each`, piece by
/// piece. Fails with `ZT_DECODE` if the stream is damaged or has a different size.
pub fn decode_pieces(
    stored: u64,
    length: u64,
    stop: &Stop,
    mut read: impl FnMut(&mut [u8]) -> Result<()>,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut decoder = Decompress::new(false);
    let (mut input, mut unread, mut start) = (Vec::new(), stored, 0);
    // One byte more than expected, so that excess bytes are detected.
    let mut output = vec![0; usize::try_from(length).unwrap_or(PIECE).saturating_add(1).min(PIECE)];
    loop {
        stop.check()?;
        if start == input.len() && unread > 0 {
            input.resize(usize::try_from(unread).unwrap_or(INPUT).min(INPUT), 0);
            read(&mut input)?;
            (unread, start) = (unread - input.len() as u64, 0);
        }
        let (taken, made) = (decoder.total_in(), decoder.total_out());
        let status =
            decoder.decompress(input.get(start..).unwrap_or_default(), &mut output, FlushDecompress::None);
        let status = status.map_err(|error| damaged(&error))?;
        let (taken, count) = (decoder.total_in() - taken, decoder.total_out() - made);
        start += usize::try_from(taken).unwrap_or_default();
        if decoder.total_out() > length {
            let message = format!("the deflate stream holds more than {length} bytes");
            return Err(Error::new(Code::Decode, message));
        }
        each(output.get(..usize::try_from(count).unwrap_or_default()).unwrap_or_default())?;
        if status == Status::StreamEnd {
            break;
        }
        if taken == 0 && count == 0 && (unread == 0 || start < input.len()) {
            return Err(Error::new(Code::Decode, "the deflate stream ends early"));
        }
    }
    if unread > 0 || start < input.len() {
        return Err(Error::new(Code::Decode, "unexpected data after the deflate stream"));
    }
    if decoder.total_out() != length {
        let message = format!("the deflate stream holds {} bytes, not {length}", decoder.total_out());
        return Err(Error::new(Code::Decode, message));
    }
    Ok(())
}

/// Returns up to the first `max` bytes of a bare stream, which may be truncated anywhere.
pub fn head(input: &[u8], max: u64) -> Result<Vec<u8>> {
    // The file alone must not determine the size: the input cannot yield more.
    let length = checked::index(max.min((input.len() as u64).saturating_mul(RATIO)), "a head")?;
    let mut output = vec![0; length];
    let filled = Stream::new(input, false).fill(&mut output)?;
    output.truncate(filled);
    Ok(output)
}

/// Maximum expansion of a stream: 258 bytes for two bits.
pub const RATIO: u64 = 1032;

fn damaged(error: &DecompressError) -> Error {
    Error::new(Code::Decode, format!("the deflate stream is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(bytes: &[u8], zlib: bool) -> Vec<u8> {
        let level = flate2::Compression::default();
        if zlib {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            return encoder.finish().unwrap();
        }
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn streams_round_trip() {
        let stop = Stop::default();
        for length in [0, 1, 1000, 2 * PIECE + 3, 2 * GROWTH + 3] {
            let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            for zlib in [false, true] {
                let input = packed(&bytes, zlib);
                let size = length as u64;
                assert!(decode(&input, zlib, Size::Exactly(size), &stop).unwrap() == bytes);
                assert!(decode(&input, zlib, Size::UpTo(size), &stop).unwrap() == bytes);
                let code = |size| decode(&input, zlib, size, &stop).err().map(|error| error.code());
                assert_eq!(code(Size::Exactly(size + 1)), Some(Code::Decode));
                if length > 0 {
                    assert_eq!(code(Size::Exactly(size - 1)), Some(Code::Decode));
                    assert_eq!(code(Size::UpTo(size - 1)), Some(Code::Limit));
                    assert!(decode(&input[..input.len() - 1], zlib, Size::Exactly(size), &stop).is_err());
                }
                let more = [&*input, &[0]].concat();
                assert!(decode(&more, zlib, Size::Exactly(size), &stop).is_err());
                memory_is_filled(&input, zlib, &bytes);
                assert!(decode_into(&more, zlib, &mut bytes.clone(), &stop, |_| ()).is_err());
            }
        }
        assert!(decode(&[7; 100], false, Size::UpTo(1 << 20), &stop).is_err());
        assert!(decode(&[], false, Size::UpTo(1 << 20), &stop).is_err());
    }

    fn memory_is_filled(input: &[u8], zlib: bool, bytes: &[u8]) {
        let stop = Stop::default();
        let (mut output, mut seen) = (vec![0; bytes.len()], Vec::new());
        decode_into(input, zlib, &mut output, &stop, |piece| seen.extend_from_slice(piece)).unwrap();
        assert!(output == bytes && seen == bytes);
        let refused = |length: usize| {
            let failed = decode_into(input, zlib, &mut vec![0; length], &stop, |_| ()).unwrap_err();
            assert_eq!(failed.code(), Code::Decode);
        };
        refused(bytes.len() + 1);
        refused(bytes.len() + 2 * PIECE);
        if !bytes.is_empty() {
            refused(bytes.len() - 1);
            let truncated = input.get(..input.len() - 1).unwrap();
            assert!(decode_into(truncated, zlib, &mut vec![0; bytes.len()], &stop, |_| ()).is_err());
        }
    }

    #[test]
    fn large_streams_are_decoded_in_pieces() {
        let bytes: Vec<u8> = (0..AT_ONCE + 5).map(|at| u8::try_from(at % 251).unwrap()).collect();
        memory_is_filled(&packed(&bytes, true), true, &bytes);
        let stopped = Stop::default();
        stopped.set();
        for length in [1, AT_ONCE + 5] {
            let failed = decode_into(b"", true, &mut vec![0; length], &stopped, |_| ()).unwrap_err();
            assert_eq!(failed.code(), Code::Aborted);
        }
    }

    #[test]
    fn a_head_is_decoded_from_a_truncated_stream() {
        let bytes: Vec<u8> = (0..5000_u32).map(|at| u8::try_from(at * at % 251).unwrap()).collect();
        let input = packed(&bytes, false);
        for max in [0, 1, 128, 4999] {
            assert_eq!(head(&input, max as u64).unwrap(), bytes[..max]);
        }
        assert_eq!(head(&input, u64::MAX).unwrap(), bytes);
        let truncated = head(&input[..input.len() / 2], 5000).unwrap();
        assert!(!truncated.is_empty() && truncated.len() < 5000 && bytes.starts_with(&truncated));
        assert!(head(&[], 10).unwrap().is_empty());
        assert_eq!(head(&[7; 100], 10).unwrap_err().code(), Code::Decode);
    }

    #[test]
    fn a_claimed_size_allocates_nothing() {
        let input = packed(&[0; 100], false);
        assert_eq!(
            decode(&input, false, Size::Exactly(1 << 60), &Stop::default()).unwrap_err().code(),
            Code::Decode
        );
    }
}
