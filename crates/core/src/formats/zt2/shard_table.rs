//! The shard table (§7.1): names as labels, and the identity of each file.
#![forbid(unsafe_code)]

use crate::checked::exact;
use crate::codecs::digest::Digest;
use crate::error::{Code, Error, Result};
use crate::model::Shard;
use crate::syntax::cbor::Reader;

/// The maximum length of a shard name in bytes.
const NAME_BYTES: usize = 64;
/// The minimum size of a file in bytes: magic and footer.
const MIN: u64 = 48;

/// Reads the table in its order, by length and then by bytes.
pub fn parse(reader: &mut Reader<'_>) -> Result<Vec<Shard>> {
    let mut shards = Vec::new();
    reader.names("shards", |reader, name| {
        check_name(name)?;
        shards.push(entry(reader, name)?);
        Ok(())
    })?;
    Ok(shards)
}

/// Checks a name. It must be safe as a part of a path in every implementation.
pub fn check_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > NAME_BYTES || name.starts_with('.') || !name.bytes().all(allowed) {
        let message = format!(
            "the shard name {name:?} is not 1 to 64 letters, digits, '.', '_' or '-', the first of them no '.'"
        );
        return Err(Error::new(Code::BadIndex, message));
    }
    Ok(())
}

fn entry(reader: &mut Reader<'_>, name: &str) -> Result<Shard> {
    let (mut size, mut digest) = (None, None);
    reader.fields("the shard", |reader, key| {
        match key {
            "size" => size = Some(exact(reader.uint("size")?, "size")?),
            "digest" => digest = Some(Digest::parse_registered(&reader.text("digest")?)?),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    let missing = |key: &str| Error::new(Code::BadIndex, format!("the shard {name:?} has no {key:?}"));
    let size = size.ok_or_else(|| missing("size"))?;
    if size < MIN {
        let message = format!("the shard {name:?} would have {size} bytes, fewer than any file of version 2");
        return Err(Error::new(Code::BadIndex, message));
    }
    Ok(Shard { name: name.into(), size, digest: digest.ok_or_else(|| missing("digest"))? })
}

/// Returns the number of a shard's file; 0 is the file of the index itself. The table is sorted by length, then by
/// bytes.
pub fn number(shards: &[Shard], name: &str) -> Option<u32> {
    let key = |shard: &Shard| (shard.name.len(), shard.name.as_bytes()).cmp(&(name.len(), name.as_bytes()));
    let at = shards.binary_search_by(key).ok()?;
    u32::try_from(at).ok()?.checked_add(1)
}
