//! Which format a file is of: by its bytes, never by its name.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::formats::{Format, Formats, Sample, Told, bad_magic};
use crate::inject;
use crate::limits::Limits;
use crate::model::Catalog;
use crate::open::foreign;
use crate::sources::ReadAt;

/// Reads the index of a file: of the format that was asked for, or of the one that is surest of it. Those that only parsing
/// can tell come last, and take what they can read.
pub fn parse(source: &dyn ReadAt, formats: Formats, limits: &Limits) -> Result<Catalog> {
    inject::panic_at("open");
    let sample = Sample::new(source);
    if let Some(wanted) = formats.wanted() {
        return named((wanted.parse)(&sample, limits), &sample);
    }
    if source.length() < 8 {
        return Err(too_short(source.length()));
    }
    let mut told: Vec<(Told, &Format)> = Vec::new();
    for format in formats.iter() {
        match (format.tell)(&sample)? {
            Told::Yes => return (format.parse)(&sample, limits),
            sure => told.push((sure, format)),
        }
    }
    if let Some((_, likely)) = told.iter().find(|(sure, _)| *sure == Told::Likely) {
        return named((likely.parse)(&sample, limits), &sample);
    }
    told.sort_by_key(|(sure, _)| *sure);
    for (_, format) in told.iter().filter(|(sure, _)| *sure == Told::Perhaps) {
        match (format.parse)(&sample, limits) {
            Err(error) if error.code() != Code::Io => {}
            parsed => return parsed,
        }
    }
    if let Some(message) = foreign::tell(&sample)? {
        return Err(Error::new(Code::BadMagic, message).at(0));
    }
    let lacks: Vec<_> = told.iter().map(|(_, format)| format.lacks).collect();
    let (last, others) =
        lacks.split_last().map_or(("no format is known", &[][..]), |(last, all)| (*last, all));
    let what = if others.is_empty() { last.to_owned() } else { format!("{}, and {last}", others.join(", ")) };
    Err(bad_magic(&what))
}

/// Says what the file is where it was read as a format that it is not of: one without magic, or with one that others have too.
fn named(parsed: Result<Catalog>, sample: &Sample<'_>) -> Result<Catalog> {
    let Err(error) = parsed else { return parsed };
    if !matches!(error.code(), Code::BadMagic | Code::Truncated) || sample.length() < 8 {
        return Err(error);
    }
    match foreign::tell(sample)? {
        Some(message) => Err(Error::new(Code::BadMagic, message).at(0)),
        None => Err(error),
    }
}

fn too_short(length: u64) -> Error {
    let message = match length {
        0 => "the file is empty: a download or copy of it may have failed".to_owned(),
        _ => format!("{length} bytes are too few for any tensor file"),
    };
    Error::new(Code::Truncated, message)
}
