//! A single LZ4 frame (lz4/lz4, LZ4 Frame Format), including its optional checksums.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read};

use lz4_flex::frame::FrameDecoder;

use super::frames::Size;
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// Bytes between two checks of the stop flag, and the increment of an output of unknown size.
const PIECE: usize = 4 << 20;

/// Decodes into memory that must be filled completely. Nothing may follow the frame.
pub fn decode_into(input: &[u8], output: &mut [u8], stop: &Stop) -> Result<()> {
    let mut next = from_slice(input);
    let mut decoder = FrameDecoder::new(Input::new(input.len() as u64, &mut next));
    fill(&mut decoder, output, stop)?;
    ended(decoder, output.len() as u64)
}

/// Returns a function that fills memory with the next bytes, of which there are enough.
fn from_slice(mut input: &[u8]) -> impl FnMut(&mut [u8]) -> Result<()> {
    move |buffer| {
        let (now, rest) = input.split_at_checked(buffer.len()).unwrap_or_default();
        buffer.copy_from_slice(now);
        input = rest;
        Ok(())
    }
}

/// Decodes to new memory.
pub fn decode(input: &[u8], size: Size, stop: &Stop) -> Result<Vec<u8>> {
    let max = match size {
        Size::Exactly(length) | Size::UpTo(length) => length,
    };
    let mut next = from_slice(input);
    let mut decoder = FrameDecoder::new(Input::new(input.len() as u64, &mut next));
    let mut output = Vec::new();
    loop {
        stop.check()?;
        let filled = output.len();
        output.try_reserve(PIECE).map_err(|_| Error::new(Code::Limit, "not enough memory to decode"))?;
        output.resize(filled + PIECE, 0);
        let read = read(&mut decoder, output.get_mut(filled..).unwrap_or_default())?;
        output.truncate(filled + read);
        if output.len() as u64 > max {
            let code = if matches!(size, Size::Exactly(_)) { Code::Decode } else { Code::Limit };
            return Err(Error::new(code, format!("the LZ4 frame decodes to more than {max} bytes")));
        }
        if read == 0 {
            break;
        }
    }
    decoder.into_inner().ended()?;
    match size {
        Size::Exactly(length) if output.len() as u64 != length => {
            Err(bad(format!("the LZ4 frame decodes to {} bytes, not {length}", output.len())))
        }
        _ => Ok(output),
    }
}

/// Decodes a frame of `stored` bytes, which `read` returns in sequence, and calls `each` with `length` bytes, 4 MiB at a time.
pub fn decode_pieces(
    stored: u64,
    length: u64,
    stop: &Stop,
    next: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut decoder = FrameDecoder::new(Input::new(stored, next));
    let mut output = vec![0; usize::try_from(length).unwrap_or(PIECE).min(PIECE)];
    let mut left = length;
    while left > 0 {
        let piece = output.get_mut(..usize::try_from(left).unwrap_or(PIECE).min(PIECE)).unwrap_or_default();
        fill(&mut decoder, piece, stop)?;
        left -= piece.len() as u64;
        each(piece)?;
    }
    ended(decoder, length)
}

/// Fills memory with the next decoded bytes.
fn fill(decoder: &mut FrameDecoder<Input<'_>>, output: &mut [u8], stop: &Stop) -> Result<()> {
    for piece in output.chunks_mut(PIECE) {
        let mut rest = &mut *piece;
        while !rest.is_empty() {
            stop.check()?;
            let read = match read(decoder, rest)? {
                0 => return Err(bad("the LZ4 frame decodes to fewer bytes than its data has")),
                read => read,
            };
            rest = rest.get_mut(read..).unwrap_or_default();
        }
    }
    Ok(())
}

/// Fails unless the frame ends, and nothing follows it.
fn ended(mut decoder: FrameDecoder<Input<'_>>, length: u64) -> Result<()> {
    if read(&mut decoder, &mut [0])? > 0 {
        return Err(bad(format!("the LZ4 frame decodes to more than {length} bytes")));
    }
    decoder.into_inner().ended()
}

