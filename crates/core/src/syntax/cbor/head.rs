//! The head of an item: its major type and argument, in any encoding or only the deterministic one.
#![forbid(unsafe_code)]

use super::Reader;
use crate::error::Result;

/// The first byte of an item and its argument; `None` means an indefinite length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Head {
    Unsigned(u64),
    Negative(u64),
    Bytes(Option<u64>),
    Text(Option<u64>),
    Array(Option<u64>),
    Map(Option<u64>),
    Tag(u64),
    Bool(bool),
    Null,
    Simple(u8),
    Float(f64),
    Break,
}

impl Head {
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Unsigned(_) => "an unsigned integer",
            Self::Negative(_) => "a negative integer",
            Self::Bytes(_) => "a byte string",
            Self::Text(_) => "a text",
            Self::Array(_) => "an array",
            Self::Map(_) => "a map",
            Self::Tag(_) => "a tag",
            Self::Bool(_) => "a boolean",
            Self::Null => "null",
            Self::Simple(_) => "a simple value",
            Self::Float(_) => "a float",
            Self::Break => "a break",
        }
    }
}

impl Reader<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied().ok_or_else(|| self.ends_inside(1))?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn big_endian<const BYTES: usize>(&mut self) -> Result<[u8; BYTES]> {
        let taken = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let taken = *taken.ok_or_else(|| self.ends_inside(BYTES as u64))?;
        self.at += BYTES;
        Ok(taken)
    }

    /// Returns the argument of a head of the type `major` in its shortest encoding, which every mode accepts and nearly every writer uses.
    /// Other heads are left for [`Self::head`].
    #[inline]
    pub(super) fn plain_head(&mut self, major: u8) -> Option<u64> {
        let (first, rest) = self.bytes.get(self.at..)?.split_first()?;
        let (argument, more, min) = match first ^ (major << 5) {
            info @ 0..=23 => (u64::from(info), 0, 0),
            24 => (u64::from(*rest.first()?), 1, 24),
            25 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 2, 1 << 8),
            26 => (u64::from(u32::from_be_bytes(*rest.first_chunk()?)), 4, 1 << 16),
            27 => (u64::from_be_bytes(*rest.first_chunk()?), 8, 1 << 32),
            _ => return None,
        };
        if argument < min {
            return None;
        }
        self.at += 1 + more;
        Some(argument)
    }

    #[allow(clippy::cast_possible_truncation)] // each argument was read as as many bytes as it is cast to
    pub(super) fn head(&mut self) -> Result<Head> {
        let start = self.at;
        let first = self.byte()?;
        let (major, info) = (first >> 5, first & 0x1f);
        if self.deterministic.is_some() {
            return self.deterministic_head(start, major, info);
        }
        let argument = match info {
            0..=23 => Some(u64::from(info)),
            24 => Some(u64::from(self.byte()?)),
            25 => Some(u64::from(u16::from_be_bytes(self.big_endian()?))),
            26 => Some(u64::from(u32::from_be_bytes(self.big_endian()?))),
            27 => Some(u64::from_be_bytes(self.big_endian()?)),
            31 if matches!(major, 2..=5 | 7) => None,
            _ => {
                self.at = start;
                return Err(self.error(format!("0x{first:02x} is not a CBOR item head")));
            }
        };
        Ok(match (major, argument) {
            (0, Some(value)) => Head::Unsigned(value),
            (1, Some(value)) => Head::Negative(value),
            (2, length) => Head::Bytes(length),
            (3, length) => Head::Text(length),
            (4, length) => Head::Array(length),
            (5, length) => Head::Map(length),
            (6, Some(tag)) => Head::Tag(tag),
            (7, None) => Head::Break,
            (7, Some(bits)) => match info {
                20 | 21 => Head::Bool(info == 21),
                22 => Head::Null,
                25 => Head::Float(f64::from(half::f16::from_bits(bits as u16))),
                26 => Head::Float(f64::from(f32::from_bits(bits as u32))),
                27 => Head::Float(f64::from_bits(bits)),
                24 if bits < 32 => return Err(self.error("a simple value below 32 in two bytes")),
                _ => Head::Simple(bits as u8),
            },
            _ => return Err(self.error("an integer or tag cannot be indefinite")),
        })
    }

    /// Reads the rest of a head at `start` in the only permitted encoding.
    #[allow(clippy::cast_possible_truncation)] // each argument was read as as many bytes as it is cast to
    fn deterministic_head(&mut self, start: usize, major: u8, info: u8) -> Result<Head> {
        let (argument, min) = match info {
            0..=23 => (u64::from(info), 0),
            24 => (u8::from_be_bytes(self.big_endian()?).into(), 24),
            25 => (u16::from_be_bytes(self.big_endian()?).into(), 1 << 8),
            26 => (u32::from_be_bytes(self.big_endian()?).into(), 1 << 16),
            27 => (u64::from_be_bytes(self.big_endian()?), 1 << 32),
            _ => {
                self.at = start;
                let what = if info == 31 { "an indefinite length" } else { "not a CBOR item head" };
                return Err(self.error(format!("0x{:02x} is {what}", major << 5 | info)));
            }
        };
        let refused = |reader: &mut Self, what: &str| {
            reader.at = start;
            Err(reader.error(what))
        };
        if major == 7 {
            return match info {
                20 | 21 => Ok(Head::Bool(info == 21)),
                22 => Ok(Head::Null),
                25..=27 => match shortest_float(argument, info) {
                    Some(value) => Ok(Head::Float(value)),
                    None => refused(self, "a float is wider than its value needs, or a NaN is not 0xf97e00"),
                },
                _ => refused(self, "a simple value other than false, true and null"),
            };
        }
        if argument < min {
            return refused(self, "the head of an item is wider than its argument needs");
        }
        match major {
            0 => Ok(Head::Unsigned(argument)),
            1 => Ok(Head::Negative(argument)),
            2 => Ok(Head::Bytes(Some(argument))),
            3 => Ok(Head::Text(Some(argument))),
            4 => Ok(Head::Array(Some(argument))),
            5 => Ok(Head::Map(Some(argument))),
            _ => refused(self, "a tag"),
        }
    }
}

/// Returns the float of the bits that follow a head with `info` 25 to 27, or `None` if a shorter one suffices.
#[allow(clippy::cast_possible_truncation)] // each argument was read as as many bytes as it is cast to
fn shortest_float(bits: u64, info: u8) -> Option<f64> {
    match info {
        25 => {
            let value = half::f16::from_bits(bits as u16);
            (!value.is_nan() || bits == 0x7e00).then(|| f64::from(value))
        }
        26 => {
            let value = f32::from_bits(bits as u32);
            let narrow = half::f16::from_f32(value).to_f32();
            (!value.is_nan() && narrow.to_bits() != value.to_bits()).then(|| f64::from(value))
        }
        _ => {
            let value = f64::from_bits(bits);
            let narrow = f64::from(value as f32);
            (!value.is_nan() && narrow.to_bits() != value.to_bits()).then_some(value)
        }
    }
}
