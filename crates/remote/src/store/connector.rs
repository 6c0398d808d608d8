//! The connections to stores and to the services that provide their credentials. The clients of stores would follow redirects, read
//! responses of any length and wait indefinitely; this connector does not.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderValue, IF_NONE_MATCH, LOCATION, RANGE};
use http::{HeaderMap, Method, StatusCode, Uri};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use reqwest::Url;
use tokio::time::timeout;
use ztensor_core::error::{Error, Result, short};

use super::endpoints::ENDPOINT;
use crate::answer::{self, Pace, WHOLE};
use crate::client::Pool;
use crate::errors::TIMEOUT;
use crate::options::Options;
use crate::retry;

/// Bytes of an error response that are read. The rest is dropped with its connection.
const ERROR: usize = 64 << 10;
/// Maximum bytes of a list page. Pages of 5,000 blobs take some 4 MiB.
const PAGE: usize = 16 << 20;
/// Maximum bytes of any other response: credentials, or the result of a writing request.
const ANSWER: usize = 1 << 20;
/// Maximum bytes of the response that begins an upload. It contains the upload id, which goes into URLs of at most 64 KiB.
const BEGUN: usize = 16 << 10;
/// Timeout multiplier while a store accepts a part or assembles parts.
const PATIENCE: u32 = 10;
/// Timeout multiplier for the whole response in that case: S3 begins it at once and sends spaces until the parts are assembled, which takes
/// minutes.
const TOGETHER: u32 = 30;
/// Timeout for a metadata service: it is local or absent.
const NEAR: Duration = Duration::from_secs(5);

/// A problem that a connection found in a response. The errors of a store's client contain it among their causes.
#[derive(Clone, Debug)]
pub struct Problem {
    pub message: String,
    pub status: Option<u16>,
    /// Whether a retry may succeed.
    pub passes: bool,
    /// When the store wants to be asked again.
    pub after: Option<Duration>,
    /// Whether a service that may not exist did not respond.
    pub is_absent: bool,
    /// The option that changes the outcome, and how the message says it.
    hint: Option<(&'static str, Cow<'static, str>)>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Problem {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: None,
            passes: false,
            after: None,
            is_absent: false,
            hint: None,
        }
    }

    fn slow(message: String) -> Self {
        let (option, hint) = TIMEOUT;
        Self { passes: true, hint: Some((option, hint.into())), ..Self::new(message) }
    }

    /// Adds its hint to an error that has its message.
    pub fn hinted(&self, error: Error) -> Error {
        match &self.hint {
            Some((option, hint)) => error.hint(option, hint.clone()),
            None => error,
        }
    }

    /// Converts it for the client of a store. `Decode` prevents the client from retrying.
    fn into_error(self) -> HttpError {
        HttpError::new(HttpErrorKind::Decode, self)
    }
}

/// Marks a range that was sent without the length of the object: `bytes 0-9/*` (RFC 9110 §14.4).
#[derive(Clone, Copy, Debug)]
pub struct LengthOmitted;

/// Creates the client of a store.
#[derive(Debug)]
pub struct Connector {
    pub options: Options,
    pub pool: Arc<Pool>,
    writes: bool,
    /// Whether an upload may only create a new object.
    creates: bool,
}

impl Connector {
    pub fn reading(options: &Options) -> Result<Self> {
        Ok(Self { options: options.clone(), pool: Pool::of(options)?, writes: false, creates: false })
    }

    pub fn writing(options: &Options, creates: bool) -> Result<Self> {
        Ok(Self { options: options.clone(), pool: Pool::of(options)?, writes: true, creates })
    }

    /// Returns whether the requests belong to an upload: these are retried by the client of the store.
    pub fn writes(&self) -> bool {
        self.writes
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = self.pool.for_store().map_err(|error| object_store::Error::Generic {
            store: "HTTP",
            source: error.message().to_owned().into(),
        })?;
        let (timeout, writes) = (self.options.timeout, self.writes);
        let client = HttpClient::new(Guarded { http: HttpClient::new(client), timeout, writes });
        Ok(if self.creates { HttpClient::new(Creating(client)) } else { client })
    }
}

type Calling<'c> = Pin<Box<dyn Future<Output = std::result::Result<HttpResponse, HttpError>> + Send + 'c>>;

/// Makes S3 complete an upload only if no object has its name. The client has no option for that; it adds the same header, which need not
/// be signed, to other requests.
#[derive(Debug)]
struct Creating(HttpClient);

