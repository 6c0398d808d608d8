//! Free-form values: attributes, of which no format says what they hold.
#![forbid(unsafe_code)]

use ciborium::Value;
use ciborium::value::Integer;

use super::Reader;
use super::head::Head;
use crate::error::{Code, Error, Result};
use crate::syntax::Seen;

impl Reader<'_> {
    /// A free-form value.
    pub fn value(&mut self) -> Result<Value> {
        self.value_at(self.levels)
    }

    /// A map of free-form values, with keys of any kind.
    pub fn attributes(&mut self, what: &str) -> Result<Vec<(Value, Value)>> {
        let length = self.map_head(what)?;
        let depth = if self.deterministic.is_some() { self.deeper(self.levels)? } else { self.levels };
        self.entries(length, depth)
    }

    fn value_at(&mut self, depth: u32) -> Result<Value> {
        self.check_depth(depth)?;
        let head = self.head()?;
        let cost = if matches!(head, Head::Array(_) | Head::Map(_) | Head::Tag(_)) { 3 } else { 1 };
        self.values_left = self.values_left.checked_sub(cost).ok_or_else(|| {
            Error::new(Code::Limit, "the index holds too many attribute values (option maxAttributeValues)")
        })?;
        Ok(match head {
            Head::Unsigned(value) => Value::Integer(value.into()),
            Head::Negative(value) => {
                let integer = Integer::try_from(-1 - i128::from(value));
                Value::Integer(integer.map_err(|_| self.error("an integer below -2^64"))?)
            }
            Head::Bytes(length) => Value::Bytes(self.bytes_of(length)?),
            Head::Text(length) => Value::Text(self.text_of(length)?.into_owned()),
            Head::Array(mut left) => {
                let depth = self.deeper(depth)?;
                let mut items = Vec::new();
                while self.more(&mut left) {
                    items.push(self.value_at(depth)?);
                }
                Value::Array(items)
            }
            Head::Map(length) => {
                let depth = self.deeper(depth)?;
                Value::Map(self.entries(length, depth)?)
            }
            Head::Tag(tag) => {
                let depth = self.deeper(depth)?;
                Value::Tag(tag, Box::new(self.value_at(depth)?))
            }
            Head::Bool(value) => Value::Bool(value),
            // `undefined` and unassigned simple values carry nothing that a user could act on.
            Head::Null | Head::Simple(_) => Value::Null,
            Head::Float(value) => Value::Float(value),
            Head::Break => return Err(self.error("a break outside an indefinite item")),
        })
    }

    fn entries(&mut self, mut left: Option<u64>, depth: u32) -> Result<Vec<(Value, Value)>> {
        let mut entries = Vec::new();
        let mut seen = Seen::default();
        let mut last = None;
        while self.more(&mut left) {
            let start = self.at;
            let key = self.value_at(depth)?;
            if self.deterministic.is_some() {
                self.follows(&mut last, start, "a map")?;
            } else if !seen.insert(identity(&key)) {
                return Err(self.twice("a key stands twice in a map of attributes"));
            }
            let value = self.value_at(depth)?;
            entries.push((key, value));
        }
        Ok(entries)
    }
}

/// Bytes that are equal where two keys are, however each was spelled.
pub fn identity(key: &Value) -> Vec<u8> {
    if let Value::Text(text) = key {
        return [b"t", text.as_bytes()].concat();
    }
    let mut bytes = vec![b'v'];
    // Writing to a Vec cannot fail, and a key that could not be spelled was never read.
    let _ = ciborium::into_writer(key, &mut bytes);
    bytes
}
