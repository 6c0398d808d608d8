//! TFLite models (`schema.fbs` of LiteRT): the constant tensors of all subgraphs, whose bytes are in buffers of the flatbuffer or after it.
#![forbid(unsafe_code)]

mod dtypes;
mod graph;
mod model;
mod sparsity;
mod tensors;

use ztensor_core::error::Result;
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};

use crate::flatbuffer::Flat;
use crate::limits::TFLITE_INDEX_BYTES;

const NAME: &str = "tflite";
const MISSING: &str = "no TFL3 at byte 4";
/// The file identifier, after the offset of the root.
const IDENTIFIER: &[u8; 4] = b"TFL3";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "TFLite",
    endings: &[NAME],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    Ok(if probe.first(8)?.ends_with(IDENTIFIER) { Confidence::Certain } else { Confidence::No })
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    if !input.read_vec(0, input.length().min(8))?.ends_with(IDENTIFIER) {
        return Err(bad_magic(MISSING));
    }
    let max = input.limits.max_index_bytes.unwrap_or(TFLITE_INDEX_BYTES);
    let builder = Builder::new(Container::named(NAME), input.limits);
    model::read(input, Flat::new(input.source, input.stop, max), builder)
}
