//! Remote files: options from the wrapper, and their filesystems.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::work::Stop;
use ztensor_core::work::lanes::Lane;
use ztensor_remote::{Options, Place, StoreOptions, Wanted};

use crate::js::control::Control;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::opened::{OpenRequest, Shared};
use crate::values::arguments::unsigned;

/// Options for reading remote files.
#[napi(object)]
pub struct RemoteRequest {
    /// Alternating names and values.
    pub headers: Vec<String>,
    pub concurrency: Option<f64>,
    pub piece_bytes: Option<f64>,
    /// In milliseconds.
    pub timeout: Option<f64>,
    pub retries: Option<f64>,
    pub max_whole_bytes: Option<f64>,
    pub allow_private: Option<bool>,
    pub store: Option<StoreRequest>,
    /// The cache folder.
    pub cache: Option<String>,
    /// Ignore the cache of the hub's own clients.
    pub no_hub_cache: Option<bool>,
    /// Do not access the hub.
    pub offline: Option<bool>,
    /// The variables of the calling environment, alternating names and values: a worker may have its own.
    pub environment: Vec<String>,
    pub max_cache_bytes: Option<f64>,
}

/// Options for accessing an object store.
#[napi(object)]
pub struct StoreRequest {
    pub region: Option<String>,
    pub endpoint: Option<String>,
    pub allow_http: Option<bool>,
    pub virtual_hosted_style: Option<bool>,
    pub anonymous: Option<bool>,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<String>,
    pub session_token: Option<String>,
    pub account: Option<String>,
    pub account_key: Option<String>,
}

impl StoreRequest {
    fn options(&self) -> StoreOptions {
        StoreOptions {
            region: self.region.clone(),
            endpoint: self.endpoint.clone(),
            allow_http: self.allow_http.unwrap_or_default(),
            virtual_hosted_style: self.virtual_hosted_style.unwrap_or_default(),
            anonymous: self.anonymous.unwrap_or_default(),
            access_key_id: self.access_key_id.clone(),
            secret_access_key: self.secret_access_key.clone(),
            session_token: self.session_token.clone(),
            account: self.account.clone(),
            account_key: self.account_key.clone(),
        }
    }
}

impl RemoteRequest {
    pub fn options(&self) -> Options {
        let default = Options::default();
        let count = |value: Option<f64>, default: usize| {
            value.and_then(unsigned).map_or(default, |value| usize::try_from(value).unwrap_or(usize::MAX))
        };
        let retries = self.retries.and_then(unsigned).map(|value| u32::try_from(value).unwrap_or(u32::MAX));
        let pairs = |both: &[String]| {
            let pairs = both.as_chunks::<2>().0.iter();
            pairs.map(|[name, value]| (name.clone(), value.clone())).collect::<Vec<_>>()
        };
        Options {
            headers: pairs(&self.headers),
            environment: Some(pairs(&self.environment).into_iter().collect()),
            concurrency: count(self.concurrency, default.concurrency),
            piece_bytes: count(self.piece_bytes, default.piece_bytes),
            timeout: self.timeout.and_then(unsigned).map_or(default.timeout, Duration::from_millis),
            retries: retries.unwrap_or(default.retries),
            max_whole_bytes: self.max_whole_bytes.and_then(unsigned).unwrap_or(default.max_whole_bytes),
            cache: self.cache.as_ref().map(PathBuf::from),
            hub_cache: self.no_hub_cache != Some(true),
            offline: self.offline == Some(true),
            max_cache_bytes: self.max_cache_bytes.and_then(unsigned).unwrap_or(default.max_cache_bytes),
            allow_private: self.allow_private.unwrap_or(default.allow_private),
            store: self.store.as_ref().map(StoreRequest::options).unwrap_or_default(),
            ..default
        }
    }
}

/// The filesystems of several URLs.
struct Several(Vec<(PathBuf, Arc<dyn Filesystem>)>);

impl Several {
    /// Returns the filesystem of a path: that of the URL with the longest folder that contains it.
    fn of(&self, path: &Path) -> CoreResult<&dyn Filesystem> {
        let depth = |root: &Path| {
            let folder = root.parent().unwrap_or(root);
            (path == root || path.starts_with(folder)).then_some(folder.as_os_str().len())
        };
        let fits =
            self.0.iter().filter_map(|(root, filesystem)| Some((path == root, depth(root)?, filesystem)));
        let best = fits.max_by_key(|&(same, depth, _)| (same, depth));
        best.map(|(_, _, filesystem)| &**filesystem)
            .ok_or_else(|| CoreError::new(Code::Internal, "a path without a filesystem"))
    }
}

