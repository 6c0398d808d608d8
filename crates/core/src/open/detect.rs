//! Which format a file is of: by its bytes, never by its name.
#![forbid(unsafe_code)]

use std::path::Path;

use super::Request;
use super::neighbors::Neighbors;
use crate::error::{Code, Error, Result};
use crate::formats::{Confidence, Format, Formats, Input, Probe, bad_magic};
use crate::inject;
use crate::limits::Limits;
use crate::model::Catalog;
use crate::open::foreign;
use crate::sources::ReadAt;
use crate::sources::files::Member;

/// Reads the index of a file in memory, or of one of which only the catalog is of interest: files beside it are not looked at.
pub fn parse(source: &dyn ReadAt, formats: Formats, limits: &Limits) -> Result<Catalog> {
    parse_alone(source, &Request { formats, limits: *limits, ..Request::default() })
}

/// Like [`parse`], as a request asks for it.
pub fn parse_alone(source: &dyn ReadAt, request: &Request) -> Result<Catalog> {
    parse_with_siblings(source, None, request).map(|(catalog, _)| catalog)
}

/// Reads the index of the file at a path that is one of several which the caller named.
pub(super) fn parse_listed(
    source: &dyn ReadAt,
    path: &Path,
    request: &Request,
) -> Result<(Catalog, Vec<Member>)> {
    attempt(source, request, |format, source| {
        let neighbors = Neighbors::of(Some(path), request).listed();
        let catalog = (format.parse)(&Input::new(source, &request.limits, &request.stop, &neighbors))?;
        Ok((catalog, neighbors.into_members()))
    })
}

/// Reads the index of the file at a path, and finds the files that it asks for: numbers 1 and up.
pub(super) fn parse_with_siblings(
    source: &dyn ReadAt,
    path: Option<&Path>,
    request: &Request,
) -> Result<(Catalog, Vec<Member>)> {
    attempt(source, request, |format, source| {
        let neighbors = Neighbors::of(path, request);
        let catalog = (format.parse)(&Input::new(source, &request.limits, &request.stop, &neighbors))?;
        Ok((catalog, neighbors.into_members()))
    })
}

/// The names of the files that the index of a file wants resolved, those included that are not there.
pub(super) fn names(source: &dyn ReadAt, path: &Path, request: &Request) -> Result<Vec<String>> {
    attempt(source, request, |format, source| {
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
    request: &Request,
    read: impl Fn(&Format, &dyn ReadAt) -> Result<T>,
) -> Result<T> {
    inject::panic_at("open");
    let probe = Probe::new(source, &request.stop);
    if let Some(wanted) = request.formats.wanted() {
        return named(read(wanted, source), wanted, &probe, request);
    }
    if source.length() < 8 {
        return Err(too_short(source.length()));
    }
    let mut told: Vec<(Confidence, &Format)> = Vec::new();
    for format in request.formats.iter() {
        match (format.detect)(&probe)? {
            Confidence::Certain => return read(format, &probe),
            sure => told.push((sure, format)),
        }
    }
    if let Some((_, likely)) = told.iter().find(|(sure, _)| *sure == Confidence::Likely) {
        return named(read(likely, &probe), likely, &probe, request);
    }
    told.sort_by_key(|(sure, _)| *sure);
    for (_, format) in told.iter().filter(|(sure, _)| *sure == Confidence::Possible) {
        match read(format, &probe) {
            Err(error) if !matches!(error.code(), Code::Io | Code::Aborted) => {}
            done => return done,
        }
    }
    if let Some(message) = foreign::describe(&probe)? {
        return Err(Error::new(Code::BadMagic, message).at(0));
    }
    let lacks: Vec<_> = told.iter().map(|(_, format)| format.lacks).collect();
    let (last, others) =
        lacks.split_last().map_or(("no format is known", &[][..]), |(last, all)| (*last, all));
    let what = if others.is_empty() { last.to_owned() } else { format!("{}, and {last}", others.join(", ")) };
    // Of a format without a signature the bytes may still be.
    let asked = "If it is one all the same, name its format in the options";
    Err(Error::new(Code::BadMagic, format!("{}. {asked}", bad_magic(&what).message())).at(0))
}

/// Says what the file is where it was read as a format that it is not of: one without magic, or with one that others have too.
fn named<T>(parsed: Result<T>, format: &Format, probe: &Probe<'_>, request: &Request) -> Result<T> {
    let Err(error) = parsed else { return parsed };
    if !matches!(error.code(), Code::BadMagic | Code::Truncated) || probe.length() < 8 {
        return Err(error);
    }
    // What is cut off is of its format all the same, though it may look like a file that is not read: a pickle, say.
    if error.code() == Code::Truncated
        && matches!((format.detect)(probe)?, Confidence::Certain | Confidence::Likely)
    {
        return Err(error);
    }
    if let Some(wanted) = request.formats.wanted() {
        for other in request.formats.iter().filter(|format| format.name != wanted.name) {
            if matches!((other.detect)(probe)?, Confidence::Certain | Confidence::Likely) {
                let message =
                    format!("this is {}, not {}: leave out the option format", other.title, wanted.title);
                return Err(Error::new(Code::BadMagic, message).at(0));
            }
        }
    }
    match foreign::describe(probe)? {
        Some(message) => Err(Error::new(Code::BadMagic, message).at(0)),
        None => Err(error),
    }
}

fn too_short(length: u64) -> Error {
    let message = match length {
        0 => "the file is empty: a download or copy of it may have failed".to_owned(),
        1 => "one byte is too little for any tensor file".to_owned(),
        _ => format!("{length} bytes are too few for any tensor file"),
    };
    Error::new(Code::Truncated, message)
}
