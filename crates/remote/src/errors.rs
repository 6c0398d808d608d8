//! How failures read, and which of them may pass. No text shows a query, credentials or a header's value.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use reqwest::Url;
use ztensor_core::error::{Code, Error, short};

use crate::addresses::Private;

/// Why a request did not give what it asked for.
#[derive(Debug)]
pub enum Failure {
    /// Another try would give the same.
    Final(Error),
    /// Another try may do better.
    Passing(Passing),
}

/// A failure for the moment.
#[derive(Debug)]
pub struct Passing {
    pub error: Error,
    /// When the server wants to be asked again.
    pub after: Option<Duration>,
    /// Whether no connection came about, which seldom mends itself.
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

/// A URL as texts show it: without credentials, query and fragment.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for URLs without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// A failure of the file at a path, which its text names.
pub fn about(path: &str, message: impl Into<String>) -> Error {
    Error::new(Code::Io, message).in_file(path, Path::new(path))
}

/// The file is not the one that was opened.
pub fn changed(path: &str) -> Error {
    let message = format!("the file at {} changed since it was opened; open it again", short(path, 160));
    Error::new(Code::Io, message).file(Path::new(path))
}

/// What a host is called in a text: the host of the request, where redirects led to another one.
pub fn by(url: &Url, first: &Url) -> String {
    match url.host_str() {
        Some(host) if url.origin() != first.origin() => {
            format!("the server it redirects to, {}, ", short(host, 80))
        }
        _ => "the server ".to_owned(),
    }
}

/// The server sent nothing for a while.
pub fn stalled(path: &str, timeout: Duration) -> Failure {
    slow(path, &format!("sent nothing for {timeout:?} (option timeout)"))
}

/// The server sent too little in a while: `how` says how little.
pub fn slow(path: &str, how: &str) -> Failure {
    Failure::passing(about(path, format!("the server {how}")))
}

/// What went wrong on the way, in the words of the deepest cause, which knows no URL.
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
        Error::io(if unconnected { "connect" } else { "read" }, &system).in_file(path, Path::new(path))
    } else if unconnected {
        about(path, format!("no connection to {host}: {words}"))
    } else {
        about(path, format!("the connection to {host} broke off: {words}"))
    };
    Failure::Passing(Passing { error, after: None, unconnected })
}

/// A redirect leads where no public server may send anybody.
pub fn private(path: &str, host: &str) -> Error {
    let message = format!(
        "the server redirects to {}, an address of a private network or of this machine, which is not followed; if that is right, set the option allowPrivate",
        short(host, 80)
    );
    about(path, message)
}

/// What is in an I/O error, which keeps what it wraps apart from its causes, and may wrap another one.
fn inside<'e>(mut cause: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    while let Some(wrapped) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        cause = wrapped;
    }
    cause
}

fn of_tls(path: &str, host: &str, error: &rustls::Error) -> Failure {
    let message = match error {
        rustls::Error::InvalidCertificate(why) => format!(
            "the certificate of {host} is not trusted ({why:?}); if an authority of your own made it, name its file in NODE_EXTRA_CA_CERTS"
        ),
        rustls::Error::General(why) => format!("no certificate can be checked: {why}"),
        other => format!("no TLS connection to {host}: {other}"),
    };
    Failure::Final(about(path, message))
}

/// What a caller can do about a status.
pub struct Advice<'a> {
    pub path: &'a str,
    /// As [`by`] gives it.
    pub by: String,
    pub sent_credentials: bool,
    pub has_query: bool,
    /// The repository's page, of a file of the hub.
    pub hub: Option<&'a str>,
    /// What the hub's own header says is wrong.
    pub hub_code: Option<&'a str>,
}

impl Advice<'_> {
    /// The text for a status that is none of success.
    pub fn status(&self, status: StatusCode) -> Error {
        let what = self.what(status.as_u16());
        let reason = status.canonical_reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let colon = if what.is_empty() { "" } else { ": " };
        let message = format!("{}answered {}{reason}{colon}{what}", self.by, status.as_u16());
        about(self.path, message).answered(Some(status.as_u16()))
    }

    fn what(&self, status: u16) -> String {
        if let Some(page) = self.hub {
            let what = match (self.hub_code, status) {
                (Some("GatedRepo"), _) => Some(format!("the repository is gated: accept its conditions at {page}, and set HF_TOKEN to a token of that account")),
                (Some("RevisionNotFound"), _) => Some("the repository has no such revision: check the part behind '@'".to_owned()),
                (Some("EntryNotFound"), _) => Some("the repository has no such file in this revision: check the name".to_owned()),
                (Some("RepoNotFound"), 401 | 403 | 404) | (_, 401) if !self.sent_credentials => {
                    Some("there is no such repository, or it is private: check the name, or set HF_TOKEN to a token that may read it".to_owned())
                }
                (Some("RepoNotFound"), 401 | 403 | 404) => {
                    Some("there is no such repository, or the token (HF_TOKEN) may not read it: check both".to_owned())
                }
                (_, 401 | 403) => Some("the token (HF_TOKEN) is not valid, or may not read this: make one that may".to_owned()),
                _ => None,
            };
            if let Some(what) = what {
                return what;
            }
        }
        match status {
            401 if self.sent_credentials => "it does not take the credentials that were sent: check them",
            401 => "it wants credentials: give them by the option headers (authorization), or in the URL",
            403 if self.has_query => "this is not allowed; a signed URL may have expired: make a new one",
            403 => "this is not allowed: check the credentials and the name",
            404 | 410 => "there is no such file: check the name",
            407 => "the proxy wants credentials: give them in HTTPS_PROXY or HTTP_PROXY (http://user:password@host:port)",
            416 => "it has no such range of bytes, and so does not read in parts",
            429 => "it was asked too often",
            _ => "",
        }
        .to_owned()
    }
}

/// The answer is a page for people.
pub fn page(path: &str) -> Error {
    let hint = if path.contains("/blob/") {
        "for a page of a repository there is a URL of the file itself, often with /resolve/ or /raw/ in place of /blob/"
    } else {
        "check the URL, and whether the server wants you to log in"
    };
    about(path, format!("the server sends a web page (HTML) and no tensor file: {hint}"))
}
