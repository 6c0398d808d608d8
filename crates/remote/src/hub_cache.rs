//! The cache of the Hugging Face hub's own clients, which this package reads and never writes
//! (<https://huggingface.co/docs/huggingface_hub/guides/manage-cache>): `refs` name the commit of a revision, `snapshots` have a link to a
//! blob for each file of a commit, and `.no_exist` lists files that a commit does not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ztensor_core::limits;
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::file::FileSource;

use crate::hub::Address;
use crate::options::Options;

/// Maximum bytes of a file in `refs`.
const REF: u64 = 256;
/// Maximum depth of folders in a snapshot.
const DEPTH: usize = 16;

/// The user's folder.
fn user(options: &Options) -> Option<PathBuf> {
    options.path("HOME").or_else(|| options.path("USERPROFILE"))
}

/// Replaces `~` by the user's folder, as Python does: in some places no shell has done so.
fn expanded(path: PathBuf, options: &Options) -> PathBuf {
    match (path.strip_prefix("~").map(Path::to_path_buf), user(options)) {
        (Ok(rest), Some(user)) => user.join(rest),
        _ => path,
    }
}

/// The folder of `hf auth login` and of the cache.
pub fn home(options: &Options) -> Option<PathBuf> {
    let caches = || options.path("XDG_CACHE_HOME").or_else(|| Some(user(options)?.join(".cache")));
    let home = options.path("HF_HOME").or_else(|| Some(caches()?.join("huggingface")))?;
    Some(expanded(home, options))
}

/// Returns whether a commit hash is well-formed.
pub fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What the cache knows of a file.
pub enum Lookup {
    Held(Arc<dyn ReadAt>),
    /// The commit has no such file.
    Missing,
    Unknown,
}

/// The cached files of one repository.
pub struct HubCache {
    folder: PathBuf,
}

impl HubCache {
    /// Returns the cache of an address; `None` if there is none, or if the options disable it.
    pub fn of(address: &Address, options: &Options) -> Option<Self> {
        if !options.hub_cache {
            return None;
        }
        let given = options.path("HF_HUB_CACHE").or_else(|| options.path("HUGGINGFACE_HUB_CACHE"));
        let root = given.or_else(|| Some(home(options)?.join("hub")))?;
        let folder = expanded(root, options).join(address.cache_folder());
        folder.is_dir().then_some(Self { folder })
    }

    /// Returns the commit to which a revision referred when it was last downloaded.
    pub fn commit(&self, revision: &str) -> Option<String> {
        let path = self.folder.join("refs").join(inner(revision.split('/'))?);
        fs::metadata(&path).ok().filter(|file| file.is_file() && file.len() <= REF)?;
        let commit = fs::read_to_string(path).ok()?.trim().to_owned();
        is_commit(&commit).then_some(commit)
    }

    /// Opens a file of a commit. `length`: its size, if known. A blob of another size is not taken, nor one whose download has not ended.
    pub fn open(&self, commit: &str, names: &[String], length: Option<u64>) -> Lookup {
        let Some(path) = inner(names.iter().map(|name| &**name)).filter(|_| is_commit(commit)) else {
            return Lookup::Unknown;
        };
        if let Ok(blob) = self.folder.join("snapshots").join(commit).join(&path).canonicalize() {
            let is_whole = blob.extension().is_none_or(|extension| extension != "incomplete");
            let source = FileSource::open(&blob).ok().filter(|_| is_whole);
            if let Some(source) = source.filter(|file| length.is_none_or(|length| file.length() == length)) {
                return Lookup::Held(Arc::new(source));
            }
        }
        if self.folder.join(".no_exist").join(commit).join(path).is_file() {
            return Lookup::Missing;
        }
        Lookup::Unknown
    }

    /// Returns the paths of all cached files of a commit; `None` if there are none, or too many.
    pub fn files(&self, commit: &str) -> Option<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let mut folders = vec![(self.folder.join("snapshots").join(commit), String::new(), 0)];
        while let Some((folder, prefix, depth)) = folders.pop() {
            for entry in fs::read_dir(folder).ok()?.flatten() {
                let Ok(name) = entry.file_name().into_string() else { continue };
                // Links to files, not to folders.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && depth < DEPTH => {
                        folders.push((entry.path(), format!("{prefix}{name}/"), depth + 1));
                    }
                    Ok(kind) if !kind.is_dir() => _ = found.insert(format!("{prefix}{name}")),
                    _ => {}
                }
                if found.len() + folders.len() > limits::FOLDER_ENTRIES {
                    return None;
                }
            }
        }
        Some(found).filter(|found| !found.is_empty())
    }
}

/// Joins names to a relative path; `None` if one of them would lead elsewhere on some system.
fn inner<'n>(names: impl Iterator<Item = &'n str>) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for name in names {
        if matches!(name, "" | "." | "..") || name.contains(['\\', '/', ':', '\0']) {
            return None;
        }
        path.push(name);
    }
    (!path.as_os_str().is_empty()).then_some(path)
}
