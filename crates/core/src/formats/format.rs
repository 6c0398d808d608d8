//! The row of a format: what all other modules know about it.
#![forbid(unsafe_code)]

use super::{Input, OpenHeader, Probe, WriteFormat};
use crate::error::{Code, Error, Result};
use crate::model::Catalog;

/// All that other modules know about a format.
#[derive(Debug)]
pub struct Format {
    /// Its name in options and catalogs.
    pub name: &'static str,
    /// Its name in messages.
    pub title: &'static str,
    /// The file extensions, without the dot; the usual one first.
    pub endings: &'static [&'static str],
    /// What is missing in a file of another format, as part of a message: "no zTensor magic".
    pub missing: &'static str,
    /// Returns whether a file of 8 bytes or more has this format.
    pub detect: fn(&Probe<'_>) -> Result<Confidence>,
    /// Reads the index. Fails with [`bad_magic`] for a file of another format, because a caller may name any format.
    pub parse: fn(&Input<'_>) -> Result<Catalog>,
    /// What each version can hold when it is written, oldest version first; empty for a read-only format.
    pub writes: &'static [&'static WriteFormat],
    /// How the header of a file is edited; `None` for a format whose index comes last or cannot be edited.
    pub header: Option<OpenHeader>,
}

/// Other files that come with the files of a format.
#[derive(Debug)]
pub struct Companions {
    /// The name of the format.
    pub format: &'static str,
    /// Files that identify the file to open in a folder, in order of preference.
    pub markers: &'static [Marker],
    /// Returns the name of the index file for a file that has only tensor data; `None` for other names.
    pub index_of: fn(&str) -> Option<String>,
    /// Whether other kinds of files have the same extensions, so that an index and its data are recognized only if both exist.
    pub in_pairs: bool,
}

/// A file that identifies the file to open in its folder.
#[derive(Debug)]
pub struct Marker {
    pub name: &'static str,
    /// Returns the path of the file to open, relative to the folder, from the first bytes of the marker; `None` if they are something else.
    pub leads_to: fn(&[u8]) -> Option<String>,
}

/// How certain a format is that a file has this format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Confidence {
    No,
    /// Only `parse` can decide. It is tried if no other format recognizes the file.
    Possible,
    /// A file of another format may begin in the same way; the signature of that format then decides.
    Likely,
    /// The file has its signature.
    Certain,
}

/// Returns the error for a file of no known format, or not of the requested format.
pub fn bad_magic(what: &str) -> Error {
    let message = format!("this is not a tensor file known here: {what}");
    Error::new(Code::BadMagic, message).at(0)
}
