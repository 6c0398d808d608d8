//! Which format a file is of: by its bytes, never by its name.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::formats::{Format, Formats, Sample, Told, bad_magic};
use crate::inject;
use crate::limits::Limits;
use crate::model::Catalog;
use crate::sources::ReadAt;

/// Reads the index of a file: of the format that was asked for, or of the one that is surest of it. Those that only parsing
/// can tell come last, and take what they can read.
pub fn parse(source: &dyn ReadAt, formats: Formats, limits: &Limits) -> Result<Catalog> {
    inject::panic_at("open");
    if let Some(wanted) = formats.wanted() {
        return (wanted.parse)(source, limits);
    }
    if source.length() < 8 {
        let message = format!("{} bytes are too few for any tensor file", source.length());
        return Err(Error::new(Code::Truncated, message));
    }
    let sample = Sample::new(source);
    let mut told: Vec<(Told, &Format)> = Vec::new();
    for format in formats.iter() {
        match (format.tell)(&sample)? {
            Told::Yes => return (format.parse)(&sample, limits),
            sure => told.push((sure, format)),
        }
    }
    if let Some((_, likely)) = told.iter().find(|(sure, _)| *sure == Told::Likely) {
        return (likely.parse)(&sample, limits);
    }
    told.sort_by_key(|(sure, _)| *sure);
    for (_, format) in told.iter().filter(|(sure, _)| *sure == Told::Perhaps) {
        match (format.parse)(&sample, limits) {
            Err(error) if error.code() != Code::Io => {}
            parsed => return parsed,
        }
    }
    let lacks: Vec<_> = told.iter().map(|(_, format)| format.lacks).collect();
    let (last, others) =
        lacks.split_last().map_or(("no format is known", &[][..]), |(last, all)| (*last, all));
    let what = if others.is_empty() { last.to_owned() } else { format!("{}, and {last}", others.join(", ")) };
    Err(bad_magic(&what))
}
