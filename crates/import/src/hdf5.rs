//! HDF5 (`HDF5 File Format Specification`, version 3.0): datasets listed by path. Keras weights are stored as such files.
//!
//! The crate `hdf5-reader` parses trees, heaps, chunk arrays and most messages. It reads through [`storage::Bytes`], which limits how much
//! it may read. It decodes nothing and reads no elements: this module locates them, and they are read like those of any other format.
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
use reader::Reader;
use storage::Sizes;
use storage::{Bytes, DecodedFile, Range};
use walk::Walk;

const NAME: &str = "hdf5";
const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";
const SUPERBLOCK: &str = "HDF5 II.A Superblock";
const MISSING: &str = "no HDF5 signature";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "HDF5",
    endings: &["h5", "hdf5"],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

/// Finds the signature at the beginning, or after a user block whose size is a power of two of at least 512 bytes (II.A).
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    /// The last offset that is searched.
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

/// Adds an HDF5 file that is part of another file or in memory. `more`: further attributes.
fn read(
    input: &Input<'_>,
    mut builder: Builder,
    range: Range,
    held: Option<&DecodedFile>,
    more: Vec<(Value, Value)>,
) -> Result<Catalog> {
    let (file, stop) = (input.source, input.stop);
    let own = held.map(|held| &**held.bytes);
    let source = |offset: u64, buffer: &mut [u8]| match &own {
        Some(bytes) => bytes.read_at(offset, buffer, stop),
        None => file.read_at(offset, buffer, stop),
    };
    let max = input.limits.max_index_bytes.unwrap_or(HDF5_INDEX_BYTES);
    let max = max.min(range.length.saturating_mul(HDF5_READS).saturating_add(1 << 20));
    let found = Bytes::new(&source, range, max);
    let superblock = Superblock::parse_from_storage(&found).map_err(|error| match error {
        hdf5_reader::error::Error::InvalidMagic => bad_magic(MISSING),
        error => found.refusal(&error, "the superblock", 0).rule(SUPERBLOCK),
    })?;
    let sizes = Sizes { address: superblock.offset_size, length: superblock.length_size };
    if [sizes.address, sizes.length].iter().any(|size| !matches!(size, 2 | 4 | 8)) {
        let message = format!("addresses of {} and lengths of {} bytes", sizes.address, sizes.length);
        return Err(Error::new(Code::UnsupportedVersion, message).rule(SUPERBLOCK));
    }
    let base = superblock.base_address;
    let inner = Range { base: range.base.saturating_add(base), length: range.length.saturating_sub(base) };
    let bytes = Bytes::new(&source, inner, max);
    let Ends { end, root } = ends(&bytes, &superblock)?;
    let reader = Reader::new(bytes, sizes, superblock.extension_address, held.cloned(), input.stop)?;
    builder.set_version(superblock.version.to_string());
    if inner.length < end {
        let message = format!(
            "the file is truncated: it should have {end} bytes and has {}. Data within them can be read",
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

/// Superblock fields that `hdf5-reader` drops or reads differently.
struct Ends {
    /// Bytes from the superblock on. The stored end of file, like the base address, is relative to the start of the original file (II.A),
    /// so data prepended later does not count.
    end: u64,
    /// The address of the root group. Before version 2 it is in a symbol table entry, after the offset of a name, which is as wide as a
    /// length.
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
