//! TensorFlow checkpoints and the variables of SavedModels (`tensorflow/core/util/tensor_bundle`): a sorted table, `<prefix>.index`, and
//! sibling files with tensor data, `<prefix>.data-00000-of-00002` and so on.
#![forbid(unsafe_code)]

mod bundle;
mod companions;
mod dtypes;
mod slices;
mod table;
mod tensors;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic, overlap};
use ztensor_core::model::{Builder, Catalog, Container};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

use crate::damage::Damage;
use crate::limits::TENSORFLOW_INDEX_BYTES;
use bundle::{Header, Tensor};
pub use companions::COMPANIONS;
use table::Table;
use tensors::{Listed, Tensors};

const NAME: &str = "tensorflow";
const MISSING: &str = "no index of a TensorFlow checkpoint";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "TensorFlow",
    endings: &["index"],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

/// LevelDB tables have the same magic: only the first entry identifies a checkpoint.
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let ends = table::ends_in_magic(probe.last(8)?);
    let begins = begins(probe.first(BEGINNING)?);
    if !ends {
        return Ok(if begins { Confidence::Likely } else { Confidence::No });
    }
    match header(probe, Stop::never(), DETECTION_BYTES) {
        Ok(_) => Ok(Confidence::Certain),
        Err(error) if matches!(error.code(), Code::Io | Code::Aborted) => Err(error),
        Err(error) if error.code() == Code::UnsupportedVersion => Ok(Confidence::Certain),
        Err(error) if error.code() == Code::BadMagic && !begins => Ok(Confidence::No),
        // The parser reports what is wrong.
        Err(_) => Ok(Confidence::Likely),
    }
}

/// Bytes of a table that are read during detection: if its list of blocks is longer, the parser decides.
const DETECTION_BYTES: u64 = 1 << 20;
/// Bytes of the first entry that identify a truncated file.
const BEGINNING: u64 = 6;

/// Returns whether a file begins with a block whose first key is empty and whose value is a header with a number of files.
fn begins(first: &[u8]) -> bool {
    matches!(first, &[0, 0, 4..=32, 8, 1..=0x7f, 0x10 | 0x1a, ..])
}

/// Reads the header, which is the first entry.
fn header(source: &dyn ReadAt, stop: &Stop, max: u64) -> Result<Header> {
    let mut header = None;
    Table::new(source, stop, max).walk(|entry| {
        header = Some(Header::read(&entry, stop)?);
        Ok(false)
    })?;
    header.ok_or_else(|| bad_magic(MISSING))
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let max = input.limits.max_index_bytes.unwrap_or(TENSORFLOW_INDEX_BYTES);
    let (mut header, mut listed) = (None, Vec::new());
    let mut lost: Vec<(Box<[u8]>, Error)> = Vec::new();
    Table::new(input.source, input.stop, max).walk(|entry| {
        if header.is_none() {
            header = Some(Header::read(&entry, input.stop)?);
        } else {
            match Tensor::read(&entry, input.limits, input.stop) {
                Err(error) if error.is_of_item() => lost.push((Box::from(entry.key), error)),
                tensor => listed.push(Listed { key: entry.key.into(), tensor: tensor? }),
            }
        }
        Ok(true)
    })?;
    let header = header
        .ok_or_else(|| Error::new(Code::BadMagic, "the table has no entries and therefore no header"))?;
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    builder.set_version(header.producer.to_string());
    builder.reserve(listed.len());
    let mut damage = Damage::default();
    for (key, error) in lost {
        damage.note(&mut builder, error.tensor(&String::from_utf8_lossy(&key)));
    }
    let mut builder = Tensors::new(input, &header, builder).add_all(&listed, &mut damage)?;
    overlap::warn(&mut builder);
    damage.finish(builder)
}
