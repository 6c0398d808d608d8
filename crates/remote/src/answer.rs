//! Checks that a response is the requested range of the expected version, and limits its body.

use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE};
use reqwest::header::HeaderMap;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};
use ztensor_core::error::{Error, short};

use crate::client::Answer;
use crate::errors::{self, Failure};
use crate::options::Options;

/// Bytes that a server must send within the idle timeout: one that sends a byte from time to time blocks a reader like one that sends
/// nothing.
const STEP: usize = 1 << 10;
/// How many times the idle timeout a whole response may take that is a list rather than file data.
pub const WHOLE: u32 = 4;
/// A duration that never elapses.
const NEVER: Duration = Duration::from_secs(86_400 * 365);

/// Tracks the progress of a body.
pub struct Pace {
    limit: Duration,
    /// Bytes that must arrive within the timeout.
    step: usize,
    /// Deadline of the next step.
    until: Instant,
    came: usize,
    /// When the last bytes arrived.
    last: Instant,
}

impl Pace {
    pub fn new(limit: Duration) -> Self {
        Self::by(STEP, limit)
    }

    /// For a server that may only send keep-alive bytes while it prepares its response.
    pub fn patient(limit: Duration) -> Self {
        Self::by(1, limit)
    }

    fn by(step: usize, limit: Duration) -> Self {
        let now = Instant::now();
        Self { limit, step, until: after(now, limit), came: 0, last: now }
    }

    /// Waits for the next chunk, unless the server is too slow.
    pub async fn wait<T>(&self, next: impl Future<Output = T>) -> Result<T, Elapsed> {
        timeout_at(self.until, next).await
    }

    /// Records bytes that arrived.
    pub fn came(&mut self, bytes: usize) {
        self.last = Instant::now();
        self.came = self.came.saturating_add(bytes);
        if self.came >= self.step {
            (self.came, self.until) = (0, after(self.last, self.limit));
        }
    }

    /// Describes how slow the server is, after it was too slow.
    pub fn slow(&self) -> String {
        let limit = self.limit;
        if self.last.elapsed() >= limit / 2 {
            return format!("sent nothing for {limit:?}");
        }
        format!("sent {} bytes in {limit:?}", self.came)
    }
}

fn after(now: Instant, limit: Duration) -> Instant {
    now.checked_add(limit).or_else(|| now.checked_add(NEVER)).unwrap_or(now)
}

/// The range of a response, from its Content-Range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    pub first: u64,
    pub last: u64,
    /// Length of the whole file, if the server states it (RFC 9110 §14.4).
    pub total: Option<u64>,
}

/// Parses `bytes 0-9/100` or `bytes 0-9/*`. `None` for any other form.
pub fn held(headers: &HeaderMap) -> Option<ContentRange> {
    let mut values = headers.get_all(CONTENT_RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (range, total) = value.to_str().ok()?.strip_prefix("bytes ")?.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(number(total)?) };
    let held = ContentRange { first: number(first)?, last: number(last)?, total };
    (held.first <= held.last && total.is_none_or(|total| held.last < total)).then_some(held)
}

/// Returns whether a 416 response states that the file is empty.
pub fn is_empty(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_RANGE).is_some_and(|value| value.as_bytes() == b"bytes */0")
}

/// Accepts only digits: `parse` would also accept a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns the media type of a Content-Type, in lowercase.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Rejects an encoded body or several parts.
pub fn check_coding(path: &str, headers: &HeaderMap) -> Result<(), Error> {
    for coding in headers.get_all(CONTENT_ENCODING) {
        let coding = String::from_utf8_lossy(coding.as_bytes());
        if !coding.split(',').all(|one| changes_nothing(one.trim())) {
            let message = format!(
                "the server sends the file compressed (Content-Encoding: {}), although the request disallows it, and ranges of compressed data cannot be used; configure it to serve the file uncompressed",
                short(&coding, 40)
            );
            return Err(errors::about(path, message));
        }
    }
    if media_type(headers) == "multipart/byteranges" {
        let message =
            "the server sends several parts (multipart/byteranges), although one range was requested";
        return Err(errors::about(path, message));
    }
    Ok(())
}

/// Returns whether bytes have their own form under a coding. Stores keep `aws-chunked`, which describes an upload, and some files have
/// their charset there.
fn changes_nothing(coding: &str) -> bool {
    const NAMES: [&str; 10] =
        ["", "identity", "none", "binary", "aws-chunked", "utf-8", "utf8", "us-ascii", "ascii", "latin1"];
    let coding = coding.to_ascii_lowercase();
    let charset = ["iso-8859-", "windows-125", "utf-16", "utf-32", "charset="];
    NAMES.contains(&&*coding) || charset.iter().any(|start| coding.starts_with(start))
}

