//! Repositories of the Hugging Face hub, at the commit that a revision refers to when it is opened.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use percent_encoding::percent_decode_str;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::blocks::Blocks;
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::work::Stop;

use crate::hub_address::Address;
use crate::hub_api::{self, Described, Files};
use crate::hub_cache::{HubCache, Lookup};
use crate::hub_endpoint::Hub;
use crate::options::Options;
use crate::{errors, opening, web};

/// A repository at one commit.
struct Repository {
    hub: Hub,
    blocks: Arc<Blocks>,
    address: Address,
    described: OnceLock<Described>,
    /// What the hub's own clients have downloaded of it.
    cache: Option<HubCache>,
    /// Whether the hub is not accessed.
    is_offline: bool,
}

/// Returns the cache folder of the hub's own clients, and the parts of an address: kind, owner, name, revision and the names of its path.
/// An empty URL has no parts.
pub fn place(url: &str, options: &Options) -> Result<Vec<String>> {
    let folder = HubCache::root(options).ok_or_else(|| {
        let message = "the user has no folder for the cache of the hub: set the variable HF_HOME";
        Error::new(Code::Io, message)
    })?;
    let folder = folder
        .into_os_string()
        .into_string()
        .map_err(|_| Error::new(Code::Io, "the path of the cache folder of the hub is not valid Unicode"))?;
    let mut parts = vec![folder];
    if !url.is_empty() {
        let Address { kind, owner, name, revision, inner } = address_of(url)?;
        parts.extend([kind.to_owned(), owner, name, revision]);
        parts.extend(inner);
    }
    Ok(parts)
}

/// Parses a URL, in which names may be percent-encoded.
pub fn address_of(url: &str) -> Result<Address> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("hf", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let decoded = percent_decode_str(rest).decode_utf8_lossy();
    Address::parse(&format!("{}://{decoded}", scheme.to_ascii_lowercase()))
}

/// Returns whether the hub's own clients have downloaded something of a repository.
pub fn has_cache(url: &str, options: &Options) -> bool {
    address_of(url).is_ok_and(|address| HubCache::of(&address, options).is_some())
}

/// Returns whether the hub must not be accessed.
pub fn is_offline(options: &Options) -> bool {
    options.offline || options.is_set("HF_HUB_OFFLINE")
}

pub fn filesystem(url: &str, options: &Options, stop: &Stop) -> Result<(Arc<dyn Filesystem>, PathBuf)> {
    let mut address = address_of(url)?;
    let (hub, cache) = (Hub::new(options)?, HubCache::of(&address, options));
    let is_offline = is_offline(options);
    let described = OnceLock::new();
    if !address.is_commit() {
        address.revision = if is_offline {
            let commit = cache.as_ref().and_then(|cache| cache.commit(&address.revision));
            commit.ok_or_else(|| not_cached(&address))?
        } else {
            let found = hub_api::describe(&hub, &address, stop)
                .map_err(|error| with_cached_commit(error, &address, cache.as_ref()))?;
            let commit = found.commit.clone();
            let _ = described.set(found);
            commit
        };
    }
    let path = address.text().into();
    let repository = Repository { hub, blocks: Arc::default(), address, described, cache, is_offline };
    Ok((Arc::new(repository), path))
}

pub fn not_cached(address: &Address) -> Error {
    let message = "the hub is not accessed, and its cache does not have this: download it once, or go online";
    errors::about(&address.text(), message).hint("remote.offline", " (HF_HUB_OFFLINE, or the option offline)")
}

/// Adds to a failed connection what the cache has.
fn with_cached_commit(error: Error, address: &Address, cache: Option<&HubCache>) -> Error {
    let is_unreachable = error.code() == Code::Io && error.status().is_none();
    let Some(commit) = cache.filter(|_| is_unreachable).and_then(|cache| cache.commit(&address.revision))
    else {
        return error;
    };
    let message = format!(
        "{}. The hub's cache has this revision as of commit {commit}: to open it, set HF_HUB_OFFLINE=1",
        error.message()
    );
    errors::about(&address.text(), message).hint("remote.offline", " or the option offline")
}

impl Repository {
    /// Returns the hub's description of the commit, which is requested once. If that fails, the files in the cache are known at least.
    fn described(&self, stop: &Stop) -> Result<&Described> {
        if let Some(described) = self.described.get() {
            return Ok(described);
        }
        let asked = if self.is_offline {
            Err(not_cached(&self.address))
        } else {
            hub_api::describe(&self.hub, &Address { inner: Vec::new(), ..self.address.clone() }, stop)
        };
        let found = asked.or_else(|error| {
            stop.check()?;
            self.cached(&error).ok_or(error)
        })?;
        Ok(self.described.get_or_init(|| found))
    }

    /// Returns a description of the commit by its files in the cache, if there are any. `error`: why the hub gave none.
    fn cached(&self, error: &Error) -> Option<Described> {
        let files = self.cache.as_ref()?.files(&self.address.revision)?;
        let why = if self.is_offline {
            "the hub is not accessed (HF_HUB_OFFLINE, or the option offline)".to_owned()
        } else {
            format!("the hub did not list the files of this commit: {}", error.message())
        };
        let warning = format!("{why}; its cache may not have all files of the folder");
        Some(Described::cached(self.address.revision.clone(), files, warning))
    }

