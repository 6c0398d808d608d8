//! The parameters of a quantized layout, read from a tensor's attributes.
#![forbid(unsafe_code)]

use ciborium::Value;

use crate::catalog::Attributes;
use crate::error::{Code, Error, Result};

/// A map of parameters, with what it is called in errors.
#[derive(Clone, Copy)]
pub struct Parameters<'a> {
    entries: &'a [(Value, Value)],
    of: &'a str,
}

impl<'a> Parameters<'a> {
    pub fn new(attributes: Option<&'a Attributes>, of: &'a str) -> Self {
        Self { entries: attributes.map_or(&[], |entries| entries), of }
    }

    fn get(self, key: &str) -> Option<&'a Value> {
        self.entries.iter().find_map(|(name, value)| (name.as_text() == Some(key)).then_some(value))
    }

    fn expected<T>(self, key: &str, what: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| {
            Error::new(Code::BadLayout, format!("{} needs the attribute {key:?}, {what}", self.of))
        })
    }

    /// A whole number from 0 on.
    pub fn number(self, key: &str) -> Result<u64> {
        let found = self.get(key).and_then(Value::as_integer).and_then(|value| u64::try_from(value).ok());
        self.expected(key, "a whole number", found)
    }

    /// The same, where it may be missing.
    pub fn optional_number(self, key: &str) -> Result<Option<u64>> {
        self.get(key).map(|_| self.number(key)).transpose()
    }

    /// An integer of either sign.
    pub fn integer(self, key: &str) -> Result<i128> {
        self.expected(key, "an integer", self.get(key).and_then(Value::as_integer).map(i128::from))
    }

    pub fn text(self, key: &str) -> Result<&'a str> {
        self.expected(key, "a text", self.get(key).and_then(Value::as_text))
    }

    pub fn map(self, key: &str) -> Result<Self> {
        let entries = self.expected(key, "a map", self.get(key).and_then(Value::as_map))?;
        Ok(Self { entries, of: self.of })
    }
}
