//! Extracts a repeated field of numbers from a Protocol Buffers message: packed, one by one, or in several pieces (protobuf.dev, Encoding).
//! The input is the part of the message that contains the field; other fields may lie between.
#![forbid(unsafe_code)]

use super::frames::Size;
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// The name of the filter. Its parameters: the number of the field, the wire type of an element ([`VARINT`], [`FIXED64`], [`FIXED32`]), and
/// the number of low bits retained: 8, 16, 32, 64, or 6, which are packed.
pub const NAME: &str = "protobuf";

pub const VARINT: u32 = 0;
pub const FIXED64: u32 = 1;
pub const BYTES: u32 = 2;
pub const FIXED32: u32 = 5;

/// Bytes of the longest varint.
pub const LONGEST: usize = 10;
/// Elements between two checks of the stop flag.
const PIECE: u32 = 1 << 18;

/// Returns the number at the start of `bytes` and its length; `None` if it does not end, or exceeds 64 bits.
#[inline]
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().enumerate().take(LONGEST) {
        if at == LONGEST - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((value, at + 1));
        }
    }
    None
}

/// Writes the elements of a field to memory of the exact size.
pub fn fill(input: &[u8], parameters: &[u32], output: &mut [u8], stop: &Stop) -> Result<()> {
    let decoded = decode(input, parameters, Size::Exactly(output.len() as u64), stop)?;
    if decoded.len() != output.len() {
        return Err(Error::new(Code::Decode, "the message holds a different number of elements"));
    }
    output.copy_from_slice(&decoded);
    Ok(())
}

/// Returns the elements of a field, little-endian. Fails with `ZT_DECODE` if the message is damaged or holds a different number, and with
/// `ZT_LIMIT` if they exceed a limit.
pub fn decode(input: &[u8], parameters: &[u32], size: Size, stop: &Stop) -> Result<Vec<u8>> {
    let &[field, wire, bits] = parameters else {
        return Err(Error::new(Code::Internal, "the filter of a protobuf field has three parameters"));
    };
    let mut output = Output::new(input, bits, size);
    let mut rest = input;
    while !rest.is_empty() {
        stop.check()?;
        let tag = next(&mut rest, VARINT)?;
        let found = u32::try_from(tag & 7).unwrap_or_default();
        if tag >> 3 != u64::from(field) {
            skip(&mut rest, found)?;
        } else if found == wire {
            output.push(next(&mut rest, wire)?)?;
        } else if found == BYTES {
            let mut packed = run(&mut rest)?;
            let mut count = 0_u32;
            while !packed.is_empty() {
                count += 1;
                if count.is_multiple_of(PIECE) {
                    stop.check()?;
                }
                output.push(next(&mut packed, wire)?)?;
            }
        } else {
            skip(&mut rest, found)?;
        }
    }
    output.finish()
}

struct Output {
    bytes: Vec<u8>,
    bits: u32,
    max: u64,
    exactly: Option<u64>,
    /// Bits that do not fill a byte yet, and their number.
    pending: (u64, u32),
}

impl Output {
    fn new(input: &[u8], bits: u32, size: Size) -> Self {
        let (max, exactly) = match size {
            Size::Exactly(length) => (length, Some(length)),
            Size::UpTo(limit) => (limit, None),
        };
        // An element takes at least a byte. If that much memory is not available, it is allocated as elements arrive.
        let capacity = (input.len() as u64).saturating_mul(8).min(max);
        let mut bytes = Vec::new();
        let _ = bytes.try_reserve(usize::try_from(capacity).unwrap_or(0));
        Self { bytes, bits, max, exactly, pending: (0, 0) }
    }

    fn push(&mut self, value: u64) -> Result<()> {
        if self.bits >= 8 {
            self.add(value.to_le_bytes(), self.bits as usize / 8)
        } else {
            let (held, count) = self.pending;
            let held = held | (value & ((1 << self.bits) - 1)) << count;
            self.pending = (held, count + self.bits);
            if self.pending.1 < 8 {
                return Ok(());
            }
            self.pending = (held >> 8, self.pending.1 - 8);
            self.add(held.to_le_bytes(), 1)
        }
    }

    fn add(&mut self, element: [u8; 8], width: usize) -> Result<()> {
        if (self.bytes.len() + width) as u64 > self.max {
            return Err(match self.exactly {
                Some(length) => other_size(&format!("more than {length}")),
                None => {
                    Error::new(Code::Limit, format!("the field has more than {} bytes of elements", self.max))
                        .option("maxDecodedBytes")
                }
            });
        }
        if self.bytes.capacity() - self.bytes.len() < width {
            self.bytes
                .try_reserve(self.bytes.len().max(1 << 16))
                .map_err(|_| Error::new(Code::Limit, "not enough memory to decode"))?;
        }
        self.bytes.extend_from_slice(element.get(..width).unwrap_or_default());
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        if self.pending.1 > 0 {
            self.add(self.pending.0.to_le_bytes(), 1)?;
        }
        match self.exactly {
            Some(length) if length != self.bytes.len() as u64 => {
                Err(other_size(&format!("{}, not {length}", self.bytes.len())))
            }
            _ => Ok(self.bytes),
        }
    }
}

