//! The first request for a file: its length, its version, and its first bytes, which include most indexes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use http::header::CONTENT_TYPE;
use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::blocks::{Blocks, HEAD as FIRST};
use ztensor_core::work::Stop;

use crate::answer::{self, ContentRange, media_type};
use crate::cache;
use crate::client::{Answer, Client};
use crate::errors::{self, Failure};
use crate::origin::Target;
use crate::range::{self, Opened};
use crate::retry::retrying;
use crate::runtime;
use crate::source::Remote;
use crate::version::Version;

/// Maximum total size of the files of one location held in memory in full, as a multiple of `max_whole_bytes`.
const WHOLE_FILES: u64 = 4;

/// The description of a file in a response.
struct Described {
    /// `None` if the server does not state it with a range.
    length: Option<u64>,
    head: Vec<u8>,
    whole: bool,
}

/// Opens the file at a target, normally with one request.
pub fn open(
    client: &Arc<Client>,
    blocks: &Arc<Blocks>,
    target: &Target,
    stop: &Stop,
) -> Result<Arc<dyn ReadAt>> {
    let (file, head, whole) = request(client, target, stop)?;
    // The URL of a file on the hub contains the commit.
    let version = file.version.sure().or_else(|| target.hub.is_some().then(|| b"commit".to_vec()));
    let source = Remote::new(file, head, whole, blocks);
    Ok(cache::through(source, &cache::location(&target.url), version.as_deref(), &client.options))
}

/// Requests the beginning of a file. Returns the file, its first bytes, and whether these are all.
pub fn request(client: &Arc<Client>, target: &Target, stop: &Stop) -> Result<(Opened, Vec<u8>, bool)> {
    runtime::wait(stop, retrying(&client.options, async || attempt(client, target).await))
}

async fn attempt(
    client: &Arc<Client>,
    target: &Target,
) -> std::result::Result<(Opened, Vec<u8>, bool), Failure> {
    let headers = [range::header(0, FIRST - 1)?].into_iter().collect();
    let mut answer = client.get(target, None, &headers).await?;
    let version = Version::of(answer.response.headers());
    let hop = (answer.hop.redirects > 0).then(|| answer.hop.clone());
    let path = &*target.path;
    answer::check_coding(path, answer.response.headers())?;
    let media = media_type(answer.response.headers());
    let described = match answer.response.status().as_u16() {
        206 => first_part(client, path, &mut answer).await?,
        200 if is_part(answer.response.headers()) => {
            let message = "the server says 200 for a part of the file (Content-Range)";
            return Err(errors::about(path, message).into());
        }
        200 => whole(client, path, &media, &mut answer).await?,
        416 if answer::is_empty(answer.response.headers()) => {
            Described { length: Some(0), head: Vec::new(), whole: true }
        }
        _ => return Err(answer.refusal(target)),
    };
    let hub_tag = answer.hub_tag.take();
    drop(answer);
    let Described { length, mut head, whole } = described;
    let length = match length {
        Some(length) => length,
        None => length_of(client, target, &version).await?,
    };
    let length = checked::exact(length, "the length of the file")?;
    if length < head.len() as u64 {
        return Err(errors::changed(path).into());
    }
    let in_memory = if whole { length } else { 0 };
    let (client, target, hop) = (Arc::clone(client), target.clone(), Mutex::new(hop));
    let file = Opened { client, target, length, version, hub_tag, hop, held: in_memory };
    if !whole && (head.len() as u64) < FIRST.min(length) {
        let got = head.len();
        head.resize(usize::try_from(FIRST.min(length)).unwrap_or(usize::MAX), 0);
        file.piece(got as u64, head.get_mut(got..).unwrap_or_default()).await?;
    }
    if !head.is_empty() && answer::is_page(&media, &head) {
        return Err(errors::page(&file.target.path).into());
    }
    Ok((file, head, whole))
}

/// Returns whether a range is stated that is not the whole file.
fn is_part(headers: &reqwest::header::HeaderMap) -> bool {
    answer::held(headers).is_some_and(|held| held.first > 0 || held.total != Some(held.last + 1))
}

