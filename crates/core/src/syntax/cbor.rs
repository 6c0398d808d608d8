//! A strict pull reader of CBOR (RFC 8949), in two modes. Ordinary: indefinite lengths, wide heads and any key order
//! are fine; duplicate keys, invalid UTF-8, reserved heads, trailing bytes and deep nesting are not. Deterministic:
//! what the Core Deterministic Encoding (§4.2.1) spells differently is refused, and so are tags and simple values.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use ciborium::Value;
use ciborium::value::Integer;

use super::Seen;
use crate::error::{Code, Error, Result};
use crate::limits;

/// A reader over the bytes of one index. A clone goes its own way.
#[derive(Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    values_left: u32,
    /// Short texts that were found to be UTF-8, each at [`slot`]: an index repeats a few keys for each tensor,
    /// and checking them again was a quarter of reading it.
    texts: [&'a str; SLOTS],
    /// The rule that asks for deterministic encoding, where one does.
    deterministic: Option<&'static str>,
    /// Levels that the next item may span, itself included.
    levels: u32,
}

/// Texts that a reader remembers.
const SLOTS: usize = 32;
/// Bytes of the longest: what a head of one byte can say.
const REMEMBERED: usize = 23;

/// Where a short text is remembered. Any place would do; these factors keep the keys of each version apart.
fn slot(bytes: &[u8]) -> usize {
    let first = bytes.first().copied().unwrap_or_default();
    let middle = bytes.get(bytes.len() / 2).copied().unwrap_or_default();
    (usize::from(first) * 3 + usize::from(middle) * 16 + bytes.len() * 4) % SLOTS
}

/// The first byte of an item and its argument; `None` is an indefinite length.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Head {
    Unsigned(u64),
    Negative(u64),
    Bytes(Option<u64>),
    Text(Option<u64>),
    Array(Option<u64>),
    Map(Option<u64>),
    Tag(u64),
    Bool(bool),
    Null,
    Simple(u8),
    Float(f64),
    Break,
}

impl Head {
    const fn kind(self) -> &'static str {
        match self {
            Self::Unsigned(_) => "an unsigned integer",
            Self::Negative(_) => "a negative integer",
            Self::Bytes(_) => "a byte string",
            Self::Text(_) => "a text",
            Self::Array(_) => "an array",
            Self::Map(_) => "a map",
            Self::Tag(_) => "a tag",
            Self::Bool(_) => "a boolean",
            Self::Null => "null",
            Self::Simple(_) => "a simple value",
            Self::Float(_) => "a float",
            Self::Break => "a break",
        }
    }
}

impl<'a> Reader<'a> {
    /// `base` is the file offset of the first byte, for errors; `max_values` bounds free-form values.
    pub fn new(bytes: &'a [u8], base: u64, max_values: u32) -> Self {
        let levels = limits::CBOR_DEPTH;
        Self { bytes, at: 0, base, values_left: max_values, texts: [""; SLOTS], deterministic: None, levels }
    }

    /// A reader of the deterministic encoding, as `rule` asks for it. An item may lie `depth` levels below the root.
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

    /// What breaks the encoding itself.
    fn error(&self, message: impl Into<String>) -> Error {
        let error = self.misfit(message);
        match self.deterministic {
            Some(rule) => error.rule(rule),
            None => error,
        }
    }

    /// What is well-formed and not what the format has there.
    fn misfit(&self, message: impl Into<String>) -> Error {
        Error::new(Code::BadIndex, message).at(self.base + self.at as u64)
    }

    /// The root must be the only item.
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

    #[inline]
    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied().ok_or_else(|| self.ends_inside(1))?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn big_endian<const BYTES: usize>(&mut self) -> Result<[u8; BYTES]> {
        let taken = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let taken = *taken.ok_or_else(|| self.ends_inside(BYTES as u64))?;
        self.at += BYTES;
        Ok(taken)
    }

