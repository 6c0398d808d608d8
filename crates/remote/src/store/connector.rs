//! The connections of stores: TLS by ring, the roots of this machine, no time limit on a whole answer.

use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use http::header::{HeaderValue, IF_NONE_MATCH};
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};

use ztensor_core::error::Result;

use crate::client::Pool;
use crate::options::Options;

/// Makes the client of a store.
#[derive(Debug)]
pub struct Connector {
    pub options: Options,
    pub pool: Arc<Pool>,
    writes: bool,
    /// An upload is completed only where nothing has its name yet.
    creates: bool,
}

impl Connector {
    pub fn reading(options: &Options) -> Result<Self> {
        Ok(Self { options: options.clone(), pool: Pool::of(options)?, writes: false, creates: false })
    }

    pub fn writing(options: &Options, creates: bool) -> Result<Self> {
        Ok(Self { options: options.clone(), pool: Pool::of(options)?, writes: true, creates })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = if self.writes { self.pool.for_uploads() } else { self.pool.for_store() };
        let client = HttpClient::new(client.map_err(|error| object_store::Error::Generic {
            store: "HTTP",
            source: error.message().to_owned().into(),
        })?);
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
    ) -> Pin<Box<dyn Future<Output = std::result::Result<HttpResponse, HttpError>> + Send + 'async_trait>>
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
