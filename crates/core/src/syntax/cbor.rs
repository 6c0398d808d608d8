//! A strict pull reader of ordinary CBOR (RFC 8949): indefinite lengths, wide heads and any key order are
//! fine; duplicate keys, invalid UTF-8, reserved heads, trailing bytes and deep nesting are not.
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
        Self { bytes, at: 0, base, values_left: max_values, texts: [""; SLOTS] }
    }

    fn error(&self, message: impl Into<String>) -> Error {
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

    fn expected(&self, what: &str, expected: &str, got: Head) -> Error {
        self.error(format!("{what} must be {expected}, not {}", got.kind()))
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
        while self.more(&mut left) {
            each(self)?;
        }
        Ok(())
    }

    /// Calls `each` with each field of a map that has fields; it must read exactly the value. A key that is no
    /// text is one that no version knows, so it is ignored like any other such key.
    pub fn fields(&mut self, what: &str, mut each: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        let mut left = self.map_head(what)?;
        let mut seen = Seen::default();
        let mut other = Seen::default();
        while self.more(&mut left) {
            if self.bytes.get(self.at).is_some_and(|first| first >> 5 != 3) {
                if !other.insert(self.skipped(limits::CBOR_DEPTH)?) {
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

    /// Calls `each` with each name of a map from names; it must read exactly the value, and see to it that no
    /// name comes twice.
    pub fn names(&mut self, what: &str, mut each: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        let mut left = self.map_head(what)?;
        while self.more(&mut left) {
            let name = self.text("a name")?;
            each(self, &name)?;
        }
        Ok(())
    }

    fn map_head(&mut self, what: &str) -> Result<Option<u64>> {
        match self.head()? {
            Head::Map(length) => Ok(length),
            other => Err(self.expected(what, "a map", other)),
        }
    }

    /// Skips any item without keeping it.
    pub fn skip(&mut self) -> Result<()> {
        self.skip_at(limits::CBOR_DEPTH)
    }

    fn skip_at(&mut self, depth: u32) -> Result<()> {
        match self.head()? {
            Head::Bytes(length) => self.bytes_of(length).map(drop),
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
        while self.more(&mut left) {
            if !seen.insert(self.skipped(depth)?) {
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
        depth.checked_sub(1).ok_or_else(|| {
            let message = format!("values are nested more than {} deep", limits::CBOR_DEPTH);
            Error::new(Code::Limit, message).at(self.base + self.at as u64)
        })
    }

    /// A free-form value.
    pub fn value(&mut self) -> Result<Value> {
        self.value_at(limits::CBOR_DEPTH)
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
        self.entries(length, limits::CBOR_DEPTH)
    }

    fn value_at(&mut self, depth: u32) -> Result<Value> {
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
        while self.more(&mut left) {
            let key = self.value_at(depth)?;
            if !seen.insert(identity(&key)) {
                return Err(self.twice("a key stands twice in a map of attributes"));
            }
            let value = self.value_at(depth)?;
            entries.push((key, value));
        }
        Ok(entries)
    }
}

/// Bytes that are equal where two keys are, however each was spelled.
fn identity(key: &Value) -> Vec<u8> {
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
        fn never_panics(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