/// The bytes of the frame. Records whether the decoder requested more bytes than available, because it treats an input
/// that ends before a block as the end of the frame.
struct Input<'a> {
    next: &'a mut dyn FnMut(&mut [u8]) -> Result<()>,
    left: u64,
    is_exhausted: bool,
    /// Why the bytes cannot be read.
    error: Option<Error>,
}

impl<'a> Input<'a> {
    fn new(left: u64, next: &'a mut dyn FnMut(&mut [u8]) -> Result<()>) -> Self {
        Self { next, left, is_exhausted: false, error: None }
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        self.is_exhausted |= read < buffer.len();
        self.left -= read as u64;
        (self.next)(buffer.get_mut(..read).unwrap_or_default()).map_err(|error| {
            self.error = Some(error);
            io::Error::from(ErrorKind::Other)
        })?;
        Ok(read)
    }
}

impl Input<'_> {
    fn ended(&self) -> Result<()> {
        match self.left {
            0 if self.is_exhausted => Err(bad("the LZ4 frame ends early")),
            0 => Ok(()),
            more => Err(bad(format!("{more} bytes follow the LZ4 frame"))),
        }
    }
}

fn read(decoder: &mut FrameDecoder<Input<'_>>, buffer: &mut [u8]) -> Result<usize> {
    loop {
        match decoder.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                if let Some(error) = decoder.get_mut().error.take() {
                    return Err(error);
                }
                return Err(match error.kind() {
                    ErrorKind::UnexpectedEof => bad("the LZ4 frame ends early"),
                    _ => bad(format!("the LZ4 frame cannot be decoded: {error}")),
                });
            }
            Ok(read) => return Ok(read),
        }
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::Decode, message)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{FrameEncoder, FrameInfo};

    use super::*;

    fn frame(bytes: &[u8]) -> Vec<u8> {
        let info = FrameInfo::new().content_checksum(true).block_checksums(true);
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn both(input: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut output = vec![0; length];
        let into = decode_into(input, &mut output, Stop::never()).ok().map(|()| output);
        let alone = decode(input, Size::Exactly(length as u64), Stop::never()).ok();
        assert_eq!(into, alone);
        let (mut rest, mut pieces) = (input, Vec::new());
        let next = &mut |buffer: &mut [u8]| {
            let (now, later) = rest.split_at(buffer.len());
            buffer.copy_from_slice(now);
            rest = later;
            Ok(())
        };
        let done = decode_pieces(input.len() as u64, length as u64, Stop::never(), next, &mut |piece| {
            pieces.extend_from_slice(piece);
            Ok(())
        });
        assert_eq!(into, done.ok().map(|()| pieces));
        into
    }

    #[test]
    fn a_frame_is_decoded_whole() {
        for length in [0, 1, 5000, 10 << 20] {
            let bytes: Vec<u8> = (0..length).map(|at: u32| (at / 7).to_le_bytes()[0]).collect();
            assert_eq!(both(&frame(&bytes), bytes.len()).unwrap(), bytes);
        }
        assert_eq!(decode(&frame(b"abc"), Size::UpTo(2), Stop::never()).unwrap_err().code(), Code::Limit);
        assert_eq!(decode(&frame(b"abc"), Size::UpTo(9), Stop::never()).unwrap(), b"abc");
    }

    #[test]
    fn damage_is_refused() {
        let good = frame(b"abcabcabcabcabcabc");
        for length in [0, 17, 19] {
            assert_eq!(both(&good, length), None);
        }
        for end in 0..good.len() {
            assert_eq!(both(&good[..end], 18), None, "is_exhausted at {end}");
            let mut damaged = good.clone();
            damaged[end] ^= 1;
            assert_eq!(both(&damaged, 18), None, "damaged at {end}");
        }
        assert_eq!(both(&[&good[..], &[0]].concat(), 18), None);
        assert_eq!(both(&[], 0), None);
        let headed = &frame(b"")[..7];
        assert_eq!(both(headed, 0), None);
    }
}
