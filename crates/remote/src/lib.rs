//! Remote files: byte ranges over HTTP and HTTPS, the Hugging Face hub, and object stores. Servers are not trusted: each response must be
//! the requested range of the expected version, memory is allocated only for bytes that arrived, and credentials are sent only to their
//! origin.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | options, and environment variables |
//! | `runtime` | network threads, and how blocking calls wait for them |
//! | `client`, `tls`, `proxies`, `addresses` | one request, following redirects to permitted addresses |
//! | `origin` | where a redirect may lead, and which requests carry credentials |
//! | `retry`, `errors` | what is retried and when; error messages |
//! | `answer`, `version` | whether a response is the requested range of the expected version |
//! | `range`, `opening`, `source` | a file as a [`ReadAt`] |
//! | `cache` | copies of files in a local folder |
//! | `hub_cache` | the files that the hub's own clients have downloaded |
//! | `hub_download` | downloads of whole files of the hub |
//! | `hub_endpoint`, `hub_address`, `hub_api` | URLs of the hub, addresses in it, its answers about repositories |
//! | `web`, `hub`, `store` | kinds of locations: [`Filesystem`] |
//! | `store::bucket`, `store::endpoints`, `store::failures` | a bucket as a filesystem, servers of stores, messages for failures |
//! | `store::connector` | limits on all requests to stores: redirects, lengths, times |
//! | `store::upload` | uploads to stores: [`Uploads`] |
//!
//! Further object stores belong next to `web` and `hub`: their files are `Ranges` of `source`.
//!
//! [`ReadAt`]: ztensor_core::sources::ReadAt
//! [`Uploads`]: ztensor_core::sinks::upload::Uploads
#![forbid(unsafe_code)]

mod addresses;
mod answer;
mod cache;
mod client;
mod errors;
mod hub;
mod hub_address;
mod hub_api;
mod hub_cache;
mod hub_download;
mod hub_endpoint;
mod opening;
mod options;
mod origin;
mod pages;
mod proxies;
mod range;
mod retry;
mod runtime;
mod source;
mod store;
mod tls;
mod version;
mod web;

use std::path::PathBuf;
use std::sync::Arc;

use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::sinks::upload::Uploads;
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::work::Stop;

pub use hub::place;
pub use hub_download::{Place, Wanted, description, download};
pub use options::{Options, StoreOptions};

/// The schemes of URLs that [`filesystem`] accepts, without the colon.
pub const SCHEMES: [&str; 6] = ["https", "http", "hf", "s3", "gs", "az"];

/// Returns whether a string is a URL of one of [`SCHEMES`] rather than a local path.
pub fn is_remote(text: &str) -> bool {
    scheme(text).is_some_and(|scheme| SCHEMES.contains(&&*scheme))
}

/// Returns the filesystem of a URL, and the path of its file or folder in it: the URL without query and credentials, and for the hub with
/// the current commit of its revision.
///
/// Fails with `ZT_INVALID_ARG` for an invalid URL or option. Requests the commit from the hub, which may fail with `ZT_IO` or `ZT_ABORTED`;
/// other servers are first contacted when a file is opened.
pub fn filesystem(url: &str, options: &Options, stop: &Stop) -> Result<(Arc<dyn Filesystem>, PathBuf)> {
    match scheme(url).as_deref() {
        Some("http" | "https") => web::filesystem(url, options),
        Some("hf") => hub::filesystem(url, options, stop),
        Some(scheme @ ("s3" | "gs" | "az")) => store::filesystem(scheme, url, options),
        Some(other) => {
            let message = format!(
                "URLs with the scheme {:?} cannot be read: supported are https:, http:, hf: (Hugging Face hub), s3:, gs: and az:",
                short(other, 40)
            );
            Err(Error::new(Code::InvalidArg, message))
        }
        None => Err(Error::new(Code::InvalidArg, "this is not a URL: it has no scheme such as https://")),
    }
}

/// Returns whether one of the URLs may be opened from the cache of the hub's own clients while the hub itself can be accessed.
pub fn may_read_cache(urls: &[String], options: &Options) -> bool {
    let is_cached = |url: &String| scheme(url).as_deref() == Some("hf") && hub::has_cache(url, options);
    options.hub_cache && !hub::is_offline(options) && urls.iter().any(is_cached)
}

/// Returns the uploads of an object store, and the path of a URL in it. Only object stores accept files.
///
/// Fails with `ZT_INVALID_ARG` for an invalid URL or option, and for any other server. The store is first contacted when a file is started.
pub fn uploads(url: &str, options: &Options, overwrite: bool) -> Result<(Arc<dyn Uploads>, PathBuf)> {
    if let Some(scheme @ ("s3" | "gs" | "az")) = scheme(url).as_deref() {
        return store::uploads(scheme, url, options, overwrite);
    }
    let message = "only s3:, gs: and az: URLs can be written to: write a local file and upload it";
    Err(Error::new(Code::InvalidArg, message))
}

/// Returns the lowercase scheme of a URL, before "://".
fn scheme(url: &str) -> Option<String> {
    let (scheme, _) = url.split_once("://")?;
    let good = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(good))
        .then(|| scheme.to_ascii_lowercase())
}
