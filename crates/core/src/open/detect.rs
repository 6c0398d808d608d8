//! Which format a file is of: by its bytes, never by its name.
#![forbid(unsafe_code)]

use std::path::Path;

use super::Request;
use super::neighbors::Neighbors;
use crate::error::{Code, Error, Result};
use crate::formats::{Format, Formats, Input, Sample, Told, bad_magic};
use crate::inject;
use crate::limits::Limits;
use crate::model::Catalog;
use crate::sources::ReadAt;
use crate::sources::files::Part;

/// Reads the index of a file in memory, or of one of which only the catalog is of interest: files beside it are not looked at.
pub fn parse(source: &dyn ReadAt, formats: Formats, limits: &Limits) -> Result<Catalog> {
    let request = Request { formats, limits: *limits, ..Request::default() };
    parse_beside(source, None, &request).map(|(catalog, _)| catalog)
}

/// Reads the index of the file at a path, and finds the files that it asks for: numbers 1 and up.
pub(super) fn parse_beside(
    source: &dyn ReadAt,
    path: Option<&Path>,
    request: &Request,
) -> Result<(Catalog, Vec<Part>)> {
    attempt(source, request.formats, |format, source| {
        let neighbors = Neighbors::of(path, request);
        let catalog = (format.parse)(&Input::new(source, &request.limits, &request.stop, &neighbors))?;
        Ok((catalog, neighbors.into_parts()))
    })
}

/// The names of the files that the index of a file wants resolved, those included that are not there.
pub(super) fn names(source: &dyn ReadAt, path: &Path, request: &Request) -> Result<Vec<String>> {
    attempt(source, request.formats, |format, source| {
        let neighbors = Neighbors::of(Some(path), request);
        let parsed = (format.parse)(&Input::new(source, &request.limits, &request.stop, &neighbors));
        let mut names = neighbors.into_names();
        match parsed {
            Ok(catalog) => names.extend(catalog.shards.into_iter().map(|shard| shard.name.into_string())),
            // It may need a file that only the answer to these names finds.
            Err(_) if !names.is_empty() => {}
            Err(error) => return Err(error),
        }
        Ok(names)
    })
}

/// Reads a file as the format that was asked for, or the one that is surest of it. Those that only parsing can tell come last,
/// and take what they can read.
fn attempt<T>(
    source: &dyn ReadAt,
    formats: Formats,
    read: impl Fn(&Format, &dyn ReadAt) -> Result<T>,
) -> Result<T> {
    inject::panic_at("open");
    if let Some(wanted) = formats.wanted() {
        return read(wanted, source);
    }
    if source.length() < 8 {
        let message = format!("{} bytes are too few for any tensor file", source.length());
        return Err(Error::new(Code::Truncated, message));
    }
    let sample = Sample::new(source);
    let mut told: Vec<(Told, &Format)> = Vec::new();
    for format in formats.iter() {
        match (format.tell)(&sample)? {
            Told::Yes => return read(format, &sample),
            sure => told.push((sure, format)),
        }
    }
    if let Some((_, likely)) = told.iter().find(|(sure, _)| *sure == Told::Likely) {
        return read(likely, &sample);
    }
    told.sort_by_key(|(sure, _)| *sure);
    for (_, format) in told.iter().filter(|(sure, _)| *sure == Told::Perhaps) {
        match read(format, &sample) {
            Err(error) if !matches!(error.code(), Code::Io | Code::Aborted) => {}
            done => return done,
        }
    }
    let lacks: Vec<_> = told.iter().map(|(_, format)| format.lacks).collect();
    let (last, others) =
        lacks.split_last().map_or(("no format is known", &[][..]), |(last, all)| (*last, all));
    let what = if others.is_empty() { last.to_owned() } else { format!("{}, and {last}", others.join(", ")) };
    Err(bad_magic(&what))
}
