//! The metadata of a GGUF file: keys and typed values in sequence, without a table. They are skipped over when the file is opened and
//! decoded on request.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::ops::Range;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::Limits;
use ztensor_core::sources::owned::Owned;
use ztensor_core::syntax::values::{Event, Visit};

use super::value::{self, ValueType};
use super::window::{Spelling, Window};

/// Maximum nesting of arrays. Writers use one level, and two for a list of pairs.
const DEPTH: u32 = 32;
const RULE: &str = "GGUF: metadata";

pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;
/// The key of a string that edits add, so that the header has the length that they need. It is not listed.
pub const PADDING: &str = "ztensor.padding";

/// Returns the size of a number of this type, or `None` if the type is not a number.
pub fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// All keys and values, whose lengths were validated.
pub struct Metadata {
    bytes: Owned,
    spelling: Spelling,
    entries: Vec<Entry>,
    /// Where the last value ends.
    end: usize,
}

/// A key with its encoded value.
pub struct Pair<'m> {
    pub key: &'m str,
    pub kind: u32,
    /// All of it, beginning with the length of the key.
    pub whole: &'m [u8],
    pub value: &'m [u8],
}

struct Entry {
    key: Range<usize>,
    kind: u32,
    at: usize,
    /// Whether its values are within the limit.
    is_listed: bool,
}

impl Metadata {
    /// Walks over `count` entries and records only where values begin; [`Metadata::keep`] adds the bytes.
    pub fn walk(window: &mut Window<'_>, count: u64, limits: &Limits) -> Result<Self> {
        let max = u64::from(limits.max_attribute_values);
        if count > max {
            let message = format!("{count} entries of metadata, more than {max}");
            return Err(Error::new(Code::Limit, message).option("maxAttributeValues").rule(RULE));
        }
        let (mut entries, mut keys, mut values) = (Vec::new(), HashSet::new(), 0_u64);
        for _ in 0..count {
            let start = window.position();
            let key = window.text("a key of the metadata").map_err(|error| error.rule(RULE))?.to_owned();
            let end = window.position();
            let (kind, at, held) = pass(window).map_err(|error| of_key(&key, &error))?;
            let is_listed = values.saturating_add(held) <= max;
            if is_listed {
                values += held;
            }
            entries.push(Entry { key: end - key.len()..end, kind, at, is_listed });
            if !keys.insert(key) {
                let message = "a key of the metadata occurs twice";
                return Err(Error::new(Code::BadIndex, message).at(start as u64).rule(RULE));
            }
        }
        Ok(Self {
            bytes: Owned::from(Vec::new()),
            spelling: window.spelling(),
            entries,
            end: window.position(),
        })
    }

    /// Stores the bytes that were walked over.
    #[must_use]
    pub fn keep(self, bytes: Owned) -> Self {
        Self { bytes, ..self }
    }

    /// Returns all bytes that were read: the header, and bytes after it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// Returns all keys and values as they are encoded, in order.
    pub fn pairs(&self) -> impl Iterator<Item = Pair<'_>> + Clone {
        let before = usize::try_from(self.spelling.count_bytes()).unwrap_or_default();
        self.entries.iter().enumerate().map(move |(at, entry)| {
            let end = self.entries.get(at + 1).map_or(self.end, |next| next.key.start - before);
            let part = |start: usize| self.bytes.get(start..end).unwrap_or_default();
            let (whole, value) = (part(entry.key.start - before), part(entry.at));
            Pair { key: self.key(entry), kind: entry.kind, whole, value }
        })
    }

    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(|entry| self.key(entry) == PADDING)
    }

    /// Returns the keys whose values are too many to be listed.
    pub fn unlisted(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| !entry.is_listed).map(|entry| self.key(entry))
    }

    fn key(&self, entry: &Entry) -> &str {
        self.bytes.get(entry.key.clone()).and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default()
    }

    /// Returns a nonnegative integer. Fails if the key has another type of value; `None` if the key is missing.
    pub fn uint(&self, key: &str) -> Result<Option<u64>> {
        let Some(entry) = self.entries.iter().find(|entry| self.key(entry) == key) else { return Ok(None) };
        let mut found = One(None);
        if width(entry.kind).is_some() {
            self.value(entry, &mut found)?;
        }
        found.0.map(Some).ok_or_else(|| {
            let message = format!("{key:?} must be a nonnegative integer");
            Error::new(Code::BadIndex, message).at(entry.at as u64).rule(RULE)
        })
    }

    /// Visits all keys and values in order. A string that is not UTF-8 is passed as bytes.
    pub fn visit(&self, to: &mut dyn Visit) -> Result<()> {
        for entry in self.entries.iter().filter(|entry| entry.is_listed && self.key(entry) != PADDING) {
            to.visit(Event::Text(self.key(entry)))?;
            self.value(entry, to)?;
        }
        Ok(())
    }

    /// Visits all keys and values in order like [`Metadata::visit`], with the types that the file records.
    pub fn visit_typed(&self, to: &mut dyn Visit) -> Result<()> {
        for entry in self.entries.iter().filter(|entry| entry.is_listed && self.key(entry) != PADDING) {
            to.visit(Event::Text(self.key(entry)))?;
            let items = self.bytes.get(entry.at..).and_then(|bytes| bytes.get(..4));
            let kind = match (entry.kind, items) {
                (ARRAY, Some(kind)) => self.spelling.u32(kind),
                (kind, _) => kind,
            };
            match ValueType::of(kind) {
                Some(kind) if kind != ValueType::Array => {
                    value::typed(kind, to, |to| self.value(entry, to))?;
                }
                _ => self.value(entry, to)?,
            }
        }
        Ok(())
    }

    fn value(&self, entry: &Entry, to: &mut dyn Visit) -> Result<()> {
        Cursor { rest: self.bytes.get(entry.at..).unwrap_or_default(), spelling: self.spelling }
            .visit(entry.kind, to)
    }
}

