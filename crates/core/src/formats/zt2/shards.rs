//! The files of a set: the table of a root, data shards (§7.2), and links to blobs of other files.
#![forbid(unsafe_code)]

use super::footer::{DATA_SHARD_FOOTER, FOOTER, MAGIC, MIN_ALIGNMENT, read_footer};
use super::shard_table::check_name;
use super::{parse as parse_file, rules, vocabulary};
use crate::checked::end_within;
use crate::error::{Code, Error, Result};
use crate::formats::zt_magic::CONTAINER;
use crate::formats::{DataShards, IndexBytes, Input};
use crate::model::{ByteOrder, Catalog, Encoding, Shard, Tensor};
use crate::sources::ReadAt;
use crate::work::Stop;

pub static DATA_SHARDS: DataShards = DataShards {
    footer: &DATA_SHARD_FOOTER,
    read: of_root,
    check: check_file,
    check_linked,
    index: IndexBytes { file: 4096, component: 512 },
};

const LADDER: &str = "zTensor 2 §7.3 Verification ladder";
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
    if catalog.container != CONTAINER || catalog.version.as_deref() != Some("2") {
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
