//! Stores of objects: S3 and what speaks as it does, Google Cloud Storage, Azure's blobs. Their clients are those of `object_store`,
//! over connections of ours.

mod connector;
mod profile;
mod upload;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
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
use connector::Connector;

/// Objects and folders of a list that are looked at for the names of a folder.
const LOOKED_AT: usize = 200_000;
/// Pages of such a list, and those of them in a row that hold nothing new: stores may send empty ones.
const PAGES: usize = 1000;
const EMPTY_PAGES: usize = 100;
/// Bytes of the text by which a store names its next page, which goes into a URL.
const TOKEN: usize = 8 << 10;
/// The most that a store may want a reader to wait between two tries of a request that writes.
const LONGEST: Duration = Duration::from_secs(10);

const NO_CREDENTIALS: &str = "no credentials were found: set them in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY), or pass remote: { store: { anonymous: true } } for what everybody may read";

/// How to reach a store, where the environment does not say. Its `Debug` shows no secret.
#[derive(Clone, Default)]
pub struct StoreOptions {
    pub region: Option<String>,
    /// The URL of another store that speaks the same.
    pub endpoint: Option<String>,
    pub allow_http: bool,
    pub virtual_hosted_style: bool,
    /// Sign nothing: for what everybody may read.
    pub anonymous: bool,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<String>,
    pub session_token: Option<String>,
    /// Of Azure.
    pub account: Option<String>,
    pub account_key: Option<String>,
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}

/// A bucket, or a container of Azure's.
struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// The same store; `None` of one that is not listed.
    lists: Option<Arc<dyn PaginatedListStore>>,
    /// `s3://bucket/`.
    root: String,
    options: Options,
    blocks: Arc<Blocks>,
    /// A folder that could not be listed, and why.
    unlisted: Mutex<Option<(PathBuf, Error)>>,
    /// An object that could not be opened, and the status that said so.
    unopened: Mutex<Option<(PathBuf, Option<u16>)>>,
    /// Held so that others find it.
    #[expect(dead_code)]
    pool: Arc<Pool>,
}

/// The places of `s3://bucket/key`, `gs://bucket/key` or `az://container/key`.
pub fn filesystem(scheme: &str, url: &str, options: &Options) -> Result<(Arc<dyn Filesystem>, PathBuf)> {
    let (bucket, path) = bucket(scheme, url, Connector::reading(options)?)?;
    Ok((Arc::new(bucket), path))
}

/// Takes files for the store of such a URL.
pub fn uploads(
    scheme: &str,
    url: &str,
    options: &Options,
    overwrite: bool,
) -> Result<(Arc<dyn Uploads>, PathBuf)> {
    // Google's store refuses preconditions of what comes in parts, and Azure's key signs them.
    let create = !overwrite && scheme == "s3";
    let (bucket, path) = bucket(scheme, url, Connector::writing(options, create)?)?;
    Ok((Arc::new(upload::Store::new(bucket, overwrite)), path))
}

