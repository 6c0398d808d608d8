//! Where redirects may lead, and which requests carry credentials: only those to the first origin.

use std::fmt;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Url};
use ztensor_core::error::{Code, Error, Result, short};

use crate::addresses::names_private;
use crate::errors::{self, shown};

/// Maximum redirects followed; browsers follow at least as many.
const REDIRECTS: u8 = 10;

/// Credentials for a server. Never shown.
#[derive(Clone, Default)]
pub struct Credentials {
    headers: HeaderMap,
    /// Name and password of a URL.
    basic: Option<(String, Option<String>)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    pub fn new(headers: HeaderMap) -> Self {
        Self { headers, basic: None }
    }

    /// Removes name and password from a URL. They are used unless there is an `authorization` header.
    pub fn take(&mut self, url: &mut Url) {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        if !url.username().is_empty() || url.password().is_some() {
            self.basic = Some((decoded(url.username()), url.password().map(decoded)));
            without_credentials(url);
        }
    }

    /// Sets a bearer token, unless there is an `authorization` header.
    pub fn bearer(&mut self, token: &str) -> Result<()> {
        if !self.headers.contains_key(AUTHORIZATION) {
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                Error::new(Code::InvalidArg, "the token of the hub (HF_TOKEN) contains invalid characters")
            })?;
            value.set_sensitive(true);
            self.headers.insert(AUTHORIZATION, value);
        }
        Ok(())
    }

    /// Returns whether they identify the user to a server.
    pub fn identifies(&self) -> bool {
        self.basic.is_some() || self.headers.contains_key(AUTHORIZATION)
    }

    fn apply(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.headers(self.headers.clone());
        match &self.basic {
            Some((name, password)) if !self.headers.contains_key(AUTHORIZATION) => {
                request.basic_auth(name, password.as_ref())
            }
            _ => request,
        }
    }
}

/// A file or API resource of a server, as first requested.
#[derive(Clone)]
pub struct Target {
    /// Without name and password.
    pub url: Url,
    /// Its path in error messages.
    pub path: String,
    pub credentials: Arc<Credentials>,
    /// The page of its repository, if it is on the hub.
    pub hub: Option<Arc<str>>,
}

/// A query may be a signature.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

/// The destination of one request.
#[derive(Clone)]
pub struct Hop {
    pub url: Url,
    /// Whether it is the first origin, which receives the credentials.
    trusted: bool,
    /// Whether a public server led here, so that only public addresses may be contacted.
    pub guarded: bool,
    pub redirects: u8,
}

/// A query may be a signature.
impl fmt::Debug for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.url))
    }
}

impl Hop {
    pub fn first(target: &Target) -> Self {
        Self { url: target.url.clone(), trusted: true, guarded: false, redirects: 0 }
    }

    /// Returns the destination of a redirect. `guarded`: whether only public addresses may follow.
    pub fn next(&self, target: &Target, location: &str, guarded: bool) -> Result<Self> {
        let refused = |what: String| errors::about(&target.path, format!("the server redirects {what}"));
        if self.redirects >= REDIRECTS {
            return Err(refused(format!("more than {REDIRECTS} times")));
        }
        let mut url = self.url.join(location).map_err(|_| refused("to an invalid URL".to_owned()))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            let scheme = short(url.scheme(), 40);
            return Err(refused(format!(
                "to a URL with the scheme {scheme:?}; only https: and http: are followed"
            )));
        }
        if self.url.scheme() == "https" && url.scheme() == "http" {
            return Err(refused("from https: to http:, which can be read and changed in transit".to_owned()));
        }
        url.set_fragment(None);
        without_credentials(&mut url);
        let trusted = self.trusted && target.is_home(&url);
        if guarded && names_private(&url) {
            return Err(errors::private(&target.path, url.host_str().unwrap_or_default()));
        }
        Ok(Self { url, trusted, guarded, redirects: self.redirects + 1 })
    }

    /// Builds the request, with credentials if permitted.
    pub fn request(&self, target: &Target, request: RequestBuilder) -> RequestBuilder {
        if self.trusted { target.credentials.apply(request) } else { request }
    }

    /// Returns whether the hub itself answers, rather than its storage.
    pub fn is_of_hub(&self, target: &Target) -> bool {
        self.trusted && target.hub.is_some()
    }

    pub fn has_credentials(&self, target: &Target) -> bool {
        self.trusted && target.credentials.identifies()
    }
}

