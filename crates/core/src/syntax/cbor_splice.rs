//! Changes entries of a CBOR map. Unchanged entries retain their exact bytes, even if their meaning is unknown.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;

use ciborium::Value;

use super::cbor::{Reader, identity};
use super::cbor_encode::Encoder;
use crate::error::{Code, Error, Result};

/// A key and its value in encoded form.
pub struct Entry<'a> {
    pub key: Cow<'a, [u8]>,
    pub value: Cow<'a, [u8]>,
}

impl Entry<'_> {
    /// Creates an entry with our own encoding.
    pub fn new(key: &str, value: Vec<u8>) -> Self {
        Self { key: text(key).into(), value: value.into() }
    }

    /// Returns the key, if it is a text.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        Reader::new(&self.key, 0, 0).text("a key").ok()
    }
}

/// Splits `bytes` into the self-described CBOR tags and the rest.
pub fn self_described(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let tags = Reader::new(bytes, 0, 0).self_described()?;
    Ok((tags, bytes.get(tags.len()..).unwrap_or_default()))
}

/// Returns the entries of the map `bytes`, in order.
pub fn entries<'a>(bytes: &'a [u8], what: &str) -> Result<Vec<Entry<'a>>> {
    let spelled = Reader::new(bytes, 0, 0).spelled(what)?;
    Ok(spelled.into_iter().map(|(key, value)| Entry { key: key.into(), value: value.into() }).collect())
}

/// Returns the entry with the key `key`.
pub fn find<'e, 'a>(entries: &'e mut [Entry<'a>], key: &str) -> Option<&'e mut Entry<'a>> {
    entries.iter_mut().find(|entry| entry.name().is_some_and(|name| name == key))
}

/// Returns the map of these entries.
pub fn map(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.map(entries.len());
    for entry in entries {
        encoder.spelled(&entry.key);
        encoder.spelled(&entry.value);
    }
    encoder.finish()
}

/// Builds the error for moving data that a value under an unknown key may refer to.
pub fn unknown_key(key: &str) -> Error {
    let message = format!(
        "the index has an unknown key ({key}), whose value might refer to a position in the file, so the data cannot \
         be moved; convert the file instead"
    );
    Error::new(Code::UnsupportedVersion, message)
}

pub fn text(text: &str) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.text(text);
    encoder.finish()
}

pub fn uint(number: u64) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.uint(number);
    encoder.finish()
}

fn value(value: &Value) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.value(value);
    encoder.finish()
}

/// Applies `changes` to the map `bytes` of free-form values. Each change sets a key or, without a value, removes it. An
/// existing key retains its position; a new or previously removed one comes last. Returns `None` if nothing is left.
pub fn merge(bytes: Option<&[u8]>, changes: &[(Value, Option<Value>)]) -> Result<Option<Vec<u8>>> {
    let mut merged: Vec<Option<Entry<'_>>> = match bytes {
        None => Vec::new(),
        Some(bytes) => entries(bytes, "attributes")?.into_iter().map(Some).collect(),
    };
    let mut positions: HashMap<Vec<u8>, usize> = HashMap::new();
    for (at, entry) in merged.iter().enumerate() {
        if let Some(entry) = entry {
            // The key was already read as part of the whole, within the limit on values.
            positions.insert(identity(&Reader::new(&entry.key, 0, u32::MAX).value()?), at);
        }
    }
    for (key, new) in changes {
        let entry = new.as_ref().map(|new| Entry { key: value(key).into(), value: value(new).into() });
        let slot = positions.get(&identity(key)).and_then(|&at| merged.get_mut(at));
        match (slot, new) {
            (Some(slot), Some(_)) => *slot = entry,
            (Some(slot), None) => {
                *slot = None;
                positions.remove(&identity(key));
            }
            (None, Some(_)) => {
                positions.insert(identity(key), merged.len());
                merged.push(entry);
            }
            (None, None) => {}
        }
    }
    let left: Vec<_> = merged.into_iter().flatten().collect();
    Ok((!left.is_empty()).then(|| map(&left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_entries_keep_their_bytes() {
        // {_ "a": 1 in eight bytes, 2: undefined, "c": [_ ] }
        let odd = b"\xbf\x61a\x1b\0\0\0\0\0\0\0\x01\x02\xf7\x61c\x9f\xff\xff";
        let encoded = map(&entries(odd, "odd").unwrap());
        assert_eq!(encoded[1..], odd[1..odd.len() - 1]);
        assert_eq!(encoded[0], 0xa3);
        let changes = [("a".into(), None), (Value::from("d"), Some(Value::from(7)))];
        let merged = merge(Some(odd), &changes).unwrap().unwrap();
        assert_eq!(merged, b"\xa3\x02\xf7\x61c\x9f\xff\x61d\x07");
    }

    #[test]
    fn keys_are_found_in_any_encoding() {
        let wide = b"\xa2\x18\x01\x61x\x78\x01b\x61y";
        let changes = [(Value::from(1), Some(Value::from(true))), (Value::from("b"), Some(Value::Null))];
        assert_eq!(merge(Some(wide), &changes).unwrap().unwrap(), b"\xa2\x01\xf5\x61b\xf6");
        let gone = [(Value::from(1), None), (Value::from("b"), None), (Value::from("none"), None)];
        assert_eq!(merge(Some(wide), &gone).unwrap(), None);
        let again = [(Value::from(1), None), (Value::from(1), Some(Value::Null))];
        assert_eq!(merge(Some(wide), &again).unwrap().unwrap(), b"\xa2\x78\x01b\x61y\x01\xf6");
        let never =
            [("c", None), ("d", Some(1)), ("c", Some(2))].map(|(key, to)| (key.into(), to.map(Value::from)));
        assert_eq!(merge(None, &never).unwrap().unwrap(), b"\xa2\x61d\x01\x61c\x02");
        assert_eq!(merge(None, &[]).unwrap(), None);
    }
}
