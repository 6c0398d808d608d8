//! Reads the cache of the Hugging Face hub's own clients; the wrapper writes it, and `hub_download` its blobs
//! (<https://huggingface.co/docs/huggingface_hub/guides/manage-cache>): `refs` name the commit of a revision, `snapshots` have a link to a
//! blob for each file of a commit, and `.no_exist` lists files that a commit does not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ztensor_core::limits;
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::file::FileSource;

use crate::hub_address::{Address, is_commit};
use crate::options::Options;

/// Maximum bytes of a file in `refs`.
const REF: u64 = 256;
/// Maximum depth of folders in a snapshot.
const DEPTH: usize = 16;

/// The user's folder.
fn user(options: &Options) -> Option<PathBuf> {
    options.path("HOME").or_else(|| options.path("USERPROFILE"))
}

/// Replaces `~` by the user's folder, and then the names of variables, as `os.path.expanduser` and `os.path.expandvars` of Python do: in
/// some places no shell has done so.
pub fn expanded(path: &Path, options: &Options) -> PathBuf {
    let path = match (path.strip_prefix("~"), user(options)) {
        (Ok(rest), Some(user)) => user.join(rest),
        _ => path.to_path_buf(),
    };
    path.to_str().map(|text| with_variables(text, options).into()).unwrap_or(path)
}

/// Replaces `$NAME` and `${NAME}`, and on Windows `%NAME%`. Unknown variables stay as they are, and values are not expanded again.
fn with_variables(text: &str, options: &Options) -> String {
    let (mut found, mut rest) = (String::new(), text);
    let marks: &[char] = if cfg!(windows) { &['$', '%'] } else { &['$'] };
    while let Some((before, after)) = rest.find(marks).and_then(|at| rest.split_at_checked(at)) {
        found.push_str(before);
        let (mark, after) = after.split_at(1);
        let (name, length) = if let Some(inner) = after.strip_prefix('{').filter(|_| mark == "$") {
            let end = inner.find('}').unwrap_or_default();
            (inner.get(..end).unwrap_or_default(), end + 2)
        } else if mark == "$" {
            let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
            (after.get(..end).unwrap_or_default(), end)
        } else {
            let end = after.find('%').unwrap_or_default();
            (after.get(..end).unwrap_or_default(), end + 1)
        };
        if let Some(value) = options.raw_variable(name).filter(|_| !name.is_empty()) {
            found.push_str(&value);
            rest = after.get(length..).unwrap_or_default();
        } else {
            found.push_str(mark);
            rest = after;
        }
    }
    found.push_str(rest);
    found
}

/// The folder of `hf auth login` and of the cache.
pub fn home(options: &Options) -> Option<PathBuf> {
    let caches = || options.path("XDG_CACHE_HOME").or_else(|| Some(user(options)?.join(".cache")));
    let home = options.path("HF_HOME").or_else(|| Some(caches()?.join("huggingface")))?;
    Some(expanded(&home, options))
}

/// What the cache knows of a file.
pub enum Lookup {
    ContentRange(Arc<dyn ReadAt>),
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
        let folder = Self::root(options)?.join(address.cache_folder());
        folder.is_dir().then_some(Self { folder })
    }

    /// Returns the folder of the caches of all repositories, which may not exist.
    pub fn root(options: &Options) -> Option<PathBuf> {
        let given = options.path("HF_HUB_CACHE").or_else(|| options.path("HUGGINGFACE_HUB_CACHE"));
        let root = given.or_else(|| Some(home(options)?.join("hub")))?;
        Some(expanded(&root, options))
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
            let source = FileSource::open_one_of_many(&blob).ok().filter(|_| is_whole);
            if let Some(source) = source.filter(|file| length.is_none_or(|length| file.length() == length)) {
                return Lookup::ContentRange(Arc::new(source));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_expanded_as_python_does() {
        let variables = [("HOME", "/home/me"), ("A", "a"), ("A_2", "b$A"), ("EMPTY", ""), ("TILDE", "~")];
        let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = Options { environment: Some(environment.into_iter().collect()), ..Options::default() };
        for (text, expected) in [
            ("~/x", "/home/me/x"),
            ("~", "/home/me"),
            ("/x/~/y", "/x/~/y"),
            ("~other/x", "~other/x"),
            ("$A/x", "a/x"),
            ("/x/$A_2.y", "/x/b$A.y"),
            ("/x/${A}b/${A_2}", "/x/ab/b$A"),
            ("$HOME/x$A$A", "/home/me/xaa"),
            ("/x$EMPTY/y", "/x/y"),
            ("$TILDE/x", "~/x"),
            ("$NONE/${NONE}/x", "$NONE/${NONE}/x"),
            ("/x/$/$$A/${A", "/x/$/$a/${A"),
            ("/ä$A/é", "/äa/é"),
        ] {
            assert_eq!(expanded(Path::new(text), &options), Path::new(expected), "{text}");
        }
        #[cfg(windows)]
        assert_eq!(expanded(Path::new("%A%/%NONE%/x%"), &options), Path::new("a/%NONE%/x%"));
    }
}