    #[allow(clippy::cast_possible_truncation)] // each argument was read as as many bytes as it is cast to
    fn head(&mut self) -> Result<Head> {
        let start = self.at;
        let first = self.byte()?;
        let (major, info) = (first >> 5, first & 0x1f);
        if self.deterministic.is_some() {
            return self.deterministic_head(start, major, info);
        }
        let argument = match info {
            0..=23 => Some(u64::from(info)),
            24 => Some(u64::from(self.byte()?)),
            25 => Some(u64::from(u16::from_be_bytes(self.big_endian()?))),
            26 => Some(u64::from(u32::from_be_bytes(self.big_endian()?))),
            27 => Some(u64::from_be_bytes(self.big_endian()?)),
            31 if matches!(major, 2..=5 | 7) => None,
            _ => {
                self.at = start;
                return Err(self.error(format!("0x{first:02x} is no CBOR item head")));
            }
        };
        Ok(match (major, argument) {
            (0, Some(value)) => Head::Unsigned(value),
            (1, Some(value)) => Head::Negative(value),
            (2, length) => Head::Bytes(length),
            (3, length) => Head::Text(length),
            (4, length) => Head::Array(length),
            (5, length) => Head::Map(length),
            (6, Some(tag)) => Head::Tag(tag),
            (7, None) => Head::Break,
            (7, Some(bits)) => match info {
                20 | 21 => Head::Bool(info == 21),
                22 => Head::Null,
                25 => Head::Float(f64::from(half::f16::from_bits(bits as u16))),
                26 => Head::Float(f64::from(f32::from_bits(bits as u32))),
                27 => Head::Float(f64::from_bits(bits)),
                24 if bits < 32 => return Err(self.error("a simple value below 32 in two bytes")),
                _ => Head::Simple(bits as u8),
            },
            _ => return Err(self.error("an integer or tag cannot be indefinite")),
        })
    }

    /// The rest of a head that stands at `start`, in the one spelling that it may have.
    #[allow(clippy::cast_possible_truncation)] // each argument was read as as many bytes as it is cast to
    fn deterministic_head(&mut self, start: usize, major: u8, info: u8) -> Result<Head> {
        let (argument, least) = match info {
            0..=23 => (u64::from(info), 0),
            24 => (u8::from_be_bytes(self.big_endian()?).into(), 24),
            25 => (u16::from_be_bytes(self.big_endian()?).into(), 1 << 8),
            26 => (u32::from_be_bytes(self.big_endian()?).into(), 1 << 16),
            27 => (u64::from_be_bytes(self.big_endian()?), 1 << 32),
            _ => {
                self.at = start;
                let what = if info == 31 { "an indefinite length" } else { "no CBOR item head" };
                return Err(self.error(format!("0x{:02x} is {what}", major << 5 | info)));
            }
        };
        let refused = |reader: &mut Self, what: &str| {
            reader.at = start;
            Err(reader.error(what))
        };
        if major == 7 {
            return match info {
                20 | 21 => Ok(Head::Bool(info == 21)),
                22 => Ok(Head::Null),
                25..=27 => match shortest_float(argument, info) {
                    Some(value) => Ok(Head::Float(value)),
                    None => refused(self, "a float is wider than its value needs, or a NaN is not 0xf97e00"),
                },
                _ => refused(self, "a simple value other than false, true and null"),
            };
        }
        if argument < least {
            return refused(self, "the head of an item is wider than its argument needs");
        }
        match major {
            0 => Ok(Head::Unsigned(argument)),
            1 => Ok(Head::Negative(argument)),
            2 => Ok(Head::Bytes(Some(argument))),
            3 => Ok(Head::Text(Some(argument))),
            4 => Ok(Head::Array(Some(argument))),
            5 => Ok(Head::Map(Some(argument))),
            _ => refused(self, "a tag"),
        }
    }

    fn expected(&self, what: &str, expected: &str, got: Head) -> Error {
        self.misfit(format!("{what} must be {expected}, not {}", got.kind()))
    }

    /// Whether a container has another item. Takes the break of an indefinite one.
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

    pub fn uint(&mut self, what: &str) -> Result<u64> {
        match self.head()? {
            Head::Unsigned(value) => Ok(value),
            other => Err(self.expected(what, "an unsigned integer", other)),
        }
    }

