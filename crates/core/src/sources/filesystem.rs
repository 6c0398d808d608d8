//! File systems: local files, or a remote tree of files.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::ReadAt;
use super::file::FileSource;
use crate::error::{Error, Result};
use crate::work::Stop;

/// A tree of files that are opened by path. A remote path is the text that users see, such as `https://host/folder/model.safetensors`,
/// without credentials and query.
pub trait Filesystem: Send + Sync {
    /// Opens a file. Fails with `ZT_IO` if it does not exist or is a folder.
    fn open(&self, path: &Path, stop: &Stop) -> Result<Arc<dyn ReadAt>>;

    /// Returns whether a path is a folder. Called if it cannot be opened as a file.
    fn is_folder(&self, path: &Path, stop: &Stop) -> bool;

    /// Returns the names in a folder, not recursively, up to `max` + 1.
    fn list(&self, folder: &Path, max: usize, stop: &Stop) -> Result<Vec<OsString>>;

    /// Returns a warning if the names in a folder that [`Filesystem::list`] has returned may be incomplete.
    fn list_warning(&self, _folder: &Path) -> Option<String> {
        None
    }

    /// Returns whether a path is a file. Where this requires a request, it may return false: it is only used to improve messages.
    fn is_file(&self, path: &Path) -> bool;

    /// Returns whether the files are local: listing is cheap, links may lead out of their folder, and files are reopened when needed, so
    /// that a set does not keep all of its files open.
    fn is_local(&self) -> bool {
        false
    }
}

/// The local files.
#[derive(Clone, Copy, Debug)]
pub struct LocalFiles;

impl Filesystem for LocalFiles {
    fn open(&self, path: &Path, _stop: &Stop) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(FileSource::open(path)?))
    }

    fn is_folder(&self, path: &Path, _stop: &Stop) -> bool {
        path.is_dir()
    }

    fn list(&self, folder: &Path, max: usize, _stop: &Stop) -> Result<Vec<OsString>> {
        let failed = |error: std::io::Error| Error::io("scandir", &error).file(folder);
        let entries = std::fs::read_dir(folder).map_err(failed)?.take(max.saturating_add(1));
        entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed)).collect()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_local(&self) -> bool {
        true
    }
}
