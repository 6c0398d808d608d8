//! Identifies the version of a file by its entity tag or date (RFC 9110 §8.8).

use http::header::{ETAG, IF_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ztensor_core::codecs::digest::xxh3;

/// The version in the first response. Every later one must match.
#[derive(Clone, Debug, Default)]
pub struct Version {
    tag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
}

impl Version {
    pub fn of(headers: &HeaderMap) -> Self {
        let header = |name: HeaderName| headers.get(name).filter(|value| !value.is_empty()).cloned();
        Self { tag: header(ETAG), modified: header(LAST_MODIFIED) }
    }

    /// Adds a precondition so that the server rejects other versions: a strong tag, the only kind that allows this comparison (§13.1.1),
    /// otherwise the date.
    pub fn demand(&self, headers: &mut HeaderMap) {
        match (&self.tag, &self.modified) {
            (Some(tag), _) if tag.as_bytes().starts_with(b"\"") => {
                headers.insert(IF_MATCH, tag.clone());
            }
            (_, Some(modified)) => {
                headers.insert(IF_UNMODIFIED_SINCE, modified.clone());
            }
            _ => {}
        }
    }

    /// Returns whether a response has this version, as far as both state it. If a field of the first response is missing, the other one
    /// must match. A tag that became weak in transit is the same tag.
    pub fn is_of(&self, headers: &HeaderMap) -> bool {
        let other = Self::of(headers);
        let same = |one: &Option<HeaderValue>, other: &Option<HeaderValue>| match (one, other) {
            (Some(one), Some(other)) => Some(strong(one) == strong(other)),
            _ => None,
        };
        match (same(&self.tag, &other.tag), same(&self.modified, &other.modified)) {
            (Some(tag), _) => tag,
            (None, Some(modified)) => modified,
            (None, None) => self.tag.is_none() && self.modified.is_none(),
        }
    }

    /// Returns what identifies this version: its strong tag, otherwise its date. `None` if there is neither.
    pub fn sure(&self) -> Option<Vec<u8>> {
        let tag = self.tag.as_ref().map(HeaderValue::as_bytes).filter(|tag| tag.starts_with(b"\""));
        let modified = self.modified.as_ref().map(HeaderValue::as_bytes);
        tag.map(|tag| [b"tag ", tag].concat()).or_else(|| Some([b"date ", modified?].concat()))
    }

    /// Returns a number that differs between versions and is the same in each process: 0 if the server does not identify versions.
    pub fn number(&self) -> u64 {
        self.tag.as_ref().map(strong).or(self.modified.as_ref().map(HeaderValue::as_bytes)).map_or(0, xxh3)
    }
}

fn strong(tag: &HeaderValue) -> &[u8] {
    let tag = tag.as_bytes();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONDAY: &str = "Mon, 05 Jan 2026 00:00:00 GMT";
    const SUNDAY: &str = "Sun, 04 Jan 2026 00:00:00 GMT";

    fn headers(tag: &str, modified: &str) -> HeaderMap {
        let headers = [(ETAG, tag), (LAST_MODIFIED, modified)];
        headers.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect()
    }

    #[test]
    fn each_kind_of_version_has_its_own_condition() {
        for (tag, modified, name, value) in [
            ("\"a\"", MONDAY, Some(IF_MATCH), "\"a\""),
            ("W/\"a\"", MONDAY, Some(IF_UNMODIFIED_SINCE), MONDAY),
            ("", MONDAY, Some(IF_UNMODIFIED_SINCE), MONDAY),
            ("W/\"a\"", "", None, ""),
            ("", "", None, ""),
        ] {
            let mut demanded = HeaderMap::new();
            Version::of(&headers(tag, modified)).demand(&mut demanded);
            let expected = name.map(|name| (name, value.parse().unwrap())).into_iter().collect::<HeaderMap>();
            assert_eq!(demanded, expected, "{tag} {modified}");
        }
    }

    #[test]
    fn a_response_matches_a_version_if_all_common_fields_agree() {
        for (first, then, same) in [
            (("\"a\"", MONDAY), ("\"a\"", MONDAY), true),
            (("\"a\"", MONDAY), ("\"a\"", SUNDAY), true),
            (("\"a\"", MONDAY), ("\"b\"", MONDAY), false),
            (("\"a\"", MONDAY), ("W/\"a\"", MONDAY), true),
            (("\"a\"", MONDAY), ("", MONDAY), true),
            (("\"a\"", MONDAY), ("", SUNDAY), false),
            (("\"a\"", MONDAY), ("", ""), false),
            (("", MONDAY), ("\"a\"", MONDAY), true),
            (("", MONDAY), ("", SUNDAY), false),
            (("", ""), ("\"a\"", MONDAY), true),
            (("", ""), ("", ""), true),
        ] {
            let version = Version::of(&headers(first.0, first.1));
            assert_eq!(version.is_of(&headers(then.0, then.1)), same, "{first:?} {then:?}");
        }
    }

    #[test]
    fn only_strong_tags_and_dates_identify_a_version() {
        let sure = |tag: &str, modified: &str| Version::of(&headers(tag, modified)).sure();
        assert_eq!(sure("\"a\"", MONDAY).unwrap(), b"tag \"a\"");
        assert_eq!(sure("W/\"a\"", MONDAY).unwrap(), format!("date {MONDAY}").as_bytes());
        assert_eq!((sure("W/\"a\"", ""), sure("", "")), (None, None));
    }

    #[test]
    fn versions_have_numbers() {
        let number = |tag: &str, modified: &str| Version::of(&headers(tag, modified)).number();
        assert_eq!(number("", ""), 0);
        assert_ne!(number("\"a\"", ""), number("\"b\"", ""));
        assert_eq!(number("\"a\"", MONDAY), number("W/\"a\"", SUNDAY));
        assert_ne!(number("", MONDAY), number("", SUNDAY));
    }
}