/// The bucket of a URL, and the path of its object.
fn bucket(scheme: &str, url: &str, connector: Connector) -> Result<(Bucket, PathBuf)> {
    let options = &connector.options.clone();
    options.check()?;
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-$".contains(c);
    if bucket.is_empty() || !bucket.chars().all(plain) {
        let message = format!("{:?} names no bucket: {scheme}://bucket/key is meant", short(rest, 160));
        return Err(Error::new(Code::InvalidArg, message));
    }
    let plain = |url: &String| url.to_ascii_lowercase().starts_with("http:");
    if options.store.endpoint.as_ref().is_some_and(plain) && !options.store.allow_http {
        let message = "the endpoint of the store is http:, which anybody on the way can read and change: if that is right, set the option store.allowHttp";
        return Err(Error::new(Code::InvalidArg, message));
    }
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

/// A store, as what it does beside lists and as what lists.
type Made = (Arc<dyn ObjectStore>, Arc<dyn PaginatedListStore>);

fn made<T: ObjectStore + PaginatedListStore>(store: T) -> Made {
    let store = Arc::new(store);
    (Arc::<T>::clone(&store), store)
}

fn s3(bucket: &str, connector: Connector) -> Result<Made> {
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
    if let Some(endpoint) = &own.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let given = own.access_key_id.clone().zip(own.secret_access_key.clone());
    let has_own = options.variable("AWS_ACCESS_KEY_ID").is_some()
        || options.variable("AWS_WEB_IDENTITY_TOKEN_FILE").is_some()
        || own.anonymous;
    let found = given.map(|(id, secret)| (id, secret, own.session_token.clone()));
    let found = found.or_else(|| if has_own { None } else { profile::credentials(options) });
    if let Some((id, secret, token)) = found {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        if let Some(token) = token {
            builder = builder.with_token(token);
        }
    }
    if own.region.is_none()
        && options.variable("AWS_REGION").is_none()
        && let Some(region) = options.variable("AWS_DEFAULT_REGION").or_else(|| profile::region(options))
    {
        builder = builder.with_region(region);
    }
    Ok(made(builder.build().map_err(|error| refused("s3", &error))?))
}

fn gcs(bucket: &str, connector: Connector) -> Result<Made> {
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

fn azure(container: &str, connector: Connector) -> Result<Made> {
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

/// A builder with what the variables that begin so say, of those that it knows.
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

/// What tells an object from all others: its URL, and which server that is of. No secret is in it.
fn where_it_is(url: &str, options: &Options) -> String {
    let own = [&options.store.endpoint, &options.store.account].map(|text| text.clone().unwrap_or_default());
    let variables = ENDPOINTS.map(|name| options.variable(name).unwrap_or_default());
    [url].into_iter().chain(own.iter().chain(&variables).map(String::as_str)).collect::<Vec<_>>().join("\n")
}

/// Variables that choose a server.
const ENDPOINTS: [&str; 7] = [
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ENDPOINT",
    "GOOGLE_BASE_URL",
    "STORAGE_EMULATOR_HOST",
];

/// How often the client of a store tries again by itself: never where it reads. Readers do that in one place, with what they have got so far.
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

fn refused(scheme: &str, error: &object_store::Error) -> Error {
    let message = format!("the store of {scheme}: cannot be used: {}", scrubbed(&error.to_string()));
    Error::new(Code::InvalidArg, message)
}

/// A text without the queries of its URLs, which may be signatures.
fn scrubbed(text: &str) -> String {
    let mut words = text.split_inclusive(char::is_whitespace).map(|word| match word.split_once('?') {
        Some((place, _)) if place.contains("://") => format!("{place}?… "),
        _ => word.to_owned(),
    });
    let text: String = words.by_ref().collect();
    short(&text, 400).into_owned()
}

impl Bucket {
    fn key(&self, path: &Path) -> Result<Key> {
        let text = path.to_string_lossy();
        let key = text.strip_prefix(&self.root).unwrap_or_default();
        Key::parse(key).map_err(|_| {
            let message = format!("{:?} is no key of an object", short(key, 160));
            Error::new(Code::InvalidArg, message)
        })
    }

    fn unopened(&self) -> MutexGuard<'_, Option<(PathBuf, Option<u16>)>> {
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlisted(&self) -> MutexGuard<'_, Option<(PathBuf, Error)>> {
        self.unlisted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the keys of objects in a folder begin with.
    fn under(&self, folder: &Path) -> Result<String> {
        let key = self.key(folder)?;
        Ok(if key.as_ref().is_empty() { String::new() } else { format!("{key}/") })
    }

    /// The length, the version and the first bytes of an object.
    async fn first(&self, key: &Key, path: &str) -> std::result::Result<(Facts, Vec<u8>), Failure> {
        let first = GetOptions { range: Some(GetRange::Bounded(0..FIRST)), ..GetOptions::default() };
        let result = match self.store.get_opts(key, first).await {
            Ok(result) => result,
            // Of an empty object there is no range.
            Err(error) if may_be_empty(&error) => match self.store.head(key).await {
                Ok(meta) if meta.size == 0 => {
                    return Ok((Facts { length: 0, tag: meta.e_tag }, Vec::new()));
                }
                _ => return Err(failed(path, &error)),
            },
            Err(error) => return Err(failed(path, &error)),
        };
        let length = checked::exact(result.meta.size, "the length of the object")?;
        let tag = result.meta.e_tag.clone();
        let mut head = vec![0; usize::try_from(length.min(FIRST)).unwrap_or_default()];
        pour(path, result, 0..length.min(FIRST), &mut head, &mut 0, self.options.timeout).await?;
        Ok((Facts { length, tag }, head))
    }

    /// The names in a folder, up to `most` of them and one more. A list that is cut short is an error: what is missing cannot be told.
    async fn names(&self, path: &str, prefix: &str, most: usize) -> Result<BTreeSet<String>> {
        let Some(lists) = &self.lists else {
            return Err(Error::new(Code::Internal, "a store that is not listed"));
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
            if names.len() > most {
                return Ok(names);
            }
            let Some(next) = page.page_token.filter(|next| !next.is_empty()) else { return Ok(names) };
            if next.len() > TOKEN {
                let message = format!("the store names the next page of its list by {} bytes", next.len());
                return Err(errors::about(path, message));
            }
            looked += count;
            if looked >= LOOKED_AT {
                let message = format!(
                    "the folder has more than {LOOKED_AT} objects and folders, as many as are looked at: name a file of it"
                );
                return Err(Error::new(Code::Limit, message).file(Path::new(path)));
            }
            pages.next(&next, names.len() > before)?;
            token = Some(next);
        }
    }
}

/// Whether a range may have been refused since the object has no bytes: what neither the connection nor the status says otherwise.
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
        let place = where_it_is(&text, &options);
        let object = Object { store, key, path: text, facts: object, options };
        let source = Remote::new(object, head, whole, &self.blocks);
        let version = version.as_ref().map(String::as_bytes);
        Ok(cache::through(source, &place, version, &self.options))
    }

    fn is_folder(&self, path: &Path, stop: &Stop) -> bool {
        // A store that does not answer for an object is not asked for a folder as well: its first error says what is wrong.
        let unopened = self.unopened().take_if(|(unopened, _)| unopened == path);
        let status = unopened.map_or(Some(404), |(_, status)| status);
        if !matches!(status, Some(400 | 401 | 403 | 404)) {
            return false;
        }
        match self.list(path, 1, stop) {
            Ok(names) => !names.is_empty(),
            // A store that does not list says no more of a path than that nothing can be read there.
            Err(error)
                if status != Some(404) || matches!(error.status(), Some(401 | 403 | 404 | 405 | 501)) =>
            {
                false
            }
            // Whoever lists the folder next is to know why that failed, at no further request.
            Err(error) => {
                *self.unlisted() = Some((path.to_owned(), error));
                true
            }
        }
    }

    fn list(&self, folder: &Path, most: usize, stop: &Stop) -> Result<Vec<OsString>> {
        if let Some((_, error)) = self.unlisted().take_if(|(path, _)| path == folder) {
            return Err(error);
        }
        let prefix = self.under(folder)?;
        let text = folder.to_string_lossy().into_owned();
        let names = runtime::wait(stop, self.names(&text, &prefix, most))?;
        Ok(names.into_iter().map(OsString::from).collect())
    }

    fn is_file(&self, _path: &Path) -> bool {
        false
    }
}

/// What the first answer said of an object.
struct Facts {
    length: u64,
    /// Which version it is: asked for with each range.
    tag: Option<String>,
}

/// An object of one version.
struct Object {
    store: Arc<dyn ObjectStore>,
    key: Key,
    path: String,
    facts: Facts,
    options: Options,
}

impl Object {
    async fn piece(&self, offset: u64, room: &mut [u8]) -> Result<()> {
        let mut got = 0;
        retrying(&self.options, async || self.attempt(offset, room, &mut got).await).await
    }

    /// Asks for what is left of a range.
    async fn attempt(
        &self,
        offset: u64,
        room: &mut [u8],
        got: &mut usize,
    ) -> std::result::Result<(), Failure> {
        if *got == room.len() {
            return Ok(());
        }
        let range = offset + *got as u64..offset + room.len() as u64;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.facts.tag.clone(),
            ..GetOptions::default()
        };
        let result = self.store.get_opts(&self.key, options).await;
        let result = result.map_err(|error| failed(&self.path, &error))?;
        if result.meta.size != self.facts.length || result.meta.e_tag != self.facts.tag {
            return Err(errors::changed(&self.path).into());
        }
        pour(&self.path, result, range, room, got, self.options.timeout).await
    }
}

