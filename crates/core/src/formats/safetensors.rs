//! safetensors: its row, and how it is written.
#![forbid(unsafe_code)]

use super::Probe;
use super::format::{Confidence, Format};
use super::safetensors_parse::{METADATA, name_of, parse};
use super::write_format::{Checkpoint, FileAttributes, Index, Names, Sharding, WriteFormat};
use super::{edited, safetensors_edit, safetensors_encode};
use crate::error::Result;

const NAME: &str = "safetensors";

pub const FORMAT: Format = Format {
    name: NAME,
    title: NAME,
    endings: &["safetensors"],
    missing: "no safetensors header",
    detect,
    parse,
    writes: &[&WRITE_FORMAT],
    header: edited(safetensors_edit::open),
};

pub static WRITE_FORMAT: WriteFormat = WriteFormat {
    format: NAME,
    title: NAME,
    readers: &["safetensors for Python", "every other reader of safetensors", "ztensor"],
    index: Index::First(safetensors_encode::put),
    holds: |dtype| name_of(dtype).is_some(),
    names: Names::Except(METADATA),
    attributes: FileAttributes::Text,
    check_settings: |asked| safetensors_encode::check_attributes(&asked.attributes.values()?, false),
    check_attributes: safetensors_encode::check_attributes,
    header: Some(&safetensors_encode::HEADER),
    shards: Sharding::Checkpoint(&Checkpoint {
        ending: NAME,
        is_indexed: true,
        stated: |_| Ok(Vec::new()),
        position: &[],
    }),
    ..WriteFormat::DENSE
};

/// Detects safetensors by the '{' after the size of the header.
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    Ok(if probe.first(9)?.get(8) == Some(&b'{') { Confidence::Likely } else { Confidence::No })
}
