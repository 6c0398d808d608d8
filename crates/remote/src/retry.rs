//! Retries: with exponential backoff, and as requested by the server.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use reqwest::header::HeaderMap;
use ztensor_core::error::{Error, Result};

use crate::errors::{Failure, Passing};
use crate::options::Options;

/// Maximum delay between two attempts, unless the server asks for more.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum delay that a server may ask for: the hub limits rates per five minutes and asks for less.
const ASKED: Duration = Duration::from_secs(120);
/// Maximum total of such delays for one request.
const ASKED_IN_ALL: Duration = Duration::from_secs(300);
/// Maximum retries if no connection is established, so that a wrong port or name is reported soon.
const UNCONNECTED: u32 = 2;

/// Attempts an operation until it succeeds, fails permanently, or no retries are left.
pub async fn retrying<T>(
    options: &Options,
    mut attempt: impl AsyncFnMut() -> std::result::Result<T, Failure>,
) -> Result<T> {
    let (mut retried, mut asked) = (0, Duration::ZERO);
    loop {
        let Passing { error, after, unconnected } = match attempt().await {
            Ok(done) => return Ok(done),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Passing(passing)) => passing,
        };
        let max = if unconnected { options.retries.min(UNCONNECTED) } else { options.retries };
        if retried >= max {
            return Err(gave_up(error, retried));
        }
        let wait = match after {
            Some(after) if after > ASKED || asked.saturating_add(after) > ASKED_IN_ALL => {
                return Err(asks_too_much(&error, after));
            }
            Some(after) => {
                asked += after;
                after
            }
            None => backoff(options.backoff, retried),
        };
        tokio::time::sleep(wait).await;
        retried += 1;
    }
}

/// Returns a random delay between half and all of the doubled delay, so that readers that failed together do not retry together.
fn backoff(first: Duration, retried: u32) -> Duration {
    let max = first.saturating_mul(1 << retried.min(16)).min(LONGEST);
    // A randomly keyed hasher is the standard library's only source of randomness.
    let chance = RandomState::new().hash_one(retried) % 1024;
    let half = max / 2;
    half + half.mul_f64(f64::from(u32::try_from(chance).unwrap_or_default()) / 1024.0)
}

fn gave_up(error: Error, retried: u32) -> Error {
    if retried == 0 || error.os().is_some() {
        return error;
    }
    let made = error.reworded(format!("{}; tried {} times", error.message(), retried + 1));
    with_context_of(made, &error)
}

fn asks_too_much(error: &Error, after: Duration) -> Error {
    let message = format!("{}; it asks for a retry after {} s", error.message(), after.as_secs());
    with_context_of(error.reworded(message), error)
}

/// Replaces the message of an error and retains its path and status.
fn with_context_of(made: Error, from: &Error) -> Error {
    let made = made.answered(from.status());
    match from.path() {
        Some(path) => made.file(path),
        None => made,
    }
}

/// Returns when the server wants to be asked again: seconds from now, or a date (RFC 9110 §10.2.3). A past date means now.
pub fn asked_for(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number of seconds that overflows is longer than any accepted delay.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_increase_up_to_a_limit() {
        for (retried, max) in [(0, 200), (1, 400), (4, 3200), (6, 10_000), (40, 10_000)] {
            for _ in 0..100 {
                let wait = backoff(Duration::from_millis(200), retried);
                let max = Duration::from_millis(max);
                assert!(wait >= max / 2 && wait <= max, "{retried}: {wait:?}");
            }
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let cases = [
            ("0", Some(0)),
            ("17", Some(17)),
            ("99999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:00 GMT", Some(23)),
            ("Sunday, 06-Nov-94 08:50:00 GMT", Some(23)),
            ("Sun Nov  6 08:50:00 1994", Some(23)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ];
        for (text, seconds) in cases {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(asked_for(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(asked_for(&HeaderMap::new(), now), None);
    }
}
