//! One request, following redirects to permitted addresses.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use http::header::{ACCEPT_ENCODING, LOCATION};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client as Http, ClientBuilder, Response};
use rustls::ClientConfig;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use ztensor_core::error::{Code, Error, Result};

use crate::addresses::{PublicOnly, is_public, names_private};
use crate::errors::{self, Advice, Failure, Passing};
use crate::options::Options;
use crate::origin::{Hop, Target};
use crate::proxies::Proxies;
use crate::{retry, tls};

/// Bytes of a redirect body that are read so that its connection can be reused; a connection with a longer body is closed.
const PAGE: u64 = 16 << 10;

/// Connections to servers, reused for later requests and shared by all files opened with the same settings. It contains no credentials:
/// those are sent with each request.
pub struct Pool {
    settings: Settings,
    tls: ClientConfig,
    proxies: Proxies,
    direct: Http,
    /// Connects only to public addresses.
    guarded: OnceLock<Http>,
    by_proxy: Option<Http>,
    /// For object store clients.
    stores: OnceLock<Http>,
}

/// The settings that distinguish connection pools.
#[derive(Clone, PartialEq, Eq)]
struct Settings {
    timeout: Duration,
    idle: usize,
    /// Variables that select certificates and proxies.
    variables: Vec<Option<String>>,
}

impl Settings {
    fn new(options: &Options) -> Self {
        let variables = Proxies::VARIABLES.iter().chain(&["NODE_EXTRA_CA_CERTS"]);
        Self {
            timeout: options.timeout,
            idle: options.concurrency,
            variables: variables.map(|name| options.variable(name)).collect(),
        }
    }

    fn builder(&self, tls: &ClientConfig) -> ClientBuilder {
        Http::builder()
            .tls_backend_preconfigured(tls.clone())
            .referer(false)
            .user_agent(concat!("ztensor/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.timeout)
            .pool_max_idle_per_host(self.idle)
            // Clients never follow redirects themselves: this module decides where a redirect may lead, and redirects of stores are not
            // followed.
            .redirect(Policy::none())
            .no_proxy()
    }
}

/// A proxy's URL may hold a password.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

/// The pools in use.
static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

impl Pool {
    /// Returns the pool for these options, creating it if none is in use.
    pub fn of(options: &Options) -> Result<Arc<Self>> {
        options.check()?;
        let settings = Settings::new(options);
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(|pool| pool.settings == settings) {
            return Ok(pool);
        }
        let tls = tls::config(options)?;
        let proxies = Proxies::new(options)?;
        let builder = || settings.builder(&tls);
        let direct = built(builder())?;
        let by_proxy = if proxies.exist() { Some(built(proxies.apply(builder())?)?) } else { None };
        let (guarded, stores) = (OnceLock::new(), OnceLock::new());
        let pool = Arc::new(Self { settings, tls, proxies, direct, guarded, by_proxy, stores });
        pools.push(Arc::downgrade(&pool));
        Ok(pool)
    }

    fn guarded(&self) -> Result<&Http> {
        if let Some(http) = self.guarded.get() {
            return Ok(http);
        }
        let http = built(self.settings.builder(&self.tls).dns_resolver(PublicOnly))?;
        Ok(self.guarded.get_or_init(|| http))
    }

    /// Returns the client for an object store.
    pub fn for_store(&self) -> Result<Http> {
        if let Some(http) = self.stores.get() {
            return Ok(http.clone());
        }
        let http = built(self.proxies.apply(self.settings.builder(&self.tls))?)?;
        Ok(self.stores.get_or_init(|| http).clone())
    }
}

/// Sends requests for the files of one location.
pub struct Client {
    pub options: Options,
    pool: Arc<Pool>,
    requests: Semaphore,
    /// Bytes of files that are held in memory in full.
    pub whole_bytes: AtomicU64,
}

/// A response whose body is still to be read. Counts as active until it is dropped.
pub struct Answer<'c> {
    pub response: Response,
    pub hop: Hop,
    /// The entity tag by which the hub names the file: that of the storage to which it redirects (`X-Linked-Etag`), or its own.
    pub hub_tag: Option<HeaderValue>,
    /// Held until the response is read.
    #[expect(dead_code)]
    permit: SemaphorePermit<'c>,
}

impl Client {
    pub fn new(options: &Options) -> Result<Self> {
        let pool = Pool::of(options)?;
        let requests = Semaphore::new(options.concurrency);
        Ok(Self { options: options.clone(), pool, requests, whole_bytes: AtomicU64::new(0) })
    }

