//! Object stores: S3 and compatible ones, Google Cloud Storage, Azure Blob Storage. Uses the clients of `object_store` over this crate's
//! connections.

mod bucket;
mod connector;
mod endpoints;
mod failures;
mod profile;
mod upload;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::sinks::upload::Uploads;
use ztensor_core::sources::filesystem::Filesystem;

use crate::options::Options;
use bucket::Bucket;
use connector::Connector;
use endpoints::{check_endpoints, profile_endpoint};
use failures::refused;

/// Maximum delay between two attempts of a writing request, as requested by a store.
const LONGEST: Duration = Duration::from_secs(10);

/// Returns the filesystem of `s3://bucket/key`, `gs://bucket/key` or `az://container/key`.
pub fn filesystem(scheme: &str, url: &str, options: &Options) -> Result<(Arc<dyn Filesystem>, PathBuf)> {
    let (bucket, path) = bucket(scheme, url, Connector::reading(options)?)?;
    Ok((Arc::new(bucket), path))
}

/// Returns the uploads for the store of such a URL.
pub fn uploads(
    scheme: &str,
    url: &str,
    options: &Options,
    overwrite: bool,
) -> Result<(Arc<dyn Uploads>, PathBuf)> {
    // Google's store rejects preconditions on multipart uploads, and Azure's keys sign them.
    let create = !overwrite && scheme == "s3";
    let (bucket, path) = bucket(scheme, url, Connector::writing(options, create)?)?;
    Ok((Arc::new(upload::Store::new(bucket, overwrite)), path))
}

/// Returns the bucket of a URL and the path of its object.
fn bucket(scheme: &str, url: &str, connector: Connector) -> Result<(Bucket, PathBuf)> {
    let options = &connector.options.clone();
    options.check()?;
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-$".contains(c);
    if bucket.is_empty() || !bucket.chars().all(plain) {
        let message = format!("{:?} names no bucket: expected {scheme}://bucket/key", short(rest, 160));
        return Err(Error::new(Code::InvalidArg, message));
    }
    let plain = |url: &String| url.to_ascii_lowercase().starts_with("http:");
    if options.store.endpoint.as_ref().is_some_and(plain) && !options.store.allow_http {
        let message = "the endpoint of the store is http:, which can be read and changed in transit";
        let hint = ": if this is intended, set the option store.allowHttp";
        return Err(Error::new(Code::InvalidArg, message).hint("remote.store.allowHttp", hint));
    }
    check_endpoints(scheme, options)?;
    let pool = Arc::clone(&connector.pool);
    let (store, lists) = match scheme {
        "s3" => s3(bucket, connector)?,
        "gs" => gcs(bucket, connector)?,
        _ => azure(bucket, connector)?,
    };
    let root = format!("{scheme}://{bucket}/");
    let path = format!("{root}{}", key.trim_end_matches('/'));
    let lists = Some(lists);
    let (options, blocks) = (options.clone(), Arc::default());
    let (unlisted, unopened) = (Mutex::default(), Mutex::default());
    let bucket = Bucket { store, lists, root, options, blocks, unlisted, unopened, pool };
    Ok((bucket, path.into()))
}

/// A store in its two roles: object access and listing.
type StoreRoles = (Arc<dyn ObjectStore>, Arc<dyn PaginatedListStore>);

fn made<T: ObjectStore + PaginatedListStore>(store: T) -> StoreRoles {
    let store = Arc::new(store);
    (Arc::<T>::clone(&store), store)
}

fn s3(bucket: &str, connector: Connector) -> Result<StoreRoles> {
    let (options, retry) = (&connector.options.clone(), retries(&connector));
    let own = &options.store;
    let mut builder = with_variables(AmazonS3Builder::new(), options, "AWS_", AmazonS3Builder::with_config)
        .with_bucket_name(bucket)
        .with_http_connector(connector)
        .with_retry(retry)
        .with_virtual_hosted_style_request(own.virtual_hosted_style)
        .with_allow_http(own.allow_http)
        .with_skip_signature(own.anonymous);
    if let Some(region) = &own.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = own.endpoint.clone().or_else(|| profile_endpoint(options)) {
        builder = builder.with_endpoint(endpoint);
    }
    let given = own.access_key_id.clone().zip(own.secret_access_key.clone());
    let has_own = options.variable("AWS_ACCESS_KEY_ID").is_some()
        || options.variable("AWS_WEB_IDENTITY_TOKEN_FILE").is_some()
        || own.anonymous;
    let found = given.map(|(id, secret)| (id, secret, own.session_token.clone()));
    let found = found.or_else(|| if has_own { None } else { profile::credentials(options) });
    // Without credentials the machine's own are asked for, which may be those of another account.
    if found.is_none()
        && !has_own
        && let Some(message) = profile::unsupported(options)
    {
        return Err(Error::new(Code::InvalidArg, message));
    }
    if let Some((id, secret, token)) = found {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        if let Some(token) = token {
            builder = builder.with_token(token);
        }
    }
    if own.region.is_none()
        && options.variable("AWS_REGION").is_none()
        && let Some(region) =
            options.variable("AWS_DEFAULT_REGION").or_else(|| profile::setting(options, "region"))
    {
        builder = builder.with_region(region);
    }
    Ok(made(builder.build().map_err(|error| refused("s3", &error))?))
}

