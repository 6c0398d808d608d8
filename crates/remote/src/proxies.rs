//! Proxies from the environment variables that curl uses.

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{ClientBuilder, NoProxy, Proxy, Url};
use ztensor_core::error::{Code, Error, Result};

use crate::options::Options;

/// The proxies for URLs.
pub struct Proxies {
    /// For `http:` and `https:`, with their credentials.
    urls: [Option<Url>; 2],
    none: String,
    matcher: Matcher,
}

impl Proxies {
    /// The variables that are read.
    pub const VARIABLES: [&str; 9] = [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
        "REQUEST_METHOD",
    ];

    /// Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper or lower case. Fails with `ZT_INVALID_ARG` for an unusable
    /// proxy, because bypassing it could disclose what is read.
    pub fn new(options: &Options) -> Result<Self> {
        let of = |name: String| options.variable(&name).map(|value| (name, value));
        let small = |name: &str| of(name.to_lowercase());
        let either = |name: &str| of(name.to_owned()).or_else(|| small(name));
        let all = either("ALL_PROXY");
        // CGI scripts receive the request header "Proxy" as HTTP_PROXY.
        let scripted = options.variable("REQUEST_METHOD").is_some();
        let http = if scripted { small("HTTP_PROXY") } else { either("HTTP_PROXY") };
        let [http, https] = [http, either("HTTPS_PROXY")]
            .map(|own| own.or_else(|| all.clone()).map(|(name, value)| parsed(&name, &value)).transpose());
        let none = either("NO_PROXY").map(|(_, value)| value).unwrap_or_default();
        // The matcher takes "*" for names alone, not for addresses.
        let is_off = none.split(',').any(|entry| entry.trim() == "*");
        let urls = if is_off { [None, None] } else { [http?, https?] };
        let text = |url: &Option<Url>| url.as_ref().map(Url::to_string).unwrap_or_default();
        let [http, https] = &urls;
        let matcher = Matcher::builder().http(text(http)).https(text(https)).no(none.clone()).build();
        Ok(Self { urls, none, matcher })
    }

    /// Returns whether any proxy is configured.
    pub fn exist(&self) -> bool {
        self.urls.iter().any(Option::is_some)
    }

    /// Returns whether requests for a URL use a proxy.
    pub fn serve(&self, url: &Url) -> bool {
        url.as_str().parse().is_ok_and(|uri| self.matcher.intercept(&uri).is_some())
    }

    /// Configures a client to use the proxies.
    pub fn apply(&self, mut builder: ClientBuilder) -> Result<ClientBuilder> {
        let made = |proxy: reqwest::Result<Proxy>| {
            proxy.map_err(|_| Error::new(Code::InvalidArg, "a proxy of the environment cannot be used"))
        };
        let [http, https] = &self.urls;
        if let Some(url) = http {
            builder =
                builder.proxy(made(Proxy::http(url.clone()))?.no_proxy(NoProxy::from_string(&self.none)));
        }
        if let Some(url) = https {
            builder =
                builder.proxy(made(Proxy::https(url.clone()))?.no_proxy(NoProxy::from_string(&self.none)));
        }
        Ok(builder)
    }
}

/// Parses the URL in a variable, with or without a scheme. An error does not show it, because it may contain a password.
fn parsed(name: &str, value: &str) -> Result<Url> {
    let refused = |why: &str| Error::new(Code::InvalidArg, format!("the variable {name} {why}"));
    let url = if value.contains("://") { Url::parse(value) } else { Url::parse(&format!("http://{value}")) };
    let url = url.map_err(|_| refused("is not a proxy URL such as http://host:port"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err(refused("names a proxy with an unsupported scheme: use http:// or https://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Proxies> {
        let environment =
            variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Proxies::new(&Options { environment: Some(environment), ..Options::default() })
    }

    #[test]
    fn environment_variables_select_the_urls_that_use_a_proxy() {
        type Case = (&'static [(&'static str, &'static str)], bool, bool);
        let (http, https) = ("http://a.example/x", "https://b.example/x");
        let cases: [Case; 12] = [
            (&[], false, false),
            (&[("HTTP_PROXY", "http://p:1")], true, false),
            (&[("http_proxy", "p:1")], true, false),
            (&[("HTTPS_PROXY", "http://u:w@p:1")], false, true),
            (&[("ALL_PROXY", "https://p")], true, true),
            (&[("HTTP_PROXY", "")], false, false),
            (&[("ALL_PROXY", "http://p"), ("NO_PROXY", "*")], false, false),
            (&[("ALL_PROXY", "http://p"), ("NO_PROXY", "localhost, * ")], false, false),
            (&[("ALL_PROXY", "socks5://p"), ("NO_PROXY", "*")], false, false),
            (&[("ALL_PROXY", "http://p"), ("no_proxy", ".b.example, 10.0.0.0/8")], true, false),
            (&[("HTTP_PROXY", "http://p"), ("REQUEST_METHOD", "GET")], false, false),
            (&[("http_proxy", "http://p"), ("REQUEST_METHOD", "GET")], true, false),
        ];
        for (variables, by_http, by_https) in cases {
            let proxies = with(variables).unwrap();
            let served = [http, https].map(|url| proxies.serve(&Url::parse(url).unwrap()));
            assert_eq!(served, [by_http, by_https], "{variables:?}");
            assert!(proxies.exist() || !(by_http || by_https), "{variables:?}");
        }
    }

    #[test]
    fn no_proxy_of_a_star_holds_for_addresses_too() {
        let address = Url::parse("http://127.0.0.1:8080/x").unwrap();
        let proxy = ("http_proxy", "http://p:1");
        assert!(with(&[proxy]).unwrap().serve(&address));
        for none in ["*", "*,localhost", "127.0.0.1", "127.0.0.0/8"] {
            let proxies = with(&[proxy, ("no_proxy", none)]).unwrap();
            assert!(!proxies.serve(&address), "{none}");
        }
        assert!(!with(&[proxy, ("NO_PROXY", "*")]).unwrap().exist());
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_refused_without_its_password() {
        for value in ["socks5://u:secret@p:1", "http://u:secret@[", "ftp://u:secret@p", "http://"] {
            let error = with(&[("https_proxy", value)]).err().unwrap();
            assert_eq!(error.code(), Code::InvalidArg, "{value}");
            assert!(
                error.message().contains("https_proxy") && !error.message().contains("secret"),
                "{error}"
            );
        }
    }
}