    /// Requests a target, or the location it redirected to before, and follows redirects. The status of the response is never a redirect,
    /// but may be an error.
    pub async fn get(
        &self,
        target: &Target,
        from: Option<Hop>,
        headers: &HeaderMap,
    ) -> std::result::Result<Answer<'_>, Failure> {
        let closed = |_| Error::new(Code::Internal, "the requests have ended");
        let permit = self.requests.acquire().await.map_err(closed)?;
        let mut hop = from.unwrap_or_else(|| Hop::first(target));
        let (mut linked_tag, mut own_tag) = (None, None);
        loop {
            let pool = &*self.pool;
            let proxied = pool.by_proxy.as_ref().filter(|_| pool.proxies.serve(&hop.url));
            let http = match proxied {
                Some(proxied) => proxied,
                None if hop.guarded => pool.guarded()?,
                None => &pool.direct,
            };
            let request = hop.request(target, http.get(hop.url.clone())).headers(headers.clone());
            let request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let sent = timeout(self.options.timeout, request.send()).await;
            let sent = sent.map_err(|_| errors::stalled(&target.path, self.options.timeout))?;
            let response = sent.map_err(|error| {
                errors::of_transport(&target.path, &hop.url, &error, self.options.timeout)
            })?;
            if hop.is_of_hub(target) {
                let tag = |name: &str| response.headers().get(name).cloned();
                (linked_tag, own_tag) = (tag("x-linked-etag").or(linked_tag), tag("etag").or(own_tag));
            }
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(Answer { response, hop, hub_tag: linked_tag.or(own_tag), permit });
            }
            let location = response.headers().get(LOCATION);
            // Some servers write it in UTF-8, which headers do not allow.
            let location = location.and_then(|location| std::str::from_utf8(location.as_bytes()).ok());
            let Some(location) = location else {
                let message = "the server redirects without a valid Location header";
                return Err(errors::about(&target.path, message).into());
            };
            // The address that a proxy connects to is unknown, so the host name decides.
            let is_public = match response.remote_addr() {
                Some(address) if proxied.is_none() => is_public(address.ip()),
                _ => !names_private(&hop.url),
            };
            let guarded = !self.options.allow_private && (hop.guarded || is_public);
            hop = hop.next(target, location, guarded)?;
            self.finish(response).await;
        }
    }

    /// Reads the rest of a short response, so that its connection can be reused.
    async fn finish(&self, mut response: Response) {
        if response.content_length().is_some_and(|length| length <= PAGE) {
            let read = async { while let Ok(Some(_)) = response.chunk().await {} };
            let _ = timeout(self.options.timeout, read).await;
        }
    }
}

impl Answer<'_> {
    /// Returns the failure for a status. Failures of a busy or broken server may be transient.
    pub fn refusal(&self, target: &Target) -> Failure {
        let (status, headers) = (self.response.status(), self.response.headers());
        let error = Advice {
            path: &target.path,
            by: errors::by(&self.hop.url, &target.url),
            sent_credentials: self.hop.has_credentials(target),
            has_query: self.hop.url.query().is_some(),
            hub: target.hub.as_deref(),
            hub_code: headers.get("x-error-code").and_then(|code| code.to_str().ok()),
        }
        .status(status);
        match status.as_u16() {
            // Neither is fixed by a retry.
            501 | 505 => Failure::Final(error),
            408 | 425 | 429 | 500..=599 => {
                let after = retry::asked_for(headers, SystemTime::now());
                Failure::Passing(Passing { error, after, unconnected: false })
            }
            _ => Failure::Final(error),
        }
    }
}

fn built(builder: ClientBuilder) -> Result<Http> {
    builder
        .build()
        .map_err(|error| Error::new(Code::Internal, format!("no HTTP client: {}", error.without_url())))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::TcpListener;
    use std::sync::Arc;

    use reqwest::Url;
    use ztensor_core::work::Stop;

    use super::*;

    /// A redirect may not reach a forbidden address even if the name resolves to it only later.
    #[test]
    fn a_guarded_hop_connects_only_to_public_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://localhost:{}/m", listener.local_addr().unwrap().port());
        let options = Options { retries: 0, environment: Some(HashMap::new()), ..Options::default() };
        let client = Client::new(&options).unwrap();
        let target = Target {
            url: Url::parse(&url).unwrap(),
            path: url.clone(),
            credentials: Arc::default(),
            hub: None,
        };
        let mut hop = Hop::first(&target);
        hop.guarded = true;
        let asked = crate::runtime::wait(Stop::never(), async {
            Ok(client.get(&target, Some(hop), &HeaderMap::new()).await.err())
        });
        let Some(Failure::Final(error)) = asked.unwrap() else { panic!("it is refused for good") };
        assert!(error.message().contains("allowPrivate"), "{error}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "no connection is made");
    }
}
