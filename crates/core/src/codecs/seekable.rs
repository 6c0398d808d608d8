//! zstd frames of one decoded size, and a skippable frame with a seek table: `zt.zstd-seekable/1`, where each frame has a checksum, and
//! zstd of any version that ends like it. Any range of the decoded bytes requires only the frames that it overlaps.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::zstd;
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// Bytes at the very end: the number of frames, a descriptor, a magic.
pub const FOOTER: u64 = 9;
/// Bytes of a skippable frame's header: its magic and its length.
const HEAD: u64 = 8;
pub const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
pub const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// The descriptor bit of entries with checksums.
const CHECKSUMS: u8 = 0x80;
/// Maximum decoded size of a frame.
pub const MAX_FRAME: u64 = 16 << 20;
/// The descriptor bit of a frame whose data is followed by a checksum (RFC 8878 §3.1.1.1.1).
const CONTENT_CHECKSUM: u8 = 0x04;

pub const RULES: &str = "zt.zstd-seekable/1 Rules";

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::Decode, message).rule(RULES)
}

/// Returns the size of the seek table at the end of a stream of `stored` bytes, whose last [`FOOTER`] bytes are `footer`.
pub fn table_length(footer: &[u8], stored: u64) -> Result<u64> {
    let &[a, b, c, d, descriptor, ref magic @ ..] = footer else {
        return Err(bad("the data is too short for a seek table"));
    };
    if magic != SEEKABLE_MAGIC.to_le_bytes() {
        return Err(bad("the data does not end in a seek table"));
    }
    if descriptor & !CHECKSUMS != 0 {
        return Err(bad(format!("the seek table's descriptor is 0x{descriptor:02x}, with reserved bits")));
    }
    let frames = u64::from(u32::from_le_bytes([a, b, c, d]));
    let length = HEAD + frames * entry_bytes(descriptor) + FOOTER;
    if length > stored {
        return Err(bad(format!("a seek table of {frames} frames does not fit in {stored} bytes")));
    }
    Ok(length)
}

const fn entry_bytes(descriptor: u8) -> u64 {
    if descriptor & CHECKSUMS == 0 { 8 } else { 12 }
}

/// The locations of the frames of a stream.
#[derive(Debug)]
pub struct Frames {
    /// Decoded bytes of each frame but the last.
    step: u64,
    decoded: u64,
    /// The offset in the stream of each frame, and the end of the last.
    starts: Vec<u64>,
}

/// One frame: its range in the stream, and its decoded range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub stored: Range<u64>,
    pub decoded: Range<u64>,
}

impl Frames {
    /// Reads a seek `table` of [`table_length`] bytes at the end of a stream of `stored` bytes that decodes to `decoded`.
    pub fn parse(table: &[u8], stored: u64, decoded: u64) -> Result<Self> {
        let word = |bytes: &[u8], at: u64| {
            checked::slice(bytes, at, 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes)
        };
        let length = table.len() as u64;
        let content = length.checked_sub(HEAD + FOOTER).ok_or_else(|| bad("the seek table is too short"))?;
        let descriptor = table.iter().nth_back(4).copied().unwrap_or_default();
        if word(table, 0) != Some(SKIPPABLE_MAGIC)
            || word(table, 4).map(u64::from) != length.checked_sub(HEAD)
            || content % entry_bytes(descriptor) != 0
        {
            return Err(bad("the seek table is not a skippable frame of its size"));
        }
        let entries = checked::slice(table, HEAD, content).unwrap_or_default();
        let entries = entries.chunks_exact(usize::try_from(entry_bytes(descriptor)).unwrap_or(usize::MAX));
        let count = entries.len();
        let mut starts = Vec::new();
        starts
            .try_reserve_exact(count + 1)
            .map_err(|_| Error::new(Code::Limit, "no memory for a seek table"))?;
        starts.push(0);
        let (mut step, mut end, mut total) = (0, 0_u64, 0_u64);
        for (at, entry) in entries.enumerate() {
            // Sums of 2^32 numbers below 2^32 fit.
            let (compressed, bytes) =
                (word(entry, 0).unwrap_or_default(), word(entry, 4).unwrap_or_default());
            let bytes = u64::from(bytes);
            if bytes > MAX_FRAME {
                return Err(bad(format!("frame {at} decodes to {bytes} bytes, more than 16 MiB")));
            }
            if at == 0 {
                step = bytes;
            } else if at + 1 < count && bytes != step {
                return Err(bad(format!("frame {at} decodes to {bytes} bytes, but the first one to {step}")));
            }
            end += u64::from(compressed);
            total += bytes;
            starts.push(end);
        }
        if end.checked_add(length) != Some(stored) {
            return Err(bad(format!(
                "the frames of {end} bytes and the seek table do not fill {stored} bytes"
            )));
        }
        if total != decoded {
            return Err(bad(format!("the frames decode to {total} bytes, but the index states {decoded}")));
        }
        Ok(Self { step, decoded, starts })
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.starts)
    }

    /// Returns the decoded bytes of each frame but the last.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Returns the frame that contains the decoded byte at `position`; the last one past the end.
    pub fn at(&self, position: u64) -> usize {
        let frame = position.checked_div(self.step).and_then(|frame| usize::try_from(frame).ok());
        frame.unwrap_or(0).min(self.len().saturating_sub(1))
    }

    pub fn frame(&self, at: usize) -> Option<Frame> {
        let stored = *self.starts.get(at)?..*self.starts.get(at + 1)?;
        let start = (at as u64).checked_mul(self.step)?;
        let end = if at + 1 == self.len() { self.decoded } else { start.checked_add(self.step)? };
        Some(Frame { stored, decoded: start..end })
    }
}

