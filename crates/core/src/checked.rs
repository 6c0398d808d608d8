//! Numbers from a file pass through these and nothing else.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};

/// The largest integer that a JavaScript number holds exactly; larger sizes are refused.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// A size that a caller must be able to hold as a number.
pub fn exact(value: u64, what: &str) -> Result<u64> {
    if value <= MAX_EXACT {
        return Ok(value);
    }
    let message = format!("{what} is {value}, more than 2^53 - 1, the largest size handled");
    Err(Error::new(Code::Limit, message).of_item())
}

/// The product of the dimensions, or `None` beyond u64. An empty shape is a scalar: 1.
pub fn product(dims: &[u64]) -> Option<u64> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1_u64, |total, &dim| total.checked_mul(dim))
}

/// Bytes of `elements` elements of `bits` bits, `None` beyond u64 or where they do not fill whole bytes.
pub fn bytes_of(elements: u64, bits: u32) -> Option<u64> {
    let bits = u128::from(elements) * u128::from(bits);
    if bits % 8 != 0 {
        return None;
    }
    u64::try_from(bits / 8).ok()
}

/// An index into memory. Fails on 32-bit hosts for what they cannot address.
pub fn index(value: u64, what: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        Error::new(Code::Limit, format!("{what} is {value}, more than this platform can address")).of_item()
    })
}

/// The end of a range that must lie inside `total` bytes.
pub fn end_within(offset: u64, length: u64, total: u64) -> Option<u64> {
    offset.checked_add(length).filter(|&end| end <= total)
}

/// The sub-slice of `length` bytes at `offset`, or `None` where it does not exist.
pub fn slice(bytes: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    bytes.get(start..end)
}

/// The little-endian u64 at `offset`, or `None` where the slice ends before it does.
pub fn u64_le(bytes: &[u8], offset: u64) -> Option<u64> {
    slice(bytes, offset, 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_hostile_shapes() {
        assert_eq!(product(&[]), Some(1));
        assert_eq!(product(&[u64::MAX, 0, u64::MAX]), Some(0));
        assert_eq!(product(&[1 << 32, 1 << 31]), Some(1 << 63));
        assert_eq!(product(&[1 << 32, 1 << 32]), None);
    }

    #[test]
    fn bytes_of_packed_types_must_be_whole() {
        assert_eq!(bytes_of(3, 4), None);
        assert_eq!(bytes_of(4, 6), Some(3));
        assert_eq!(bytes_of(u64::MAX, 64), None);
    }

    #[test]
    fn ranges_never_wrap() {
        assert_eq!(end_within(u64::MAX, 2, 100), None);
        assert_eq!(end_within(90, 11, 100), None);
        assert_eq!(end_within(90, 10, 100), Some(100));
        assert_eq!(slice(&[1, 2, 3], 2, 2), None);
        assert_eq!(u64_le(&[1, 0, 0, 0, 0, 0, 0, 0], 0), Some(1));
        assert_eq!(u64_le(&[1, 0, 0, 0, 0, 0, 0, 0], 1), None);
    }
}
