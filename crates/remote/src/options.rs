//! What a caller may choose, and the variables of the environment.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ztensor_core::error::{Code, Error, Result};

use crate::store::StoreOptions;

/// How to read files of a server.
#[derive(Clone)]
pub struct Options {
    /// Sent with each request to the origin of the URL, and to no other.
    pub headers: Vec<(String, String)>,
    /// Requests under way at once: 16. More make no storage faster that was measured.
    pub concurrency: usize,
    /// Bytes that one request asks for at most: 8 MiB.
    pub piece_bytes: usize,
    /// How long a server may send nothing, or less than a KiB: 30 s.
    pub timeout: Duration,
    /// How often a request that failed for the moment is made again: 5.
    pub retries: u32,
    /// The wait before the first of these, which doubles with each: 200 ms.
    pub backoff: Duration,
    /// Bytes of a file that is held in memory whole, where a server sends no parts: 64 MiB.
    pub max_whole_bytes: u64,
    /// Whether a public server may redirect to addresses of private networks and of this machine.
    pub allow_private: bool,
    /// How to reach a store of objects.
    pub store: StoreOptions,
    /// The folder that copies of files are kept in, which nobody else may write to; `None`: nowhere.
    pub cache: Option<PathBuf>,
    /// Bytes of all copies together, as the disk counts them: 64 GiB.
    pub max_cache_bytes: u64,
    /// The variables to go by; `None`: those of the process.
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
            .field("max_cache_bytes", &self.max_cache_bytes)
            .finish_non_exhaustive()
    }
}

/// Headers that the requests need for themselves: another value would make an answer something else.
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
    /// A variable of the environment that is not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let value = match &self.environment {
            Some(variables) => variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// All variables whose names begin so, by their names: the same order each time.
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

    /// A path that a variable gives.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from)
    }

    /// The headers, checked. An error names a header and never shows its value.
    pub(crate) fn header_map(&self) -> Result<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let refused = |why: &str| Error::new(Code::InvalidArg, format!("the header {name:?} {why}"));
            let name =
                HeaderName::try_from(name).map_err(|_| refused("has a name that no header may have"))?;
            if OWN.contains(&name.as_str()) {
                return Err(refused("is set by each request itself and cannot be given"));
            }
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| refused("has a value that no header may have, such as a line break"))?;
            value.set_sensitive(true);
            map.append(name, value);
        }
        Ok(map)
    }

    /// Refuses what nothing could be read with.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::new(Code::InvalidArg, what));
        if !(1..=256).contains(&self.concurrency) {
            return refused("concurrency must be from 1 to 256");
        }
        if self.piece_bytes < 64 << 10 {
            return refused("pieceBytes must be 64 KiB at least");
        }
        if self.timeout.is_zero() {
            return refused("timeout must be more than 0");
        }
        Ok(())
    }
}
