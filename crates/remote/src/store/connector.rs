//! The connections of stores: TLS by ring, the roots of this machine, no time limit on a whole answer.

use std::pin::Pin;

use http::Method;
use http::header::{HeaderValue, IF_NONE_MATCH};
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};

use crate::options::Options;
use crate::tls;

/// How much longer than for an answer a store may be silent while it takes a part, or puts parts together.
const PATIENCE: u32 = 10;

/// Makes the client of a store.
#[derive(Debug)]
pub struct Connector {
    pub options: Options,
    writes: bool,
    /// An upload is completed only where nothing has its name yet.
    creates: bool,
}

impl Connector {
    pub fn reading(options: &Options) -> Self {
        Self { options: options.clone(), writes: false, creates: false }
    }

    pub fn writing(options: &Options, creates: bool) -> Self {
        Self { options: options.clone(), writes: true, creates }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error: String| object_store::Error::Generic { store: "HTTP", source: error.into() };
        let tls = tls::config(&self.options).map_err(|error| failed(error.message().to_owned()))?;
        let timeout = self.options.timeout;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .read_timeout(if self.writes { timeout.saturating_mul(PATIENCE) } else { timeout })
            .connect_timeout(timeout)
            .pool_max_idle_per_host(self.options.concurrency)
            .user_agent(concat!("ztensor/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = HttpClient::new(client.map_err(|error| failed(error.without_url().to_string()))?);
        Ok(if self.creates { HttpClient::new(Creating(client)) } else { client })
    }
}

/// Has S3 complete an upload only where nothing has its name. The client has no option for that; it adds the same header, which need not
/// be signed, to other requests.
#[derive(Debug)]
struct Creating(HttpClient);

impl HttpService for Creating {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        mut request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let completes = request.uri().query().is_some_and(|query| query.starts_with("uploadId="));
        if completes && request.method() == Method::POST {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        Box::pin(self.0.execute(request))
    }
}
