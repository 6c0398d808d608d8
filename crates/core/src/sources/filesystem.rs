//! Where paths lead: to files of this machine, or into a tree of files that is elsewhere.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::ReadAt;
use super::file::FileSource;
use crate::error::{Error, Result};
use crate::work::Stop;

/// A tree of files that are opened by their paths. A path of what is elsewhere is the text that users see, such as
/// `https://host/folder/model.safetensors`: neither credentials nor a query stand in it.
pub trait Filesystem: Send + Sync {
    /// Opens a file. Fails with `ZT_IO` where there is none, or where it is a folder.
    fn open(&self, path: &Path, stop: &Stop) -> Result<Arc<dyn ReadAt>>;

    /// Whether a path is that of a folder. Asked where it cannot be opened as a file.
    fn is_folder(&self, path: &Path, stop: &Stop) -> bool;

    /// The names in a folder, not in those in it, up to `most` of them and one more.
    fn list(&self, folder: &Path, most: usize, stop: &Stop) -> Result<Vec<OsString>>;

    /// Whether a path is that of a file. A place that has to be asked for each may say no: what is found so is better help
    /// in a message, and nothing more.
    fn is_file(&self, path: &Path) -> bool;

    /// Whether the files are those of this machine: they can be looked through for little, links lead out of their folder,
    /// and each is opened anew when it is needed, so that a set does not keep all of its files open.
    fn is_local(&self) -> bool {
        false
    }
}

/// The files of this machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalFiles;

impl Filesystem for LocalFiles {
    fn open(&self, path: &Path, _stop: &Stop) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(FileSource::open(path)?))
    }

    fn is_folder(&self, path: &Path, _stop: &Stop) -> bool {
        path.is_dir()
    }

    fn list(&self, folder: &Path, most: usize, _stop: &Stop) -> Result<Vec<OsString>> {
        let failed = |error: std::io::Error| Error::io("scandir", &error).file(folder);
        let entries = std::fs::read_dir(folder).map_err(failed)?.take(most.saturating_add(1));
        entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed)).collect()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_local(&self) -> bool {
        true
    }
}
