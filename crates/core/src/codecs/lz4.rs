//! One LZ4 frame (lz4/lz4, LZ4 Frame Format), its checksums checked where it has any.
#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read};

use lz4_flex::frame::FrameDecoder;

use super::frames::Size;
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// Bytes between two looks at the stop flag, and those by which an output of unknown size grows.
const PIECE: usize = 4 << 20;

/// Decodes into memory that has to be filled to its last byte. Nothing may follow the frame.
pub fn decode_into(input: &[u8], output: &mut [u8], stop: &Stop) -> Result<()> {
    let mut rest = input;
    let mut decoder = FrameDecoder::new(&mut rest);
    let (length, mut filled) = (output.len(), 0);
    while let Some(room) = output.get_mut(filled..length.min(filled + PIECE)).filter(|room| !room.is_empty())
    {
        stop.check()?;
        match read(&mut decoder, room)? {
            0 => return Err(bad(format!("the LZ4 frame decodes to {filled} bytes, not {length}"))),
            read => filled += read,
        }
    }
    if read(&mut decoder, &mut [0])? > 0 {
        return Err(bad(format!("the LZ4 frame decodes to more than {length} bytes")));
    }
    drop(decoder);
    ended(rest)
}

/// Decodes into memory of its own.
pub fn decode(input: &[u8], size: Size, stop: &Stop) -> Result<Vec<u8>> {
    let most = match size {
        Size::Exactly(length) | Size::UpTo(length) => length,
    };
    let mut rest = input;
    let mut decoder = FrameDecoder::new(&mut rest);
    let mut output = Vec::new();
    loop {
        stop.check()?;
        let filled = output.len();
        output.try_reserve(PIECE).map_err(|_| Error::new(Code::Limit, "not enough memory to decode"))?;
        output.resize(filled + PIECE, 0);
        let read = read(&mut decoder, output.get_mut(filled..).unwrap_or_default())?;
        output.truncate(filled + read);
        if output.len() as u64 > most {
            let code = if matches!(size, Size::Exactly(_)) { Code::Decode } else { Code::Limit };
            return Err(Error::new(code, format!("the LZ4 frame decodes to more than {most} bytes")));
        }
        if read == 0 {
            break;
        }
    }
    drop(decoder);
    ended(rest)?;
    match size {
        Size::Exactly(length) if output.len() as u64 != length => {
            Err(bad(format!("the LZ4 frame decodes to {} bytes, not {length}", output.len())))
        }
        _ => Ok(output),
    }
}

fn read(decoder: &mut FrameDecoder<&mut &[u8]>, room: &mut [u8]) -> Result<usize> {
    loop {
        match decoder.read(room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(bad("the LZ4 frame ends early"));
            }
            read => return read.map_err(|error| bad(format!("the LZ4 frame cannot be decoded: {error}"))),
        }
    }
}

fn ended(rest: &[u8]) -> Result<()> {
    if rest.is_empty() { Ok(()) } else { Err(bad(format!("{} bytes follow the LZ4 frame", rest.len()))) }
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
            assert_eq!(both(&good[..end], 18), None, "cut at {end}");
            let mut damaged = good.clone();
            damaged[end] ^= 1;
            assert_eq!(both(&damaged, 18), None, "damaged at {end}");
        }
        assert_eq!(both(&[&good[..], &[0]].concat(), 18), None);
    }
}
