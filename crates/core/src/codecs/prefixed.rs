//! Compressed buffers that begin with their decoded length in 8 bytes, as in Arrow (Columnar Format, Compression). A
//! length of -1 means that the rest is not compressed.
#![forbid(unsafe_code)]

use super::frames::Size;
use super::{lz4, zstd, zstd_pieces};
use crate::error::{Code, Error, Result};
use crate::work::{PIECE, Stop};

/// The compression after the length.
#[derive(Clone, Copy)]
pub enum PrefixedCodec {
    Lz4,
    Zstd,
}

/// Decodes to new memory. Excess bytes are padding.
pub fn decode(inner: PrefixedCodec, input: &[u8], size: Size, stop: &Stop) -> Result<Vec<u8>> {
    let (claimed, rest) = split(input)?;
    let length = claimed.unwrap_or(rest.len() as u64);
    let wanted = match size {
        Size::Exactly(wanted) => wanted,
        Size::UpTo(max) if length > max => {
            return Err(Error::new(
                Code::Limit,
                format!("a buffer decodes to {length} bytes, more than {max}"),
            ));
        }
        Size::UpTo(_) => length,
    };
    let mut output = match claimed {
        None => rest.to_vec(),
        Some(length) => {
            padded(length, wanted)?;
            match inner {
                PrefixedCodec::Lz4 => lz4::decode(rest, Size::Exactly(length), stop)?,
                PrefixedCodec::Zstd => zstd::decode_to(rest, Size::Exactly(length), stop)?,
            }
        }
    };
    padded(output.len() as u64, wanted)?;
    output.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    Ok(output)
}

/// Decodes into memory that must be filled completely.
pub fn decode_into(inner: PrefixedCodec, input: &[u8], output: &mut [u8], stop: &Stop) -> Result<()> {
    let (claimed, rest) = split(input)?;
    let wanted = output.len();
    match (claimed, inner) {
        (Some(length), PrefixedCodec::Lz4) if length == wanted as u64 => lz4::decode_into(rest, output, stop),
        (Some(length), PrefixedCodec::Zstd) if length == wanted as u64 => {
            zstd::decode_into(rest, output, stop)
        }
        _ => {
            let decoded = decode(inner, input, Size::Exactly(wanted as u64), stop)?;
            output.copy_from_slice(&decoded);
            Ok(())
        }
    }
}

/// Decodes a buffer of `stored` bytes, which `read` returns in sequence, and calls `each` with `wanted` bytes, some MiB at a time.
pub fn decode_pieces(
    inner: PrefixedCodec,
    (stored, wanted): (u64, u64),
    stop: &Stop,
    read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut length = [0; 8];
    let length = length.get_mut(..stored.min(8) as usize).unwrap_or_default();
    read(length)?;
    let (claimed, _) = split(length)?;
    let rest = stored - 8;
    padded(claimed.unwrap_or(rest), wanted)?;
    let mut left = wanted;
    let mut unpadded = |piece: &mut [u8]| {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        left -= count as u64;
        each(piece.get_mut(..count).unwrap_or_default())
    };
    match (claimed, inner) {
        (Some(length), PrefixedCodec::Lz4) => lz4::decode_pieces(rest, length, stop, read, &mut unpadded),
        (Some(length), PrefixedCodec::Zstd) => {
            zstd_pieces::decode(rest, Size::Exactly(length), stop, read, &mut unpadded).map(drop)
        }
        (None, _) => {
            let mut piece = vec![0; PIECE];
            let mut left = rest;
            while left > 0 {
                stop.check()?;
                let piece =
                    piece.get_mut(..usize::try_from(left).unwrap_or(PIECE).min(PIECE)).unwrap_or_default();
                read(piece)?;
                left -= piece.len() as u64;
                unpadded(piece)?;
            }
            Ok(())
        }
    }
}

fn split(input: &[u8]) -> Result<(Option<u64>, &[u8])> {
    let short = || Error::new(Code::Decode, "a compressed buffer has no length before it");
    let (length, rest) = input.split_first_chunk::<8>().ok_or_else(short)?;
    match i64::from_le_bytes(*length) {
        -1 => Ok((None, rest)),
        length => u64::try_from(length).map(|length| (Some(length), rest)).map_err(|_| {
            Error::new(Code::Decode, format!("a compressed buffer states a decoded size of {length} bytes"))
        }),
    }
}

/// Buffers are padded to 64 bytes, so more excess indicates an error.
const PADDING: u64 = 64;

fn padded(found: u64, wanted: u64) -> Result<()> {
    if (wanted..=wanted.saturating_add(PADDING)).contains(&found) {
        return Ok(());
    }
    Err(Error::new(Code::Decode, format!("a compressed buffer decodes to {found} bytes, not {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(inner: PrefixedCodec, input: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut output = vec![0; length];
        let into = decode_into(inner, input, &mut output, Stop::never()).ok().map(|()| output);
        let alone = decode(inner, input, Size::Exactly(length as u64), Stop::never()).ok();
        assert_eq!(into, alone);
        let (mut rest, mut pieces) = (input, Vec::new());
        let read = &mut |buffer: &mut [u8]| {
            let (now, later) = rest.split_at(buffer.len());
            buffer.copy_from_slice(now);
            rest = later;
            Ok(())
        };
        let sizes = (input.len() as u64, length as u64);
        let done = decode_pieces(inner, sizes, Stop::never(), read, &mut |piece| {
            pieces.extend_from_slice(piece);
            Ok(())
        });
        assert_eq!(into, done.ok().map(|()| pieces));
        into
    }

    #[test]
    fn lengths_raw_bytes_and_padding() {
        let raw = [&(-1_i64).to_le_bytes()[..], b"abcd"].concat();
        assert_eq!(both(PrefixedCodec::Lz4, &raw, 4).unwrap(), b"abcd");
        assert_eq!(both(PrefixedCodec::Lz4, &raw, 3).unwrap(), b"abc");
        assert_eq!(both(PrefixedCodec::Lz4, &raw, 5), None);
        let packed = [&4_i64.to_le_bytes()[..], &::zstd::bulk::compress(b"abcd", 1).unwrap()].concat();
        assert_eq!(both(PrefixedCodec::Zstd, &packed, 4).unwrap(), b"abcd");
        assert_eq!(both(PrefixedCodec::Zstd, &packed, 2).unwrap(), b"ab");
        assert_eq!(both(PrefixedCodec::Zstd, &packed, 5), None);
        assert_eq!(both(PrefixedCodec::Lz4, &packed, 4), None);
        let lying = [&1_000_000_i64.to_le_bytes()[..], &packed[8..]].concat();
        assert_eq!(both(PrefixedCodec::Zstd, &lying, 4), None);
        for bad in [&[][..], &[0; 7], &(-2_i64).to_le_bytes()] {
            assert_eq!(both(PrefixedCodec::Lz4, bad, 1), None);
        }
        let any = |max| decode(PrefixedCodec::Zstd, &packed, Size::UpTo(max), Stop::never());
        assert_eq!(any(4).unwrap(), b"abcd");
        assert_eq!(any(3).unwrap_err().code(), Code::Limit);
    }
}
