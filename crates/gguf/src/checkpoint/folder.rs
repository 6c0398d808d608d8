//! The files next to the weights of a checkpoint, in a folder of this machine or another.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use ztensor_core::arrange::Arrange;

use ztensor_core::codecs::digest::{Algorithm, Hasher};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::FOLDER_ENTRIES;
use ztensor_core::sources::companions::Companions;
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::sources::siblings::Links;
use ztensor_core::work::Stop;

use super::{Files, lack};

/// The largest `config.json`, in bytes.
const MAX_CONFIG: u64 = 16 << 20;

/// The files next to the weights of a checkpoint.
pub struct Folder {
    companions: Companions,
    name: String,
    stop: Stop,
    /// Of what was read.
    hasher: Mutex<Hasher>,
}

impl Folder {
    /// Finds the files next to the weights at `path`, or in that folder. `location` is what a user calls it. Returns what is missing if there
    /// is no `config.json` of a model; with `is_sure`, any `config.json` will do.
    pub fn open(
        filesystem: Arc<dyn Filesystem>,
        path: PathBuf,
        location: &str,
        links: Links,
        is_sure: bool,
        stop: Stop,
    ) -> Result<std::result::Result<Self, &'static str>> {
        let folder = match path.parent() {
            Some(parent) if !filesystem.is_folder(&path, &stop) => parent.to_owned(),
            _ => path,
        };
        let full = if filesystem.is_local() { std::path::absolute(&folder).ok() } else { None };
        let name = match full.as_deref().and_then(Path::file_name) {
            Some(name) => name.to_string_lossy().into_owned(),
            None => location.to_owned(),
        };
        let companions = Companions::of(folder, filesystem, links);
        let files = Self { companions, name, stop, hasher: Mutex::new(Algorithm::Sha256.hasher()) };
        let config = files.read("config.json", MAX_CONFIG)?;
        Ok(match lack(&files, config.as_deref(), is_sure)? {
            None => Ok(files),
            Some(lack) => Err(lack),
        })
    }

    /// Says which file a server refuses, and how to do without it.
    fn placed(&self, name: &str, error: Error) -> Error {
        if self.companions.is_local() || error.code() != Code::Io {
            return error;
        }
        let message = format!(
            "the server was asked for '{name}' next to the weights: {}",
            error.message().trim_end_matches('.')
        );
        let placed = error.reworded(message).answered(error.status());
        let placed = placed.hint("checkpoint", ". To copy the tensors without it: checkpoint: false");
        error.path().map_or(placed.clone(), |path| placed.file(path))
    }

    fn hash(&self, path: &str, bytes: Option<&[u8]>) {
        let mut hasher = self.hasher.lock().unwrap_or_else(PoisonError::into_inner);
        let length = bytes.map_or(-1, |bytes| i128::try_from(bytes.len()).unwrap_or(i128::MAX));
        for part in [path.as_bytes(), &[0], &length.to_le_bytes(), bytes.unwrap_or_default()] {
            hasher.update(part);
        }
    }

    /// Returns the digest of what was read.
    pub fn digest(self) -> String {
        let hasher = self.hasher.into_inner().unwrap_or_else(PoisonError::into_inner);
        Algorithm::Sha256.digest(hasher).text().into_owned()
    }
}

impl Files for Folder {
    fn read(&self, name: &str, max: u64) -> Result<Option<Vec<u8>>> {
        let opened = self.companions.open(name, &self.stop).map_err(|error| self.placed(name, error))?;
        let Some(source) = opened else {
            self.hash(name, None);
            return Ok(None);
        };
        let path = self.companions.path(name);
        let length = source.length();
        if length > max {
            let message = format!("the file has {length} bytes, more than the {max} that are read of it");
            return Err(Error::new(Code::Limit, message).in_file(name, &path));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        source.read_at(0, &mut bytes, &self.stop).map_err(|error| error.in_file(name, &path))?;
        self.hash(name, Some(&bytes));
        Ok(Some(bytes))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let found = match self.companions.list(folder, FOLDER_ENTRIES, &self.stop) {
            Ok(found) => found.unwrap_or_default(),
            // Not every server lists folders.
            Err(_) if !self.companions.is_local() => Vec::new(),
            Err(error) => return Err(error),
        };
        if found.len() > FOLDER_ENTRIES {
            let message = format!("the folder '{folder}' has more than {FOLDER_ENTRIES} entries");
            return Err(Error::new(Code::Limit, message));
        }
        let mut names: Vec<String> = found.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.arrange();
        self.hash(folder, Some(names.join("\0").as_bytes()));
        Ok(names)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
