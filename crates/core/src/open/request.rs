//! What to open, and how.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, short};
use crate::formats::Formats;
use crate::limits::{self, Limits};
use crate::sources::filesystem::{Filesystem, LocalFiles};
use crate::work::Stop;

/// The location of the files that an index names.
#[derive(Clone, Debug, Default)]
pub enum Lookup {
    /// Siblings of the index, under their own names.
    #[default]
    Siblings,
    /// The files that are present; a set may be incomplete. Raw data and data shards are not looked up.
    Unread,
    /// At the given paths; names without a path are siblings.
    At(HashMap<String, PathBuf>),
}

/// Options for opening.
#[derive(Clone)]
pub struct Request {
    /// The filesystem of the paths.
    pub filesystem: Arc<dyn Filesystem>,
    /// The permitted formats.
    pub formats: Formats,
    pub limits: Limits,
    pub lookup: Lookup,
    /// Whether raw data files of an index may be links out of its folder. Files with a format of their own always may.
    pub follow_links: bool,
    /// Cancels the opening between two files, and while one is hashed.
    pub stop: Stop,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            filesystem: Arc::new(LocalFiles),
            formats: Formats::default(),
            limits: Limits::default(),
            lookup: Lookup::default(),
            follow_links: false,
            stop: Stop::default(),
        }
    }
}

/// Adds to an error which file required the unreadable file.
pub(super) fn wanted_by(error: Error, what: &str, name: &str) -> Error {
    let name = short(name, limits::FILE_NAME_BYTES);
    error.context(format!("the {what} '{name}' names a file that cannot be read"))
}
