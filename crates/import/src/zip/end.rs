//! Compares the directory stated at the end of an archive with the one found (APPNOTE 4.3.14 to 4.3.16).
#![forbid(unsafe_code)]

use ztensor_core::checked::end_within;
use ztensor_core::error::{Error, Result};
use ztensor_core::formats::Input;

use super::fields::{bad, u16_le, u32_le, u64_le};

const ENTRY_SIGNATURE: &[u8] = b"PK\x01\x02";
const LOCATOR_SIGNATURE: &[u8] = b"PK\x06\x07";
const END64_SIGNATURE: &[u8] = b"PK\x06\x06";
/// Bytes of the end record, of the 64-bit locator, and of the 64-bit end record.
const END: u64 = 22;
const LOCATOR: u64 = 20;
const END64: u64 = 56;
/// Bytes of a 64-bit end record that its length does not include.
const END64_PREFIX: u64 = 12;

/// Compares the end record at `at` with the directory that begins at `start`. Returns damage in the end record that leaves the directory
/// unambiguous. Fails with `ZT_BAD_INDEX` if a reader that trusts the end record finds another directory.
pub fn check(input: &Input<'_>, at: u64, start: u64) -> Result<Option<Error>> {
    let record = input.read_vec(at, END)?;
    let mut stated = EndRecord {
        head: at,
        size: u32_le(&record, 12).into(),
        offset: u32_le(&record, 16).into(),
        is_split: u16_le(&record, 8) != u16_le(&record, 10),
    };
    if let Some(long) = long_end(input, at)? {
        stated = long;
    }
    let EndRecord { head, size, offset, is_split } = stated;
    let bytes = head.saturating_sub(start);
    let other = head.checked_sub(size).filter(|&other| other != start);
    if let Some(other) = other.filter(|other| head - other >= ENTRY_SIGNATURE.len() as u64)
        && input.read_vec(other, ENTRY_SIGNATURE.len() as u64)? == ENTRY_SIGNATURE
    {
        let message = format!(
            "the archive has directories at {start} and at {other}: readers differ in which they use"
        );
        return Err(bad(message, at));
    }
    let message = if size != bytes {
        format!("the end record states a directory of {size} bytes, but it has {bytes}")
    } else if offset > start {
        // An offset that is too small means that the archive follows other bytes, which all readers handle.
        format!("the end record states a directory at {offset}, but it is at {start}")
    } else if is_split {
        "the end record states that some members are in another file".to_owned()
    } else {
        return Ok(None);
    };
    Ok(Some(bad(message, at)))
}

/// Returns the content of the 64-bit end record before the end record at `at`, if there is one (APPNOTE 4.3.14 and 4.3.15).
fn long_end(input: &Input<'_>, at: u64) -> Result<Option<EndRecord>> {
    let Some(position) = at.checked_sub(LOCATOR) else { return Ok(None) };
    let locator = input.read_vec(position, LOCATOR)?;
    let head = u64_le(&locator, 8).filter(|_| locator.starts_with(LOCATOR_SIGNATURE));
    let Some(head) = head.filter(|&head| end_within(head, END64, position).is_some()) else {
        return Ok(None);
    };
    let record = input.read_vec(head, END64)?;
    let number = |at| u64_le(&record, at).unwrap_or(u64::MAX);
    let end = head.saturating_add(END64_PREFIX).saturating_add(number(4));
    if !record.starts_with(END64_SIGNATURE) || end != position {
        return Ok(None);
    }
    Ok(Some(EndRecord { head, size: number(40), offset: number(48), is_split: number(24) != number(32) }))
}

/// The content of an end record.
struct EndRecord {
    /// The end of the directory.
    head: u64,
    size: u64,
    offset: u64,
    /// Whether some members are in another file.
    is_split: bool,
}