impl HttpService for Creating {
    fn call<'life0, 'async_trait>(&'life0 self, mut request: HttpRequest) -> Calling<'async_trait>
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

/// A client that follows no redirects and limits the length of responses and the waiting time. The single policy for all store requests:
/// reading, writing, listing and credentials.
#[derive(Debug)]
struct Guarded {
    http: HttpClient,
    timeout: Duration,
    writes: bool,
}

impl HttpService for Guarded {
    fn call<'life0, 'async_trait>(&'life0 self, request: HttpRequest) -> Calling<'async_trait>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(self.answer(request))
    }
}

/// The purpose of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A range of an object, whose body is streamed.
    Data,
    /// Existence and length of an object.
    Head,
    List,
    /// A part of an upload, or its completion.
    Upload,
    Begin,
    /// The metadata service of the machine.
    Near,
    Other,
}

impl Purpose {
    fn of(request: &HttpRequest) -> Self {
        let uri = request.uri();
        let has = |wanted: &str| {
            uri.query().is_some_and(|query| {
                query.split('&').any(|pair| pair == wanted || pair.split('=').next() == Some(wanted))
            })
        };
        if uri.host().is_some_and(|host| host.starts_with("169.254.") || host.starts_with("metadata.google"))
        {
            return Self::Near;
        }
        match *request.method() {
            Method::GET if request.headers().contains_key(RANGE) => Self::Data,
            Method::GET if has("list-type") || has("comp=list") => Self::List,
            Method::HEAD => Self::Head,
            Method::POST if has("uploads") => Self::Begin,
            Method::PUT => Self::Upload,
            _ if has("uploadId") => Self::Upload,
            _ => Self::Other,
        }
    }
}

impl Guarded {
    async fn answer(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let kind = match Purpose::of(&request) {
            // A reader never uploads, so such a request goes to a credential service.
            Purpose::Upload | Purpose::Begin if !self.writes => Purpose::Other,
            kind => kind,
        };
        let limit = match kind {
            Purpose::Upload => self.timeout.saturating_mul(PATIENCE),
            Purpose::Near => self.timeout.min(NEAR),
            _ => self.timeout,
        };
        let Ok(response) = timeout(limit, self.http.execute(request)).await else {
            return Err(silent(kind, &uri, limit));
        };
        let (mut parts, body) = response?.into_parts();
        let status = parts.status;
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            return Err(redirected(&uri, status, &parts.headers).into_error());
        }
        if !status.is_success() {
            return self.refusal(kind, &uri, parts, body).await;
        }
        if kind == Purpose::Data {
            check_range(&mut parts)?;
            return Ok(HttpResponse::from_parts(parts, body));
        }
        let (max, whole) = match kind {
            Purpose::List => (PAGE, limit.saturating_mul(WHOLE)),
            Purpose::Begin => (BEGUN, limit),
            Purpose::Upload => (ANSWER, self.timeout.saturating_mul(TOGETHER)),
            _ => (ANSWER, limit),
        };
        let mut pace = if kind == Purpose::Upload { Pace::patient(limit) } else { Pace::new(limit) };
        let read = timeout(whole, collect(body, max, &mut pace)).await;
        let bytes = match read {
            Ok(Some(read)) => read?,
            Ok(None) => return Err(silent(kind, &uri, limit)),
            Err(_) => {
                let message = format!("{} did not complete its response within {whole:?}", by(&uri));
                return Err(HttpError::new(HttpErrorKind::Timeout, Problem::slow(message)));
            }
        };
        let Some(bytes) = bytes else {
            let message = format!("{} sends a response of more than {max} bytes", by(&uri));
            return Err(Problem { status: Some(status.as_u16()), ..Problem::new(message) }.into_error());
        };
        Ok(HttpResponse::from_parts(parts, bytes.into()))
    }

