//! A bucket as a filesystem.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt};
use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::blocks::{Blocks, HEAD as FIRST};
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::work::Stop;

use super::connector;
use super::connector::LengthOmitted;
use super::endpoints::location_of;
use super::failures::failed;
use crate::answer::Pace;
use crate::cache;
use crate::client::Pool;
use crate::errors::{self, Failure};
use crate::options::Options;
use crate::pages::Pages;
use crate::retry::retrying;
use crate::runtime;
use crate::source::{Ranges, Remote};

/// Maximum listed objects and folders that are read for the names of a folder.
const MAX_LISTED: usize = 200_000;
/// Maximum pages of such a list, and consecutive pages without new entries: stores may send empty ones.
const PAGES: usize = 1000;
const EMPTY_PAGES: usize = 100;
/// Maximum bytes of a page token, which becomes part of a URL.
const TOKEN: usize = 8 << 10;

/// A bucket, or an Azure container.
pub struct Bucket {
    pub store: Arc<dyn ObjectStore>,
    /// The same store as a lister; `None` if it is never listed.
    pub lists: Option<Arc<dyn PaginatedListStore>>,
    /// `s3://bucket/`.
    pub root: String,
    pub options: Options,
    pub blocks: Arc<Blocks>,
    /// A folder that could not be listed, and the error.
    pub unlisted: Mutex<Option<(PathBuf, Error)>>,
    /// An object that could not be opened, and the status of the response.
    pub unopened: Mutex<Option<(PathBuf, Option<u16>)>>,
    /// Held so that others share it.
    #[expect(dead_code)]
    pub pool: Arc<Pool>,
}

impl Bucket {
    pub fn key(&self, path: &Path) -> Result<Key> {
        let text = path.to_string_lossy();
        let key = text.strip_prefix(&self.root).unwrap_or_default();
        // The clients of stores would leave out an empty part, which names another object.
        if key.starts_with('/') || key.contains("//") {
            let message = format!(
                "{:?} is a key with an empty part ('//'), which the clients of stores cannot name: sign an https: URL for it \
                 (aws s3 presign, gcloud storage sign-url, az storage blob generate-sas), and open that",
                short(key, 160)
            );
            return Err(Error::new(Code::InvalidArg, message));
        }
        Key::parse(key).map_err(|_| {
            let message = format!("{:?} is not a valid object key", short(key, 160));
            Error::new(Code::InvalidArg, message)
        })
    }

    fn unopened(&self) -> MutexGuard<'_, Option<(PathBuf, Option<u16>)>> {
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlisted(&self) -> MutexGuard<'_, Option<(PathBuf, Error)>> {
        self.unlisted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the key prefix of the objects in a folder.
    fn under(&self, folder: &Path) -> Result<String> {
        let key = self.key(folder)?;
        Ok(if key.as_ref().is_empty() { String::new() } else { format!("{key}/") })
    }

    /// Returns the length, the version and the first bytes of an object.
    async fn first(&self, key: &Key, path: &str) -> std::result::Result<(Facts, Vec<u8>), Failure> {
        let first = GetOptions { range: Some(GetRange::Bounded(0..FIRST)), ..GetOptions::default() };
        let result = match self.store.get_opts(key, first).await {
            Ok(result) => result,
            // An empty object has no range.
            Err(error) if may_be_empty(&error) => match self.store.head(key).await {
                Ok(meta) if meta.size == 0 => {
                    return Ok((Facts { length: 0, tag: meta.e_tag }, Vec::new()));
                }
                _ => return Err(failed(path, &error)),
            },
            Err(error) => return Err(failed(path, &error)),
        };
        let mut length = checked::exact(result.meta.size, "the length of the object")?;
        let tag = result.meta.e_tag.clone();
        let is_omitted = omits_length(&result);
        let count = length.min(FIRST);
        let mut head = vec![0; usize::try_from(count).unwrap_or_default()];
        pour(path, result, 0..count, &mut head, &mut 0, self.options.timeout).await?;
        if is_omitted {
            let meta = self.store.head(key).await.map_err(|error| failed(path, &error))?;
            if meta.e_tag != tag || meta.size < count {
                return Err(errors::changed(path).into());
            }
            length = checked::exact(meta.size, "the length of the object")?;
        }
        Ok((Facts { length, tag }, head))
    }