impl Filesystem for Several {
    fn open(&self, path: &Path, stop: &Stop) -> CoreResult<Arc<dyn ReadAt>> {
        self.of(path)?.open(path, stop)
    }

    fn is_folder(&self, path: &Path, stop: &Stop) -> bool {
        self.of(path).is_ok_and(|filesystem| filesystem.is_folder(path, stop))
    }

    fn list(&self, folder: &Path, max: usize, stop: &Stop) -> CoreResult<Vec<OsString>> {
        self.of(folder)?.list(folder, max, stop)
    }

    fn list_warning(&self, folder: &Path) -> Option<String> {
        self.of(folder).ok()?.list_warning(folder)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.of(path).is_ok_and(|filesystem| filesystem.is_file(path))
    }
}

/// Opens the file, index or folder that a URL names, or the files of several as one.
#[napi(ts_return_type = "Promise<NativeFile>", catch_unwind)]
pub fn open_urls<'env>(
    env: &'env Env,
    urls: Vec<String>,
    request: OpenRequest,
    remote: RemoteRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let stop = control.watch.stop.clone();
    let job = move || {
        let open = |options: &Options| {
            let mut trees = Vec::new();
            for url in &urls {
                let (filesystem, path) = ztensor_remote::filesystem(url, options, &stop)?;
                trees.push((path, filesystem));
            }
            let paths: Vec<PathBuf> = trees.iter().map(|(path, _)| path.clone()).collect();
            Shared::open_at(Arc::new(Several(trees)), &paths, &request, stop.clone())
        };
        let options = remote.options();
        open(&options).or_else(|error| {
            // The cached files may be damaged, or not those that are needed.
            if ztensor_remote::may_read_cache(&urls, &options) && error.code() != Code::Aborted {
                return open(&Options { hub_cache: false, ..options });
            }
            Err(error)
        })
    };
    spawn(env, Lane::Remote, control, job, |_, shared| Ok(NativeFile::new(shared)))
}

/// Whether a store has a file.
#[napi(ts_return_type = "Promise<boolean>", catch_unwind)]
pub fn is_there<'env>(
    env: &'env Env,
    url: String,
    remote: RemoteRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let stop = control.watch.stop.clone();
    let job = move || {
        let (uploads, path) = ztensor_remote::uploads(&url, &remote.options(), false)?;
        uploads.is_there(&path, &stop)
    };
    spawn(env, Lane::Remote, control, job, |_, there| Ok(there))
}

/// Runs a task of the hub for an `hf:` URL. One function with few types takes a third of the code of three functions.
///
/// - `place` returns the cache folder of the hub's own clients, and the parts of the URL: kind, owner, name, revision and the names of its
///   path.
/// - `describe` returns the hub's description of the revision: its JSON text.
/// - `download` downloads a file, unless it exists. It returns the length, and the entity tag if the hub was asked. `texts` are the paths of
///   the lock, of the bytes that arrived and of the complete file, and the SHA-256; without them, nothing is downloaded. `numbers` are the
///   bytes to request at once, whether an existing file is replaced, and the length if the hub lists it.
#[napi(ts_return_type = "Promise<string[]>", catch_unwind)]
pub fn ask_hub<'env>(
    env: &'env Env,
    #[napi(ts_arg_type = "'place' | 'describe' | 'download'")] task: String,
    url: String,
    texts: Vec<String>,
    numbers: Vec<f64>,
    remote: RemoteRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let watch = control.watch.clone();
    let job = move || {
        let options = remote.options();
        match &*task {
            "place" => ztensor_remote::place(&url, &options),
            "describe" => Ok(vec![ztensor_remote::description(&url, &options, &watch.stop)?]),
            _ => {
                let place = <[String; 4]>::try_from(texts).ok().map(|[lock, incomplete, file, sha256]| {
                    let [lock, incomplete, file] = [lock, incomplete, file].map(PathBuf::from);
                    Place { lock, incomplete, file, sha256 }
                });
                let number = |at: usize| numbers.get(at).copied().and_then(unsigned);
                let window = number(0).and_then(|window| usize::try_from(window).ok()).unwrap_or(1).max(1);
                let wanted = Wanted { window, replaces: number(1) == Some(1), length: number(2), place };
                ztensor_remote::download(&url, wanted, &options, &watch)
            }
        }
    };
    spawn(env, Lane::Remote, control, job, |_, texts| Ok(texts))
}
