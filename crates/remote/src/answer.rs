//! Whether an answer is the range of the version that was asked for, and its body, no longer than it may be.

use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE};
use reqwest::header::HeaderMap;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};
use ztensor_core::error::{Error, short};

use crate::client::Answer;
use crate::errors::{self, Failure};
use crate::options::Options;

/// Bytes that a server has to send, at least, in the time in which it may send nothing: one that sends a byte now and then holds up its
/// reader as one does that is silent.
const STEP: usize = 1 << 10;
/// How much longer than silence a whole answer may take that is a list, and no bytes of a file.
pub const WHOLE: u32 = 4;
/// A time that does not come.
const NEVER: Duration = Duration::from_secs(86_400 * 365);

/// How a body comes along.
pub struct Pace {
    limit: Duration,
    /// Bytes that have to come in that time.
    step: usize,
    /// When the next step has to have come.
    until: Instant,
    came: usize,
    /// When the last bytes came.
    last: Instant,
}

impl Pace {
    pub fn new(limit: Duration) -> Self {
        Self::by(STEP, limit)
    }

    /// Of a server that has nothing to send yet, and a byte now and then to say so.
    pub fn patient(limit: Duration) -> Self {
        Self::by(1, limit)
    }

    fn by(step: usize, limit: Duration) -> Self {
        let now = Instant::now();
        Self { limit, step, until: after(now, limit), came: 0, last: now }
    }

    /// Waits for the next piece, until the server has been too slow.
    pub async fn wait<T>(&self, next: impl Future<Output = T>) -> Result<T, Elapsed> {
        timeout_at(self.until, next).await
    }

    /// So many bytes came.
    pub fn came(&mut self, bytes: usize) {
        self.last = Instant::now();
        self.came = self.came.saturating_add(bytes);
        if self.came >= self.step {
            (self.came, self.until) = (0, after(self.last, self.limit));
        }
    }

    /// How slow the server is, after it was too slow.
    pub fn slow(&self) -> String {
        let limit = self.limit;
        if self.last.elapsed() >= limit / 2 {
            return format!("sent nothing for {limit:?} (option timeout)");
        }
        format!("sent {} bytes in {limit:?} (option timeout)", self.came)
    }
}

fn after(now: Instant, limit: Duration) -> Instant {
    now.checked_add(limit).or_else(|| now.checked_add(NEVER)).unwrap_or(now)
}

/// The bytes that an answer holds, by its Content-Range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub first: u64,
    pub last: u64,
    /// Of the whole file.
    pub total: u64,
}

/// Reads `bytes 0-9/100`. `None` for any other form, an unknown total (`*`) included.
pub fn held(headers: &HeaderMap) -> Option<Held> {
    let mut values = headers.get_all(CONTENT_RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (range, total) = value.to_str().ok()?.strip_prefix("bytes ")?.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let held = Held { first: number(first)?, last: number(last)?, total: number(total)? };
    (held.first <= held.last && held.last < held.total).then_some(held)
}

/// Whether a refusal of a range (416) says that the file is empty.
pub fn is_empty(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_RANGE).is_some_and(|value| value.as_bytes() == b"bytes */0")
}

/// Digits alone: `parse` would take a sign as well.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The first words of a Content-Type, in lower case.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Refuses a body that is not the bytes of the file as they are.
pub fn check_coding(path: &str, headers: &HeaderMap) -> Result<(), Error> {
    for coding in headers.get_all(CONTENT_ENCODING) {
        if !coding.as_bytes().eq_ignore_ascii_case(b"identity") && !coding.is_empty() {
            let coding = String::from_utf8_lossy(coding.as_bytes());
            let message = format!(
                "the server sends the file compressed (Content-Encoding: {}), though asked not to: ranges of that are of no use; have it serve the file as it is",
                short(&coding, 40)
            );
            return Err(errors::about(path, message));
        }
    }
    if media_type(headers) == "multipart/byteranges" {
        let message = "the server sends several parts (multipart/byteranges), though one range was asked for";
        return Err(errors::about(path, message));
    }
    Ok(())
}

/// Whether the beginning of a body is that of a web page, where its headers say so too.
pub fn is_page(media_type: &str, body: &[u8]) -> bool {
    let html = matches!(media_type, "text/html" | "application/xhtml+xml");
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    html && body.trim_ascii_start().first().is_none_or(|&byte| byte == b'<')
}

/// Hands over the body piece by piece. Where the server said how long it is, the end is not waited for once that came.
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
            next.map_err(|error| errors::of_transport(path, &answer.place.url, &error, options.timeout))?;
        let Some(bytes) = next else { break };
        left = left.map(|left| left.saturating_sub(bytes.len() as u64));
        pace.came(bytes.len());
        take(&bytes)?;
    }
    Ok(())
}

/// A body that goes on past what was asked for.
pub fn too_long(path: &str) -> Failure {
    Failure::Final(errors::about(path, "the server sends more bytes than were asked for"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        let read = |text: &str| held(&HeaderMap::from_iter([(CONTENT_RANGE, text.parse().unwrap())]));
        assert_eq!(read("bytes 0-9/100"), Some(Held { first: 0, last: 9, total: 100 }));
        assert_eq!(read("bytes 99-99/100"), Some(Held { first: 99, last: 99, total: 100 }));
        for text in [
            "",
            "bytes",
            "bytes 0-9",
            "bytes 0-9/*",
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
            let mut usual = Pace::new(Duration::from_secs(10));
            usual.wait(byte(9)).await.unwrap();
            usual.came(1);
            usual.wait(byte(9)).await.unwrap_err();
            assert!(usual.slow().contains("sent 1 bytes in 10s"));
        });
    }

    #[test]
    fn a_page_is_told_by_its_type_and_its_first_byte() {
        assert!(is_page("text/html", b"\n <!doctype html>"));
        assert!(is_page("text/html", b"\xef\xbb\xbf<html>"));
        assert!(!is_page("text/html", b"\x10\0\0\0\0\0\0\0{"));
        assert!(!is_page("application/octet-stream", b"<html>"));
    }
}