fn other_size(what: &str) -> Error {
    Error::new(Code::Decode, format!("bytes of the elements in the protobuf field: {what}"))
}

fn damaged() -> Error {
    Error::new(Code::Decode, "the protobuf message is damaged: a value does not end where it should")
}

/// Reads a number.
fn next(rest: &mut &[u8], wire: u32) -> Result<u64> {
    let (value, length) = match wire {
        VARINT => varint(rest).ok_or_else(damaged)?,
        FIXED32 => (u64::from(u32::from_le_bytes(*rest.first_chunk().ok_or_else(damaged)?)), 4),
        FIXED64 => (u64::from_le_bytes(*rest.first_chunk().ok_or_else(damaged)?), 8),
        _ => return Err(damaged()),
    };
    *rest = rest.get(length..).unwrap_or_default();
    Ok(value)
}

/// Reads length-prefixed bytes.
fn run<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8]> {
    let length = usize::try_from(next(rest, VARINT)?).map_err(|_| damaged())?;
    let (run, behind) = rest.split_at_checked(length).ok_or_else(damaged)?;
    *rest = behind;
    Ok(run)
}

fn skip(rest: &mut &[u8], wire: u32) -> Result<()> {
    if wire == BYTES { run(rest).map(drop) } else { next(rest, wire).map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_64_bits() {
        assert_eq!(varint(&[0]), Some((0, 1)));
        assert_eq!(varint(&[0xac, 0x02, 9]), Some((300, 2)));
        assert_eq!(varint(&[0x80, 0]), Some((0, 2)));
        let mut max = [0xff; 10];
        max[9] = 1;
        assert_eq!(varint(&max), Some((u64::MAX, 10)));
        max[9] = 2;
        assert_eq!(varint(&max), None);
        for open in [&[][..], &[0x80], &[0x80; 10], &[0x80; 11]] {
            assert_eq!(varint(open), None);
        }
    }

    fn of(input: &[u8], parameters: [u32; 3], size: u64) -> Result<Vec<u8>> {
        decode(input, &parameters, Size::Exactly(size), &Stop::default())
    }

    #[test]
    fn packed_and_single_elements_form_one_list() {
        // Field 5: 1 alone, [2, 300] packed, field 8 between, -1 alone.
        let minus_one = [0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let input = [&[0x28, 1, 0x2a, 3, 2, 0xac, 2, 0x42, 1, b'n'][..], &minus_one].concat();
        assert_eq!(of(&input, [5, VARINT, 8], 4).unwrap(), [1, 2, 44, 255]);
        assert_eq!(of(&input, [5, VARINT, 16], 8).unwrap(), [1, 0, 2, 0, 44, 1, 255, 255]);
        assert_eq!(of(&input, [5, VARINT, 64], 32).unwrap()[24..], [255; 8]);
        assert!(of(&input, [6, VARINT, 8], 0).unwrap().is_empty());
        for size in [3, 5] {
            assert_eq!(of(&input, [5, VARINT, 8], size).unwrap_err().code(), Code::Decode);
        }
        let mut filled = [9; 4];
        fill(&input, &[5, VARINT, 8], &mut filled, &Stop::default()).unwrap();
        assert_eq!(filled, [1, 2, 44, 255]);
        let max = |max| decode(&input, &[5, VARINT, 8], Size::UpTo(max), &Stop::default());
        assert_eq!((max(4).unwrap().len(), max(3).unwrap_err().code()), (4, Code::Limit));
    }

    #[test]
    fn fixed_numbers_and_six_bits() {
        let floats = [&[0x25][..], &1_f32.to_le_bytes(), &[0x25], &2_f32.to_le_bytes()].concat();
        let expected = [1_f32.to_le_bytes(), 2_f32.to_le_bytes()].concat();
        assert_eq!(of(&floats, [4, FIXED32, 32], 8).unwrap(), expected);
        let double = [&[0x52, 8][..], &3_f64.to_le_bytes()].concat();
        assert_eq!(of(&double, [10, FIXED64, 64], 8).unwrap(), 3_f64.to_le_bytes());
        assert_eq!(of(&[0x2a, 3, 1, 0x22, 0x3f], [5, VARINT, 6], 3).unwrap(), [0x81, 0xf8, 3]);
    }

    #[test]
    fn damaged_messages_are_refused() {
        for input in [
            &[0x28][..],
            &[0x2a, 5, 1],
            &[0x2a, 1, 0x80],
            &[0x25, 1, 2],
            &[0x2b],
            &[0x80],
            &[0x22, 3, 1, 2, 3],
        ] {
            for field in [4, 5] {
                let wire = if field == 4 { FIXED32 } else { VARINT };
                let decoded = decode(input, &[field, wire, 32], Size::UpTo(100), &Stop::default());
                // Damage in another field does not matter.
                let passes = (field, input[0]) == (5, 0x22) || (field, input) == (4, &[0x2a, 1, 0x80][..]);
                assert_eq!(decoded.is_ok(), passes, "{input:?} {field}");
            }
        }
    }
}
