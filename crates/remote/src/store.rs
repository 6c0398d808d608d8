//! Object stores: S3 and compatible ones, Google Cloud Storage, Azure Blob Storage. Uses the clients of `object_store` over this crate's
//! connections.

mod connector;
mod profile;
mod upload;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::HttpErrorKind;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt, RetryConfig,
};
use reqwest::Url;
use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::sinks::upload::Uploads;
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::blocks::{Blocks, HEAD as FIRST};
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::work::Stop;

use crate::answer::Pace;
use crate::cache;
use crate::client::Pool;
use crate::errors::{self, Failure, Passing};
use crate::options::Options;
use crate::pages::Pages;
use crate::retry::retrying;
use crate::runtime;
use crate::source::{Ranges, Remote};
use connector::{Connector, LengthOmitted};

/// Maximum listed objects and folders that are read for the names of a folder.
const MAX_LISTED: usize = 200_000;
/// Maximum pages of such a list, and consecutive pages without new entries: stores may send empty ones.
const PAGES: usize = 1000;
const EMPTY_PAGES: usize = 100;
/// Maximum bytes of a page token, which becomes part of a URL.
const TOKEN: usize = 8 << 10;
/// Maximum delay between two attempts of a writing request, as requested by a store.
const LONGEST: Duration = Duration::from_secs(10);

const NO_CREDENTIALS: &str = "no credentials were found: set them in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY)";
/// The option for the server of a store.
const ENDPOINT: &str = "remote.store.endpoint";
/// The hint for a store without credentials.
const ANONYMOUS: &str = ", or pass remote: { store: { anonymous: true } } for public data";

/// A bucket, or an Azure container.
struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// The same store as a lister; `None` if it is never listed.
    lists: Option<Arc<dyn PaginatedListStore>>,
    /// `s3://bucket/`.
    root: String,
    options: Options,
    blocks: Arc<Blocks>,
    /// A folder that could not be listed, and the error.
    unlisted: Mutex<Option<(PathBuf, Error)>>,
    /// An object that could not be opened, and the status of the response.
    unopened: Mutex<Option<(PathBuf, Option<u16>)>>,
    /// Held so that others share it.
    #[expect(dead_code)]
    pool: Arc<Pool>,
}

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

/// Returns what identifies an object: its URL and the server. Contains no secret.
fn location_of(url: &str, options: &Options) -> String {
    let own = [&options.store.endpoint, &options.store.account].map(|text| text.clone().unwrap_or_default());
    let variables = ENDPOINTS.map(|name| options.variable(name).unwrap_or_default());
    let profile = if url.starts_with("s3:") { profile_endpoint(options) } else { None };
    let texts = own.iter().chain(&variables).chain(&profile).map(String::as_str);
    [url].into_iter().chain(texts).collect::<Vec<_>>().join("\n")
}

