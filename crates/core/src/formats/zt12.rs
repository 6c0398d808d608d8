//! zTensor 1.1 and 1.2: `ZTEN1000` at both ends, a CBOR manifest with `objects`, and a dtype for each component.
#![forbid(unsafe_code)]

use super::zt_trailer;
use super::zt1::{self, Dtypes, Generation};
use crate::error::Result;
use crate::formats::Input;
use crate::limits::Limits;
use crate::model::Catalog;

pub(super) const GENERATION: Generation = Generation {
    tensors: "objects",
    foreign: None,
    newest_minor: 2,
    dtypes: Dtypes::OfComponents,
    root_rule: "zTensor 1.2 §1 Root",
    tensor_rule: "zTensor 1.2 §1 Object",
    component_rule: "zTensor 1.2 §1 Component",
    bounds_rule: "zTensor 1.2 §5 Security rules",
    version_rule: "zTensor 1.2 Appendix: Version Policy",
};

/// Reads the manifest of a 1.1 or 1.2 file.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let index = zt_trailer::read(input, 16, GENERATION.bounds_rule)?;
    parse_index(&index.bytes, index.offset, input.length(), input.limits)
}

/// Returns the catalog of the manifest `bytes`, at `offset` in a file of `total` bytes.
pub fn parse_index(bytes: &[u8], offset: u64, total: u64, limits: &Limits) -> Result<Catalog> {
    zt1::parse(bytes, offset, total, &GENERATION, limits)
}