    /// Returns an error response with a limited part of its body.
    async fn refusal(
        &self,
        kind: Purpose,
        uri: &Uri,
        parts: http::response::Parts,
        body: HttpResponseBody,
    ) -> std::result::Result<HttpResponse, HttpError> {
        let mut bytes = Vec::new();
        // The status matters even if reading the rest fails.
        let _ = timeout(self.timeout, gather(body, &mut bytes)).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = parts.status.as_u16();
        let passes = matches!(status, 408 | 425 | 429 | 500..=599) && !matches!(status, 501 | 505);
        let is_of_store = matches!(kind, Purpose::Data | Purpose::Head | Purpose::List);
        // Reads are retried by this crate, including requests for credentials. The client interprets all other responses of a credential
        // service.
        let is_ours = !self.writes && (is_of_store || passes);
        // Clients of stores distinguish these statuses by error variants.
        if !is_ours || matches!(status, 304 | 401 | 403 | 404 | 412) {
            return Ok(HttpResponse::from_parts(parts, shown(&text).into()));
        }
        let reason = parts.status.canonical_reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let detail = detail(&text).map(|detail| format!(": {detail}")).unwrap_or_default();
        let who = if is_of_store { "the store".to_owned() } else { by(uri) };
        Err(Problem {
            status: Some(status),
            passes,
            after: retry::asked_for(&parts.headers, SystemTime::now()),
            ..Problem::new(format!("{who} answered {status}{reason}{detail}"))
        }
        .into_error())
    }
}

/// Reads a body to its end: `None` if it stalls, and `Some(Ok(None))` if it is too long.
async fn collect(
    body: HttpResponseBody,
    max: usize,
    pace: &mut Pace,
) -> Option<std::result::Result<Option<Vec<u8>>, HttpError>> {
    let (mut body, mut bytes) = (body.bytes_stream(), Vec::new());
    loop {
        match pace.wait(body.next()).await.ok()? {
            None => return Some(Ok(Some(bytes))),
            Some(Err(error)) => return Some(Err(error)),
            Some(Ok(piece)) if piece.len() > max - bytes.len() => return Some(Ok(None)),
            Some(Ok(piece)) => {
                pace.came(piece.len());
                bytes.extend_from_slice(&piece);
            }
        }
    }
}

/// Reads the first bytes of an error body.
async fn gather(body: HttpResponseBody, bytes: &mut Vec<u8>) {
    let mut body = body.bytes_stream();
    while let Some(Ok(piece)) = body.next().await {
        let taken = (ERROR - bytes.len()).min(piece.len());
        bytes.extend_from_slice(piece.get(..taken).unwrap_or_default());
        if bytes.len() >= ERROR {
            return;
        }
    }
}

/// Validates the range, because the client of a store adds 1 to its last byte, which may be any number, and requires the length of each
/// response.
fn check_range(parts: &mut http::response::Parts) -> std::result::Result<(), HttpError> {
    let (status, headers) = (parts.status, &mut parts.headers);
    if status != StatusCode::PARTIAL_CONTENT {
        // An empty object has no range.
        if headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() == b"0") {
            return Ok(());
        }
        let status = status.as_u16();
        let message = format!(
            "the store sends the whole object ({status}) instead of a range, so the file cannot be read in parts"
        );
        return Err(Problem { status: Some(status), ..Problem::new(message) }.into_error());
    }
    if let Some((held, end)) = answer::held(headers).and_then(|held| Some((held, held.last.checked_add(1)?)))
    {
        headers.entry(CONTENT_LENGTH).or_insert_with(|| (end - held.first).into());
        if held.total.is_none() {
            // The client requires a number. Its only use is the length of the object, which is then requested.
            let range = format!("bytes {}-{}/{end}", held.first, held.last);
            let range = HeaderValue::from_str(&range)
                .map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
            headers.insert(CONTENT_RANGE, range);
            parts.extensions.insert(LengthOmitted);
        }
        return Ok(());
    }
    let sent = headers.get(CONTENT_RANGE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let message = match sent {
        Some(sent) => format!("the store sends an invalid range ({:?})", short(&sent, 80)),
        None => "the store sends a range without Content-Range".to_owned(),
    };
    Err(Problem::new(message).into_error())
}

/// Describes the responder, for messages.
fn by(uri: &Uri) -> String {
    format!("the server {}", short(uri.host().unwrap_or_default(), 160))
}

fn silent(kind: Purpose, uri: &Uri, limit: Duration) -> HttpError {
    let who = if kind == Purpose::Near { by(uri) } else { "the store".to_owned() };
    let message = format!("{who} sent nothing for {limit:?}");
    let problem = Problem { is_absent: kind == Purpose::Near, ..Problem::slow(message) };
    HttpError::new(HttpErrorKind::Timeout, problem)
}

