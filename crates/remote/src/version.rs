//! Which version of a file an answer is of: by its entity tag, else by its date (RFC 9110 §8.8).

use http::header::{ETAG, IF_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ztensor_core::codecs::digest::xxh3;

/// What the first answer said of itself. Every later one must say the same.
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

    /// Has the server itself refuse to send another version: by a strong tag, which alone may be compared so (§13.1.1), else
    /// by the date.
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

    /// Whether an answer is of this version, as far as both say. One that no longer says what the first one did could be of
    /// any, unless the other of the two still agrees. A tag that was made weak on the way is the same tag.
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

    /// What only this version has: its strong tag, else its date. `None` where neither is sent.
    pub fn sure(&self) -> Option<Vec<u8>> {
        let tag = self.tag.as_ref().map(HeaderValue::as_bytes).filter(|tag| tag.starts_with(b"\""));
        let modified = self.modified.as_ref().map(HeaderValue::as_bytes);
        tag.map(|tag| [b"tag ", tag].concat()).or_else(|| Some([b"date ", modified?].concat()))
    }

    /// A number that another version does not have, the same in each process: 0 where the server tells versions apart by
    /// nothing.
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
    fn each_kind_of_version_is_demanded_its_own_way() {
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
    fn an_answer_is_of_a_version_if_what_both_say_agrees() {
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
    fn only_strong_tags_and_dates_are_sure() {
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
