//! The footer of a file (§2.3), and the constants of its structure.
#![forbid(unsafe_code)]

use super::rules;
use crate::checked::u64_le;
use crate::error::{Code, Error, Result};
use crate::sources::ReadAt;
use crate::work::Stop;

/// The bytes at the beginning of a file and again at its end (§2.2).
pub const MAGIC: [u8; 8] = *b"\x89ZT2\r\n\x1a\n";
/// The minimum alignment of a blob (§2.4).
pub const MIN_ALIGNMENT: u64 = 4096;
/// The size of the footer in bytes.
pub const FOOTER: u64 = 40;
pub const VERSION: u32 = 2;
/// The footer of a data shard (§7.2): all zeros except version and magic.
pub const DATA_SHARD_FOOTER: [u8; 40] = {
    let mut footer = [0; 40];
    let (_, end) = footer.split_at_mut(24);
    let (version, end) = end.split_at_mut(4);
    version.copy_from_slice(&VERSION.to_le_bytes());
    let (_, magic) = end.split_at_mut(4);
    magic.copy_from_slice(&MAGIC);
    footer
};

/// The location of the manifest, as recorded in the footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footer {
    pub offset: u64,
    pub length: u64,
    pub hash: u64,
}

/// Reads the footer. Returns `None` for a data shard.
pub fn read_footer(source: &dyn ReadAt, stop: &Stop) -> Result<Option<Footer>> {
    let total = source.length();
    let Some(at) = total.checked_sub(FOOTER).filter(|&at| at >= 8) else {
        let message = format!("{total} bytes are too few for a zTensor 2 file, which has at least 48");
        return Err(Error::new(Code::Truncated, message).rule(rules::FILE));
    };
    let bytes = source.read_vec(at, FOOTER, stop)?;
    let number = |field: u64| u64_le(&bytes, field).unwrap_or_default();
    if bytes.get(32..) != Some(&MAGIC) {
        let message = "the file does not end in its magic: it is truncated, or an append to it broke off";
        return Err(Error::new(Code::Truncated, message).at(total - 8).rule(rules::MAGIC));
    }
    let version = number(24) & u64::from(u32::MAX);
    if version != u64::from(VERSION) {
        let message = format!("the footer says version {version}; a file of this magic has version 2 here");
        return Err(Error::new(Code::UnsupportedVersion, message).at(total - 16).rule(rules::FOOTER));
    }
    let footer = Footer { offset: number(0), length: number(8), hash: number(16) };
    if footer.length > 0 {
        return Ok(Some(footer));
    }
    if footer.offset != 0 || footer.hash != 0 {
        let message = "the footer gives a manifest of no bytes an offset or a hash";
        return Err(Error::new(Code::BadIndex, message).at(at).rule(rules::DATA_SHARDS));
    }
    Ok(None)
}
