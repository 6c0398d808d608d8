//! OpenVINO models (IR versions 10 and 11): the constants described by a `.xml`, whose bytes are in the `.bin` sibling file.
#![forbid(unsafe_code)]

mod companions;
mod details;
mod dtypes;
mod model;
mod tensors;
mod xml;

pub use companions::COMPANIONS;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};

use crate::limits::OPENVINO_INDEX_BYTES;

const NAME: &str = "openvino";
const MISSING: &str = "no <net> of OpenVINO";
/// The extension of a model.
const MODEL: &str = "xml";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "OpenVINO",
    endings: &[MODEL],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

/// Accepts a root `<net>` with an integer version: other programs and versions use such a root too.
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    if !is_markup(probe.first(64)?) {
        return Ok(Confidence::No);
    }
    let first = probe.first(Probe::BYTES)?;
    // The sample may end within a character.
    let text = match std::str::from_utf8(first) {
        Ok(text) => text,
        Err(error) => first
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
    };
    let version =
        xml::root(text).filter(|root| root.name() == model::ROOT).and_then(|root| root.get("version"));
    Ok(if version.is_some_and(|version| dtypes::number(&version).is_some()) {
        Confidence::Certain
    } else {
        Confidence::No
    })
}

/// Returns whether bytes begin like XML.
fn is_markup(first: &[u8]) -> bool {
    first.strip_prefix(xml::MARK).unwrap_or(first).trim_ascii_start().starts_with(b"<")
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    if !is_markup(&input.read_vec(0, input.length().min(64))?) {
        return Err(bad_magic(MISSING));
    }
    let max = input.limits.max_index_bytes.unwrap_or(OPENVINO_INDEX_BYTES);
    if input.length() > max {
        let message = format!("the model's .xml has {} bytes, the maximum is {max}", input.length());
        return Err(Error::new(Code::Limit, message).option("maxIndexBytes").at(0));
    }
    let bytes = input.read_owned(0, input.length())?;
    let builder = Builder::new(Container::named(NAME), input.limits);
    model::read(input, &bytes, max, builder)?.ok_or_else(|| bad_magic(MISSING))
}
