//! zTensor 2 (Draft 4): aligned blobs, a manifest in deterministic CBOR, and a footer of 40 bytes that points to it.
#![forbid(unsafe_code)]

pub(crate) mod canonical;
pub mod content;
pub mod edit;
pub mod encode;
pub(crate) mod manifest;
mod part;
mod regions;
pub(crate) mod rules;
pub(crate) mod shards;
pub mod vocabulary;

use super::Input;
use super::zt_magic::CONTAINER;
use crate::checked::u64_le;
use crate::codecs::digest::xxh3;
use crate::error::{Code, Error, Result};
use crate::limits::{self, Limits};
use crate::model::{Builder, Catalog};
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::work::Stop;

pub use encode::{FOOTER, MAGIC, MIN_ALIGNMENT};

const VERSION: u32 = 2;

/// The location of the manifest, as recorded in the footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footer {
    pub offset: u64,
    pub length: u64,
    pub hash: u64,
}

/// Reads the manifest of a file that begins with the magic. A data shard (§7.2) has no tensors: a warning reports it, and verification
/// fails, because the digests are in the root.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let Input { source, limits, stop, .. } = *input;
    let Some(footer) = read_footer(source, stop)? else {
        let mut builder = Builder::new(CONTAINER, limits);
        builder.set_version("2");
        let message = "the file is a data shard: it has bytes and no index, which is in the root file of its model. Open the root";
        let error = Error::new(Code::Incomplete, message);
        builder.damaged("ZT_WARN_DATA_SHARD", &error, message.to_owned(), None);
        return Ok(builder.finish());
    };
    let bytes = read_manifest(source, footer, limits, stop)?;
    parse_manifest(&bytes, footer.offset, source.length(), limits)
}

/// Returns the catalog of the manifest `bytes`, at `offset` in a file of `total` bytes.
pub fn parse_manifest(bytes: &[u8], offset: u64, total: u64, limits: &Limits) -> Result<Catalog> {
    manifest::parse(bytes, offset, total, limits)
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

/// Reads the manifest into private memory and verifies its hash.
pub fn read_manifest(source: &dyn ReadAt, footer: Footer, limits: &Limits, stop: &Stop) -> Result<Owned> {
    let Footer { offset, length, hash: expected } = footer;
    let (total, at) = (source.length(), source.length().saturating_sub(FOOTER));
    if length > limits::ZT_INDEX_BYTES {
        let message = format!("the manifest is {length} bytes, more than 1 GiB");
        return Err(Error::new(Code::Limit, message).at(at).rule(rules::ENCODING));
    }
    regions::check_alignment(offset).map_err(|error| error.at(at))?;
    if offset.checked_add(length).is_none_or(|end| end > at) {
        let message = format!(
            "the manifest should be {length} bytes at offset {offset}, the file has {total} in all: it is truncated or damaged"
        );
        return Err(Error::new(Code::OutOfBounds, message).at(at).rule(rules::BLOBS));
    }
    let limit = limits.max_index_bytes.unwrap_or(limits::ZT_INDEX_BYTES);
    if length > limit {
        let message = format!("the manifest is {length} bytes, more than the {limit} allowed");
        return Err(Error::new(Code::Limit, message).option("maxIndexBytes").at(at));
    }
    let bytes = source.read_owned(offset, length, stop)?;
    let found = xxh3(&bytes);
    if found != expected {
        let message = format!(
            "the manifest hashes to {found:016x}, the footer says {expected:016x}: the file is damaged"
        );
        return Err(Error::new(Code::DigestMismatch, message).at(offset).rule(rules::FOOTER));
    }
    Ok(bytes)
}