impl Ranges for Object {
    fn length(&self) -> u64 {
        self.facts.length
    }

    fn version(&self) -> u64 {
        let Some(tag) = &self.facts.tag else { return 0 };
        // FNV-1a: the same in every process.
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

/// Fills a buffer, from what it has got on, with the range that was asked for, which an answer has to be.
async fn pour(
    path: &str,
    result: GetResult,
    range: Range<u64>,
    room: &mut [u8],
    got: &mut usize,
    limit: Duration,
) -> std::result::Result<(), Failure> {
    if result.range != range {
        return Err(errors::about(path, "the store sent another range than it was asked for").into());
    }
    let mut body = result.into_stream();
    let mut pace = Pace::new(limit);
    loop {
        let next = pace.wait(body.next()).await;
        let next =
            next.map_err(|_| Failure::passing(errors::about(path, format!("the store {}", pace.slow()))))?;
        let Some(bytes) = next.transpose().map_err(|error| failed(path, &error))? else { break };
        let Some(part) = room.get_mut(*got..got.saturating_add(bytes.len())) else {
            return Err(errors::about(path, "the store sent more than it was asked for").into());
        };
        part.copy_from_slice(&bytes);
        *got += bytes.len();
        pace.came(bytes.len());
    }
    if *got < room.len() {
        let message = format!("the store ended its answer {} bytes early", room.len() - *got);
        return Err(Failure::passing(errors::about(path, message)));
    }
    Ok(())
}

/// What a store says of a request that reads, and whether another try may do better.
fn failed(path: &str, error: &object_store::Error) -> Failure {
    let passing = |after, unconnected| Passing { error: failure(path, error), after, unconnected };
    match (connector::problem(error), connector::broken(error)) {
        (Some(problem), _) if problem.passes => Failure::Passing(passing(problem.after, problem.is_absent)),
        (None, Some(broken)) => Failure::Passing(passing(None, broken.kind() == HttpErrorKind::Connect)),
        _ => Failure::Final(failure(path, error)),
    }
}

/// What a store says, without what may be secret in it.
fn failure(path: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Store;
    if let Some(problem) = connector::problem(error).filter(|problem| !problem.is_absent) {
        return errors::about(path, &*problem.message).answered(problem.status);
    }
    let message = match error {
        Store::NotFound { .. } => "there is no such object, or no such bucket: check the name".to_owned(),
        Store::Precondition { .. } | Store::NotModified { .. } => return errors::changed(path),
        denied if denies(denied) => {
            "the store denies access: check the credentials, and that they may read the object".to_owned()
        }
        other => {
            let text = chain(other);
            // Where nothing else has them, the machine's own service of credentials is asked.
            if text.contains("169.254.169.254") {
                NO_CREDENTIALS.to_owned()
            } else if let Some(detail) = connector::detail(&text) {
                let status = status(error).map(|status| format!(" {status}")).unwrap_or_default();
                format!("the store answered{status}: {}", scrubbed(&detail))
            } else {
                scrubbed(&text)
            }
        }
    };
    errors::about(path, message).answered(status(error))
}

/// Whether a store denies access. The end of an upload gives the status in a text alone.
fn denies(error: &object_store::Error) -> bool {
    matches!(status(error), Some(401 | 403))
}

/// The status that a store answered with. Its client gives it as a kind of error, or in a text.
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

/// The texts of an error and of what caused it.
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

    #[test]
    fn queries_of_urls_are_not_shown() {
        let text = "GET https://a.blob/x?sig=SECRET failed: what? because";
        assert_eq!(scrubbed(text), "GET https://a.blob/x?… failed: what? because");
    }

    #[test]
    fn urls_that_name_no_bucket_are_refused() {
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
