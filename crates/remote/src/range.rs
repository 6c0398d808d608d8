//! Reads one range of a file, of the version that was opened. Retries transient failures, continuing after the bytes that arrived.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, TryStreamExt, stream};
use http::header::RANGE;
use reqwest::header::{HeaderMap, HeaderValue};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::work::Stop;

use crate::answer::{self, ContentRange};
use crate::client::{Answer, Client};
use crate::errors::{self, Failure};
use crate::options::Options;
use crate::origin::{Hop, Target};
use crate::retry::retrying;
use crate::runtime;
use crate::source::Ranges;
use crate::version::Version;

/// Maximum requests for one range to a server that sends only a part of it each time.
const SHORT_ANSWERS: u32 = 1000;

/// A remote file, as described by the first response.
pub struct Opened {
    pub client: Arc<Client>,
    pub target: Target,
    pub length: u64,
    pub version: Version,
    /// The entity tag by which the hub names the file.
    pub hub_tag: Option<HeaderValue>,
    /// The redirect target, which is used until it fails: its URL may be signed for a limited time.
    pub hop: Mutex<Option<Hop>>,
    /// Bytes of it held in memory in full.
    pub held: u64,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.client.whole_bytes.fetch_sub(self.held, Ordering::Relaxed);
    }
}

impl Ranges for Opened {
    fn length(&self) -> u64 {
        self.length
    }

    fn version(&self) -> u64 {
        self.version.number()
    }

    fn options(&self) -> &Options {
        &self.client.options
    }

    fn fill(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        runtime::wait(stop, self.pieces(offset, buffer))
    }
}

/// Returns the header that requests a range, both ends inclusive.
pub fn header(first: u64, last: u64) -> Result<(http::HeaderName, HeaderValue)> {
    let value = HeaderValue::try_from(format!("bytes={first}-{last}"));
    Ok((RANGE, value.map_err(|_| Error::new(Code::Internal, "a range has no text"))?))
}

/// Returns the header that requests the last byte of a file.
pub fn last_byte() -> (http::HeaderName, HeaderValue) {
    (RANGE, HeaderValue::from_static("bytes=-1"))
}

impl Opened {
    /// Fills a buffer from an offset, with concurrent requests.
    async fn pieces(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let options = &self.client.options;
        let pieces = buffer.chunks_mut(options.piece_bytes).scan(offset, |next, piece| {
            let first = *next;
            *next += piece.len() as u64;
            Some(self.piece(first, piece))
        });
        // The first failure drops all of them, which closes their connections.
        stream::iter(pieces).buffer_unordered(options.concurrency).try_collect().await
    }

    /// Fills a buffer from an offset. A server may answer with the first bytes of a range only (RFC 9110 §15.3.7): it is asked again for
    /// the rest.
    pub async fn piece(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut got = 0;
        for _ in 0..SHORT_ANSWERS {
            retrying(&self.client.options, async || self.attempt(offset, buffer, &mut got).await).await?;
            if got == buffer.len() {
                return Ok(());
            }
        }
        let message =
            format!("the server sends only a part of each range: {got} bytes after {SHORT_ANSWERS} requests");
        Err(errors::about(&self.target.path, message))
    }

    /// Requests the rest of a range, and reads what is sent of it.
    async fn attempt(
        &self,
        offset: u64,
        buffer: &mut [u8],
        got: &mut usize,
    ) -> std::result::Result<(), Failure> {
        if *got == buffer.len() {
            return Ok(());
        }
        let (first, last) = (offset + *got as u64, offset + buffer.len() as u64 - 1);
        let mut answer = self.ask(first, last).await?;
        let last = self.check(&answer, first, last)?;
        let expected = usize::try_from(last - offset + 1).unwrap_or(usize::MAX).min(buffer.len());
        let path = &*self.target.path;
        answer::pour(&self.client.options, path, &mut answer, |bytes| {
            let end = *got + bytes.len();
            let part = buffer.get_mut(..expected).and_then(|part| part.get_mut(*got..end));
            part.ok_or_else(|| answer::too_long(path))?.copy_from_slice(bytes);
            *got = end;
            Ok(())
        })
        .await?;
        if *got < expected {
            let message = format!("the response of the server ended {} bytes early", expected - *got);
            return Err(Failure::passing(errors::about(path, message)));
        }
        Ok(())
    }

    async fn ask(&self, first: u64, last: u64) -> std::result::Result<Answer<'_>, Failure> {
        let mut headers: HeaderMap = [header(first, last)?].into_iter().collect();
        self.version.demand(&mut headers);
        let known = self.hop.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            let asked = self.client.get(&self.target, Some(known), &headers).await;
            let expired = match &asked {
                Ok(answer) => matches!(answer.response.status().as_u16(), 400 | 401 | 403 | 404 | 410),
                Err(Failure::Passing(passing)) => passing.unconnected,
                Err(Failure::Final(_)) => false,
            };
            if !expired {
                return asked;
            }
        }
        let answer = self.client.get(&self.target, None, &headers).await?;
        let led = (answer.hop.redirects > 0).then(|| answer.hop.clone());
        *self.hop.lock().unwrap_or_else(PoisonError::into_inner) = led;
        Ok(answer)
    }

    /// Checks that a response is the requested range or the first bytes of it. Returns the position of its last byte.
    fn check(&self, answer: &Answer<'_>, first: u64, last: u64) -> std::result::Result<u64, Failure> {
        let (path, headers) = (&*self.target.path, answer.response.headers());
        let status = answer.response.status().as_u16();
        match status {
            200 | 206 => {}
            // The file has another tag or date, or is shorter.
            412 | 416 => return Err(errors::changed(path).into()),
            _ => return Err(answer.refusal(&self.target)),
        }
        answer::check_coding(path, headers)?;
        if !self.version.is_of(headers) {
            return Err(errors::changed(path).into());
        }
        let wanted = ContentRange { first, last, total: Some(self.length) };
        let held = if status == 206 {
            answer::held(headers)
        } else {
            // The whole file is acceptable if it is the requested range.
            Some(ContentRange { first: 0, last: self.length.saturating_sub(1), total: Some(self.length) })
        };
        let sent = match held {
            Some(held) if held == wanted => last,
            Some(_) if status == 200 => {
                let message = "the server sends the whole file (200) instead of a range, although it supported ranges when the file was opened";
                return Err(errors::about(path, message).into());
            }
            Some(held) if held.total.is_some_and(|total| total != self.length) => {
                return Err(errors::changed(path).into());
            }
            Some(held) if held.first == first && held.last <= last => held.last,
            held => return Err(other_range(path, wanted, held).into()),
        };
        if answer.response.content_length().is_some_and(|stated| stated > sent - first + 1) {
            return Err(answer::too_long(path));
        }
        Ok(sent)
    }
}

/// Builds the error for a response with a different range.
pub fn other_range(path: &str, wanted: ContentRange, held: Option<ContentRange>) -> Error {
    let ContentRange { first, last, .. } = wanted;
    let sent = match held {
        Some(ContentRange { first, last, total: Some(total) }) => format!("{first}-{last} of {total}"),
        Some(ContentRange { first, last, total: None }) => format!("{first}-{last}"),
        None => "a range without a valid Content-Range".to_owned(),
    };
    errors::about(path, format!("the server sends {sent} instead of the requested bytes {first}-{last}"))
}
