//! Options, and environment variables.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ztensor_core::error::{Code, Error, Result};

/// Options for reading remote files.
#[derive(Clone)]
pub struct Options {
    /// Sent with each request to the origin of the URL, and to no other.
    pub headers: Vec<(String, String)>,
    /// Maximum concurrent requests: 16. More did not improve the throughput of any measured storage.
    pub concurrency: usize,
    /// Maximum bytes per request: 8 MiB.
    pub piece_bytes: usize,
    /// Maximum time in which a server may send less than a KiB: 30 s.
    pub timeout: Duration,
    /// Maximum retries of a transient failure: 5.
    pub retries: u32,
    /// The delay before the first retry, which doubles with each: 200 ms.
    pub backoff: Duration,
    /// Maximum bytes of a file held in memory in full, if a server does not support ranges: 64 MiB.
    pub max_whole_bytes: u64,
    /// Whether a public server may redirect to addresses of private networks and of this machine.
    pub allow_private: bool,
    /// How to access an object store.
    pub store: StoreOptions,
    /// The folder for cached copies of files, to which only this user may write; `None` disables the cache.
    pub cache: Option<PathBuf>,
    /// Whether files that the hub's own clients have downloaded are opened in their cache: true.
    pub hub_cache: bool,
    /// Whether the hub is not accessed at all, as with `HF_HUB_OFFLINE`.
    pub offline: bool,
    /// Maximum disk space of all cached copies: 64 GiB.
    pub max_cache_bytes: u64,
    /// The environment variables to use; `None` means those of the process.
    pub environment: Option<HashMap<String, String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            headers: Vec::new(),
            concurrency: 16,
            piece_bytes: 8 << 20,
            timeout: Duration::from_secs(30),
            retries: 5,
            backoff: Duration::from_millis(200),
            max_whole_bytes: 64 << 20,
            allow_private: false,
            store: StoreOptions::default(),
            cache: None,
            hub_cache: true,
            offline: false,
            max_cache_bytes: 64 << 30,
            environment: None,
        }
    }
}

/// Headers and variables hold credentials, so only their names are shown.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Options")
            .field("headers", &names)
            .field("concurrency", &self.concurrency)
            .field("piece_bytes", &self.piece_bytes)
            .field("timeout", &self.timeout)
            .field("retries", &self.retries)
            .field("backoff", &self.backoff)
            .field("max_whole_bytes", &self.max_whole_bytes)
            .field("allow_private", &self.allow_private)
            .field("store", &self.store)
            .field("cache", &self.cache)
            .field("hub_cache", &self.hub_cache)
            .field("offline", &self.offline)
            .field("max_cache_bytes", &self.max_cache_bytes)
            .finish_non_exhaustive()
    }
}

/// Headers set by the requests themselves: other values would change the response.
const OWN: [&str; 17] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "proxy-authorization",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Options {
    /// Returns an environment variable, which may be empty.
    pub(crate) fn raw_variable(&self, name: &str) -> Option<String> {
        match &self.environment {
            Some(variables) => variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        }
    }

    /// Returns a nonempty environment variable.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.raw_variable(name).filter(|value| !value.is_empty())
    }

    /// Returns whether a variable is set to a word for true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        let value = self.variable(name).unwrap_or_default().to_ascii_lowercase();
        matches!(&*value, "1" | "true" | "yes" | "on")
    }

    /// Returns all variables with a prefix, sorted by name for a deterministic order.
    pub(crate) fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        let mut found: Vec<_> = match &self.environment {
            Some(variables) => variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            None => std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        };
        found.retain(|(name, value)| name.starts_with(prefix) && !value.is_empty());
        found.sort_unstable();
        found
    }

    /// Returns a path from a variable.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from)
    }

    /// Returns the validated headers. An error names a header and never shows its value.
    pub(crate) fn header_map(&self) -> Result<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let refused = |why: &str| Error::new(Code::InvalidArg, format!("the header {name:?} {why}"));
            let name = HeaderName::try_from(name).map_err(|_| refused("has an invalid name"))?;
            if OWN.contains(&name.as_str()) {
                return Err(refused("is set by each request and cannot be overridden"));
            }
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| refused("has an invalid value, such as one with a line break"))?;
            value.set_sensitive(true);
            map.append(name, value);
        }
        Ok(map)
    }

    /// Rejects invalid values.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::new(Code::InvalidArg, what));
        if !(1..=256).contains(&self.concurrency) {
            return refused("concurrency must be from 1 to 256");
        }
        if self.piece_bytes < 64 << 10 {
            return refused("pieceBytes must be at least 64 KiB");
        }
        if self.timeout.is_zero() {
            return refused("timeout must be more than 0");
        }
        Ok(())
    }
}

/// Access to an object store, unless set by the environment. Its `Debug` shows no secret.
#[derive(Clone, Default)]
pub struct StoreOptions {
    pub region: Option<String>,
    /// The URL of a compatible store.
    pub endpoint: Option<String>,
    pub allow_http: bool,
    pub virtual_hosted_style: bool,
    /// Sign no requests: for public data.
    pub anonymous: bool,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<String>,
    pub session_token: Option<String>,
    /// For Azure.
    pub account: Option<String>,
    pub account_key: Option<String>,
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}
