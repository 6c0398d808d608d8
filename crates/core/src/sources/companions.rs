//! The files next to weights, such as a configuration or a tokenizer: their text goes into other files, so that none may come from
//! elsewhere on the machine.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::ReadAt;
use super::file::FileSource;
use super::filesystem::Filesystem;
use super::siblings::Links;
use crate::error::{Code, Error, Result};
use crate::paths;
use crate::work::Stop;

/// A folder whose files are opened by names that it does not contain itself.
pub struct Companions {
    filesystem: Arc<dyn Filesystem>,
    folder: PathBuf,
    links: Links,
    /// The resolved folders that links may lead into.
    real: OnceLock<Vec<PathBuf>>,
}

impl Companions {
    /// `links` holds for local files.
    pub fn of(folder: PathBuf, filesystem: Arc<dyn Filesystem>, links: Links) -> Self {
        Self { filesystem, folder, links, real: OnceLock::new() }
    }

    /// Returns the path of a file or folder by its relative path.
    pub fn path(&self, name: &str) -> PathBuf {
        paths::join(&self.folder, name)
    }

    /// Returns whether the files are local.
    pub fn is_local(&self) -> bool {
        self.filesystem.is_local()
    }

    /// Opens a file by its relative path; `None` if it does not exist. Fails with `ZT_OUT_OF_BOUNDS` if a link leads out of the folder
    /// without permission.
    ///
    /// The checked path itself is opened without following links, so a link created in between has no effect.
    pub fn open(&self, name: &str, stop: &Stop) -> Result<Option<Arc<dyn ReadAt>>> {
        let path = self.path(name);
        let opened = match self.resolved(name, &path) {
            Ok(Some(target)) => match FileSource::open_without_links(&target) {
                Ok(source) => Ok(Arc::new(source) as Arc<dyn ReadAt>),
                Err(error) => Err(error.in_file(name, &path)),
            },
            Ok(None) if self.is_local() => {
                self.filesystem.open(&path, stop).map_err(|error| error.in_file(name, &path))
            }
            Ok(None) => self.filesystem.open(&path, stop),
            Err(error) => Err(error),
        };
        present(opened)
    }

    /// Returns the names in a folder, up to `max` + 1; `None` if it does not exist. Fails as [`Self::open`] does.
    pub fn list(&self, name: &str, max: usize, stop: &Stop) -> Result<Option<Vec<std::ffi::OsString>>> {
        let path = self.path(name);
        let target = self.resolved(name, &path);
        present(target.and_then(|target| self.filesystem.list(target.as_deref().unwrap_or(&path), max, stop)))
    }

    /// Returns the path without links if these are checked. Fails with `ZT_OUT_OF_BOUNDS` for a link that leads elsewhere, and with
    /// `ZT_IO` for a link to nothing.
    fn resolved(&self, name: &str, path: &Path) -> Result<Option<PathBuf>> {
        if !self.is_local() || self.links == Links::Anywhere {
            return Ok(None);
        }
        let target = path.canonicalize().map_err(|error| {
            if path.is_symlink() {
                let message = format!("{name:?} is a link that leads nowhere: {error}");
                return Error::new(Code::Io, message).file(path);
            }
            Error::io("open", &error).file(path)
        })?;
        if self.real.get_or_init(|| real_folders(&self.folder)).iter().any(|real| target.starts_with(real)) {
            return Ok(Some(target));
        }
        let message =
            format!("{name:?} is a link to '{}' outside of the folder of the weights", target.display());
        Err(Error::new(Code::OutOfBounds, message)
            .hint("followLinks", "; to read it, set the option followLinks")
            .file(path))
    }
}

fn present<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.is_absent() => Ok(None),
        found => found.map(Some),
    }
}

