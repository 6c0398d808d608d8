//! The first bytes of a GGUF file, read into private memory as needed: the file does not state the size of its index.
#![forbid(unsafe_code)]

use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::sources::owned::Owned;

use crate::limits::GGUF_INDEX_BYTES;

/// Bytes of the first read, which holds most indexes without a vocabulary.
const FIRST: u64 = 64 << 10;
/// Bytes of the largest read: bytes after the index are read unnecessarily.
const LARGEST: u64 = 1 << 20;
/// Address space reserved for an index longer than the first read. It uses huge pages where touched: single pages cost as much as reading
/// the data.
const RESERVED: u64 = 16 << 20;

/// How numbers are encoded.
#[derive(Clone, Copy)]
pub struct Spelling {
    pub big_endian: bool,
    /// Version 1 has 32-bit counts, lengths and dimensions.
    pub short: bool,
}

impl Spelling {
    /// Decodes an unsigned number of up to 8 bytes.
    pub fn number(self, bytes: &[u8]) -> u64 {
        let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        if self.big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
    }

    #[allow(clippy::cast_possible_truncation)] // of four bytes
    pub fn u32(self, bytes: &[u8]) -> u32 {
        self.number(bytes) as u32
    }

    /// Appends the lowest `width` bytes of a number.
    pub fn put(self, number: u64, width: usize, to: &mut Vec<u8>) {
        let bytes = number.to_le_bytes();
        let bytes = bytes.iter().take(width);
        if self.big_endian { to.extend(bytes.rev()) } else { to.extend(bytes) }
    }

    /// Appends a count or a length. Fails if it is too large for the version.
    pub fn put_count(self, count: u64, to: &mut Vec<u8>) -> Result<()> {
        if self.short && u32::try_from(count).is_err() {
            return Err(Error::new(Code::Limit, format!("{count} is more than GGUF 1 can count")));
        }
        self.put(count, if self.short { 4 } else { 8 }, to);
        Ok(())
    }

    /// Appends a string.
    pub fn put_text(self, text: &[u8], to: &mut Vec<u8>) -> Result<()> {
        self.put_count(text.len() as u64, to)?;
        to.extend_from_slice(text);
        Ok(())
    }

    pub fn count_bytes(self) -> u64 {
        if self.short { 4 } else { 8 }
    }
}

pub struct Window<'s> {
    input: Input<'s>,
    /// Size of the file in bytes.
    total: u64,
    /// Maximum size of the index in bytes.
    max: u64,
    bytes: Owned,
    /// Number of bytes read.
    held: usize,
    at: usize,
    spelling: Spelling,
}

impl<'s> Window<'s> {
    pub fn new(input: Input<'s>) -> Self {
        Self {
            input,
            total: input.length(),
            max: input.limits.max_index_bytes.unwrap_or(GGUF_INDEX_BYTES),
            bytes: Owned::from(Vec::new()),
            held: 0,
            at: 0,
            spelling: Spelling { big_endian: false, short: false },
        }
    }

    pub fn spell(&mut self, spelling: Spelling) {
        self.spelling = spelling;
    }

    pub fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// Returns the current position.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns all bytes that were read.
    pub fn into_bytes(self) -> Owned {
        self.bytes
    }

    /// Skips bytes of the index.
    #[inline]
    pub fn pass(&mut self, length: u64) -> Result<()> {
        if length > (self.held - self.at) as u64 {
            self.fetch(length)?;
        }
        // The bytes are in memory, so the length fits.
        self.at += usize::try_from(length).unwrap_or_default();
        Ok(())
    }

    #[cold]
    fn fetch(&mut self, length: u64) -> Result<()> {
        let at = self.at as u64;
        let Some(end) = checked::end_within(at, length, self.total) else {
            let message =
                format!("{length} bytes are needed at offset {at}, the file has {} in all", self.total);
            return Err(Error::new(Code::Truncated, message).at(at));
        };
        if end > self.max {
            let message = format!("the index is more than {} bytes", self.max);
            return Err(Error::new(Code::Limit, message).option("maxIndexBytes").at(at));
        }
        let max = self.total.min(self.max);
        let held = self.held as u64;
        let wanted = held.saturating_add(held.clamp(FIRST, LARGEST)).max(end).min(max);
        if wanted > self.bytes.len() as u64 {
            let capacity = if held == 0 { wanted } else { wanted.saturating_mul(2).max(RESERVED).min(max) };
            let mut bytes = Owned::to_fill(capacity)?;
            bytes[..self.held].copy_from_slice(&self.bytes[..self.held]);
            self.bytes = bytes;
        }
        let wanted = checked::index(wanted, "the index")?;
        self.input.read_at(held, &mut self.bytes[self.held..wanted])?;
        self.held = wanted;
        Ok(())
    }

    pub fn take(&mut self, length: u64) -> Result<&[u8]> {
        let start = self.at;
        self.pass(length)?;
        Ok(self.bytes.get(start..self.at).unwrap_or_default())
    }

    pub fn u32(&mut self) -> Result<u32> {
        let spelling = self.spelling;
        Ok(spelling.u32(self.take(4)?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        let spelling = self.spelling;
        Ok(spelling.number(self.take(8)?))
    }

    /// Reads a count, a length or a dimension.
    #[inline]
    pub fn count(&mut self) -> Result<u64> {
        let spelling = self.spelling;
        Ok(spelling.number(self.take(spelling.count_bytes())?))
    }

    pub fn pass_text(&mut self) -> Result<()> {
        let length = self.count()?;
        self.pass(length)
    }

    /// Skips strings: half a million of them account for most of the time to open a file.
    pub fn pass_texts(&mut self, count: u64) -> Result<()> {
        let plain = !self.spelling.big_endian && !self.spelling.short;
        let mut left = count;
        while left > 0 {
            if plain {
                let held = self.bytes.get(..self.held).unwrap_or_default();
                while left > 0
                    && let Some((length, rest)) = held.get(self.at..).and_then(<[u8]>::split_first_chunk::<8>)
                    && let length = u64::from_le_bytes(*length)
                    && length <= rest.len() as u64
                {
                    self.at = held.len() - rest.len() + usize::try_from(length).unwrap_or_default();
                    left -= 1;
                }
            }
            // A string that is not read yet.
            if left > 0 {
                self.pass_text()?;
                left -= 1;
            }
        }
        Ok(())
    }

    pub fn text(&mut self, what: &str) -> Result<&str> {
        let length = self.count()?;
        let at = self.at as u64;
        std::str::from_utf8(self.take(length)?)
            .map_err(|_| Error::new(Code::BadIndex, format!("{what} is not valid UTF-8")).at(at))
    }

    pub fn unknown(&self, kind: u32) -> Error {
        let message = format!("{kind} is not a metadata type (0 to 12)");
        Error::new(Code::BadIndex, message).at(self.at as u64)
    }
}