    /// Returns the names in a folder, up to `max` + 1. A truncated list is an error, because what is missing is unknown.
    async fn names(&self, path: &str, prefix: &str, max: usize) -> Result<BTreeSet<String>> {
        let Some(lists) = &self.lists else {
            return Err(Error::new(Code::Internal, "listing is not enabled for this store"));
        };
        let (mut names, mut token, mut looked) = (BTreeSet::new(), None::<String>, 0);
        let mut pages = Pages::new("the store", path, &self.options, (PAGES, EMPTY_PAGES));
        loop {
            let page = retrying(&self.options, async || {
                let options = PaginatedListOptions {
                    delimiter: Some("/".into()),
                    page_token: token.clone(),
                    ..PaginatedListOptions::default()
                };
                let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
                lists.list_paginated(prefix, options).await.map_err(|error| failed(path, &error))
            })
            .await?;
            let result = page.result;
            let before = names.len();
            let count = result.objects.len() + result.common_prefixes.len();
            for object in result.objects {
                let inner = object.location.as_ref().strip_prefix(prefix).unwrap_or_default();
                if !inner.is_empty() && !inner.contains('/') {
                    names.insert(inner.to_owned());
                }
            }
            if names.len() > max {
                return Ok(names);
            }
            let Some(next) = page.page_token.filter(|next| !next.is_empty()) else { return Ok(names) };
            if next.len() > TOKEN {
                let message = format!("the store sends a page token of {} bytes", next.len());
                return Err(errors::about(path, message));
            }
            looked += count;
            if looked >= MAX_LISTED {
                let message = format!(
                    "the folder has more than {MAX_LISTED} objects and folders, the maximum that is read: specify a file in it"
                );
                return Err(Error::new(Code::Limit, message).file(Path::new(path)));
            }
            pages.next(&next, names.len() > before)?;
            token = Some(next);
        }
    }
}

/// Returns whether a range may have been rejected because the object is empty: unless a connection problem or the status indicates
/// otherwise.
fn may_be_empty(error: &object_store::Error) -> bool {
    let is_other = matches!(error, object_store::Error::Generic { .. });
    is_other
        && connector::problem(error)
            .map_or_else(|| connector::broken(error).is_none(), |problem| problem.status == Some(416))
}

impl Filesystem for Bucket {
    fn open(&self, path: &Path, stop: &Stop) -> Result<Arc<dyn ReadAt>> {
        let key = self.key(path)?;
        let text = path.to_string_lossy().into_owned();
        if key.as_ref().is_empty() {
            return Err(errors::about(&text, "this is a bucket, not an object"));
        }
        let opened = retrying(&self.options, async || self.first(&key, &text).await);
        let (object, head) = runtime::wait(stop, opened).inspect_err(|error| {
            let failed = error.code() == Code::Io;
            *self.unopened() = failed.then(|| (path.to_owned(), error.status()));
        })?;
        let whole = head.len() as u64 == object.length;
        let (store, options) = (Arc::clone(&self.store), self.options.clone());
        let version = object.tag.clone().filter(|tag| tag.starts_with('"'));
        let location = location_of(&text, &options);
        let object = Object { store, key, path: text, facts: object, options };
        let source = Remote::new(object, head, whole, &self.blocks);
        let version = version.as_ref().map(String::as_bytes);
        Ok(cache::through(source, &location, version, &self.options))
    }

    fn is_folder(&self, path: &Path, stop: &Stop) -> bool {
        // If a store did not respond for an object, its folder is not requested as well: the first error is the relevant one.
        let unopened = self.unopened().take_if(|(unopened, _)| unopened == path);
        let status = unopened.map_or(Some(404), |(_, status)| status);
        if !matches!(status, Some(400 | 401 | 403 | 404)) {
            return false;
        }
        match self.list(path, 1, stop) {
            Ok(names) => !names.is_empty(),
            // A store that does not allow listing provides no more information than that nothing can be read there.
            Err(error)
                if status != Some(404) || matches!(error.status(), Some(401 | 403 | 404 | 405 | 501)) =>
            {
                false
            }
            // The next listing of the folder reports why it failed without another request.
            Err(error) => {
                *self.unlisted() = Some((path.to_owned(), error));
                true
            }
        }
    }

