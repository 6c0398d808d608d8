//! A message of the host: numbers of 8 bytes, little-endian, and byte strings with their length before them, filled up to 8 bytes.
#![forbid(unsafe_code)]

use std::ops::Range;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::owned::Owned;

pub struct Message {
    block: Box<[u8]>,
    at: usize,
}

fn malformed() -> Error {
    Error::new(Code::Internal, "a malformed message")
}

impl Message {
    pub fn new(block: Box<[u8]>) -> Self {
        Self { block, at: 0 }
    }

    pub fn number(&mut self) -> Result<f64> {
        let bytes = self.block.get(self.at..).and_then(|rest| rest.first_chunk::<8>());
        let number = f64::from_le_bytes(*bytes.ok_or_else(malformed)?);
        self.at += 8;
        Ok(number)
    }

    /// A whole number from 0 to 2^53.
    pub fn whole(&mut self) -> Result<u64> {
        self.number().and_then(|number| whole(number).ok_or_else(malformed))
    }

    /// A whole number; `None` for a negative one.
    pub fn maybe(&mut self) -> Result<Option<u64>> {
        self.number().map(whole)
    }

    pub fn index(&mut self) -> Result<usize> {
        self.whole().and_then(|number| usize::try_from(number).map_err(|_| malformed()))
    }

    pub fn small(&mut self) -> Result<u32> {
        self.whole().and_then(|number| u32::try_from(number).map_err(|_| malformed()))
    }

    pub fn flag(&mut self) -> Result<bool> {
        Ok(self.number()? != 0.0)
    }

    /// Numbers, with their count before them.
    pub fn numbers(&mut self) -> Result<Vec<f64>> {
        (0..self.index()?).map(|_| self.number()).collect()
    }

    pub fn wholes(&mut self) -> Result<Vec<u64>> {
        (0..self.index()?).map(|_| self.whole()).collect()
    }

    pub fn smalls(&mut self) -> Result<Vec<u32>> {
        (0..self.index()?).map(|_| self.small()).collect()
    }

    /// Numbers, or none if their count is negative.
    pub fn maybe_numbers(&mut self) -> Result<Option<Vec<f64>>> {
        let Some(count) = self.maybe()? else { return Ok(None) };
        (0..count).map(|_| self.number()).collect::<Result<_>>().map(Some)
    }

    pub fn text(&mut self) -> Result<String> {
        let range = self.range()?;
        let bytes = self.block.get(range).ok_or_else(malformed)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| malformed())
    }

    pub fn texts(&mut self) -> Result<Vec<String>> {
        (0..self.index()?).map(|_| self.text()).collect()
    }

    /// The position of a byte string, for [`Message::bytes`].
    pub fn range(&mut self) -> Result<Range<usize>> {
        let length = self.index()?;
        let end = self.at.checked_add(length).filter(|&end| end <= self.block.len()).ok_or_else(malformed)?;
        let range = self.at..end;
        self.at = end.next_multiple_of(8);
        Ok(range)
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.block.get(range).unwrap_or_default()
    }

    /// Returns the last byte string without a copy.
    pub fn take_rest(&mut self) -> Result<Owned> {
        let range = self.range()?;
        let mut block = std::mem::take(&mut self.block).into_vec();
        block.truncate(range.end);
        Owned::from(block).part(range.start as u64, range.len() as u64)
    }
}

/// A whole number that JavaScript represents exactly.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked
pub fn whole(number: f64) -> Option<u64> {
    ((0.0..=9_007_199_254_740_991.0).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}
