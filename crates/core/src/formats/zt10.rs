//! zTensor 1.0: `ZTEN1000`, blobs, a CBOR manifest with `tensors`, and its size in the last 8 bytes.
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
/// §6 and §7.1 require `manifest_size < FILE_SIZE - 16`. Taken literally, that rejects a file without tensors, whose
/// manifest fills everything between the magic and the size, and the 1.0.0 writer produces such files. The purpose of
/// the rule is that the magic and the manifest do not overlap. That holds with equality too, so equality is accepted.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let index = zt_trailer::read(input, 8, GENERATION.bounds_rule)?;
    parse_index(&index.bytes, index.offset, input.length(), input.limits)
}

/// Returns the catalog of the manifest `bytes`, at `offset` in a file of `total` bytes.
pub fn parse_index(bytes: &[u8], offset: u64, total: u64, limits: &Limits) -> Result<Catalog> {
    zt1::parse(bytes, offset, total, &GENERATION, limits)
}