/// Returns whether headers and body indicate a web page.
pub fn is_page(media_type: &str, body: &[u8]) -> bool {
    let html = matches!(media_type, "text/html" | "application/xhtml+xml");
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    html && body.trim_ascii_start().first().is_none_or(|&byte| byte == b'<')
}

/// Delivers the body chunk by chunk. If the server stated the length, the end is not awaited once all of it arrived.
pub async fn pour(
    options: &Options,
    path: &str,
    answer: &mut Answer<'_>,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut left = answer.response.content_length();
    let mut pace = Pace::new(options.timeout);
    while left != Some(0) {
        let next = pace.wait(answer.response.chunk()).await;
        let next = next.map_err(|_| errors::slow(path, &pace.slow()))?;
        let next =
            next.map_err(|error| errors::of_transport(path, &answer.hop.url, &error, options.timeout))?;
        let Some(bytes) = next else { break };
        left = left.map(|left| left.saturating_sub(bytes.len() as u64));
        pace.came(bytes.len());
        take(&bytes)?;
    }
    Ok(())
}

/// Builds the error for a body longer than requested.
pub fn too_long(path: &str) -> Failure {
    Failure::Final(errors::about(path, "the server sends more bytes than requested"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        let read = |text: &str| held(&HeaderMap::from_iter([(CONTENT_RANGE, text.parse().unwrap())]));
        assert_eq!(read("bytes 0-9/100"), Some(ContentRange { first: 0, last: 9, total: Some(100) }));
        assert_eq!(read("bytes 99-99/100"), Some(ContentRange { first: 99, last: 99, total: Some(100) }));
        assert_eq!(read("bytes 0-9/*"), Some(ContentRange { first: 0, last: 9, total: None }));
        for text in [
            "",
            "bytes",
            "bytes 0-9",
            "bytes 9-0/*",
            "bytes 0-9/**",
            "bytes */100",
            "bytes 9-0/100",
            "bytes 0-100/100",
            "bytes +0-9/100",
            "bytes 0-9/18446744073709551616",
            "bytes -9/100",
            "bytes 0-/100",
            "items 0-9/100",
            "bytes=0-9/100",
            "bytes 0-9/100, 20-29/100",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let mut twice = HeaderMap::new();
        twice.append(CONTENT_RANGE, "bytes 0-9/100".parse().unwrap());
        twice.append(CONTENT_RANGE, "bytes 0-9/200".parse().unwrap());
        assert_eq!(held(&twice), None);
    }

    #[test]
    fn codings_that_change_no_byte_are_accepted() {
        let check = |text: &str| {
            check_coding("f", &HeaderMap::from_iter([(CONTENT_ENCODING, text.parse().unwrap())]))
        };
        for text in [
            "",
            "identity",
            "aws-chunked",
            "AWS-chunked",
            "UTF-8",
            "utf8",
            "ISO-8859-1",
            "aws-chunked, identity",
            "aws-chunked,",
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
        for text in ["gzip", "aws-chunked,gzip", "aws-chunked, zstd", "br", "x-gzip", "something"] {
            assert!(check(text).unwrap_err().message().contains("compressed"), "{text}");
        }
    }

    #[test]
    fn a_patient_reader_waits_while_any_byte_comes() {
        let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        clock.unwrap().block_on(async {
            let byte = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
            let mut patient = Pace::patient(Duration::from_secs(10));
            for _ in 0..5 {
                patient.wait(byte(9)).await.unwrap();
                patient.came(1);
            }
            patient.wait(byte(11)).await.unwrap_err();
            assert!(patient.slow().contains("sent nothing for 10s"));
            let mut default = Pace::new(Duration::from_secs(10));
            default.wait(byte(9)).await.unwrap();
            default.came(1);
            default.wait(byte(9)).await.unwrap_err();
            assert!(default.slow().contains("sent 1 bytes in 10s"));
        });
    }

    #[test]
    fn a_web_page_is_detected_by_its_type_and_first_byte() {
        assert!(is_page("text/html", b"\n <!doctype html>"));
        assert!(is_page("text/html", b"\xef\xbb\xbf<html>"));
        assert!(!is_page("text/html", b"\x10\0\0\0\0\0\0\0{"));
        assert!(!is_page("application/octet-stream", b"<html>"));
    }
}
