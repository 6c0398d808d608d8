//! Error messages, and which failures are transient. No message shows a query, credentials or a header value.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use reqwest::Url;
use ztensor_core::error::{Code, Error, short};

use crate::addresses::Private;

/// Why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// A retry would fail as well.
    Final(Error),
    /// A retry may succeed.
    Passing(Passing),
}

/// A transient failure.
#[derive(Debug)]
pub struct Passing {
    pub error: Error,
    /// When the server wants to be asked again.
    pub after: Option<Duration>,
    /// Whether no connection was established, which rarely fixes itself.
    pub unconnected: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl Failure {
    pub fn passing(error: Error) -> Self {
        Self::Passing(Passing { error, after: None, unconnected: false })
    }
}

/// Formats a URL for messages: without credentials, query and fragment.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for URLs without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// Builds an error about the file at a path, which the message names.
pub fn about(path: &str, message: impl Into<String>) -> Error {
    Error::new(Code::Io, message).in_file(path, Path::new(path))
}

/// Builds the error for a file that changed since it was opened.
pub fn changed(path: &str) -> Error {
    let message = format!("the file at {} changed since it was opened; open it again", short(path, 160));
    Error::new(Code::Io, message).file(Path::new(path))
}

/// Formats the host for a message, noting if a redirect led to it.
pub fn by(url: &Url, first: &Url) -> String {
    match url.host_str() {
        Some(host) if url.origin() != first.origin() => {
            format!("the server it redirects to, {}, ", short(host, 80))
        }
        _ => "the server ".to_owned(),
    }
}

/// The hint for a server that is too slow: the option, and how the message says it.
pub const TIMEOUT: (&str, &str) = ("remote.timeout", " (option timeout)");

/// Builds the failure for a server that sent nothing for a while.
pub fn stalled(path: &str, timeout: Duration) -> Failure {
    slow(path, &format!("sent nothing for {timeout:?}"))
}

/// Builds the failure for a server that sent too little; `how` states how little.
pub fn slow(path: &str, how: &str) -> Failure {
    Failure::passing(about(path, format!("the server {how}")).hint(TIMEOUT.0, TIMEOUT.1))
}

/// Describes a transport error by its deepest cause, which does not contain the URL.
pub fn of_transport(path: &str, url: &Url, error: &reqwest::Error, timeout: Duration) -> Failure {
    if error.is_timeout() {
        return stalled(path, timeout);
    }
    let host = short(url.host_str().unwrap_or_default(), 160).into_owned();
    let unconnected = error.is_connect();
    let mut deepest = None;
    let mut system = None;
    let mut next = error.source();
    while let Some(cause) = next.map(inside) {
        if cause.is::<Private>() {
            return Failure::Final(private(path, &host));
        }
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return of_tls(path, &host, tls);
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            system = error.raw_os_error().map(io::Error::from_raw_os_error).or(system);
        }
        deepest = Some(cause);
        next = cause.source();
    }
    let words = deepest.map_or_else(|| "the request failed".to_owned(), ToString::to_string);
    let error = if error.is_dns() {
        about(path, format!("the name of the host {host} could not be resolved: {words}"))
    } else if let Some(system) = system {
        let error =
            Error::io(if unconnected { "connect" } else { "read" }, &system).in_file(path, Path::new(path));
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let what = if unconnected { "no connection to" } else { "the connection was lost to" };
        error.context(format!("{what} {host}{port}"))
    } else if unconnected {
        about(path, format!("no connection to {host}: {words}"))
    } else {
        about(path, format!("the connection to {host} was interrupted: {words}"))
    };
    Failure::Passing(Passing { error, after: None, unconnected })
}

/// Builds the error for a redirect to a private address.
pub fn private(path: &str, host: &str) -> Error {
    let message = format!(
        "the server redirects to {}, an address of a private network or of this machine, which is not followed",
        short(host, 80)
    );
    about(path, message).hint("remote.allowPrivate", "; if this is intended, set the option allowPrivate")
}

