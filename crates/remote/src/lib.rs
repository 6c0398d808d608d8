//! Files that are not on this machine: byte ranges over HTTP and HTTPS, and the Hugging Face hub. The server is hostile, as a
//! file is: each answer must be the range of the version that was asked for, memory is claimed only for bytes that came, and
//! credentials stay with the origin that they are for.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | what a caller may choose, and the variables of the environment |
//! | `runtime` | threads that wait for sockets, and how a call of ours waits for them |
//! | `client`, `tls`, `proxies`, `addresses` | one request, by redirects, to an address that is allowed |
//! | `origin` | which URLs a redirect may lead to, and which of them get the credentials |
//! | `retry`, `errors` | what is tried again and when; how failures read |
//! | `answer`, `version` | whether an answer is the range, of the version, that was asked for |
//! | `range`, `opening`, `source` | a file as a [`ReadAt`] |
//! | `cache` | copies of files in a folder of this machine |
//! | `web`, `hub`, `store` | where files are: [`Filesystem`] |
//! | `store::connector` | the bounds of all requests of stores: redirects, lengths, times |
//! | `store::upload` | where files go: [`Uploads`] |
//!
//! Stores of objects belong beside `web` and `hub`: their files are `Ranges` of `source`.
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
mod hub_api;
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

pub use options::Options;
pub use store::StoreOptions;

/// The schemes of URLs that [`places`] takes, without the colon.
pub const SCHEMES: [&str; 6] = ["https", "http", "hf", "s3", "gs", "az"];

/// Whether a text is a URL of one of [`SCHEMES`], and no path of a local file.
pub fn is_remote(text: &str) -> bool {
    scheme(text).is_some_and(|scheme| SCHEMES.contains(&&*scheme))
}

/// The places that a URL leads to, and the path of its file or folder among them: the URL without query and credentials, and of
/// the hub with the commit that its revision is now.
///
/// Fails with `ZT_INVALID_ARG` for a URL or option that cannot be meant. The hub is asked for the commit, so that `ZT_IO` and
/// `ZT_ABORTED` may come of that; other servers are first asked when a file is opened.
pub fn filesystem(url: &str, options: &Options, stop: &Stop) -> Result<(Arc<dyn Filesystem>, PathBuf)> {
    match scheme(url).as_deref() {
        Some("http" | "https") => web::filesystem(url, options),
        Some("hf") => hub::filesystem(url, options, stop),
        Some(scheme @ ("s3" | "gs" | "az")) => store::filesystem(scheme, url, options),
        Some(other) => {
            let message = format!(
                "{:?} is no scheme of URLs that can be read: known are https:, http:, hf: (of the Hugging Face hub), s3:, gs: and az:",
                short(other, 40)
            );
            Err(Error::new(Code::InvalidArg, message))
        }
        None => Err(Error::new(Code::InvalidArg, "this is no URL: it has no scheme, as https:// is one")),
    }
}

/// Takes files for a store of objects, and the path of a URL in it. Only stores take files.
///
/// Fails with `ZT_INVALID_ARG` for a URL or option that cannot be meant, and for any other server. The store is first asked when a
/// file is begun.
pub fn uploads(url: &str, options: &Options, overwrite: bool) -> Result<(Arc<dyn Uploads>, PathBuf)> {
    if let Some(scheme @ ("s3" | "gs" | "az")) = scheme(url).as_deref() {
        return store::uploads(scheme, url, options, overwrite);
    }
    let message = "only s3:, gs: and az: URLs can be written to: write a file of this machine, and upload it";
    Err(Error::new(Code::InvalidArg, message))
}

/// The scheme of a URL in lower case, before "://".
fn scheme(url: &str) -> Option<String> {
    let (scheme, _) = url.split_once("://")?;
    let good = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(good))
        .then(|| scheme.to_ascii_lowercase())
}
