//! The end of every zTensor file below version 2: the index and its size, after the blobs.
#![forbid(unsafe_code)]

use super::Input;
use crate::checked::u64_le;
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::sources::owned::Owned;

/// Bytes of the magic that every file begins with.
pub const MAGIC: u64 = 8;

/// The index, read into private memory, and where in the file it stands.
pub struct Index {
    pub bytes: Owned,
    pub offset: u64,
}

/// Reads the index that ends `footer` bytes before the end of the file: its size in 8 bytes, then what the
/// version puts behind it.
pub fn read(input: &Input<'_>, footer: u64, rule: &'static str) -> Result<Index> {
    let total = input.length();
    let Some(room) = total.checked_sub(MAGIC + footer) else {
        let message =
            format!("{total} bytes are too few for a zTensor file: magic, index and footer do not fit");
        return Err(Error::new(Code::Truncated, message).rule(rule));
    };
    let size_at = total - footer;
    let size = u64_le(&input.read_vec(size_at, 8)?, 0).unwrap_or_default();
    let limit = input.limits.max_index_bytes.unwrap_or(limits::ZT_INDEX_BYTES);
    // A file cut short ends in bytes that are no size, so this is looked at before the limit.
    if size > room {
        let message = format!(
            "the index should be {size} bytes, the file has room for {room}: it is cut short or damaged"
        );
        return Err(Error::new(Code::Truncated, message).at(size_at).rule(rule));
    }
    if size > limit {
        let message =
            format!("the index is {size} bytes, more than the {limit} allowed (option maxIndexBytes)");
        return Err(Error::new(Code::Limit, message).at(size_at).rule(rule));
    }
    let offset = size_at - size;
    Ok(Index { bytes: input.read_owned(offset, size)?, offset })
}

/// The bytes that stand behind the blobs: the index, its size, and what the version puts behind it.
pub fn tail(index: &[u8], footer: &[u8]) -> Vec<u8> {
    [index, &(index.len() as u64).to_le_bytes(), footer].concat()
}

/// Checks that a component of `length` bytes at `offset` lies between the magic and the index. An empty one
/// may stand anywhere in the file.
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
