//! The end of every zTensor file before version 2: the index and its size, after the blobs.
#![forbid(unsafe_code)]

use super::Input;
use crate::checked::u64_le;
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::sources::owned::Owned;

/// The size in bytes of the magic at the beginning of every file.
pub const MAGIC: u64 = 8;

/// The index in private memory, and its offset in the file.
pub struct Index {
    pub bytes: Owned,
    pub offset: u64,
}

/// Reads the index, which ends `footer` bytes before the end of the file. The footer is the size of the index in 8
/// bytes, and further bytes that depend on the version.
pub fn read(input: &Input<'_>, footer: u64, rule: &'static str) -> Result<Index> {
    let total = input.length();
    let Some(max) = total.checked_sub(MAGIC + footer) else {
        let message =
            format!("{total} bytes are too few for a zTensor file: magic, index and footer do not fit");
        return Err(Error::new(Code::Truncated, message).rule(rule));
    };
    let size_at = total - footer;
    let size = u64_le(&input.read_vec(size_at, 8)?, 0).unwrap_or_default();
    let limit = input.limits.max_index_bytes.unwrap_or(limits::ZT_INDEX_BYTES);
    // Checked before the limit: the last bytes of a truncated file are not a size.
    if size > max {
        let message = format!(
            "the index should be {size} bytes, but at most {max} fit in the file: it is truncated or damaged"
        );
        return Err(Error::new(Code::Truncated, message).at(size_at).rule(rule));
    }
    if size > limit {
        let message = format!("the index is {size} bytes, more than the {limit} allowed");
        return Err(Error::new(Code::Limit, message).option("maxIndexBytes").at(size_at).rule(rule));
    }
    let offset = size_at - size;
    Ok(Index { bytes: input.read_owned(offset, size)?, offset })
}

/// Returns the bytes after the blobs: the index, its size, and the footer of the version.
pub fn tail(index: &[u8], footer: &[u8]) -> Vec<u8> {
    [index, &(index.len() as u64).to_le_bytes(), footer].concat()
}

/// Checks that a component of `length` bytes at `offset` lies between the magic and the index. An empty component may
/// be anywhere in the file.
pub fn placed(offset: u64, length: u64, index: u64, total: u64, rule: &'static str) -> Result<()> {
    let (first, last) = if length == 0 { (0, total) } else { (MAGIC, index) };
    let fits = offset >= first && offset.checked_add(length).is_some_and(|end| end <= last);
    if fits {
        return Ok(());
    }
    let message = format!(
        "{length} bytes at offset {offset} are not inside the data, which is bytes {first} to {last}"
    );
    Err(Error::new(Code::OutOfBounds, message).at(offset).rule(rule))
}
