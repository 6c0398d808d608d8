//! One request, by redirects, to addresses that are allowed.

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

/// Bytes of a redirect's page that are read, so that its connection can serve again; of a longer one it is closed.
const PAGE: u64 = 16 << 10;

/// Connections to servers, kept for the next request. All that is open with the same settings shares them. No credentials are in them:
/// those go with each request.
pub struct Pool {
    settings: Settings,
    tls: ClientConfig,
    proxies: Proxies,
    direct: Http,
    /// Connects to public addresses alone.
    guarded: OnceLock<Http>,
    by_proxy: Option<Http>,
    /// For the clients of stores of objects.
    stores: OnceLock<Http>,
}

/// What makes connections differ.
#[derive(Clone, PartialEq, Eq)]
struct Settings {
    timeout: Duration,
    idle: usize,
    /// Variables that say which certificates and proxies to take.
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
            // No client follows by itself: what a redirect may lead to is decided here, and of stores none is followed.
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

/// Those in use.
static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

impl Pool {
    /// The one for these options: a new one where none is in use.
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

    /// For the client of a store.
    pub fn for_store(&self) -> Result<Http> {
        if let Some(http) = self.stores.get() {
            return Ok(http.clone());
        }
        let http = built(self.proxies.apply(self.settings.builder(&self.tls))?)?;
        Ok(self.stores.get_or_init(|| http).clone())
    }
}

/// Requests for the files of one place.
pub struct Client {
    pub options: Options,
    pool: Arc<Pool>,
    requests: Semaphore,
    /// Bytes of the files that are held whole.
    pub whole_bytes: AtomicU64,
}

/// What came of a request, with the body still to be read. Counts as under way until it is dropped.
pub struct Answer<'c> {
    pub response: Response,
    pub place: Hop,
    /// Held until the answer is read.
    #[expect(dead_code)]
    permit: SemaphorePermit<'c>,
}

impl Client {
    pub fn new(options: &Options) -> Result<Self> {
        let pool = Pool::of(options)?;
        let requests = Semaphore::new(options.concurrency);
        Ok(Self { options: options.clone(), pool, requests, whole_bytes: AtomicU64::new(0) })
    }

    /// Asks for a target, or for the place that it led to before, and follows redirects. The status of the answer is none of
    /// a redirect; it may be one of failure.
    pub async fn get(
        &self,
        target: &Target,
        from: Option<Hop>,
        headers: &HeaderMap,
    ) -> std::result::Result<Answer<'_>, Failure> {
        let closed = |_| Error::new(Code::Internal, "the requests have ended");
        let permit = self.requests.acquire().await.map_err(closed)?;
        let mut place = from.unwrap_or_else(|| Hop::first(target));
        loop {
            let pool = &*self.pool;
            let proxied = pool.by_proxy.as_ref().filter(|_| pool.proxies.serve(&place.url));
            let http = match proxied {
                Some(proxied) => proxied,
                None if place.guarded => pool.guarded()?,
                None => &pool.direct,
            };
            let request = place.request(target, http.get(place.url.clone())).headers(headers.clone());
            let request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let sent = timeout(self.options.timeout, request.send()).await;
            let sent = sent.map_err(|_| errors::stalled(&target.path, self.options.timeout))?;
            let response = sent.map_err(|error| {
                errors::of_transport(&target.path, &place.url, &error, self.options.timeout)
            })?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(Answer { response, place, permit });
            }
            let location = response.headers().get(LOCATION);
            // Some write it in UTF-8, which no header should be in.
            let location = location.and_then(|location| std::str::from_utf8(location.as_bytes()).ok());
            let Some(location) = location else {
                let message = "the server redirects without saying where to";
                return Err(errors::about(&target.path, message).into());
            };
            // What a proxy connects to is not told, so it counts as what its name says.
            let is_public = match response.remote_addr() {
                Some(address) if proxied.is_none() => is_public(address.ip()),
                _ => !names_private(&place.url),
            };
            let guarded = !self.options.allow_private && (place.guarded || is_public);
            place = place.next(target, location, guarded)?;
            self.finish(response).await;
        }
    }

    /// Reads what is left of a short answer, so that its connection can be used again.
    async fn finish(&self, mut response: Response) {
        if response.content_length().is_some_and(|length| length <= PAGE) {
            let read = async { while let Ok(Some(_)) = response.chunk().await {} };
            let _ = timeout(self.options.timeout, read).await;
        }
    }
}

impl Answer<'_> {
    /// The failure that the status means. Those of a server that is busy or broken may pass.
    pub fn refusal(&self, target: &Target) -> Failure {
        let (status, headers) = (self.response.status(), self.response.headers());
        let error = Advice {
            path: &target.path,
            by: errors::by(&self.place.url, &target.url),
            sent_credentials: self.place.has_credentials(target),
            has_query: self.place.url.query().is_some(),
            hub: target.hub.as_deref(),
            hub_code: headers.get("x-error-code").and_then(|code| code.to_str().ok()),
        }
        .status(status);
        match status.as_u16() {
            // Neither is mended by asking again.
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

    /// What a redirect may not name is not connected to either, whatever its name is by then.
    #[test]
    fn a_guarded_place_connects_to_public_addresses_alone() {
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
        let mut place = Hop::first(&target);
        place.guarded = true;
        let asked = crate::runtime::wait(Stop::never(), async {
            Ok(client.get(&target, Some(place), &HeaderMap::new()).await.err())
        });
        let Some(Failure::Final(error)) = asked.unwrap() else { panic!("it is refused for good") };
        assert!(error.message().contains("allowPrivate"), "{error}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody connects");
    }
}