/// Returns a folder without links, and the blobs of the snapshot of the Hugging Face cache that it is or is in: `NAME/snapshots/REVISION`
/// has links into `NAME/blobs`.
fn real_folders(folder: &Path) -> Vec<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(folder) = folder.canonicalize() else { return Vec::new() };
    let snapshots = folder.ancestors().skip(1).find(|path| path.file_name() == Some(OsStr::new("snapshots")));
    let blobs = snapshots.and_then(Path::parent).map(|repository| repository.join("blobs"));
    // A folder that is itself a link could lead anywhere.
    let is_own = |blobs: &PathBuf| blobs.canonicalize().is_ok_and(|real| real == *blobs);
    let blobs = blobs.filter(is_own);
    [folder].into_iter().chain(blobs).collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::sources::filesystem::LocalFiles;

    fn root(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("ztensor-companions-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("model/sub")).unwrap();
        std::fs::create_dir_all(root.join("secrets")).unwrap();
        std::fs::write(root.join("secrets/text"), b"secret").unwrap();
        std::fs::write(root.join("model/sub/text"), b"inside").unwrap();
        root
    }

    fn at(folder: PathBuf, links: Links) -> Companions {
        Companions::of(folder, Arc::new(LocalFiles), links)
    }

    fn text(companions: &Companions, name: &str) -> Result<Option<Vec<u8>>> {
        let source = companions.open(name, Stop::never())?;
        source.map(|source| source.read_vec(0, 6, Stop::never())).transpose()
    }

    #[test]
    fn a_link_out_of_the_folder_is_no_companion_whatever_part_of_the_path_it_is() {
        let root = root("out");
        let model = root.join("model");
        for (link, target) in [
            ("file", "../secrets/text"),
            ("folder", "../secrets"),
            ("sub/up", "../.."),
            ("twice", "file"),
            ("inside", "sub/text"),
            ("round", "../model/sub"),
            ("dangling", "nowhere"),
        ] {
            symlink(target, model.join(link)).unwrap();
        }
        let strict = at(model.clone(), Links::Inside);
        for name in ["file", "folder/text", "sub/up/secrets/text", "twice"] {
            let error = text(&strict, name).unwrap_err();
            assert_eq!((error.code(), error.path()), (Code::OutOfBounds, Some(&*model.join(name))), "{name}");
            assert_eq!(text(&at(model.clone(), Links::Anywhere), name).unwrap().unwrap(), b"secret");
        }
        assert_eq!(strict.list("folder", 9, Stop::never()).unwrap_err().code(), Code::OutOfBounds);
        for name in ["inside", "sub/text", "round/text"] {
            assert_eq!(text(&strict, name).unwrap().unwrap(), b"inside", "{name}");
        }
        assert_eq!(strict.list("round", 9, Stop::never()).unwrap().unwrap().len(), 2);
        let error = text(&strict, "dangling").unwrap_err();
        assert!(error.code() == Code::Io && error.message().contains("leads nowhere"), "{error}");
        assert_eq!(text(&strict, "none").unwrap(), None);
        assert_eq!(strict.list("none", 9, Stop::never()).unwrap(), None);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_snapshot_of_the_hub_reads_its_own_blobs_and_no_others() {
        let root = root("hub");
        let snapshot = root.join("models--a--b/snapshots/1/sub");
        let blobs = root.join("models--a--b/blobs");
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::create_dir_all(&blobs).unwrap();
        std::fs::write(blobs.join("12"), b"inside").unwrap();
        symlink("../../../blobs/12", snapshot.join("text")).unwrap();
        symlink("../../../../secrets/text", snapshot.join("out")).unwrap();
        let companions = at(snapshot.clone(), Links::Inside);
        assert_eq!(text(&companions, "text").unwrap().unwrap(), b"inside");
        assert_eq!(text(&companions, "out").unwrap_err().code(), Code::OutOfBounds);
        // Blobs that are a link are not the snapshot's own.
        std::fs::remove_dir_all(&blobs).unwrap();
        symlink("../secrets", &blobs).unwrap();
        std::fs::write(root.join("secrets/12"), b"secret").unwrap();
        let error = text(&at(snapshot, Links::Inside), "text").unwrap_err();
        assert_eq!(error.code(), Code::OutOfBounds);
        std::fs::remove_dir_all(root).unwrap();
    }
}
