//! GGUF 1 to 3: the files of ggml and llama.cpp (`docs/gguf.md` of ggml-org/ggml). They hold metadata, tensor infos, then tensor data at
//! multiples of the alignment. Both byte orders are read, as are sets of files, which are found by name.
#![forbid(unsafe_code)]

pub mod checkpoint;
mod default_types;
mod edit;
mod encode;
mod encode_value;
mod header;
pub mod importance;
pub mod limits;
mod metadata;
pub mod mixture;
mod model;
pub mod quantization;
mod split;
pub mod value;
mod value_types;
mod window;

use std::sync::Arc;

use ztensor_core::error::Result;
use ztensor_core::formats::{Confidence, Format, Input, Probe, edited, overlap};
use ztensor_core::model::{Attributes, Builder, Catalog, Container};

use header::{Header, MAGIC, NAME};

/// The format of this crate. `src/values/formats.rs` puts it between those of the others.
pub const GGUF: &[Format] = &[FORMAT];

pub const FORMAT: Format = Format {
    name: NAME,
    title: "GGUF",
    endings: &[NAME],
    missing: "no GGUF magic",
    detect,
    parse,
    writes: &[&encode::WRITE_FORMAT],
    header: edited(edit::open),
};

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    Ok(if probe.first(4)? == MAGIC { Confidence::Certain } else { Confidence::No })
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let header = Header::read(input)?;
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    builder.set_version(header.version.to_string());
    let metadata = split::add_all(input, &header, &mut builder)?;
    for key in metadata.unlisted() {
        let message = format!("{key:?} has more values than can be listed (option maxAttributeValues)");
        builder.warn("ZT_WARN_SKIPPED", message, None, None);
    }
    for key in metadata.pairs().map(|pair| pair.key).filter(|key| key.contains('\0')) {
        let message = format!("the key {key:?} has a NUL: llama.cpp ends it there, and reads another key");
        builder.warn("ZT_WARN_NUL", message, None, None);
    }
    if !metadata.is_empty() {
        let typed = Arc::clone(&metadata);
        let attributes = Attributes::lazy(move |to| metadata.visit(to));
        builder.set_attributes(attributes.with_types(move |to| typed.visit_typed(to)));
    }
    overlap::warn(&mut builder);
    Ok(builder.finish())
}
