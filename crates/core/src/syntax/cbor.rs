//! A strict pull reader of CBOR (RFC 8949) with two modes. The ordinary mode accepts indefinite lengths, wide heads and any key order, but
//! not duplicate keys, invalid UTF-8, reserved heads, trailing bytes and deep nesting. The deterministic mode also rejects deviations from
//! the Core Deterministic Encoding (§4.2.1), tags and simple values.
#![forbid(unsafe_code)]

mod head;
mod texts;
mod value;

use std::borrow::Cow;
use std::cmp::Ordering;

use self::head::Head;
use self::texts::{REMEMBERED, Texts};
pub use self::value::Pairs;
pub(crate) use self::value::identity;
use super::repeats::{Mark, Spelled};
use super::{Keys, Seen};
use crate::error::{Code, Error, Result};
use crate::limits;

/// A reader for the bytes of one index. Clones are independent.
#[derive(Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    values_left: u32,
    texts: Texts<'a>,
    /// The rule that requires deterministic encoding, if any.
    deterministic: Option<&'static str>,
    /// Levels that the next item may span, including itself.
    levels: u32,
}

/// Major types of items.
const UNSIGNED: u8 = 0;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
/// The tag without effect on the following item: its bytes serve as a magic.
const SELF_DESCRIBED: u64 = 55799;

impl<'a> Reader<'a> {
    /// Creates a reader. `base` is the file offset of the first byte, for errors. `max_values` limits free-form values.
    pub fn new(bytes: &'a [u8], base: u64, max_values: u32) -> Self {
        let levels = limits::CBOR_DEPTH;
        Self {
            bytes,
            at: 0,
            base,
            values_left: max_values,
            texts: Texts::default(),
            deterministic: None,
            levels,
        }
    }

    /// Creates a reader of the deterministic encoding required by `rule`. An item may be `depth` levels below the root.
    pub fn deterministic(
        bytes: &'a [u8],
        base: u64,
        max_values: u32,
        depth: u32,
        rule: &'static str,
    ) -> Self {
        let reader = Self::new(bytes, base, max_values);
        Self { deterministic: Some(rule), levels: depth + 1, ..reader }
    }

    /// Builds the error for an invalid encoding.
    fn error(&self, message: impl Into<String>) -> Error {
        let error = self.misfit(message);
        match self.deterministic {
            Some(rule) => error.rule(rule),
            None => error,
        }
    }

    /// Builds the error for a well-formed item that does not match the format.
    fn misfit(&self, message: impl Into<String>) -> Error {
        Error::new(Code::BadIndex, message).at(self.base + self.at as u64)
    }