fn gcs(bucket: &str, connector: Connector) -> Result<StoreRoles> {
    let (options, retry) = (&connector.options.clone(), retries(&connector));
    let builder = GoogleCloudStorageBuilder::new();
    let mut builder = with_variables(builder, options, "GOOGLE_", GoogleCloudStorageBuilder::with_config)
        .with_bucket_name(bucket)
        .with_http_connector(connector)
        .with_retry(retry)
        .with_client_options(ClientOptions::new().with_allow_http(options.store.allow_http))
        .with_skip_signature(options.store.anonymous);
    if let Some(path) = options.variable("SERVICE_ACCOUNT") {
        builder = builder.with_service_account_path(path);
    }
    if let Some(endpoint) = &options.store.endpoint {
        builder = builder.with_url(format!("gs://{bucket}")).with_base_url(endpoint);
    }
    Ok(made(builder.build().map_err(|error| refused("gs", &error))?))
}

fn azure(container: &str, connector: Connector) -> Result<StoreRoles> {
    let (options, retry) = (&connector.options.clone(), retries(&connector));
    let own = &options.store;
    let builder = MicrosoftAzureBuilder::new();
    let mut builder = with_variables(builder, options, "AZURE_", MicrosoftAzureBuilder::with_config)
        .with_container_name(container)
        .with_http_connector(connector)
        .with_retry(retry)
        .with_allow_http(own.allow_http)
        .with_skip_signature(own.anonymous);
    if let Some(endpoint) = options.variable("MSI_ENDPOINT") {
        builder = builder.with_msi_endpoint(endpoint);
    }
    if let Some(account) = &own.account {
        builder = builder.with_account(account);
    }
    if let Some(key) = &own.account_key {
        builder = builder.with_access_key(key);
    }
    if let Some(endpoint) = &own.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    Ok(made(builder.build().map_err(|error| refused("az", &error))?))
}

/// Configures a builder with the environment variables that have a prefix and that it supports.
fn with_variables<B, K: FromStr>(
    builder: B,
    options: &Options,
    prefix: &str,
    with: fn(B, K, String) -> B,
) -> B {
    options.variables(prefix).into_iter().fold(builder, |builder, (name, value)| {
        match name.to_ascii_lowercase().parse() {
            Ok(key) => with(builder, key, value),
            Err(_) => builder,
        }
    })
}

/// Returns the retry policy of a store's client: none for reads, which are retried in one place and continue after the bytes received.
fn retries(connector: &Connector) -> RetryConfig {
    let options = &connector.options;
    RetryConfig {
        max_retries: if connector.writes() { options.retries as usize } else { 0 },
        retry_timeout: Duration::from_secs(120),
        backoff: BackoffConfig {
            init_backoff: options.backoff.min(LONGEST),
            max_backoff: LONGEST,
            ..BackoffConfig::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StoreOptions;

    #[test]
    fn urls_without_a_bucket_are_refused() {
        for url in ["s3://", "s3:///key", "s3://a b/key", "s3://user:pw@host/key"] {
            let error = filesystem("s3", url, &Options::default()).err().unwrap();
            assert_eq!(error.code(), Code::InvalidArg, "{url}");
        }
    }

    #[test]
    fn plain_http_has_to_be_allowed() {
        for (endpoint, allow_http, good) in [
            ("http://127.0.0.1:1", false, false),
            ("HTTP://127.0.0.1:1", false, false),
            ("http://127.0.0.1:1", true, true),
            ("https://127.0.0.1:1", false, true),
        ] {
            let endpoint = Some(endpoint.to_owned());
            let store = StoreOptions { endpoint, allow_http, anonymous: true, ..StoreOptions::default() };
            let environment = Some([("AWS_REGION".to_owned(), "r".to_owned())].into());
            let options = Options { store, environment, ..Options::default() };
            assert_eq!(filesystem("s3", "s3://bucket/x", &options).is_ok(), good, "{options:?}");
        }
    }

    #[test]
    fn options_show_no_secret() {
        let secret = Some("SECRET".to_owned());
        let options = StoreOptions {
            access_key_id: secret.clone(),
            secret_access_key: secret,
            ..StoreOptions::default()
        };
        assert!(!format!("{options:?}").contains("SECRET"));
    }
}