    pub fn text(&mut self, what: &str) -> Result<Cow<'a, str>> {
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
        let slot = slot(bytes);
        if let Some(&known) = self.texts.get(slot)
            && known.as_bytes() == bytes
        {
            return Ok(Cow::Borrowed(known));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| self.error("a text is not valid UTF-8"))?;
        if let Some(remembered) = self.texts.get_mut(slot).filter(|_| bytes.len() <= REMEMBERED) {
            *remembered = text;
        }
        Ok(Cow::Borrowed(text))
    }

    fn bytes_of(&mut self, length: Option<u64>) -> Result<Vec<u8>> {
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
            return Ok(joined);
        };
        Ok(self.short(length)?.to_vec())
    }

    /// Bytes of a text or byte string, which must fit into one of the host's.
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
        let mut left = match self.head()? {
            Head::Array(length) => length,
            other => return Err(self.expected(what, "an array", other)),
        };
        self.inside(|reader| {
            while reader.more(&mut left) {
                each(reader)?;
            }
            Ok(())
        })
    }

    /// Reads what is in a container, one level deeper.
    fn inside(&mut self, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        // Below ordinary CBOR only free-form values nest as deep as the file likes.
        let levels = self.levels;
        if self.deterministic.is_some() {
            self.levels = levels.saturating_sub(1);
        }
        read(self)?;
        self.levels = levels;
        Ok(())
    }

    /// Checks that the key from `start` to here follows the one before it.
    fn follows(&self, last: &mut Option<&'a [u8]>, start: usize, what: &str) -> Result<()> {
        let key = self.bytes.get(start..self.at).unwrap_or_default();
        match last.replace(key) {
            Some(last) if last == key => Err(self.twice(format!("a key stands twice in {what}"))),
            Some(last) if last > key => {
                Err(self.error(format!("the keys of {what} are not in the order of their bytes")))
            }
            _ => Ok(()),
        }
    }

    /// Calls `each` with each field of a map that has fields; it must read exactly the value. A key that is no
    /// text is one that no version knows, so it is ignored like any other such key.
    pub fn fields(&mut self, what: &str, mut each: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        let mut left = self.map_head(what)?;
        if self.deterministic.is_some() {
            return self.inside(|reader| reader.ordered_fields(left, what, each));
        }
        let mut seen = Seen::default();
        let mut other = Seen::default();
        while self.more(&mut left) {
            if self.bytes.get(self.at).is_some_and(|first| first >> 5 != 3) {
                if !other.insert(self.skipped(self.levels)?) {
                    return Err(self.twice(format!("a key stands twice in {what}")));
                }
                self.skip()?;
                continue;
            }
            let key = self.text("a key")?;
            each(self, &key)?;
            if !seen.insert(key.clone()) {
                return Err(self.twice(format!("the key {key:?} stands twice in {what}")));
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
            let is_text = self.bytes.get(start).is_some_and(|first| first >> 5 == 3);
            let key = if is_text { Some(self.text("a key")?) } else { self.skip().map(|()| None)? };
            self.follows(&mut last, start, what)?;
            match key {
                Some(key) => each(self, &key)?,
                None => self.skip()?,
            }
        }
        Ok(())
    }

    /// Calls `each` with each name of a map from names; it must read exactly the value, and see to it that no
    /// name comes twice (which the deterministic encoding sees to by itself).
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
        match self.head()? {
            Head::Map(length) => Ok(length),
            other => Err(self.expected(what, "a map", other)),
        }
    }

    /// The keys and values of a map, each as it is spelled. They may nest a little deeper than a free-form value: it
    /// is the map around those.
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

    /// Skips any item without keeping it.
    pub fn skip(&mut self) -> Result<()> {
        self.skip_at(self.levels)
    }

    /// The bytes of any item.
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
                return Err(self.twice("a key stands twice in a map"));
            }
            self.skip_at(depth)?;
        }
        Ok(())
    }

    /// Skips an item and gives its bytes.
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

    /// Whether an item may stand here: the deterministic encoding counts every one of them.
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

    /// A free-form value.
    pub fn value(&mut self) -> Result<Value> {
        self.value_at(self.levels)
    }

    /// Whether the next item is null, which stands for an absent optional field; takes it if so.
    pub fn null(&mut self) -> bool {
        let null = self.bytes.get(self.at) == Some(&0xf6);
        self.at += usize::from(null);
        null
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

/// The float of the bits that follow a head with `info` 25 to 27, `None` where a shorter one would do.
#[allow(clippy::cast_possible_truncation)] // each argument was read as as many bytes as it is cast to
fn shortest_float(bits: u64, info: u8) -> Option<f64> {
    match info {
        25 => {
            let value = half::f16::from_bits(bits as u16);
            (!value.is_nan() || bits == 0x7e00).then(|| f64::from(value))
        }
        26 => {
            let value = f32::from_bits(bits as u32);
            let narrow = half::f16::from_f32(value).to_f32();
            (!value.is_nan() && narrow.to_bits() != value.to_bits()).then(|| f64::from(value))
        }
        _ => {
            let value = f64::from_bits(bits);
            let narrow = f64::from(value as f32);
            (!value.is_nan() && narrow.to_bits() != value.to_bits()).then_some(value)
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Value> {
        let mut reader = Reader::new(bytes, 0, 1000);
        let value = reader.value()?;
        reader.end()?;
        Ok(value)
    }

    #[test]
    fn refuses_what_is_no_cbor() {
        let cases: [(&[u8], Code); 12] = [
            (b"", Code::BadIndex),
            (b"\x1c", Code::BadIndex),                     // reserved head
            (b"\x1f", Code::BadIndex),                     // indefinite integer
            (b"\xff", Code::BadIndex),                     // break outside
            (b"\x62a", Code::BadIndex),                    // text cut short
            (b"\x61\xff", Code::BadIndex),                 // not UTF-8
            (b"\x7f\x41a\xff", Code::BadIndex),            // byte chunk inside a text
            (b"\xa2\x61a\x00\x61a\x01", Code::BadIndex),   // duplicate key
            (b"\xa2\x01\x00\x18\x01\x01", Code::BadIndex), // the same key, spelled wider
            (b"\x00\x00", Code::BadIndex),                 // trailing byte
            (b"\xf8\x10", Code::BadIndex),                 // small simple value in two bytes
            (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", Code::BadIndex), // 2^64 - 1 items
        ];
        for (bytes, code) in cases {
            assert_eq!(read(bytes).unwrap_err().code(), code, "{bytes:02x?}");
        }
        let deep = [vec![0x81; 100], vec![0x00]].concat();
        assert_eq!(read(&deep).unwrap_err().code(), Code::Limit);
        let many = [vec![0x99, 0x07, 0xd0], vec![0x00; 2000]].concat();
        assert_eq!(read(&many).unwrap_err().code(), Code::Limit);
    }

    #[test]
    fn reads_indefinite_and_wide_spellings() {
        assert_eq!(read(b"\x1b\x00\x00\x00\x00\x00\x00\x00\x07").unwrap(), Value::from(7));
        assert_eq!(read(b"\x7f\x61a\x61b\xff").unwrap(), Value::from("ab"));
        assert_eq!(read(b"\x9f\x01\x02\xff").unwrap(), Value::Array(vec![1.into(), 2.into()]));
        assert_eq!(read(b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff").unwrap(), {
            Value::Integer(Integer::try_from(-(1_i128 << 64)).unwrap())
        });
        assert_eq!(read(b"\xf9\x3c\x00").unwrap(), Value::Float(1.0));
    }

    fn strictly(bytes: &[u8]) -> Result<Value> {
        let mut reader = Reader::deterministic(bytes, 0, 1000, 32, "deterministic");
        let value = reader.clone().value()?;
        // Skipping judges as reading does.
        reader.skip()?;
        reader.end()?;
        Ok(value)
    }

    #[test]
    fn the_deterministic_mode_takes_one_spelling() {
        let good: [&[u8]; 9] = [
            b"\x17",
            b"\x18\x18",
            b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xa2\x61b\x00\x62aa\x00", // shorter keys first
            b"\xa2\x18\x18\x00\x61a\x00",
            b"\xf9\x7e\x00",
            b"\xf9\x80\x00", // -0
            b"\xfa\x47\xc3\x50\x00",
            b"\xfb\x3f\xb9\x99\x99\x99\x99\x99\x9a",
        ];
        for bytes in good {
            assert!(strictly(bytes).is_ok(), "{bytes:02x?}: {:?}", strictly(bytes));
        }
        let bad: [&[u8]; 21] = [
            b"\x18\x17",
            b"\x19\x00\xff",
            b"\x1a\x00\x00\xff\xff",
            b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff",
            b"\x78\x01a",
            b"\x58\x01a",
            b"\x98\x01\x00",
            b"\xb8\x01\x00\x00",
            b"\x9f\xff",
            b"\xbf\xff",
            b"\x7f\xff",
            b"\xa2\x61b\x00\x61a\x00",
            b"\xa2\x62aa\x00\x61b\x00",
            b"\xa2\x61a\x00\x61a\x00",
            b"\xc1\x00",
            b"\xf7",
            b"\xf9\x7e\x01",
            b"\xf9\xfe\x00",
            b"\xfa\x7f\xc0\x00\x00",
            b"\xfa\x3f\x80\x00\x00",
            b"\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00",
        ];
        for bytes in bad {
            let error = strictly(bytes).unwrap_err();
            assert_eq!(error.code(), Code::BadIndex, "{bytes:02x?}");
            assert_eq!(error.broken_rule(), Some("deterministic"), "{bytes:02x?}");
        }
        let nested = |arrays: usize, last: u8| [vec![0x81; arrays], vec![last]].concat();
        assert!(strictly(&nested(32, 0x00)).is_ok());
        assert!(strictly(&nested(32, 0x80)).is_ok());
        assert_eq!(strictly(&nested(33, 0x00)).unwrap_err().broken_rule(), Some("deterministic"));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            ".*".prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Bytes),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
                proptest::collection::btree_map(".*", inner, 0..8)
                    .prop_map(|map| Value::Map(map.into_iter().map(|(k, v)| (k.into(), v)).collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_ciborium(value in any_value()) {
            let mut bytes = Vec::new();
            ciborium::into_writer(&value, &mut bytes).unwrap();
            prop_assert_eq!(read(&bytes).unwrap(), value);
        }

        #[test]
        fn what_is_deterministic_reads_the_same_in_both_modes(bytes: Vec<u8>) {
            if let Ok(value) = strictly(&bytes) {
                let mut again = Vec::new();
                ciborium::into_writer(&value, &mut again).unwrap();
                prop_assert_eq!(&again, &bytes);
                let ordinary = read(&bytes).unwrap();
                prop_assert_eq!(format!("{ordinary:?}"), format!("{value:?}"));
            }
        }

        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = read(&bytes);
            let _ = strictly(&bytes);
        }
    }
}
