//! zTensor 2 (Draft 4): aligned blobs, a manifest in deterministic CBOR, and a footer of 40 bytes that points to it.
#![forbid(unsafe_code)]

pub(crate) mod canonical;
pub mod content;
pub mod edit;
pub mod encode;
mod footer;
pub(crate) mod manifest;
mod part;
mod regions;
pub(crate) mod rules;
mod shard_table;
pub(crate) mod shards;
pub mod vocabulary;

pub use manifest::{parse as parse_manifest, read_manifest};

use super::Input;
use super::zt_magic::CONTAINER;
use crate::error::{Code, Error, Result};
use crate::model::{Builder, Catalog};
pub use footer::{FOOTER, Footer, MAGIC, MIN_ALIGNMENT, read_footer};

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
    manifest::parse(&bytes, footer.offset, source.length(), limits)
}
