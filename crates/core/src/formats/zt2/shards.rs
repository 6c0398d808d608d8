//! The shard table (§7.1): names as labels, and the identity of each file. Data shards (§7.2), and blobs of other
//! files.
#![forbid(unsafe_code)]

use super::encode::{DATA_SHARD_FOOTER, FOOTER, MAGIC, MIN_ALIGNMENT};
use super::{parse as parse_file, read_footer, rules, vocabulary};
use crate::checked::{end_within, exact};
use crate::codecs::digest::Digest;
use crate::error::{Code, Error, Result};
use crate::formats::{DataShards, IndexBytes, Input, WriteFormat, zt};
use crate::model::{ByteOrder, Catalog, Encoding, Shard, Tensor};
use crate::sources::ReadAt;
use crate::syntax::cbor::Reader;
use crate::work::Stop;

pub static DATA_SHARDS: DataShards = DataShards {
    footer: &DATA_SHARD_FOOTER,
    read: of_root,
    check: check_file,
    check_linked,
    index: IndexBytes { file: 4096, component: 512 },
};

const LADDER: &str = "zTensor 2 §7.3 Verification ladder";
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

/// Reads the table of a root. Fails if the file is not version 2.
fn of_root(input: &Input<'_>) -> Result<Vec<Shard>> {
    check_magic(input.source, input.stop)?;
    Ok(parse_file(input)?.shards)
}

fn check_magic(source: &dyn ReadAt, stop: &Stop) -> Result<()> {
    if source.read_vec(0, MAGIC.len() as u64, stop)? == MAGIC {
        return Ok(());
    }
    let message = "a shard begins with the magic of zTensor 2, this file does not";
    Err(Error::new(Code::BadMagic, message).at(0).rule(LADDER))
}

/// Checks that a file can be that shard: size, magic at both ends, footer of version 2. Returns whether it contains
/// only blobs.
fn check_file(source: &dyn ReadAt, shard: &Shard, stop: &Stop) -> Result<bool> {
    let length = source.length();
    if length != shard.size {
        let message = format!(
            "the file has {length} bytes, the root says that the shard {:?} has {}",
            shard.name, shard.size
        );
        return Err(Error::new(Code::BadIndex, message).rule(LADDER));
    }
    check_magic(source, stop)?;
    Ok(read_footer(source, stop)?.is_none())
}

/// Checks that a root can refer to a tensor of `catalog`, the index of the file `shard`.
fn check_linked(tensor: Tensor<'_>, catalog: &Catalog, shard: &Shard) -> Result<()> {
    if WriteFormat::of(catalog) != Some(&zt::ZT2) {
        let message =
            "only blobs of zTensor 2 files can be linked; convert the file, or add the tensor itself";
        return Err(Error::new(Code::InvalidArg, message));
    }
    let end = shard.size.saturating_sub(FOOTER);
    for component in tensor.components() {
        let named = |error: Error| error.component(catalog.label(component.role));
        if component.file() != 0 {
            let message = "it lies in a shard of its file: open that shard's own file and link to it";
            return Err(named(Error::new(Code::InvalidArg, message)));
        }
        let whole = component.is_whole_blob();
        let stored = matches!(component.encoding(), Encoding::RAW | Encoding::ZSTD_SEEKABLE);
        let known = component.dtype.and_then(vocabulary::spelling).is_some();
        if !whole || !stored || !known || component.byte_order != ByteOrder::Little {
            let message = "only components of known type and encoding can be linked";
            return Err(named(Error::new(Code::UnsupportedEncoding, message)));
        }
        let aligned = component.offset().is_multiple_of(MIN_ALIGNMENT) && component.offset() >= MIN_ALIGNMENT;
        if !aligned || end_within(component.offset(), component.stored_length(), end).is_none() {
            let message = "the blob does not lie in the data of its file";
            return Err(named(Error::new(Code::OutOfBounds, message).rule(rules::BLOBS)));
        }
    }
    check_name(&shard.name).map_err(|error| error.rule(rules::SHARD_TABLE))
}