/// The hub's own hosts. Its large-file storage uses other hosts, including subdomains of these, and never receives a token.
const HUB: [&str; 4] =
    ["https://huggingface.co", "https://www.huggingface.co", "https://hf.co", "https://www.hf.co"];

impl Target {
    /// Returns whether a URL may receive the credentials.
    fn is_home(&self, url: &Url) -> bool {
        let is_hub = |url: &Url| HUB.contains(&&*url.origin().ascii_serialization());
        url.origin() == self.url.origin() || (self.hub.is_some() && is_hub(&self.url) && is_hub(url))
    }
}

fn without_credentials(url: &mut Url) {
    // Both fail only for URLs without a host, which have none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, hub: bool) -> Target {
        let mut url = Url::parse(url).unwrap();
        let mut credentials = Credentials::default();
        credentials.take(&mut url);
        Target { path: shown(&url), url, credentials: Arc::new(credentials), hub: hub.then(|| "page".into()) }
    }

    #[test]
    fn credentials_stay_with_the_first_origin() {
        let hub = "https://huggingface.co/o/r/resolve/main/x";
        for (first, is_hub, location, trusted) in [
            ("https://h/x", false, "/y", true),
            ("https://h/x", false, "https://h:443/y", true),
            ("https://h/x", false, "https://h:444/y", false),
            ("https://h/x", false, "https://h.evil/y", false),
            ("https://h/x", false, "https://u:p@g/y", false),
            ("http://h/x", false, "https://h/x", false),
            ("http://h/x", false, "//H/x", true),
            (hub, true, "/api/resolve-cache/x", true),
            (hub, true, "https://hf.co/x", true),
            (hub, true, "https://cdn-lfs.huggingface.co/x", false),
            (hub, true, "https://cas-bridge.xethub.hf.co/x", false),
            (hub, true, "https://hf.co:8443/x", false),
            (hub, true, "https://huggingface.co.evil/x", false),
            (hub, false, "https://hf.co/x", false),
            ("https://mirror/o/r/x", true, "https://huggingface.co/x", false),
        ] {
            let target = target(first, is_hub);
            let next = Hop::first(&target).next(&target, location, false).unwrap();
            assert_eq!(next.trusted, trusted, "{first} {location}");
            assert!(next.url.username().is_empty() && next.url.password().is_none());
        }
    }

    #[test]
    fn credentials_do_not_come_back() {
        let target = target("https://h/x", false);
        let away = Hop::first(&target).next(&target, "https://g/x", false).unwrap();
        assert!(!away.next(&target, "https://h/x", false).unwrap().trusted);
    }

    #[test]
    fn redirects_lead_only_to_servers_and_are_limited() {
        let target = target("https://h/x?signature=secret", false);
        let first = Hop::first(&target);
        let refused = [
            ("http://h/x", false, "https: to http:"),
            ("file:///etc/passwd", false, "\"file\""),
            ("data:,x", false, "\"data\""),
            ("ftp://h/x", false, "\"ftp\""),
            ("https://", false, "invalid URL"),
            ("https://127.0.0.1/x", true, "127.0.0.1"),
            ("https://[::1]/x", true, "allowPrivate"),
            ("https://localhost/x", true, "allowPrivate"),
        ];
        for (location, guarded, says) in refused {
            let error = first.next(&target, location, guarded).unwrap_err();
            assert_eq!(error.code(), Code::Io);
            assert!(
                error.message().contains(says) && !error.message().contains("secret"),
                "{location}: {error}"
            );
        }
        let mut hop = first;
        for _ in 0..10 {
            hop = hop.next(&target, "/x", false).unwrap();
        }
        assert!(hop.next(&target, "/x", false).unwrap_err().message().contains("more than 10 times"));
        assert_eq!(format!("{hop:?}"), "https://h/x");
    }

    #[test]
    fn a_url_can_contain_a_user_and_a_password() {
        let target = target("https://na%40me:pass%3Aword@h/x", false);
        assert_eq!(target.url.as_str(), "https://h/x");
        assert!(target.credentials.identifies());
        assert_eq!(format!("{target:?} {:?}", target.credentials), "https://h/x Credentials");
        assert_eq!(target.credentials.basic, Some(("na@me".to_owned(), Some("pass:word".to_owned()))));
    }
}