    fn list(&self, folder: &Path, max: usize, stop: &Stop) -> Result<Vec<OsString>> {
        if let Some((_, error)) = self.unlisted().take_if(|(path, _)| path == folder) {
            return Err(error);
        }
        let prefix = self.under(folder)?;
        let text = folder.to_string_lossy().into_owned();
        let names = runtime::wait(stop, self.names(&text, &prefix, max))?;
        Ok(names.into_iter().map(OsString::from).collect())
    }

    fn is_file(&self, _path: &Path) -> bool {
        false
    }
}

/// The properties of an object from the first response.
struct Facts {
    length: u64,
    /// The version tag, which is sent with each range request.
    tag: Option<String>,
}

/// One version of an object.
struct Object {
    store: Arc<dyn ObjectStore>,
    key: Key,
    path: String,
    facts: Facts,
    options: Options,
}

impl Object {
    async fn piece(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut got = 0;
        retrying(&self.options, async || self.attempt(offset, buffer, &mut got).await).await
    }

    /// Requests the rest of a range.
    async fn attempt(
        &self,
        offset: u64,
        buffer: &mut [u8],
        got: &mut usize,
    ) -> std::result::Result<(), Failure> {
        if *got == buffer.len() {
            return Ok(());
        }
        let range = offset + *got as u64..offset + buffer.len() as u64;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.facts.tag.clone(),
            ..GetOptions::default()
        };
        let result = self.store.get_opts(&self.key, options).await;
        let result = result.map_err(|error| failed(&self.path, &error))?;
        let is_other = result.meta.size != self.facts.length && !omits_length(&result);
        if is_other || result.meta.e_tag != self.facts.tag {
            return Err(errors::changed(&self.path).into());
        }
        pour(&self.path, result, range, buffer, got, self.options.timeout).await
    }
}

impl Ranges for Object {
    fn length(&self) -> u64 {
        self.facts.length
    }

    fn version(&self) -> u64 {
        let Some(tag) = &self.facts.tag else { return 0 };
        // FNV-1a, which is the same in every process.
        tag.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn fill(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        let pieces = buffer.chunks_mut(self.options.piece_bytes).scan(offset, |next, piece| {
            let first = *next;
            *next += piece.len() as u64;
            Some(self.piece(first, piece))
        });
        let all = stream::iter(pieces).buffer_unordered(self.options.concurrency).try_collect();
        runtime::wait(stop, all)
    }
}

/// Returns whether the response to a range does not state the length of the object.
fn omits_length(result: &GetResult) -> bool {
    result.extensions.get::<LengthOmitted>().is_some()
}

/// Fills a buffer, from `got` on, from a response that must be the requested range.
async fn pour(
    path: &str,
    result: GetResult,
    range: Range<u64>,
    buffer: &mut [u8],
    got: &mut usize,
    limit: Duration,
) -> std::result::Result<(), Failure> {
    if result.range != range {
        return Err(errors::about(path, "the store sent a different range than requested").into());
    }
    let mut body = result.into_stream();
    let mut pace = Pace::new(limit);
    loop {
        let next = pace.wait(body.next()).await;
        let next =
            next.map_err(|_| Failure::passing(errors::about(path, format!("the store {}", pace.slow()))))?;
        let Some(bytes) = next.transpose().map_err(|error| failed(path, &error))? else { break };
        let Some(part) = buffer.get_mut(*got..got.saturating_add(bytes.len())) else {
            return Err(errors::about(path, "the store sent more than requested").into());
        };
        part.copy_from_slice(&bytes);
        *got += bytes.len();
        pace.came(bytes.len());
    }
    if *got < buffer.len() {
        let message = format!("the response of the store ended {} bytes early", buffer.len() - *got);
        return Err(Failure::passing(errors::about(path, message)));
    }
    Ok(())
}
