//! Keras archives: a zip with the HDF5 file `model.weights.h5` and two JSON files about the model.
#![forbid(unsafe_code)]

use std::sync::Arc;

use ciborium::Value;
use ztensor_core::codecs::digest::Digest;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::model::{Blob, Builder, Catalog, Container, Section};

use super::storage::{DecodedFile, Range};
use crate::damage::{self, warning_of};
use crate::limits::KERAS_TEXT_BYTES;
use crate::zip::{self, Member, Method};

const NAME: &str = "keras";
const WEIGHTS: &str = "model.weights.h5";
const MISSING: &str = "no Keras archive";
/// Members with metadata: the layers of the model, and the version of Keras that wrote it.
const TEXTS: [&str; 2] = ["config.json", "metadata.json"];

pub const FORMAT: Format = Format {
    name: NAME,
    title: "Keras",
    endings: &["keras"],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

/// The directory at the end names all members. Keras writes one of a few first; rezipped archives may begin with any.
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let Some(first) = zip::first_name(probe)? else { return Ok(Confidence::No) };
    if first == WEIGHTS.as_bytes() {
        return Ok(Confidence::Likely);
    }
    let is_usual = TEXTS.iter().any(|text| first == text.as_bytes());
    let last = probe.last(Probe::BYTES)?;
    let names = last.windows(WEIGHTS.len()).any(|window| window == WEIGHTS.as_bytes());
    Ok(match (names, is_usual) {
        (true, true) => Confidence::Likely,
        (true, false) => Confidence::Possible,
        (false, _) => Confidence::No,
    })
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let zip::Archive { members, damage } = zip::read(input)?;
    let weights = members.iter().find(|member| member.name == WEIGHTS).ok_or_else(|| bad_magic(MISSING))?;
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    if let Some(error) = &damage {
        builder.damaged(warning_of(error.code()), error, error.message().to_owned(), None);
    }
    let mut more = Vec::new();
    for member in members.iter().filter(|member| TEXTS.contains(&&*member.name)) {
        let read = text(input, member);
        if let Some(text) = damage::recover(&mut builder, &member.name, read)? {
            more.push((Value::from(&*member.name), Value::Text(text)));
        }
    }
    if weights.method != Method::Stored {
        // Its chunks and data are not stored in the file as such, so all of it is decoded and retained as long as the file is open.
        let bytes = Arc::new(weights.read_owned(input)?);
        let range = Range { base: 0, length: weights.decoded };
        let held = DecodedFile { bytes, offset: weights.offset, encoding: "deflate" };
        return super::read(input, builder, range, Some(&held), more);
    }
    let range = Range { base: weights.offset, length: weights.stored };
    // Its CRC-32 covers all datasets and the index: loading one dataset would have to read the whole.
    let digest = Some(Digest::crc32(weights.crc32));
    let blob = Blob { digest, ..Blob::raw(weights.offset, weights.stored) };
    builder.add_section(Section { name: WEIGHTS.to_owned(), blob });
    super::read(input, builder, range, None, more)
}

/// Returns a JSON member about the model.
fn text(input: &Input<'_>, member: &Member) -> Result<String> {
    let bytes = member.read(input, KERAS_TEXT_BYTES)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::new(Code::BadIndex, "the text is not valid UTF-8").at(member.offset))
}
