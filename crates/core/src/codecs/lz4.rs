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
    let mut decoder = FrameDecoder::new(Input { rest: input, is_exhausted: false });
    let (length, mut filled) = (output.len(), 0);
    while let Some(buffer) =
        output.get_mut(filled..length.min(filled + PIECE)).filter(|buffer| !buffer.is_empty())
    {
        stop.check()?;
        match read(&mut decoder, buffer)? {
            0 => return Err(bad(format!("the LZ4 frame decodes to {filled} bytes, not {length}"))),
            read => filled += read,
        }
    }
    if read(&mut decoder, &mut [0])? > 0 {
        return Err(bad(format!("the LZ4 frame decodes to more than {length} bytes")));
    }
    decoder.into_inner().ended()
}

/// Decodes to new memory.
pub fn decode(input: &[u8], size: Size, stop: &Stop) -> Result<Vec<u8>> {
    let max = match size {
        Size::Exactly(length) | Size::UpTo(length) => length,
    };
    let mut decoder = FrameDecoder::new(Input { rest: input, is_exhausted: false });
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

/// The bytes of the frame. Records whether the decoder requested more bytes than available, because it treats an input
/// that ends before a block as the end of the frame.
struct Input<'a> {
    rest: &'a [u8],
    is_exhausted: bool,
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.rest.read(buffer)?;
        self.is_exhausted |= read < buffer.len();
        Ok(read)
    }
}

impl Input<'_> {
    fn ended(&self) -> Result<()> {
        match self.rest.len() {
            0 if self.is_exhausted => Err(bad("the LZ4 frame ends early")),
            0 => Ok(()),
            more => Err(bad(format!("{more} bytes follow the LZ4 frame"))),
        }
    }
}

fn read(decoder: &mut FrameDecoder<Input>, buffer: &mut [u8]) -> Result<usize> {
    loop {
        match decoder.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(bad("the LZ4 frame ends early"));
            }
            read => return read.map_err(|error| bad(format!("the LZ4 frame cannot be decoded: {error}"))),
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