    /// Takes the self-described CBOR tags before the root (RFC 8949 §3.4.6), and returns their bytes.
    pub fn self_described(&mut self) -> Result<&'a [u8]> {
        let start = self.at;
        for _ in 0..=limits::CBOR_DEPTH {
            let before = self.at;
            let is_tag = self.bytes.get(before).is_some_and(|first| first >> 5 == TAG);
            if !is_tag || self.head()? != Head::Tag(SELF_DESCRIBED) {
                self.at = before;
                return Ok(self.bytes.get(start..before).unwrap_or_default());
            }
        }
        Err(self.too_deep())
    }

    /// Requires that the root is the only item.
    pub fn end(&self) -> Result<()> {
        if self.at == self.bytes.len() {
            return Ok(());
        }
        Err(self.error(format!("{} bytes follow the end of the index's CBOR", self.bytes.len() - self.at)))
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let left = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(length).ok().and_then(|length| left.get(..length));
        let taken = taken.ok_or_else(|| self.ends_inside(length))?;
        self.at += taken.len();
        Ok(taken)
    }

    #[cold]
    fn ends_inside(&self, length: u64) -> Error {
        let left = self.bytes.len().saturating_sub(self.at);
        self.error(format!("the CBOR ends inside an item of {length} bytes ({left} left)"))
    }

    fn expected(&self, what: &str, expected: &str, got: Head) -> Error {
        self.misfit(format!("{what} must be {expected}, not {}", got.kind()))
    }

    /// Returns whether a container has another item. Takes the break of an indefinite one.
    fn more(&mut self, left: &mut Option<u64>) -> bool {
        match left {
            Some(0) => false,
            Some(count) => {
                *count -= 1;
                true
            }
            None if self.bytes.get(self.at) == Some(&0xff) => {
                self.at += 1;
                false
            }
            None => true,
        }
    }

    #[inline]
    pub fn uint(&mut self, what: &str) -> Result<u64> {
        match self.plain_head(UNSIGNED) {
            Some(value) => Ok(value),
            None => self.spelled_uint(what),
        }
    }

    fn spelled_uint(&mut self, what: &str) -> Result<u64> {
        match self.head()? {
            Head::Unsigned(value) => Ok(value),
            other => Err(self.expected(what, "an unsigned integer", other)),
        }
    }

    #[inline]
    pub fn text(&mut self, what: &str) -> Result<Cow<'a, str>> {
        match self.remembered() {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.new_text(what),
        }
    }

    /// Returns the next text, if it is a remembered one.
    #[inline]
    fn remembered(&mut self) -> Option<&'a str> {
        let (first, rest) = self.bytes.get(self.at..)?.split_first()?;
        let length = usize::from(first.wrapping_sub(TEXT << 5));
        if length > REMEMBERED {
            return None;
        }
        let known = self.texts.find(rest.get(..length)?)?;
        self.at += 1 + length;
        Some(known)
    }

    fn new_text(&mut self, what: &str) -> Result<Cow<'a, str>> {
        if let Some(length) = self.plain_head(TEXT) {
            return self.text_of(Some(length));
        }
        match self.head()? {
            Head::Text(length) => self.text_of(length),
            other => Err(self.expected(what, "a text", other)),
        }
    }

    fn text_of(&mut self, length: Option<u64>) -> Result<Cow<'a, str>> {
        let Some(length) = length else {
            let mut joined = String::new();
            while self.more(&mut None) {
                match self.head()? {
                    Head::Text(Some(length)) => joined.push_str(&self.text_of(Some(length))?),
                    other => return Err(self.expected("a chunk of a text", "a text of known length", other)),
                }
            }
            return Ok(Cow::Owned(joined));
        };
        let bytes = self.short(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.error("a text is not valid UTF-8"))?;
        self.texts.remember(text);
        Ok(Cow::Borrowed(text))
    }

    fn bytes_of(&mut self, length: Option<u64>) -> Result<Cow<'a, [u8]>> {
        let Some(length) = length else {
            let mut joined = Vec::new();
            while self.more(&mut None) {
                match self.head()? {
                    Head::Bytes(Some(length)) => joined.extend_from_slice(self.take(length)?),
                    other => {
                        return Err(self.expected(
                            "a chunk of a byte string",
                            "bytes of known length",
                            other,
                        ));
                    }
                }
            }
            return Ok(Cow::Owned(joined));
        };
        Ok(Cow::Borrowed(self.short(length)?))
    }

    /// Returns the bytes of a text or byte string, whose length is limited.
    fn short(&mut self, length: u64) -> Result<&'a [u8]> {
        let bytes = self.take(length)?;
        if length > limits::TEXT_BYTES {
            let message = format!("a text of {length} bytes, more than {}", limits::TEXT_BYTES);
            return Err(Error::new(Code::Limit, message).at(self.base + self.at as u64));
        }
        Ok(bytes)
    }

    /// Calls `each` before each item of an array; it must read exactly that item.
    pub fn array(&mut self, what: &str, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let mut left = match self.plain_head(ARRAY) {
            None => match self.head()? {
                Head::Array(length) => length,
                other => return Err(self.expected(what, "an array", other)),
            },
            plain => plain,
        };
        self.inside(|reader| {
            while reader.more(&mut left) {
                each(reader)?;
            }
            Ok(())
        })
    }

    /// Reads the content of a container, one level deeper.
    fn inside(&mut self, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        // In ordinary CBOR only free-form values nest arbitrarily.
        let levels = self.levels;
        if self.deterministic.is_some() {
            self.levels = levels.saturating_sub(1);
        }
        read(self)?;
        self.levels = levels;
        Ok(())
    }

    /// Checks that the key from `start` to here follows the previous one.
    fn follows(&self, last: &mut Option<&'a [u8]>, start: usize, what: &str) -> Result<()> {
        let key = self.bytes.get(start..self.at).unwrap_or_default();
        match last.replace(key).map(|last| last.cmp(key)) {
            None | Some(Ordering::Less) => Ok(()),
            Some(Ordering::Equal) => Err(self.twice(format!("a key occurs twice in {what}"))),
            Some(Ordering::Greater) => {
                Err(self.error(format!("the keys of {what} are not in the order of their bytes")))
            }
        }
    }

    /// Calls `each` with each field of a map that has fields; it must read exactly the value. A key that is not a text is unknown to every
    /// version and ignored like any other unknown key.
    pub fn fields(&mut self, what: &str, mut each: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        let mut left = self.map_head(what)?;
        if self.deterministic.is_some() {
            return self.inside(|reader| reader.ordered_fields(left, what, each));
        }
        let mut seen = Keys::default();
        let mut other = None;
        while self.more(&mut left) {
            if self.bytes.get(self.at).is_some_and(|first| first >> 5 != TEXT) {
                let key = self.skipped(self.levels)?;
                if !other.get_or_insert_with(Seen::default).insert(key) {
                    return Err(self.twice(format!("a key occurs twice in {what}")));
                }
                self.skip()?;
                continue;
            }
            let key = self.text("a key")?;
            each(self, &key)?;
            if !seen.insert(key.clone()) {
                return Err(self.twice(format!("the key {key:?} occurs twice in {what}")));
            }
        }
        Ok(())
    }

    fn ordered_fields(
        &mut self,
        mut left: Option<u64>,
        what: &str,
        mut each: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        let mut last = None;
        while self.more(&mut left) {
            let start = self.at;
            let is_text = self.bytes.get(start).is_some_and(|first| first >> 5 == TEXT);
            let key = if is_text { Some(self.text("a key")?) } else { self.skip().map(|()| None)? };
            self.follows(&mut last, start, what)?;
            match key {
                Some(key) => each(self, &key)?,
                None => self.skip()?,
            }
        }
        Ok(())
    }

    /// Calls `each` with each name of a map from names; it must read exactly the value and check that names are unique (which the
    /// deterministic encoding ensures itself).
    pub fn names(&mut self, what: &str, mut each: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        let mut left = self.map_head(what)?;
        self.inside(|reader| {
            let mut last = None;
            while reader.more(&mut left) {
                let start = reader.at;
                let name = reader.text("a name")?;
                if reader.deterministic.is_some() {
                    reader.follows(&mut last, start, what)?;
                }
                each(reader, &name)?;
            }
            Ok(())
        })
    }

    fn map_head(&mut self, what: &str) -> Result<Option<u64>> {
        if let Some(length) = self.plain_head(MAP) {
            return Ok(Some(length));
        }
        match self.head()? {
            Head::Map(length) => Ok(length),
            other => Err(self.expected(what, "a map", other)),
        }
    }

    /// Returns the keys and values of a map in encoded form. They may nest slightly deeper than a free-form value, because they include the
    /// map around it.
    pub fn spelled(&mut self, what: &str) -> Result<Vec<(&'a [u8], &'a [u8])>> {
        const AROUND: u32 = 8;
        let mut left = self.map_head(what)?;
        let mut entries = Vec::new();
        while self.more(&mut left) {
            let key = self.skipped(limits::CBOR_DEPTH)?;
            entries.push((key, self.skipped(limits::CBOR_DEPTH + AROUND)?));
        }
        Ok(entries)
    }

    /// Skips any item.
    pub fn skip(&mut self) -> Result<()> {
        self.skip_at(self.levels)
    }

    /// Returns the bytes of any item.
    pub fn raw(&mut self) -> Result<&'a [u8]> {
        self.skipped(self.levels)
    }

    fn skip_at(&mut self, depth: u32) -> Result<()> {
        self.check_depth(depth)?;
        match self.head()? {
            Head::Bytes(Some(length)) => self.short(length).map(drop),
            Head::Bytes(None) => self.bytes_of(None).map(drop),
            Head::Text(length) => self.text_of(length).map(drop),
            Head::Array(left) => self.skip_items(left, depth),
            Head::Map(left) => self.skip_entries(left, depth),
            Head::Tag(_) => self.skip_items(Some(1), depth),
            Head::Break => Err(self.error("a break outside an indefinite item")),
            _ => Ok(()),
        }
    }

    fn skip_items(&mut self, mut left: Option<u64>, depth: u32) -> Result<()> {
        let depth = self.deeper(depth)?;
        while self.more(&mut left) {
            self.skip_at(depth)?;
        }
        Ok(())
    }

    fn skip_entries(&mut self, mut left: Option<u64>, depth: u32) -> Result<()> {
        let depth = self.deeper(depth)?;
        let mut seen = Seen::default();
        let mut last = None;
        while self.more(&mut left) {
            let start = self.at;
            let key = self.skipped(depth)?;
            if self.deterministic.is_some() {
                self.follows(&mut last, start, "a map")?;
            } else if !seen.insert(key) {
                return Err(self.twice("a key occurs twice in a map"));
            }
            self.skip_at(depth)?;
        }
        Ok(())
    }

    /// Skips an item and returns its bytes.
    fn skipped(&mut self, depth: u32) -> Result<&'a [u8]> {
        let start = self.at;
        self.skip_at(depth)?;
        Ok(self.bytes.get(start..self.at).unwrap_or_default())
    }

    fn twice(&self, message: impl Into<String>) -> Error {
        self.error(message).rule("unique keys")
    }

    fn deeper(&self, depth: u32) -> Result<u32> {
        depth.checked_sub(1).ok_or_else(|| self.too_deep())
    }

    /// Checks the depth of an item: the deterministic encoding counts all items.
    fn check_depth(&self, depth: u32) -> Result<()> {
        if depth == 0 && self.deterministic.is_some() { Err(self.too_deep()) } else { Ok(()) }
    }

    fn too_deep(&self) -> Error {
        if self.deterministic.is_some() {
            return self.error("values are nested deeper than the format allows");
        }
        let message = format!("values are nested more than {} deep", limits::CBOR_DEPTH);
        Error::new(Code::Limit, message).at(self.base + self.at as u64)
    }

    /// Returns whether the next item is null, which represents an absent optional field; takes it if so.
    pub fn null(&mut self) -> bool {
        let null = self.bytes.get(self.at) == Some(&0xf6);
        self.at += usize::from(null);
        null
    }
}

impl<'a> Spelled<'a> for Reader<'a> {
    fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn mark(&self) -> Mark {
        Mark(self.at)
    }

    fn next_item(&mut self) -> Mark {
        self.mark()
    }

    fn go_to(&mut self, mark: Mark) {
        self.at = mark.0;
    }

    fn uint(&mut self, what: &str) -> Result<u64> {
        Reader::uint(self, what)
    }

    fn text(&mut self, what: &str) -> Result<Cow<'a, str>> {
        Reader::text(self, what)
    }

    fn plain_uint(&mut self) -> Option<u64> {
        self.plain_head(UNSIGNED)
    }

    fn plain_text(&mut self, max: u64) -> Option<&'a [u8]> {
        let length = self.plain_head(TEXT).filter(|&length| length <= max)?;
        let text = self.bytes.get(self.at..)?.get(..usize::try_from(length).ok()?)?;
        self.at += text.len();
        Some(text)
    }
}

#[cfg(test)]
mod tests;
