//! One array of a sparse tensor, read block by block from memory or from a file.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::ops::Range;

use crate::checked;
use crate::error::{Code, Error, Result};
use crate::layouts::indices::Indices;
use crate::model::DType;
use crate::sinks::Spool;
use crate::sources::owned::Owned;
use crate::work::Stop;

/// The number of elements processed at a time: a multiple of 8, so that a block of any dtype ends at a whole byte.
pub const BLOCK: u64 = 64 << 10;

pub trait Array: Send {
    fn dtype(&self) -> DType;

    /// Returns the length of the array in bytes.
    fn length(&self) -> u64;

    /// Returns the little-endian bytes of `count` elements, beginning with element `first`. For packed dtypes `first`
    /// must be at a whole byte.
    fn read(&self, first: u64, count: u64) -> Result<Cow<'_, [u8]>>;

    /// Returns all bytes, if they are in memory.
    fn held(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the number of elements; for packed dtypes, the number that fits into the bytes.
    fn elements(&self) -> u64 {
        let bits = u128::from(self.dtype().bits());
        u64::try_from(u128::from(self.length()) * 8 / bits).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of an element, for dtypes of whole bytes.
    fn width(&self) -> u64 {
        u64::from(self.dtype().bits() / 8).max(1)
    }
}

/// Calls `each` for each block of a range, with the position of its first element and its bytes.
pub fn blocks(
    array: &dyn Array,
    range: Range<u64>,
    stop: &Stop,
    mut each: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        stop.check()?;
        let count = BLOCK.min(range.end - at);
        each(at, &array.read(at, count)?)?;
        at += count;
    }
    Ok(())
}

/// Returns `count` indices, beginning with element `first`.
pub fn numbers(array: &dyn Array, first: u64, count: u64) -> Result<Vec<u64>> {
    decode(array.dtype(), &array.read(first, count)?)
}

/// Decodes indices of a dtype.
pub fn decode(dtype: DType, bytes: &[u8]) -> Result<Vec<u64>> {
    let indices = Indices::new(dtype, bytes)?;
    let mut numbers = vec![0; indices.len()];
    if indices.decode(0, &mut numbers) < numbers.len() {
        return Err(Error::new(Code::BadSparse, "an index is negative or too large"));
    }
    Ok(numbers)
}

/// An array in memory.
pub struct OwnedArray {
    dtype: DType,
    bytes: Owned,
}

impl OwnedArray {
    pub fn new(dtype: DType, bytes: Owned) -> Self {
        Self { dtype, bytes }
    }
}

impl Array for OwnedArray {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, first: u64, count: u64) -> Result<Cow<'_, [u8]>> {
        let bits = u64::from(self.dtype.bits());
        let start = first.checked_mul(bits).map(|start| start / 8);
        let length = count.checked_mul(bits).map(|length| length.div_ceil(8));
        let bytes = start.zip(length).and_then(|(start, length)| checked::slice(&self.bytes, start, length));
        bytes.map(Cow::Borrowed).ok_or_else(|| Error::new(Code::Internal, "a block outside its array"))
    }

    fn held(&self) -> Option<&[u8]> {
        Some(&self.bytes)
    }
}

/// An array of a dtype of whole bytes that fills an unnamed file.
pub struct Spooled {
    dtype: DType,
    spool: Spool,
    length: u64,
}

impl Spooled {
    pub fn new(dtype: DType, spool: Spool, length: u64) -> Self {
        Self { dtype, spool, length }
    }
}

impl Array for Spooled {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, first: u64, count: u64) -> Result<Cow<'_, [u8]>> {
        let mut bytes = vec![0; checked::index(count.saturating_mul(self.width()), "a block")?];
        self.spool.read_at(first.saturating_mul(self.width()), &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }
}