/// Reads the first bytes from a server that supports ranges. It may send fewer than requested.
async fn first_part(
    client: &Client,
    path: &str,
    answer: &mut Answer<'_>,
) -> std::result::Result<Described, Failure> {
    let wanted = ContentRange { first: 0, last: FIRST - 1, total: None };
    let sent = match answer::held(answer.response.headers()) {
        Some(held) if held.first == 0 && held.last < FIRST => held,
        other => return Err(range::other_range(path, wanted, other).into()),
    };
    let length = sent.last + 1;
    if answer.response.content_length().is_some_and(|stated| stated > length) {
        return Err(answer::too_long(path));
    }
    let mut head = Vec::new();
    gather(client, path, answer, &mut head, length, &|| answer::too_long(path)).await?;
    if (head.len() as u64) < length {
        return Err(Failure::passing(errors::about(path, "the first response of the server ended early")));
    }
    Ok(Described { length: sent.total, head, whole: false })
}

/// Returns the length of a file whose ranges do not state it: from the position of its last byte, or from the length of the whole.
async fn length_of(client: &Client, target: &Target, version: &Version) -> std::result::Result<u64, Failure> {
    let path = &*target.path;
    let answer = client.get(target, None, &[range::last_byte()].into_iter().collect()).await?;
    let headers = answer.response.headers();
    let total = match answer.response.status().as_u16() {
        206 => answer::held(headers).filter(|held| held.first == held.last).map(|held| held.last + 1),
        200 => answer.response.content_length(),
        _ => return Err(answer.refusal(target)),
    };
    if !version.is_of(headers) {
        return Err(errors::changed(path).into());
    }
    let unknown = || {
        errors::about(
            path,
            "the server does not state the length of the file (Content-Range, Content-Length)",
        )
    };
    Ok(total.ok_or_else(unknown)?)
}

/// Reads the whole file from a server that does not support ranges.
async fn whole(
    client: &Client,
    path: &str,
    media: &str,
    answer: &mut Answer<'_>,
) -> std::result::Result<Described, Failure> {
    let max = client.options.max_whole_bytes;
    let limit = |length: &str| {
        let message = format!(
            "the server does not support ranges (it ignores Range), and the file has {length}, more than the {max} bytes that are held in memory"
        );
        Failure::Final(
            Error::new(Code::Limit, message).option("remote.maxWholeBytes").file(std::path::Path::new(path)),
        )
    };
    let stated = answer.response.content_length();
    if let Some(length) = stated.filter(|&length| length > max) {
        // A web page is detected only by its headers here, because its bytes are not read.
        let page = media == "text/html" && answer.response.headers().contains_key(CONTENT_TYPE);
        return Err(if page { errors::page(path).into() } else { limit(&format!("{length} bytes")) });
    }
    let mut bytes = Vec::new();
    gather(client, path, answer, &mut bytes, max, &|| limit("more bytes")).await?;
    if stated.is_some_and(|stated| stated != bytes.len() as u64) {
        return Err(Failure::passing(errors::about(path, "the response of the server ended early")));
    }
    let length = bytes.len() as u64;
    let held = client.whole_bytes.fetch_add(length, Ordering::Relaxed);
    if held.saturating_add(length) > max.saturating_mul(WHOLE_FILES) {
        client.whole_bytes.fetch_sub(length, Ordering::Relaxed);
        return Err(limit("more bytes with the other files of the set"));
    }
    Ok(Described { length: Some(length), head: bytes, whole: true })
}

/// Collects a body of at most `max` bytes, in memory that grows as bytes arrive.
async fn gather(
    client: &Client,
    path: &str,
    answer: &mut Answer<'_>,
    bytes: &mut Vec<u8>,
    max: u64,
    over: &(dyn Fn() -> Failure + Sync),
) -> std::result::Result<(), Failure> {
    answer::pour(&client.options, path, answer, |piece| {
        if (bytes.len() + piece.len()) as u64 > max {
            return Err(over());
        }
        bytes.try_reserve(piece.len()).map_err(|_| {
            Error::new(Code::Limit, format!("not enough memory for {} bytes of a file", bytes.len()))
        })?;
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .await
}
