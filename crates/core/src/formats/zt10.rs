//! zTensor 1.0: `ZTEN1000`, blobs, a CBOR manifest with `tensors`, its size in the last 8 bytes.
#![forbid(unsafe_code)]

use super::zt_trailer;
use super::zt1::{self, Dtypes, Generation};
use crate::error::Result;
use crate::formats::Input;
use crate::limits::Limits;
use crate::model::Catalog;

pub(super) const GENERATION: Generation = Generation {
    tensors: "tensors",
    foreign: Some("objects"),
    newest_minor: 0,
    dtypes: Dtypes::OfTensor,
    root_rule: "zTensor 1.0 §4.1",
    tensor_rule: "zTensor 1.0 §4.2",
    component_rule: "zTensor 1.0 §4.3",
    bounds_rule: "zTensor 1.0 §7.1",
    version_rule: "zTensor 1.0 §6.1",
};

/// Reads the manifest of a 1.0 file.
///
/// §6 and §7.1 ask for `manifest_size < FILE_SIZE - 16`. Taken to the letter that refuses a file without
/// tensors, whose manifest fills everything between magic and size, and the 1.0.0 writer makes just such
/// files; the purpose of the rule, that magic and manifest do not overlap, holds with equality too, so
/// equality is accepted.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let index = zt_trailer::read(input, 8, GENERATION.bounds_rule)?;
    parse_index(&index.bytes, index.offset, input.length(), input.limits)
}

/// The catalog of the manifest `bytes`, which stands at `offset` in a file of `total` bytes.
pub fn parse_index(bytes: &[u8], offset: u64, total: u64, limits: &Limits) -> Result<Catalog> {
    zt1::parse(bytes, offset, total, &GENERATION, limits)
}
