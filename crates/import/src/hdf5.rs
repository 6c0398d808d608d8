//! HDF5 (`HDF5 File Format Specification`, version 3.0): datasets by their paths. Keras' weights are such files.
//!
//! The crate `hdf5-reader` parses trees, heaps, arrays of chunks and most messages; it reads through [`storage::Bytes`], which bounds
//! what it may read. It decodes nothing and reads no elements: those are found here and read as those of any other format.
#![forbid(unsafe_code)]

mod attribute;
mod chunks;
mod collection;
mod dataset;
mod datatypes;
mod filters;
mod group;
mod heap;
pub mod keras;
mod layout;
mod reader;
mod storage;
mod sums;
mod tree;
mod walk;

use std::iter;

use ciborium::Value;
use hdf5_reader::superblock::Superblock;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};
use ztensor_core::sources::ReadAt;

use crate::damage::warning_of;
use crate::limits::{HDF5_INDEX_BYTES, HDF5_READS};
use reader::{Reader, Sizes};
use storage::{Bytes, Held, Range};
use walk::Walk;

const NAME: &str = "hdf5";
const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";
const SUPERBLOCK: &str = "HDF5 II.A Superblock";
const LACKS: &str = "no HDF5 signature";

pub const FORMAT: Format =
    Format { name: NAME, title: "HDF5", endings: &["h5", "hdf5"], lacks: LACKS, detect, parse, writes: &[] };

/// The signature is at the beginning, or behind a user block of a power of two, 512 bytes at least (II.A).
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    /// The last place that is looked at.
    const LAST: usize = 32 << 10;
    let first = probe.first((LAST + MAGIC.len()) as u64)?;
    let blocks = iter::successors(Some(512), |block| Some(2 * block)).take_while(|&block| block <= LAST);
    let is_at = |at: &usize| first.get(*at..).is_some_and(|rest| rest.starts_with(MAGIC));
    Ok(match iter::once(0).chain(blocks).find(is_at) {
        Some(0) => Confidence::Certain,
        Some(_) => Confidence::Likely,
        None => Confidence::No,
    })
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let builder = Builder::new(Container::named(NAME), input.limits);
    read(input, builder, Range { base: 0, length: input.length() }, None, Vec::new())
}

/// Adds the HDF5 file that is a part of a file, or that is held in memory. `more`: attributes beside its own.
fn read(
    input: &Input<'_>,
    mut builder: Builder,
    place: Range,
    held: Option<&Held>,
    more: Vec<(Value, Value)>,
) -> Result<Catalog> {
    let (file, stop) = (input.source, input.stop);
    let own = held.map(|held| &**held.bytes);
    let source = |offset: u64, buffer: &mut [u8]| match &own {
        Some(bytes) => bytes.read_at(offset, buffer, stop),
        None => file.read_at(offset, buffer, stop),
    };
    let most = input.limits.max_index_bytes.unwrap_or(HDF5_INDEX_BYTES);
    let most = most.min(place.length.saturating_mul(HDF5_READS).saturating_add(1 << 20));
    let found = Bytes::new(&source, place, most);
    let superblock = Superblock::parse_from_storage(&found).map_err(|error| match error {
        hdf5_reader::error::Error::InvalidMagic => bad_magic(LACKS),
        error => found.refusal(&error, "the superblock", 0).rule(SUPERBLOCK),
    })?;
    let sizes = Sizes { address: superblock.offset_size, length: superblock.length_size };
    if [sizes.address, sizes.length].iter().any(|size| !matches!(size, 2 | 4 | 8)) {
        let message = format!("addresses of {} and lengths of {} bytes", sizes.address, sizes.length);
        return Err(Error::new(Code::UnsupportedVersion, message).rule(SUPERBLOCK));
    }
    let base = superblock.base_address;
    let inner = Range { base: place.base.saturating_add(base), length: place.length.saturating_sub(base) };
    let bytes = Bytes::new(&source, inner, most);
    let Ends { end, root } = ends(&bytes, &superblock)?;
    let reader = Reader::new(bytes, sizes, superblock.extension_address, held.cloned(), input.stop)?;
    builder.set_version(superblock.version.to_string());
    if inner.length < end {
        let message = format!(
            "the file is cut off: it says that it has {end} bytes, {} are there. What lies within them can be read",
            inner.length
        );
        let error = Error::new(Code::Truncated, &*message).at(inner.base.saturating_add(inner.length));
        builder.damaged("ZT_WARN_TRUNCATED", &error, message, None);
    }
    for error in reader.problems.iter() {
        let message = format!("the superblock's own messages: {}", error.message());
        builder.damaged(warning_of(error.code()), error, message, None);
    }
    Walk::new(&reader, &mut builder, &source, root).run(more)?;
    Ok(builder.finish())
}

/// What a superblock says of the file that `hdf5-reader` does not keep, or reads in another way.
struct Ends {
    /// Bytes from the superblock on. Its end counts from where the file began when it was written, as its base address does (II.A): what
    /// somebody put before it since is no part of it.
    end: u64,
    /// The address of the root group. Before version 2 it stands in an entry of a symbol table, behind the offset of a name, which has as many
    /// bytes as a length.
    root: u64,
}

fn ends(bytes: &Bytes<'_>, superblock: &Superblock) -> Result<Ends> {
    let (width, length) = (u64::from(superblock.offset_size), u64::from(superblock.length_size));
    let number = |at: u64| -> Result<u64> {
        Ok(bytes.at(at, width)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    };
    let first = match superblock.version {
        0 => 24,
        1 => 28,
        _ => 12,
    };
    let root = match superblock.root_object_header_address {
        Some(root) => root,
        None => number(first + 4 * width + length)?,
    };
    Ok(Ends { end: superblock.eof_address.saturating_sub(number(first)?), root })
}
