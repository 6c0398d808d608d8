//! An index in memory whose other files the caller provides: external data, shards, the files of a sharded checkpoint.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Lookup, Opened, Request, names, open, weight_map};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::sources::ReadAt;
use crate::sources::filesystem::{Filesystem, LocalFiles};
use crate::work::Stop;

/// The name of the file in memory, and of the index of a sharded checkpoint.
const NAME: &str = "memory";
const INDEX: &str = "memory.json";

/// A file in memory.
pub struct InMemory {
    source: Arc<dyn ReadAt>,
    path: &'static Path,
}

impl InMemory {
    /// Fails if the bytes cannot be read.
    pub fn new(source: Arc<dyn ReadAt>, request: &Request) -> Result<Self> {
        let is_index = is_index(&*source, request)?;
        Ok(Self { source, path: Path::new(if is_index { INDEX } else { NAME }) })
    }

    /// Returns the names of the files that it refers to.
    pub fn names(&self, request: &Request) -> Result<Vec<String>> {
        names(self.path, &self.request(request))
    }

    /// Opens it with the files of the request. No other file is opened.
    pub fn open(&self, request: &Request) -> Result<Opened> {
        open(self.path, &self.request(request))
    }

    fn request(&self, request: &Request) -> Request {
        let files = match &request.lookup {
            Lookup::At(paths) => paths.values().cloned().collect(),
            Lookup::Siblings | Lookup::Unread => HashSet::new(),
        };
        let is_alone = matches!(request.lookup, Lookup::Unread);
        let filesystem = MemoryFiles { root: self.path, source: Arc::clone(&self.source), files, is_alone };
        Request { filesystem: Arc::new(filesystem), ..request.clone() }
    }
}

/// Returns whether the bytes are the index of a sharded checkpoint.
fn is_index(source: &dyn ReadAt, request: &Request) -> Result<bool> {
    let max = request.limits.max_index_bytes.unwrap_or(limits::SAFETENSORS_INDEX_BYTES);
    let first = source.read_vec(0, source.length().min(64), &request.stop)?;
    if first.trim_ascii_start().first() != Some(&b'{') || source.length() > max {
        return Ok(false);
    }
    let bytes = source.read_vec(0, source.length(), &request.stop)?;
    Ok(weight_map::parse(&bytes, &request.limits).is_ok())
}

/// The file in memory and the files that the caller provides. It has no siblings.
struct MemoryFiles {
    root: &'static Path,
    source: Arc<dyn ReadAt>,
    files: HashSet<PathBuf>,
    /// Whether the caller asked for the files that are present, which are no others.
    is_alone: bool,
}

impl Filesystem for MemoryFiles {
    fn open(&self, path: &Path, stop: &Stop) -> Result<Arc<dyn ReadAt>> {
        if self.files.contains(path) {
            return LocalFiles.open(path, stop);
        }
        if path == self.root {
            return Ok(Arc::clone(&self.source));
        }
        let message = format!(
            "the data is in {:?}, which cannot be located for a file in memory: open it by its path",
            path.display().to_string()
        );
        let error = Error::new(Code::Io, message)
            .hint("shards", ", or pass the path of the data in the option shards");
        Err(if self.is_alone { error.absent() } else { error })
    }

    fn is_folder(&self, _: &Path, _: &Stop) -> bool {
        false
    }

    fn list(&self, _: &Path, _: usize, _: &Stop) -> Result<Vec<OsString>> {
        Ok(Vec::new())
    }

    fn is_file(&self, path: &Path) -> bool {
        self.files.contains(path)
    }
}
