//! Free-form values: attributes, whose content no format defines.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use ciborium::Value;

use super::head::Head;
use super::{Reader, TEXT};
use crate::error::{Code, Error, Result};
use crate::syntax::values::{Event, Ignore, Tree, Visit, visit};
use crate::syntax::{Keys, Seen};

/// The validated keys and values of a map, back to back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pairs<'a>(&'a [u8]);

impl<'a> Pairs<'a> {
    /// Returns the encoded keys and values; empty if the map is empty.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Visits the values in some bytes.
    pub fn visit(bytes: &[u8], to: &mut dyn Visit) -> Result<()> {
        let mut reader = Reader::new(bytes, 0, u32::MAX);
        while reader.at < bytes.len() {
            reader.visit_at(reader.levels, to)?;
        }
        Ok(())
    }
}

impl<'a> Reader<'a> {
    /// Reads a free-form value.
    pub fn value(&mut self) -> Result<Value> {
        let mut tree = Tree::default();
        self.visit_at(self.levels, &mut tree)?;
        tree.value()
    }

    /// Validates a map of free-form values, with keys of any type. Calls `each` with each of its own keys, `None` for one that is not a
    /// text.
    pub fn attributes(&mut self, what: &str, mut each: impl FnMut(Option<&str>)) -> Result<Pairs<'a>> {
        let length = self.map_head(what)?;
        let depth = if self.deterministic.is_some() { self.deeper(self.levels)? } else { self.levels };
        let start = self.at;
        self.entries(length, depth, &mut Ignore, &mut each)?;
        // An indefinite map ends with a break.
        let end = self.at - usize::from(length.is_none());
        Ok(Pairs(self.bytes.get(start..end).unwrap_or_default()))
    }

    fn visit_at(&mut self, depth: u32, to: &mut (impl Visit + ?Sized)) -> Result<()> {
        match self.value_head(depth)? {
            Head::Unsigned(value) => to.visit(Event::Integer(value.into())),
            Head::Negative(value) => to.visit(Event::Integer(-1 - i128::from(value))),
            Head::Bytes(length) => to.visit(Event::Bytes(&self.bytes_of(length)?)),
            Head::Text(length) => to.visit(Event::Text(&self.text_of(length)?)),
            Head::Array(mut left) => {
                let depth = self.deeper(depth)?;
                to.visit(Event::Array)?;
                while self.more(&mut left) {
                    self.visit_at(depth, to)?;
                }
                to.visit(Event::End)
            }
            Head::Map(length) => {
                let depth = self.deeper(depth)?;
                to.visit(Event::Map)?;
                self.entries(length, depth, to, &mut |_| ())?;
                to.visit(Event::End)
            }
            Head::Tag(tag) => {
                let depth = self.deeper(depth)?;
                to.visit(Event::Tag(tag))?;
                self.visit_at(depth, to)
            }
            Head::Bool(value) => to.visit(Event::Bool(value)),
            // `undefined` and unassigned simple values carry no useful information.
            Head::Null | Head::Simple(_) => to.visit(Event::Null),
            Head::Float(value) => to.visit(Event::Float(value)),
            Head::Break => Err(self.error("a break outside an indefinite item")),
        }
    }

    /// Reads the head of a value, which counts as one value. A container counts as three, and a byte string as four, because JavaScript's
    /// arrays of bytes take some 150 bytes each. Empty byte strings are one array.
    fn value_head(&mut self, depth: u32) -> Result<Head> {
        self.check_depth(depth)?;
        let head = self.head()?;
        let cost = match head {
            Head::Array(_) | Head::Map(_) | Head::Tag(_) => 3,
            Head::Bytes(length) if length != Some(0) => 4,
            _ => 1,
        };
        self.values_left = self.values_left.checked_sub(cost).ok_or_else(|| {
            Error::new(Code::Limit, "the index holds too many attribute values").option("maxAttributeValues")
        })?;
        Ok(head)
    }

    fn entries(
        &mut self,
        mut left: Option<u64>,
        depth: u32,
        to: &mut (impl Visit + ?Sized),
        each: &mut dyn FnMut(Option<&str>),
    ) -> Result<()> {
        let mut texts = Keys::default();
        let mut others = Seen::default();
        let mut last = None;
        while self.more(&mut left) {
            let start = self.at;
            let is_text = self.bytes.get(start).is_some_and(|first| first >> 5 == TEXT);
            let is_new = if is_text {
                let key = self.text_value(depth)?;
                to.visit(Event::Text(&key))?;
                each(Some(&key));
                self.deterministic.is_some() || texts.insert(key)
            } else {
                let mut tree = Tree::default();
                self.visit_at(depth, &mut tree)?;
                let key = tree.value()?;
                visit(&key, to)?;
                each(None);
                self.deterministic.is_some() || others.insert(identity(&key))
            };
            if self.deterministic.is_some() {
                self.follows(&mut last, start, "a map")?;
            } else if !is_new {
                return Err(self.twice("a key occurs twice in a map of attributes"));
            }
            self.visit_at(depth, to)?;
        }
        Ok(())
    }

    fn text_value(&mut self, depth: u32) -> Result<Cow<'a, str>> {
        match self.value_head(depth)? {
            Head::Text(length) => self.text_of(length),
            other => Err(self.expected("a key", "a text", other)),
        }
    }
}

/// Returns bytes that are equal if two keys are, however each was encoded.
pub fn identity(key: &Value) -> Vec<u8> {
    if let Value::Text(text) = key {
        return [b"t", text.as_bytes()].concat();
    }
    let mut bytes = vec![b'v'];
    // Writing to a Vec cannot fail, and keys that cannot be encoded are never read.
    let _ = ciborium::into_writer(key, &mut bytes);
    bytes
}
