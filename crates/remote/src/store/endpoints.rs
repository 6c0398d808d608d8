//! The servers of stores: from options, variables and the AWS profile.

use reqwest::Url;
use ztensor_core::error::{Code, Error, Result};

use super::profile;
use crate::options::Options;

/// The option for the server of a store.
pub const ENDPOINT: &str = "remote.store.endpoint";

/// Returns what identifies an object: its URL and the server. Contains no secret.
pub fn location_of(url: &str, options: &Options) -> String {
    let own = [&options.store.endpoint, &options.store.account].map(|text| text.clone().unwrap_or_default());
    let variables = ENDPOINTS.map(|name| options.variable(name).unwrap_or_default());
    let profile = if url.starts_with("s3:") { profile_endpoint(options) } else { None };
    let texts = own.iter().chain(&variables).chain(&profile).map(String::as_str);
    [url].into_iter().chain(texts).collect::<Vec<_>>().join("\n")
}

/// Returns the endpoint of the current AWS profile, which variables override.
pub fn profile_endpoint(options: &Options) -> Option<String> {
    let is_set = S3_ENDPOINTS.iter().any(|name| options.variable(name).is_some());
    let is_ignored = options.variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    if is_set || is_ignored.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    profile::setting(options, "endpoint_url")
}

/// Variables that select a server of S3.
const S3_ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"];

/// Variables that select a server.
const ENDPOINTS: [&str; 7] = [
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ENDPOINT",
    "GOOGLE_BASE_URL",
    "STORAGE_EMULATOR_HOST",
];

/// Validates the URLs of servers: the clients of stores would panic for some texts.
pub fn check_endpoints(scheme: &str, options: &Options) -> Result<()> {
    let own = options.store.endpoint.clone().map(|url| (ENDPOINT, url));
    let names: &[&'static str] = match scheme {
        "s3" => &S3_ENDPOINTS,
        "gs" => &["GOOGLE_BASE_URL"],
        _ => &["AZURE_STORAGE_ENDPOINT"],
    };
    let variables = names.iter().filter_map(|name| Some((*name, options.variable(name)?)));
    let profile = (scheme == "s3").then(|| profile_endpoint(options)).flatten();
    let profile = profile.map(|url| ("endpoint_url of the AWS profile", url));
    for (name, url) in own.into_iter().chain(variables).chain(profile) {
        let is_url = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if !Url::parse(&url).as_ref().is_ok_and(is_url) {
            // It may contain a password.
            let message = format!("{name} is not a URL of a server, such as https://host:9000");
            let error = Error::new(Code::InvalidArg, message);
            return Err(if name == ENDPOINT { error.about(ENDPOINT) } else { error });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StoreOptions;

    #[test]
    fn an_endpoint_is_a_url_of_a_server() {
        for url in ["nonsense", "", "host:9000", "ftp://host", "https://"] {
            let store = StoreOptions { endpoint: Some(url.to_owned()), ..StoreOptions::default() };
            let error = check_endpoints("s3", &Options { store, ..Options::default() }).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArg, "{url}");
        }
    }
}