    /// Returns the files of the commit at an address, if they are known.
    fn files(&self, address: &Address) -> Option<&Files> {
        let described = self.described.get().filter(|_| address.is_in(&self.address));
        described.and_then(|described| described.files.as_ref())
    }
}

fn parsed(path: &Path) -> Result<Address> {
    Address::parse(&web::text(path)?).map_err(|error| error.file(path))
}

impl Filesystem for Repository {
    fn open(&self, path: &Path, stop: &Stop) -> Result<Arc<dyn ReadAt>> {
        let address = parsed(path)?;
        if address.inner.is_empty() {
            return Err(errors::about(&address.text(), "this is a repository, which is opened as a folder"));
        }
        // A folder is recognized without requesting it as a file.
        let files = self.files(&address);
        if files.is_some_and(|files| files.is_folder(&address.inner)) {
            return Err(errors::about(&address.text(), "this is a folder of the repository"));
        }
        if let Some(cache) = self.cache.as_ref().filter(|_| address.is_in(&self.address)) {
            let length = files.and_then(|files| files.size(&address.inner));
            match cache.open(&address.revision, &address.inner, length) {
                Lookup::ContentRange(source) => return Ok(source),
                Lookup::Missing => {
                    return Err(errors::about(
                        &address.text(),
                        "the commit has no such file, according to the cache of the hub",
                    ));
                }
                Lookup::Unknown => {}
            }
        }
        if self.is_offline {
            return Err(not_cached(&address));
        }
        let target = self.hub.file(&address)?;
        opening::open(&self.hub.client, &self.blocks, &target, stop)
    }

    fn is_folder(&self, path: &Path, stop: &Stop) -> bool {
        let Ok(address) = parsed(path) else { return false };
        if address.inner.is_empty() {
            return true;
        }
        if !address.is_in(&self.address) {
            return false;
        }
        match self.described(stop).map(|described| described.files.as_ref()) {
            Ok(Some(files)) => files.is_folder(&address.inner),
            Ok(None) if self.is_offline => false,
            Ok(None) => match hub_api::list(&self.hub, &address, 1, stop) {
                Ok(names) => !names.is_empty(),
                // A later listing reports the error.
                Err(error) => error.status().is_none(),
            },
            Err(_) => false,
        }
    }

    fn list(&self, folder: &Path, max: usize, stop: &Stop) -> Result<Vec<OsString>> {
        let address = parsed(folder)?;
        let files = if address.is_in(&self.address) { self.described(stop)?.files.as_ref() } else { None };
        let names = match files {
            Some(files) => files.list(&address.inner, max),
            None if self.is_offline => return Err(not_cached(&address)),
            None => hub_api::list(&self.hub, &address, max, stop)?,
        };
        Ok(names.into_iter().map(OsString::from).collect())
    }

    fn list_warning(&self, folder: &Path) -> Option<String> {
        let described =
            self.described.get().filter(|_| parsed(folder).is_ok_and(|it| it.is_in(&self.address)));
        described?.warning.clone()
    }

    fn is_file(&self, path: &Path) -> bool {
        parsed(path)
            .is_ok_and(|address| self.files(&address).is_some_and(|files| files.is_file(&address.inner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (text, kind, revision, inner) in [
            ("hf://o/r", "models", "main", ""),
            ("hf://o/r/", "models", "main", ""),
            ("hf://o/r/a/b.safetensors", "models", "main", "a/b.safetensors"),
            ("hf://o/r@v1.0/x", "models", "v1.0", "x"),
            ("hf://datasets/o/r@main/x", "datasets", "main", "x"),
            ("hf://spaces/o/r", "spaces", "main", ""),
            ("hf://models/o/r/x", "models", "main", "x"),
            ("hf://o/r@refs/pr/12/x", "models", "refs/pr/12", "x"),
            ("hf://o/r@refs/convert/parquet", "models", "refs/convert/parquet", ""),
            ("hf://o/r/a@b", "models", "main", "a@b"),
            ("hf://o/r@0123456789abcdef0123456789abcdef01234567", "models", commit, ""),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                (address.kind, &*address.revision, &*address.inner.join("/")),
                (kind, revision, inner),
                "{text}"
            );
            assert_eq!((&*address.owner, &*address.name), ("o", "r"));
            assert_eq!(Address::parse(&address.text()).unwrap(), address);
            assert_eq!(address.is_commit(), revision == commit);
        }
        let bad = [
            "hf://",
            "hf://gpt2",
            "hf:///r",
            "hf://o/",
            "hf://o/@main",
            "hf://o/r@",
            "hf://o/r@/x",
            "hf://../r",
            "hf://o/..",
            "hf://o/r/../x",
            "hf://o/r//x",
            "hf://o/r@a..b/x",
            "hf://datasets/o",
            "hf://o o/r",
            "hf://o/r%2f",
        ];
        for text in bad {
            assert_eq!(Address::parse(text).unwrap_err().code(), Code::InvalidArg, "{text}");
        }
    }
}
