//! Keras' archives: a zip with `model.weights.h5`, which is HDF5, beside two texts about the model.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::codecs::digest::Digest;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Format, Input, Sample, Told, bad_magic};
use ztensor_core::model::{Blob, Catalog, Container, Section};

use super::storage::Place;
use crate::limits::KERAS_TEXT_BYTES;
use crate::zip::{self, Method};

const NAME: &str = "keras";
const WEIGHTS: &str = "model.weights.h5";
const LACKS: &str = "no Keras archive";
/// What is said of a model beside its weights: its layers, and which Keras wrote it.
const TEXTS: [&str; 2] = ["config.json", "metadata.json"];

pub const FORMAT: Format =
    Format { name: NAME, title: "Keras", endings: &["keras"], lacks: LACKS, tell, parse, writes: &[] };

/// The directory at the end names all members, the first of which is one of a few.
fn tell(sample: &Sample<'_>) -> Result<Told> {
    let Some(first) = zip::first_name(sample)? else { return Ok(Told::No) };
    if first == WEIGHTS.as_bytes() {
        return Ok(Told::Likely);
    }
    if !TEXTS.iter().any(|text| first == text.as_bytes()) {
        return Ok(Told::No);
    }
    let last = sample.last(Sample::BYTES)?;
    let names = last.windows(WEIGHTS.len()).any(|window| window == WEIGHTS.as_bytes());
    Ok(if names { Told::Likely } else { Told::No })
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let members = zip::members(input)?;
    let weights = members.iter().find(|member| member.name == WEIGHTS).ok_or_else(|| bad_magic(LACKS))?;
    if weights.method != Method::Stored {
        let message = format!("{WEIGHTS} is compressed in its archive: unpack it, and open it by itself");
        return Err(Error::new(Code::UnsupportedEncoding, message).at(weights.offset));
    }
    let mut more = Vec::new();
    for member in members.iter().filter(|member| TEXTS.contains(&&*member.name)) {
        if let Ok(text) = String::from_utf8(member.read(input, KERAS_TEXT_BYTES)?) {
            more.push((Value::from(&*member.name), Value::Text(text)));
        }
    }
    let place = Place { base: weights.offset, length: weights.stored };
    let mut catalog = super::read(input, Container::named(NAME), place, more)?;
    // Its CRC-32 is over all datasets and the index between them: `load` of one would have to read the whole.
    let digest = Some(Digest::crc32(weights.crc32));
    let blob = Blob { digest, ..Blob::raw(weights.offset, weights.stored) };
    catalog.sections.push(Section { name: WEIGHTS.to_owned(), blob });
    Ok(catalog)
}
