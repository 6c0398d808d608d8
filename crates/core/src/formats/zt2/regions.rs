//! Checks the location of a blob (§2.4): at a multiple of 4096, and before the footer. `manifest` checks that blobs of
//! one file are identical or disjoint.
#![forbid(unsafe_code)]

use super::footer::{FOOTER, MIN_ALIGNMENT};
use super::rules;
use crate::error::{Code, Error, Result};

pub fn check_alignment(offset: u64) -> Result<()> {
    if offset >= MIN_ALIGNMENT && offset.is_multiple_of(MIN_ALIGNMENT) {
        return Ok(());
    }
    let message = format!("offset {offset} is no multiple of 4096 from 4096 on");
    Err(Error::new(Code::BadIndex, message).rule(rules::BLOBS))
}

/// Checks that a blob ends before the footer of a file of `total` bytes.
pub fn check_bounds(offset: u64, length: u64, total: u64) -> Result<()> {
    let end = total.saturating_sub(FOOTER);
    if offset.checked_add(length).is_some_and(|last| last <= end) {
        return Ok(());
    }
    let message =
        format!("{length} bytes at offset {offset} are not inside the data, which ends at byte {end}");
    Err(Error::new(Code::OutOfBounds, message).at(offset).rule(rules::BLOBS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_never_wrap() {
        assert!(check_bounds(u64::MAX - 4095, 4096, u64::MAX).is_err());
        assert!(check_bounds(4096, 8, 4096 + 8 + 40).is_ok());
        assert!(check_bounds(4096, 9, 4096 + 8 + 40).is_err());
        assert!(
            check_alignment(0).is_err() && check_alignment(4097).is_err() && check_alignment(8192).is_ok()
        );
    }
}