/// Returns the inner error of an I/O error, which is not among its sources and may wrap another one.
fn inside<'e>(mut cause: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    while let Some(wrapped) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        cause = wrapped;
    }
    cause
}

fn of_tls(path: &str, host: &str, error: &rustls::Error) -> Failure {
    let message = match error {
        rustls::Error::InvalidCertificate(why) => format!(
            "the certificate of {host} is not trusted ({why:?}); if it was issued by your own authority, set NODE_EXTRA_CA_CERTS to the authority's certificate file"
        ),
        rustls::Error::General(why) => format!("certificates cannot be verified: {why}"),
        other => format!("no TLS connection to {host}: {other}"),
    };
    Failure::Final(about(path, message))
}

/// Advice for a server that wants credentials.
const CREDENTIALS: &str = "it requires credentials";

/// Context for advice about a status.
pub struct Advice<'a> {
    pub path: &'a str,
    /// The result of [`by`].
    pub by: String,
    pub sent_credentials: bool,
    pub has_query: bool,
    /// The page of the repository, for a file of the hub.
    pub hub: Option<&'a str>,
    /// The error code in the hub's own header.
    pub hub_code: Option<&'a str>,
}

impl Advice<'_> {
    /// Builds the error for an unsuccessful status.
    pub fn status(&self, status: StatusCode) -> Error {
        let what = self.what(status.as_u16());
        let reason = status.canonical_reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let colon = if what.is_empty() { "" } else { ": " };
        let message = format!("{}answered {}{reason}{colon}{what}", self.by, status.as_u16());
        let error = about(self.path, message).answered(Some(status.as_u16()));
        if what == CREDENTIALS {
            return error
                .hint("remote.headers", ": pass them in the option headers (authorization) or in the URL");
        }
        error
    }

    fn what(&self, status: u16) -> String {
        if let Some(page) = self.hub {
            let what = match (self.hub_code, status) {
                (Some("GatedRepo"), _) => Some(format!("the repository is gated: accept its conditions at {page}, and set HF_TOKEN to a token of that account")),
                (Some("RevisionNotFound"), _) => Some("the repository has no such revision: check the part after '@'".to_owned()),
                (Some("EntryNotFound"), _) => Some("the repository has no such file in this revision: check the name".to_owned()),
                (Some("RepoNotFound"), 401 | 403 | 404) | (_, 401) if !self.sent_credentials => {
                    Some("there is no such repository, or it is private: check the name, or set HF_TOKEN to a token that may read it".to_owned())
                }
                (Some("RepoNotFound"), 401 | 403 | 404) => {
                    Some("there is no such repository, or the token (HF_TOKEN) may not read it: check both".to_owned())
                }
                (_, 401 | 403) => Some("the token (HF_TOKEN) is not valid, or does not grant read access: create one that does".to_owned()),
                _ => None,
            };
            if let Some(what) = what {
                return what;
            }
        }
        match status {
            401 if self.sent_credentials => "it rejects the credentials that were sent: check them",
            401 => CREDENTIALS,
            403 if self.has_query => "access is denied; a signed URL may have expired: create a new one",
            403 => "access is denied: check the credentials and the name",
            404 | 410 => "there is no such file: check the name",
            407 => "the proxy requires credentials: set them in HTTPS_PROXY or HTTP_PROXY (http://user:password@host:port)",
            416 => "it rejects the byte range, so the file cannot be read in parts",
            429 => "it received too many requests",
            _ => "",
        }
        .to_owned()
    }
}

/// Builds the error for a response that is a web page.
pub fn page(path: &str) -> Error {
    let hint = if path.contains("/blob/") {
        "use the URL of the file itself instead of its repository page, often with /resolve/ or /raw/ instead of /blob/"
    } else {
        "check the URL, and whether the server requires a login"
    };
    about(path, format!("the server sends a web page (HTML) instead of a tensor file: {hint}"))
}
