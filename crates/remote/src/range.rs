//! Reads one range of a file, of the version that was opened. Retries transient failures, continuing after the bytes that arrived.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, TryStreamExt, stream};
use http::header::RANGE;
use reqwest::header::{HeaderMap, HeaderValue};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::work::Stop;

use crate::answer::{self, Held};
use crate::client::{Answer, Client};
use crate::errors::{self, Failure};
use crate::options::Options;
use crate::origin::{Hop, Target};
use crate::retry::retrying;
use crate::runtime;
use crate::source::Ranges;
use crate::version::Version;

/// A remote file, as described by the first response.
pub struct Opened {
    pub client: Arc<Client>,
    pub target: Target,
    pub length: u64,
    pub version: Version,
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

    async fn piece(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut got = 0;
        retrying(&self.client.options, async || self.attempt(offset, buffer, &mut got).await).await
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
        let (first, last) = (offset + *got as u64, offset + buffer.len() as u64 - 1);
        let mut answer = self.ask(first, last).await?;
        self.check(&answer, first, last)?;
        let path = &*self.target.path;
        answer::pour(&self.client.options, path, &mut answer, |bytes| {
            let end = *got + bytes.len();
            buffer.get_mut(*got..end).ok_or_else(|| answer::too_long(path))?.copy_from_slice(bytes);
            *got = end;
            Ok(())
        })
        .await?;
        if *got < buffer.len() {
            let message = format!("the response of the server ended {} bytes early", buffer.len() - *got);
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

    /// Checks that a response is the requested range.
    fn check(&self, answer: &Answer<'_>, first: u64, last: u64) -> std::result::Result<(), Failure> {
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
        let wanted = Held { first, last, total: self.length };
        let held = if status == 206 {
            answer::held(headers)
        } else {
            // The whole file is acceptable if it is the requested range.
            Some(Held { first: 0, last: self.length.saturating_sub(1), total: self.length })
        };
        match held {
            Some(held) if held == wanted => {}
            Some(_) if status == 200 => {
                let message = "the server sends the whole file (200) instead of a range, although it supported ranges when the file was opened";
                return Err(errors::about(path, message).into());
            }
            Some(held) if held.total != self.length => return Err(errors::changed(path).into()),
            held => return Err(other_range(path, wanted, held).into()),
        }
        let length = last - first + 1;
        if answer.response.content_length().is_some_and(|stated| stated > length) {
            return Err(answer::too_long(path));
        }
        Ok(())
    }
}

/// Builds the error for a response with a different range.
pub fn other_range(path: &str, wanted: Held, held: Option<Held>) -> Error {
    let Held { first, last, .. } = wanted;
    let sent = match held {
        Some(Held { first, last, total }) => format!("{first}-{last} of {total}"),
        None => "a range without a valid Content-Range".to_owned(),
    };
    errors::about(path, format!("the server sends {sent} instead of the requested bytes {first}-{last}"))
}
