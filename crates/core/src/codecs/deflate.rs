//! Deflate (RFC 1951), bare or in a zlib stream (RFC 1950).
#![forbid(unsafe_code)]

use flate2::{Decompress, DecompressError, FlushDecompress, Status};

use super::frames::Size;
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// Decoded bytes between two looks at the stop flag.
const PIECE: usize = 4 << 20;

/// Decodes `input`, which has to be one stream and nothing else. Memory grows with what comes out, never with what is claimed.
/// Fails with `ZT_DECODE` where the stream is damaged or of another size, with `ZT_LIMIT` where it goes beyond a limit.
pub fn decode(input: &[u8], zlib: bool, size: Size, stop: &Stop) -> Result<Vec<u8>> {
    let (most, exactly) = match size {
        Size::Exactly(length) => (length, Some(length)),
        Size::UpTo(limit) => (limit, None),
    };
    let mut decoder = Decompress::new(zlib);
    let mut output = Vec::new();
    loop {
        stop.check()?;
        // One byte of room more than there may be shows that there is more.
        let room = usize::try_from(most.saturating_add(1) - output.len() as u64).unwrap_or(PIECE).min(PIECE);
        output.try_reserve(room).map_err(|_| Error::new(Code::Limit, "not enough memory to decode"))?;
        let (read, written) = (decoder.total_in(), decoder.total_out());
        let rest = usize::try_from(read).ok().and_then(|read| input.get(read..)).unwrap_or_default();
        let bounded = output.len() + room;
        let mut piece = std::mem::take(&mut output);
        let filled = piece.len();
        piece.resize(bounded, 0);
        let status =
            decoder.decompress(rest, piece.get_mut(filled..).unwrap_or_default(), FlushDecompress::None);
        let status = status.map_err(|error| damaged(&error))?;
        piece.truncate(filled + usize::try_from(decoder.total_out() - written).unwrap_or(0));
        output = piece;
        if output.len() as u64 > most {
            return Err(match exactly {
                Some(length) => {
                    Error::new(Code::Decode, format!("the deflate stream holds more than {length} bytes"))
                }
                None => Error::new(
                    Code::Limit,
                    format!("the deflate stream decodes to more than {most} bytes (option maxDecodedBytes)"),
                ),
            });
        }
        if status == Status::StreamEnd {
            break;
        }
        if (decoder.total_in(), decoder.total_out()) == (read, written) {
            return Err(Error::new(Code::Decode, "the deflate stream ends early"));
        }
    }
    if decoder.total_in() != input.len() as u64 {
        return Err(Error::new(Code::Decode, "something stands behind the deflate stream"));
    }
    if let Some(length) = exactly.filter(|&length| length != output.len() as u64) {
        let message = format!("the deflate stream holds {} bytes, not {length}", output.len());
        return Err(Error::new(Code::Decode, message));
    }
    Ok(output)
}

/// The first `most` bytes of a bare stream, which may be cut off anywhere: fewer where it does not hold them.
pub fn head(input: &[u8], most: u64) -> Result<Vec<u8>> {
    let mut decoder = Decompress::new(false);
    // What is asked for is not a claim of the file alone: of the input no more can come.
    let room = checked::index(most.min((input.len() as u64).saturating_mul(RATIO)), "a head")?;
    let mut output = vec![0; room];
    loop {
        let (read, written) = (decoder.total_in(), decoder.total_out());
        let rest = usize::try_from(read).ok().and_then(|read| input.get(read..)).unwrap_or_default();
        let free = usize::try_from(written).ok().and_then(|at| output.get_mut(at..)).unwrap_or_default();
        let status =
            decoder.decompress(rest, free, FlushDecompress::None).map_err(|error| damaged(&error))?;
        let stuck = (decoder.total_in(), decoder.total_out()) == (read, written);
        if stuck || status == Status::StreamEnd || decoder.total_out() == room as u64 {
            output.truncate(usize::try_from(decoder.total_out()).unwrap_or(room));
            return Ok(output);
        }
    }
}

/// What a byte of a stream decodes to at most: 258 bytes for two bits.
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
    fn streams_are_taken_back() {
        let stop = Stop::default();
        for length in [0, 1, 1000, 2 * PIECE + 3] {
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
            }
        }
        assert!(decode(&[7; 100], false, Size::UpTo(1 << 20), &stop).is_err());
        assert!(decode(&[], false, Size::UpTo(1 << 20), &stop).is_err());
    }

    #[test]
    fn a_head_needs_no_whole_stream() {
        let bytes: Vec<u8> = (0..5000_u32).map(|at| u8::try_from(at * at % 251).unwrap()).collect();
        let input = packed(&bytes, false);
        for most in [0, 1, 128, 4999] {
            assert_eq!(head(&input, most as u64).unwrap(), bytes[..most]);
        }
        assert_eq!(head(&input, u64::MAX).unwrap(), bytes);
        let cut = head(&input[..input.len() / 2], 5000).unwrap();
        assert!(!cut.is_empty() && cut.len() < 5000 && bytes.starts_with(&cut));
        assert!(head(&[], 10).unwrap().is_empty());
        assert_eq!(head(&[7; 100], 10).unwrap_err().code(), Code::Decode);
    }

    #[test]
    fn what_is_claimed_costs_nothing() {
        let input = packed(&[0; 100], false);
        assert_eq!(
            decode(&input, false, Size::Exactly(1 << 60), &Stop::default()).unwrap_err().code(),
            Code::Decode
        );
    }
}
