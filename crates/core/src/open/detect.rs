//! Detects the format of a file from its bytes, never from its name.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::path::Path;

use super::neighbors::Neighbors;
use super::request::Request;
use crate::error::{Code, Error, Result};
use crate::formats::{Confidence, Format, Formats, Input, Probe, bad_magic};
use crate::inject;
use crate::limits::Limits;
use crate::model::Catalog;
use crate::open::foreign;
use crate::sources::ReadAt;
use crate::sources::files::Member;

/// Reads the index of a file in memory, or of one whose catalog alone is needed: sibling files are ignored.
pub fn parse(source: &dyn ReadAt, formats: Formats, limits: &Limits) -> Result<Catalog> {
    parse_alone(source, &Request { formats, limits: *limits, ..Request::default() })
}

/// Reads an index without siblings, with the options of a request.
pub fn parse_alone(source: &dyn ReadAt, request: &Request) -> Result<Catalog> {
    parse_with_siblings(source, None, request).map(|(catalog, _)| catalog)
}

/// Reads the index of a file that the caller listed together with others.
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

/// Reads the index of the file at a path, and finds the files that it requests: numbers 1 and up.
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

/// Returns the names of the files that the index of a file refers to, including missing ones.
pub(super) fn names(source: &dyn ReadAt, path: &Path, request: &Request) -> Result<Vec<String>> {
    attempt(source, request, |format, source| {
        let neighbors = Neighbors::of(Some(path), request);
        let parsed = (format.parse)(&Input::new(source, &request.limits, &request.stop, &neighbors));
        let mut names = neighbors.into_names();
        match parsed {
            Ok(catalog) => names.extend(catalog.shards.into_iter().map(|shard| shard.name.into_string())),
            // It may need a file that is only found once these names are resolved.
            Err(_) if !names.is_empty() => {}
            Err(error) => return Err(error),
        }
        Ok(names)
    })
}

/// Reads a file as the requested format, or as the one detected with the highest confidence. Formats that only parsing can identify are
/// tried last.
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
    let mut detected: Vec<(Confidence, &Format)> = Vec::new();
    for format in request.formats.iter() {
        match (format.detect)(&probe)? {
            Confidence::Certain => return read(format, &probe),
            sure => detected.push((sure, format)),
        }
    }
    if let Some((_, likely)) = detected.iter().find(|(sure, _)| *sure == Confidence::Likely) {
        return named(read(likely, &probe), likely, &probe, request);
    }
    detected.arrange_by_key(|(sure, _)| *sure);
    for (_, format) in detected.iter().filter(|(sure, _)| *sure == Confidence::Possible) {
        match read(format, &probe) {
            Err(error) if !matches!(error.code(), Code::Io | Code::Aborted) => {}
            done => return done,
        }
    }
    if let Some(message) = foreign::describe(&probe)? {
        return Err(Error::new(Code::BadMagic, message).at(0));
    }
    let missing: Vec<_> = detected.iter().map(|(_, format)| format.missing).collect();
    let (last, others) =
        missing.split_last().map_or(("no format is known", &[][..]), |(last, all)| (*last, all));
    let what = if others.is_empty() { last.to_owned() } else { format!("{}, and {last}", others.join(", ")) };
    // The file may still have a format without a signature.
    let asked = ". If it is one nevertheless, specify its format in the options";
    Err(bad_magic(&what).hint("format", asked).at(0))
}

/// Adds what the file is if it was read as a wrong format: one without magic, or whose magic others share.
fn named<T>(parsed: Result<T>, format: &Format, probe: &Probe<'_>, request: &Request) -> Result<T> {
    let Err(error) = parsed else { return parsed };
    if !matches!(error.code(), Code::BadMagic | Code::Truncated) || probe.length() < 8 {
        return Err(error);
    }
    // A truncated file still has its format, although it may look like an unsupported one, such as a pickle.
    if error.code() == Code::Truncated
        && matches!((format.detect)(probe)?, Confidence::Certain | Confidence::Likely)
    {
        return Err(error);
    }
    if let Some(wanted) = request.formats.wanted() {
        for other in request.formats.iter().filter(|format| format.name != wanted.name) {
            if matches!((other.detect)(probe)?, Confidence::Certain | Confidence::Likely) {
                let message = format!("this is {}, not {}", other.title, wanted.title);
                return Err(Error::new(Code::BadMagic, message)
                    .hint("format", ": omit the option format")
                    .at(0));
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