/// Decodes one frame, which must have a checksum, into exactly `output`.
pub fn decode_frame(input: &[u8], output: &mut [u8], stop: &Stop) -> Result<()> {
    if input.get(4).is_some_and(|descriptor| descriptor & CONTENT_CHECKSUM == 0) {
        return Err(bad("a frame carries no checksum"));
    }
    stop.check()?;
    zstd::decode_frame(input, output).map_err(|error| error.rule(RULES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(frames: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = SKIPPABLE_MAGIC.to_le_bytes().to_vec();
        bytes.extend(u32::try_from(frames.len() * 8 + 9).unwrap().to_le_bytes());
        bytes.extend(frames.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()));
        bytes.extend(u32::try_from(frames.len()).unwrap().to_le_bytes());
        bytes.push(0);
        bytes.extend(SEEKABLE_MAGIC.to_le_bytes());
        bytes
    }

    fn parse(table: &[u8], frames: u64, decoded: u64) -> Result<Frames> {
        let stored = frames + table.len() as u64;
        let footer = &table[table.len().saturating_sub(9)..];
        assert_eq!(table_length(footer, stored)?, table.len() as u64);
        Frames::parse(table, stored, decoded)
    }

    #[test]
    fn frames_are_found_by_division() {
        let frames = parse(&table(&[(5, 100), (6, 100), (7, 30)]), 18, 230).unwrap();
        assert_eq!([0, 99, 100, 229, 500].map(|position| frames.at(position)), [0, 0, 1, 2, 2]);
        assert_eq!(frames.frame(1), Some(Frame { stored: 5..11, decoded: 100..200 }));
        assert_eq!(frames.frame(2), Some(Frame { stored: 11..18, decoded: 200..230 }));
        assert_eq!(frames.frame(3), None);
        let longer_last = parse(&table(&[(5, 100), (7, 300)]), 12, 400).unwrap();
        assert_eq!(longer_last.at(399), 1);
        let empty = parse(&table(&[]), 0, 0).unwrap();
        assert!(empty.is_empty());
        assert_eq!((empty.at(0), empty.frame(0)), (0, None));
    }

    #[test]
    fn hostile_tables_are_refused() {
        let good = table(&[(5, 100), (6, 100), (7, 30)]);
        let mut reserved = good.clone();
        let descriptor = good.len() - 5;
        reserved[descriptor] = 1;
        let mut wide = good.clone();
        wide[descriptor] = 0x80;
        let mut many = good.clone();
        many[descriptor - 1] = 0xff;
        let mut length = good.clone();
        length[4] += 1;
        let cases = [
            (reserved, 18, 230),
            (wide, 18, 230),
            (many, 18, 230),
            (length, 18, 230),
            (good.clone(), 17, 230),
            (good.clone(), 19, 230),
            (good.clone(), 18, 229),
            (good[..good.len() - 1].to_vec(), 18, 230),
            (table(&[(5, (16 << 20) + 1)]), 5, (16 << 20) + 1),
            (table(&[(5, 100), (6, 99), (7, 100)]), 18, 299),
            (Vec::new(), 18, 230),
        ];
        for (table, frames, decoded) in cases {
            let stored = frames + table.len() as u64;
            let footer = &table[table.len().saturating_sub(9)..];
            let read = table_length(footer, stored).and_then(|length| {
                let start = table.len().checked_sub(usize::try_from(length).unwrap());
                Frames::parse(start.map_or(&[], |start| &table[start..]), stored, decoded)
            });
            assert_eq!(read.unwrap_err().broken_rule(), Some(RULES), "{table:02x?}");
        }
    }

    #[test]
    fn a_frame_needs_its_checksum() {
        let mut context = ::zstd::bulk::Compressor::new(3).unwrap();
        let plain = context.compress(b"tensor").unwrap();
        context.include_checksum(true).unwrap();
        let sealed = context.compress(b"tensor").unwrap();
        let mut output = [0; 6];
        decode_frame(&sealed, &mut output, &Stop::default()).unwrap();
        assert_eq!(&output, b"tensor");
        assert_eq!(decode_frame(&plain, &mut output, &Stop::default()).unwrap_err().code(), Code::Decode);
        let mut damaged = sealed.clone();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        assert_eq!(decode_frame(&damaged, &mut output, &Stop::default()).unwrap_err().code(), Code::Decode);
    }

    proptest! {
        #[test]
        fn no_table_panics(bytes: Vec<u8>, stored: u64, decoded: u64) {
            let _ = table_length(&bytes[bytes.len().saturating_sub(9)..], stored);
            if let Ok(frames) = Frames::parse(&bytes, stored, decoded) {
                for at in 0..frames.len() {
                    prop_assert!(frames.frame(at).is_some());
                }
            }
        }
    }
}