/// Returns the endpoint of the current AWS profile, which variables override.
fn profile_endpoint(options: &Options) -> Option<String> {
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

/// Validates the URLs of servers: the clients of stores would panic for some texts.
fn check_endpoints(scheme: &str, options: &Options) -> Result<()> {
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

/// The error for a store that its client cannot use as it is configured.
fn refused(scheme: &str, error: &object_store::Error) -> Error {
    let text = chain(error);
    let has_no_account = text.contains("Account must be specified");
    let message = if has_no_account {
        "no account is set: set AZURE_STORAGE_ACCOUNT_NAME".to_owned()
    } else if text.contains("Invalid Access Key") {
        "the account key is not base64: check AZURE_STORAGE_ACCOUNT_KEY".to_owned()
    } else if let Some((_, file)) = text.split_once("Unable to open service account file from ") {
        format!("the file of the credentials cannot be opened: {}", scrubbed(file))
    } else {
        format!("its settings are invalid: {}", scrubbed(bare(&text)))
    };
    let error = Error::new(Code::InvalidArg, format!("the store of {scheme}: cannot be used: {message}"));
    if has_no_account {
        error.hint("remote.store.account", ", or pass remote: { store: { account } }")
    } else {
        error
    }
}

/// Removes what the clients of stores put before the reason: `Generic S3 error: `, and the request.
fn bare(mut text: &str) -> &str {
    loop {
        let rest = match text.split_once(" error: ") {
            Some((kind, rest)) if kind.starts_with("Generic ") || kind == "HTTP" => rest,
            _ => match text.split_once(" - ") {
                Some((request, rest)) if request.starts_with("Error performing ") => rest,
                _ => return text,
            },
        };
        text = rest;
    }
}

/// Describes a failure of the connection to a store.
fn unconnected(path: &str, broken: &object_store::client::HttpError, error: &object_store::Error) -> Error {
    let text = chain(error);
    let url = text.split_whitespace().find_map(|word| Url::parse(word).ok().filter(Url::has_host));
    let cause = connector::transport(broken).filter(|_| broken.kind() != HttpErrorKind::Timeout);
    if let (Some(url), Some(cause)) = (url, cause) {
        return match errors::of_transport(path, &url, cause, Duration::ZERO) {
            Failure::Final(error) | Failure::Passing(Passing { error, .. }) => error,
        };
    }
    let message = match broken.kind() {
        HttpErrorKind::Connect => "no connection to the store",
        HttpErrorKind::Timeout => {
            return errors::about(path, "the store sent nothing in time")
                .hint(errors::TIMEOUT.0, errors::TIMEOUT.1);
        }
        _ => "the connection to the store was interrupted",
    };
    errors::about(path, message)
}

/// Removes the queries of URLs from a text, because they may be signatures.
fn scrubbed(text: &str) -> String {
    let mut words = text.split_inclusive(char::is_whitespace).map(|word| match word.split_once('?') {
        Some((url, _)) if url.contains("://") => format!("{url}?… "),
        _ => word.to_owned(),
    });
    let text: String = words.by_ref().collect();
    short(&text, 400).into_owned()
}

impl Bucket {
    fn key(&self, path: &Path) -> Result<Key> {
        let text = path.to_string_lossy();
        let key = text.strip_prefix(&self.root).unwrap_or_default();
        // The clients of stores would leave out an empty part, which names another object.
        if key.starts_with('/') || key.contains("//") {
            let message = format!(
                "{:?} is a key with an empty part ('//'), which the clients of stores cannot name: sign an https: URL for it \
                 (aws s3 presign, gcloud storage sign-url, az storage blob generate-sas), and open that",
                short(key, 160)
            );
            return Err(Error::new(Code::InvalidArg, message));
        }
        Key::parse(key).map_err(|_| {
            let message = format!("{:?} is not a valid object key", short(key, 160));
            Error::new(Code::InvalidArg, message)
        })
    }

    fn unopened(&self) -> MutexGuard<'_, Option<(PathBuf, Option<u16>)>> {
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlisted(&self) -> MutexGuard<'_, Option<(PathBuf, Error)>> {
        self.unlisted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the key prefix of the objects in a folder.
    fn under(&self, folder: &Path) -> Result<String> {
        let key = self.key(folder)?;
        Ok(if key.as_ref().is_empty() { String::new() } else { format!("{key}/") })
    }

    /// Returns the length, the version and the first bytes of an object.
    async fn first(&self, key: &Key, path: &str) -> std::result::Result<(Facts, Vec<u8>), Failure> {
        let first = GetOptions { range: Some(GetRange::Bounded(0..FIRST)), ..GetOptions::default() };
        let result = match self.store.get_opts(key, first).await {
            Ok(result) => result,
            // An empty object has no range.
            Err(error) if may_be_empty(&error) => match self.store.head(key).await {
                Ok(meta) if meta.size == 0 => {
                    return Ok((Facts { length: 0, tag: meta.e_tag }, Vec::new()));
                }
                _ => return Err(failed(path, &error)),
            },
            Err(error) => return Err(failed(path, &error)),
        };
        let mut length = checked::exact(result.meta.size, "the length of the object")?;
        let tag = result.meta.e_tag.clone();
        let is_omitted = omits_length(&result);
        let count = length.min(FIRST);
        let mut head = vec![0; usize::try_from(count).unwrap_or_default()];
        pour(path, result, 0..count, &mut head, &mut 0, self.options.timeout).await?;
        if is_omitted {
            let meta = self.store.head(key).await.map_err(|error| failed(path, &error))?;
            if meta.e_tag != tag || meta.size < count {
                return Err(errors::changed(path).into());
            }
            length = checked::exact(meta.size, "the length of the object")?;
        }
        Ok((Facts { length, tag }, head))
    }

    /// Returns the names in a folder, up to `max` + 1. A truncated list is an error, because what is missing is unknown.
    async fn names(&self, path: &str, prefix: &str, max: usize) -> Result<BTreeSet<String>> {
        let Some(lists) = &self.lists else {
            return Err(Error::new(Code::Internal, "listing is not enabled for this store"));
        };
        let (mut names, mut token, mut looked) = (BTreeSet::new(), None::<String>, 0);
        let mut pages = Pages::new("the store", path, &self.options, (PAGES, EMPTY_PAGES));
        loop {
            let page = retrying(&self.options, async || {
                let options = PaginatedListOptions {
                    delimiter: Some("/".into()),
                    page_token: token.clone(),
                    ..PaginatedListOptions::default()
                };
                let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
                lists.list_paginated(prefix, options).await.map_err(|error| failed(path, &error))
            })
            .await?;
            let result = page.result;
            let before = names.len();
            let count = result.objects.len() + result.common_prefixes.len();
            for object in result.objects {
                let inner = object.location.as_ref().strip_prefix(prefix).unwrap_or_default();
                if !inner.is_empty() && !inner.contains('/') {
                    names.insert(inner.to_owned());
                }
            }
            if names.len() > max {
                return Ok(names);
            }
            let Some(next) = page.page_token.filter(|next| !next.is_empty()) else { return Ok(names) };
            if next.len() > TOKEN {
                let message = format!("the store sends a page token of {} bytes", next.len());
                return Err(errors::about(path, message));
            }
            looked += count;
            if looked >= MAX_LISTED {
                let message = format!(
                    "the folder has more than {MAX_LISTED} objects and folders, the maximum that is read: specify a file in it"
                );
                return Err(Error::new(Code::Limit, message).file(Path::new(path)));
            }
            pages.next(&next, names.len() > before)?;
            token = Some(next);
        }
    }
}

/// Returns whether a range may have been rejected because the object is empty: unless a connection problem or the status indicates
/// otherwise.
fn may_be_empty(error: &object_store::Error) -> bool {
    let is_other = matches!(error, object_store::Error::Generic { .. });
    is_other
        && connector::problem(error)
            .map_or_else(|| connector::broken(error).is_none(), |problem| problem.status == Some(416))
}

impl Filesystem for Bucket {
    fn open(&self, path: &Path, stop: &Stop) -> Result<Arc<dyn ReadAt>> {
        let key = self.key(path)?;
        let text = path.to_string_lossy().into_owned();
        if key.as_ref().is_empty() {
            return Err(errors::about(&text, "this is a bucket, not an object"));
        }
        let opened = retrying(&self.options, async || self.first(&key, &text).await);
        let (object, head) = runtime::wait(stop, opened).inspect_err(|error| {
            let failed = error.code() == Code::Io;
            *self.unopened() = failed.then(|| (path.to_owned(), error.status()));
        })?;
        let whole = head.len() as u64 == object.length;
        let (store, options) = (Arc::clone(&self.store), self.options.clone());
        let version = object.tag.clone().filter(|tag| tag.starts_with('"'));
        let location = location_of(&text, &options);
        let object = Object { store, key, path: text, facts: object, options };
        let source = Remote::new(object, head, whole, &self.blocks);
        let version = version.as_ref().map(String::as_bytes);
        Ok(cache::through(source, &location, version, &self.options))
    }

    fn is_folder(&self, path: &Path, stop: &Stop) -> bool {
        // If a store did not respond for an object, its folder is not requested as well: the first error is the relevant one.
        let unopened = self.unopened().take_if(|(unopened, _)| unopened == path);
        let status = unopened.map_or(Some(404), |(_, status)| status);
        if !matches!(status, Some(400 | 401 | 403 | 404)) {
            return false;
        }
        match self.list(path, 1, stop) {
            Ok(names) => !names.is_empty(),
            // A store that does not allow listing provides no more information than that nothing can be read there.
            Err(error)
                if status != Some(404) || matches!(error.status(), Some(401 | 403 | 404 | 405 | 501)) =>
            {
                false
            }
            // The next listing of the folder reports why it failed without another request.
            Err(error) => {
                *self.unlisted() = Some((path.to_owned(), error));
                true
            }
        }
    }

    fn list(&self, folder: &Path, max: usize, stop: &Stop) -> Result<Vec<OsString>> {
        if let Some((_, error)) = self.unlisted().take_if(|(path, _)| path == folder) {
            return Err(error);
        }
        let prefix = self.under(folder)?;
        let text = folder.to_string_lossy().into_owned();
        let names = runtime::wait(stop, self.names(&text, &prefix, max))?;
        Ok(names.into_iter().map(OsString::from).collect())
    }

    fn is_file(&self, _path: &Path) -> bool {
        false
    }
}

/// The properties of an object from the first response.
struct Facts {
    length: u64,
    /// The version tag, which is sent with each range request.
    tag: Option<String>,
}

/// One version of an object.
struct Object {
    store: Arc<dyn ObjectStore>,
    key: Key,
    path: String,
    facts: Facts,
    options: Options,
}

impl Object {
    async fn piece(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut got = 0;
        retrying(&self.options, async || self.attempt(offset, buffer, &mut got).await).await
    }

    /// Requests the rest of a range.
    async fn attempt(
        &self,
        offset: u64,
        buffer: &mut [u8],
        got: &mut usize,
    ) -> std::result::Result<(), Failure> {
        if *got == buffer.len() {
            return Ok(());
        }
        let range = offset + *got as u64..offset + buffer.len() as u64;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.facts.tag.clone(),
            ..GetOptions::default()
        };
        let result = self.store.get_opts(&self.key, options).await;
        let result = result.map_err(|error| failed(&self.path, &error))?;
        let is_other = result.meta.size != self.facts.length && !omits_length(&result);
        if is_other || result.meta.e_tag != self.facts.tag {
            return Err(errors::changed(&self.path).into());
        }
        pour(&self.path, result, range, buffer, got, self.options.timeout).await
    }
}

impl Ranges for Object {
    fn length(&self) -> u64 {
        self.facts.length
    }

    fn version(&self) -> u64 {
        let Some(tag) = &self.facts.tag else { return 0 };
        // FNV-1a, which is the same in every process.
        tag.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn fill(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        let pieces = buffer.chunks_mut(self.options.piece_bytes).scan(offset, |next, piece| {
            let first = *next;
            *next += piece.len() as u64;
            Some(self.piece(first, piece))
        });
        let all = stream::iter(pieces).buffer_unordered(self.options.concurrency).try_collect();
        runtime::wait(stop, all)
    }
}

/// Returns whether the response to a range does not state the length of the object.
fn omits_length(result: &GetResult) -> bool {
    result.extensions.get::<LengthOmitted>().is_some()
}

/// Fills a buffer, from `got` on, from a response that must be the requested range.
async fn pour(
    path: &str,
    result: GetResult,
    range: Range<u64>,
    buffer: &mut [u8],
    got: &mut usize,
    limit: Duration,
) -> std::result::Result<(), Failure> {
    if result.range != range {
        return Err(errors::about(path, "the store sent a different range than requested").into());
    }
    let mut body = result.into_stream();
    let mut pace = Pace::new(limit);
    loop {
        let next = pace.wait(body.next()).await;
        let next =
            next.map_err(|_| Failure::passing(errors::about(path, format!("the store {}", pace.slow()))))?;
        let Some(bytes) = next.transpose().map_err(|error| failed(path, &error))? else { break };
        let Some(part) = buffer.get_mut(*got..got.saturating_add(bytes.len())) else {
            return Err(errors::about(path, "the store sent more than requested").into());
        };
        part.copy_from_slice(&bytes);
        *got += bytes.len();
        pace.came(bytes.len());
    }
    if *got < buffer.len() {
        let message = format!("the response of the store ended {} bytes early", buffer.len() - *got);
        return Err(Failure::passing(errors::about(path, message)));
    }
    Ok(())
}

/// Converts a store's error for a read into a failure, which may be transient.
fn failed(path: &str, error: &object_store::Error) -> Failure {
    let passing = |after, unconnected| Passing { error: failure(path, error), after, unconnected };
    match (connector::problem(error), connector::broken(error)) {
        (Some(problem), _) if problem.passes => Failure::Passing(passing(problem.after, problem.is_absent)),
        (None, Some(broken)) => Failure::Passing(passing(None, broken.kind() == HttpErrorKind::Connect)),
        _ => Failure::Final(failure(path, error)),
    }
}

/// Describes a store's error without secrets.
fn failure(path: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Store;
    if let Some(problem) = connector::problem(error).filter(|problem| !problem.is_absent) {
        return problem.hinted(errors::about(path, &*problem.message)).answered(problem.status);
    }
    if let Some(broken) = connector::broken(error).filter(|_| status(error).is_none())
        && !chain(error).contains(METADATA)
    {
        return unconnected(path, broken, error);
    }
    let message = match error {
        Store::NotFound { .. } => "there is no such object, or no such bucket: check the name".to_owned(),
        Store::Precondition { .. } | Store::NotModified { .. } => return errors::changed(path),
        denied if denies(denied) => {
            "the store denies access: check the credentials, and that they may read the object".to_owned()
        }
        other => {
            let text = chain(other);
            // Without other credentials, the machine's metadata service is asked.
            if text.contains(METADATA) {
                return errors::about(path, NO_CREDENTIALS)
                    .hint("remote.store.anonymous", ANONYMOUS)
                    .answered(status(error));
            } else if let Some(detail) = connector::detail(&text) {
                let status = status(error).map(|status| format!(" {status}")).unwrap_or_default();
                format!("the store answered{status}: {}", scrubbed(&detail))
            } else if let Some(status) = status(error) {
                format!("the store answered {status}")
            } else {
                format!("the store failed: {}", scrubbed(bare(&text)))
            }
        }
    };
    errors::about(path, message).answered(status(error))
}

/// The address of the metadata service of a machine.
const METADATA: &str = "169.254.169.254";

/// Returns whether a store denies access. The end of an upload reports the status only as text.
fn denies(error: &object_store::Error) -> bool {
    matches!(status(error), Some(401 | 403))
}

/// Returns the status of a store's response. Its client reports it as an error variant or as text.
fn status(error: &object_store::Error) -> Option<u16> {
    use object_store::Error as Store;
    if let Some(problem) = connector::problem(error) {
        return problem.status;
    }
    match error {
        Store::Unauthenticated { .. } => Some(401),
        Store::PermissionDenied { .. } => Some(403),
        Store::NotFound { .. } => Some(404),
        other => {
            let text = chain(other);
            let (_, behind) = text.split_once("status code: ")?;
            behind.get(..3)?.parse().ok().filter(|status| (100..600).contains(status))
        }
    }
}

/// Joins the messages of an error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StoreOptions;

    #[test]
    fn internal_messages_of_clients_are_not_shown() {
        for (text, reason) in [
            (
                "Generic S3 error: Error performing GET http://h/k in 5ms - HTTP error: sent nothing",
                "sent nothing",
            ),
            ("Generic GCS error: no key", "no key"),
            ("no key - or so", "no key - or so"),
        ] {
            assert_eq!(bare(text), reason);
        }
    }

    #[test]
    fn an_endpoint_is_a_url_of_a_server() {
        for url in ["nonsense", "", "host:9000", "ftp://host", "https://"] {
            let store = StoreOptions { endpoint: Some(url.to_owned()), ..StoreOptions::default() };
            let error = check_endpoints("s3", &Options { store, ..Options::default() }).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArg, "{url}");
        }
    }

    #[test]
    fn queries_of_urls_are_not_shown() {
        let text = "GET https://a.blob/x?sig=SECRET failed: what? because";
        assert_eq!(scrubbed(text), "GET https://a.blob/x?… failed: what? because");
    }

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
