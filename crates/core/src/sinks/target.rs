//! The path where a file will appear.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::error::{Code, Error, Result};
use crate::paths::folder_of;

/// The most links that lead from one to the next, as on Linux.
const LINKS: u32 = 40;

/// Returns the path without links, also if the last one leads to a file that does not exist yet.
pub fn resolved(target: &Path) -> Result<PathBuf> {
    let mut path = target.to_owned();
    for _ in 0..LINKS {
        if let Ok(found) = path.canonicalize() {
            return Ok(found);
        }
        let Ok(link) = path.read_link() else { return Ok(path) };
        path = folder_of(&path).join(link);
    }
    let message = format!("'{}' is a link that leads back to itself", target.display());
    Err(Error::new(Code::Io, message).file(target))
}

/// The error for a path that must not exist.
pub fn exists(path: &Path) -> Error {
    let error = |what| Error::new(Code::Exists, format!("'{}' {what}", path.display()));
    if path.is_dir() {
        error("is a folder; specify a file in it")
    } else {
        error("exists already").option("overwrite")
    }
}

/// Refuses to replace anything but a file: a folder, or a pipe, device or socket, whose users would continue to use the old one.
pub fn check_replaceable(target: &Path) -> Result<()> {
    let Ok(found) = target.metadata() else { return Ok(()) };
    if found.is_file() {
        return Ok(());
    }
    let (path, what) =
        (target.display(), if found.is_dir() { "a folder" } else { "a pipe, device or socket" });
    Err(Error::new(Code::Io, format!("'{path}' is {what}; only files can be replaced")))
}