/// Accepts one integer.
struct One(Option<u64>);

impl Visit for One {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        if let Event::Integer(value) = event {
            self.0 = u64::try_from(value).ok();
        }
        Ok(())
    }
}

/// Skips a value and returns its type, its start and its number of values.
fn pass(window: &mut Window<'_>) -> Result<(u32, usize, u64)> {
    let kind = window.u32()?;
    let at = window.position();
    Ok((kind, at, skip(window, kind, 0)?))
}

fn of_key(key: &str, error: &Error) -> Error {
    let made = error.reworded(format!("{key:?}: {}", error.message())).rule(RULE);
    match error.offset() {
        Some(offset) => made.at(offset),
        None => made,
    }
}

/// Skips a value and returns its number of values, as counted by `Limits::max_attribute_values`.
fn skip(window: &mut Window<'_>, kind: u32, depth: u32) -> Result<u64> {
    if let Some(width) = width(kind) {
        return window.pass(width).map(|()| 1);
    }
    match kind {
        STRING => window.pass_text().map(|()| 1),
        ARRAY if depth == DEPTH => {
            Err(Error::new(Code::Limit, format!("arrays are nested more than {DEPTH} deep")))
        }
        ARRAY => {
            let (kind, count) = (window.u32()?, window.count()?);
            let mut values = 3_u64;
            if let Some(width) = width(kind) {
                window.pass(count.saturating_mul(width))?;
                return Ok(values.saturating_add(count));
            }
            if kind == STRING {
                window.pass_texts(count)?;
                return Ok(values.saturating_add(count));
            }
            if kind != ARRAY {
                return Err(window.unknown(kind));
            }
            for _ in 0..count {
                values = values.saturating_add(skip(window, kind, depth + 1)?);
            }
            Ok(values)
        }
        other => Err(window.unknown(other)),
    }
}

/// Reads bytes that were walked over.
struct Cursor<'b> {
    rest: &'b [u8],
    spelling: Spelling,
}

impl<'b> Cursor<'b> {
    fn take(&mut self, length: u64) -> Result<&'b [u8]> {
        let split = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let (taken, rest) =
            split.ok_or_else(|| Error::new(Code::Internal, "the metadata ends before its values do"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn visit(&mut self, kind: u32, to: &mut dyn Visit) -> Result<()> {
        if let Some(width) = width(kind) {
            let bytes = self.take(width)?;
            return to.visit(self.number(kind, bytes));
        }
        if kind == STRING {
            let length = self.count()?;
            let bytes = self.take(length)?;
            return to.visit(std::str::from_utf8(bytes).map_or(Event::Bytes(bytes), Event::Text));
        }
        let kind = self.spelling.u32(self.take(4)?);
        let count = self.count()?;
        to.visit(Event::Array)?;
        if let Some(width) = width(kind) {
            let numbers = self.take(count.saturating_mul(width))?;
            let mut each = numbers.chunks_exact(usize::try_from(width).unwrap_or(1));
            each.try_for_each(|number| to.visit(self.number(kind, number)))?;
            return to.visit(Event::End);
        }
        for _ in 0..count {
            self.visit(kind, to)?;
        }
        to.visit(Event::End)
    }

    fn count(&mut self) -> Result<u64> {
        let bytes = self.take(self.spelling.count_bytes())?;
        Ok(self.spelling.number(bytes))
    }

    fn number(&self, kind: u32, bytes: &[u8]) -> Event<'static> {
        let bits = self.spelling.number(bytes);
        // Sign-extends a shorter number.
        let shift = 64 - 8 * bytes.len();
        let signed = (bits << shift).cast_signed() >> shift;
        match kind {
            1 | 3 | 5 | 11 => Event::Integer(signed.into()),
            #[allow(clippy::cast_possible_truncation)] // of four bytes
            6 => Event::Float(f32::from_bits(bits as u32).into()),
            7 => Event::Bool(bits != 0),
            12 => Event::Float(f64::from_bits(bits)),
            _ => Event::Integer(bits.into()),
        }
    }
}