/// Describes a redirect target only by its origin: the rest may be a signature.
fn redirected(uri: &Uri, status: StatusCode, headers: &HeaderMap) -> Problem {
    let text = |name: &str| headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    let from = Url::parse(&uri.to_string()).ok();
    let to = text(LOCATION.as_str()).and_then(|location| match &from {
        Some(from) => from.join(location).ok(),
        None => Url::parse(location).ok(),
    });
    let leads = match to.filter(Url::has_host) {
        Some(to) => format!("to {}", short(&to.origin().ascii_serialization(), 160)),
        None => "without a valid Location header".to_owned(),
    };
    let is_name = |region: &&str| {
        (1..=40).contains(&region.len())
            && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let (reason, option, hint) = match text("x-amz-bucket-region").filter(is_name) {
        Some(region) => (
            format!("the bucket is in the region {region}: set AWS_REGION"),
            "remote.store.region",
            format!(" or remote: {{ store: {{ region: '{region}' }} }}").into(),
        ),
        None => (
            "set the server of the bucket in the environment".to_owned(),
            ENDPOINT,
            " or with remote: { store: { endpoint, region } }".into(),
        ),
    };
    let message = format!(
        "{} redirects {leads} ({}), which is not followed because requests carry credentials: {reason}",
        by(uri),
        status.as_u16()
    );
    Problem { status: Some(status.as_u16()), hint: Some((option, hint)), ..Problem::new(message) }
}

/// Returns the code and the message of an XML error. Other elements may repeat what was sent, including tokens.
pub fn detail(text: &str) -> Option<String> {
    let code = element(text, "Code")?;
    let message = element(text, "Message")
        .map(|message| format!(": {}", short(message.lines().next().unwrap_or_default(), 200)));
    Some(format!("{}{}", short(code, 80), message.unwrap_or_default()))
}

fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

/// Returns the part of an error response that may be shown: only code and message of markup, and nothing that is not text.
fn shown(text: &str) -> String {
    if let Some(code) = element(text, "Code") {
        let message = element(text, "Message").unwrap_or_default();
        return format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    }
    let shows = !text.contains(['<', char::REPLACEMENT_CHARACTER]);
    if shows { text.trim().to_owned() } else { String::new() }
}

/// Returns the problem found by a connection, among the causes of an error.
pub fn problem<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Problem> {
    causes(error).find_map(<dyn std::error::Error>::downcast_ref)
}

/// Returns the connection failure among the causes of an error.
pub fn broken<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e HttpError> {
    causes(error).find_map(<dyn std::error::Error>::downcast_ref)
}

/// Returns the error of the HTTP client that is the cause of a connection failure.
pub fn transport(broken: &HttpError) -> Option<&reqwest::Error> {
    causes(broken).find_map(<dyn std::error::Error>::downcast_ref)
}

fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_store_is_its_code_and_message() {
        let xml = "<?xml?><Error><Code>ExpiredToken</Code><Message>The token has expired.\nMore</Message><Token-0>SECRET</Token-0></Error>";
        assert_eq!(detail(xml).unwrap(), "ExpiredToken: The token has expired.");
        for none in ["", "no", "<Code>", "<Code></Code>", "</Code><Code>"] {
            assert_eq!(detail(none), None, "{none}");
        }
    }

    #[test]
    fn a_redirect_shows_only_its_origin() {
        let of = |headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|&(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap()));
            let Problem { message, hint, .. } = redirected(
                &"https://s3.example/b/x?sig=SECRET".parse().unwrap(),
                StatusCode::MOVED_PERMANENTLY,
                &headers.collect(),
            );
            format!("{message}{}", hint.unwrap().1)
        };
        for (headers, says) in [
            (
                &[("location", "https://u:SECRET@other.example:8443/SECRET?SECRET")][..],
                "to https://other.example:8443 (301)",
            ),
            (&[("location", "http://127.0.0.1/latest/SECRET")], "to http://127.0.0.1 (301)"),
            (&[("location", "/SECRET")], "to https://s3.example (301)"),
            (&[("location", "file:///SECRET")], "without a valid Location header"),
            (&[], "without a valid Location header"),
            (&[("x-amz-bucket-region", "eu-west-1")], "region: 'eu-west-1'"),
            (&[("x-amz-bucket-region", "'; SECRET")], "store: { endpoint, region }"),
        ] {
            let message = of(headers);
            assert!(message.contains(says) && !message.contains("SECRET"), "{message}");
            assert!(message.starts_with("the server s3.example redirects"), "{message}");
        }
    }
}
