//! What the end of an archive says of its directory, compared with the directory that was found (APPNOTE 4.3.14 to 4.3.16).
#![forbid(unsafe_code)]

use ztensor_core::checked::end_within;
use ztensor_core::error::{Error, Result};
use ztensor_core::formats::Input;

use super::{bad, u16_le, u32_le, u64_le};

const ENTRY_SIGNATURE: &[u8] = b"PK\x01\x02";
const LOCATOR_SIGNATURE: &[u8] = b"PK\x06\x07";
const END64_SIGNATURE: &[u8] = b"PK\x06\x06";
/// Bytes of the end, of the locator of a 64-bit end, and of a 64-bit end.
const END: u64 = 22;
const LOCATOR: u64 = 20;
const END64: u64 = 56;
/// Bytes of a 64-bit end before what its length counts.
const END64_PREFIX: u64 = 12;

/// Compares the end at `at` with the directory that begins at `start`. Returns what is wrong with the end while the directory is
/// clear. Fails with `ZT_BAD_INDEX` if a reader that believes the end finds another directory.
pub fn check(input: &Input<'_>, at: u64, start: u64) -> Result<Option<Error>> {
    let record = input.read_vec(at, END)?;
    let mut said = Said {
        head: at,
        size: u32_le(&record, 12).into(),
        offset: u32_le(&record, 16).into(),
        apart: u16_le(&record, 8) != u16_le(&record, 10),
    };
    if let Some(long) = long_end(input, at)? {
        said = long;
    }
    let Said { head, size, offset, apart } = said;
    let bytes = head.saturating_sub(start);
    let other = head.checked_sub(size).filter(|&other| other != start);
    if let Some(other) = other.filter(|other| head - other >= ENTRY_SIGNATURE.len() as u64)
        && input.read_vec(other, ENTRY_SIGNATURE.len() as u64)? == ENTRY_SIGNATURE
    {
        let message =
            format!("the archive has directories at {start} and at {other}: readers differ in which counts");
        return Err(bad(message, at));
    }
    let message = if size != bytes {
        format!("the end of the archive says that its directory has {size} bytes, it has {bytes}")
    } else if offset > start {
        // An offset that is too small is of an archive behind other bytes, which all readers find.
        format!("the end of the archive says that its directory is at {offset}, it is at {start}")
    } else if apart {
        "the end of the archive says that some members are in another file".to_owned()
    } else {
        return Ok(None);
    };
    Ok(Some(bad(message, at)))
}

/// What the 64-bit end says, before the end at `at`; `None` where there is none (APPNOTE 4.3.14 and 4.3.15).
fn long_end(input: &Input<'_>, at: u64) -> Result<Option<Said>> {
    let Some(place) = at.checked_sub(LOCATOR) else { return Ok(None) };
    let locator = input.read_vec(place, LOCATOR)?;
    let head = u64_le(&locator, 8).filter(|_| locator.starts_with(LOCATOR_SIGNATURE));
    let Some(head) = head.filter(|&head| end_within(head, END64, place).is_some()) else { return Ok(None) };
    let record = input.read_vec(head, END64)?;
    let number = |at| u64_le(&record, at).unwrap_or(u64::MAX);
    let end = head.saturating_add(END64_PREFIX).saturating_add(number(4));
    if !record.starts_with(END64_SIGNATURE) || end != place {
        return Ok(None);
    }
    Ok(Some(Said { head, size: number(40), offset: number(48), apart: number(24) != number(32) }))
}

/// What the end says.
struct Said {
    /// Where the directory ends.
    head: u64,
    size: u64,
    offset: u64,
    /// Whether not all members are in this file.
    apart: bool,
}
