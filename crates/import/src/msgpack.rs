//! MessagePack (msgpack/msgpack `spec.md`), read token by token from a file. The bodies of strings, byte values and extensions are returned
//! as ranges and skipped. Knows no format built on it.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

pub use crate::window::Run;
use crate::window::Window;

const RULE: &str = "MessagePack: formats";
/// Bytes of the longest token without its body.
const LONGEST: u64 = 9;

/// A value, or the beginning of a container.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Token {
    Nil,
    Bool(bool),
    /// From -2^63 to 2^64 - 1.
    Int(i128),
    Float(f64),
    Text(Run),
    Bytes(Run),
    /// An array of this many values, which follow.
    Array(u64),
    /// A map of this many entries; keys and values follow alternately.
    Map(u64),
    /// An extension with an application-defined type.
    Extension(i8, Run),
}

/// Reads tokens.
pub struct Reader<'s> {
    window: Window<'s>,
}

impl<'s> Reader<'s> {
    /// Creates a reader that fails with `ZT_LIMIT` after reading more than `max` bytes. Skipped bytes are free.
    pub fn new(source: &'s dyn ReadAt, stop: &'s Stop, max: u64) -> Self {
        Self { window: Window::new(source, stop, max) }
    }

    /// Returns the range of the whole file.
    pub fn whole(&self) -> Run {
        self.window.whole()
    }

    /// Takes the next token from a range. Fails with `ZT_TRUNCATED` if a range that ends with the file is too short, and with
    /// `ZT_BAD_INDEX` if a range within the file is too short or no token begins there. An array or map of more values than bytes remain
    /// counts as too short.
    pub fn next(&mut self, rest: &mut Run) -> Result<Token> {
        let start = rest.at;
        self.token(rest).map_err(|error| error.at(start).rule(RULE))
    }

    /// Skips this many values and their contents.
    pub fn skip(&mut self, values: u64, rest: &mut Run) -> Result<()> {
        let mut left = values;
        while left > 0 {
            let held = match self.next(rest)? {
                Token::Array(items) => items,
                Token::Map(entries) => entries.saturating_mul(2),
                _ => 0,
            };
            left = (left - 1).saturating_add(held);
        }
        Ok(())
    }

    fn token(&mut self, rest: &mut Run) -> Result<Token> {
        let available = rest.length().min(LONGEST);
        let bytes = self.window.held(rest.at, available)?;
        let Some((&marker, arguments)) = bytes.split_first() else {
            return Err(self.early(*rest));
        };
        let wide = match marker {
            0xc4 | 0xc7 | 0xcc | 0xd0 | 0xd9 => 1,
            0xc5 | 0xc8 | 0xcd | 0xd1 | 0xda | 0xdc | 0xde => 2,
            0xc6 | 0xc9 | 0xca | 0xce | 0xd2 | 0xdb | 0xdd | 0xdf => 4,
            0xcb | 0xcf | 0xd3 => 8,
            _ => 0,
        };
        // The type of an extension is between its length and its body.
        let typed = usize::from(matches!(marker, 0xc7..=0xc9 | 0xd4..=0xd8));
        let (Some(number), Some(kind)) = (arguments.get(..wide), arguments.get(wide..wide + typed)) else {
            return Err(self.early(*rest));
        };
        let number = number.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        let kind = kind.first().copied().unwrap_or_default().cast_signed();
        self.window.charge(1 + (wide + typed) as u64)?;
        let mut left = Run { at: rest.at + 1 + (wide + typed) as u64, ..*rest };
        // Sign-extends a number of `wide` bytes.
        let shift = 64 - 8 * u32::try_from(wide.max(1)).unwrap_or(8);
        let token = match marker {
            0x00..=0x7f => Token::Int(marker.into()),
            0xe0..=0xff => Token::Int(marker.cast_signed().into()),
            0x80..=0x8f => self.many(Token::Map, marker & 0x0f, left)?,
            0x90..=0x9f => self.many(Token::Array, marker & 0x0f, left)?,
            0xa0..=0xbf => Token::Text(self.body(u64::from(marker & 0x1f), &mut left)?),
            0xc0 => Token::Nil,
            0xc1 => return Err(Error::new(Code::BadIndex, "0xc1 is not a valid MessagePack marker")),
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            0xc4..=0xc6 => Token::Bytes(self.body(number, &mut left)?),
            0xc7..=0xc9 => Token::Extension(kind, self.body(number, &mut left)?),
            0xca => Token::Float(f32::from_bits(u32::try_from(number).unwrap_or_default()).into()),
            0xcb => Token::Float(f64::from_bits(number)),
            0xcc..=0xcf => Token::Int(number.into()),
            0xd0..=0xd3 => Token::Int(((number << shift).cast_signed() >> shift).into()),
            0xd4..=0xd8 => Token::Extension(kind, self.body(1 << (marker - 0xd4), &mut left)?),
            0xd9..=0xdb => Token::Text(self.body(number, &mut left)?),
            0xdc | 0xdd => self.many(Token::Array, number, left)?,
            0xde | 0xdf => self.many(Token::Map, number, left)?,
        };
        *rest = left;
        Ok(token)
    }

    /// Returns the token of a container whose values take at least a byte each.
    fn many(&self, token: fn(u64) -> Token, count: impl Into<u64>, rest: Run) -> Result<Token> {
        let token = token(count.into());
        let values = match token {
            // At most 32 bits.
            Token::Map(count) => 2 * count,
            Token::Array(count) => count,
            _ => 0,
        };
        if values <= rest.length() {
            return Ok(token);
        }
        let message = format!("{values} values cannot fit in the {} bytes that follow", rest.length());
        Err(self.window.early(rest, message))
    }

    fn body(&self, length: u64, rest: &mut Run) -> Result<Run> {
        rest.take(length).ok_or_else(|| {
            let message = format!("{length} bytes are needed at {}, {} follow", rest.at, rest.length());
            self.window.early(*rest, message)
        })
    }

    fn early(&self, rest: Run) -> Error {
        self.window.early(rest, format!("a value is missing at {}", rest.at))
    }

    /// Returns the bytes of a body.
    pub fn bytes(&mut self, body: Run) -> Result<&[u8]> {
        self.window.bytes(body)
    }

    /// Returns a string. Fails with `ZT_BAD_INDEX` if it is not UTF-8, and with `ZT_LIMIT` if it is longer than `max` bytes.
    pub fn text(&mut self, body: Run, max: u64, what: &str) -> Result<&str> {
        if body.length() > max {
            let message = format!("{what} has {} bytes, the maximum is {max}", body.length());
            return Err(Error::new(Code::Limit, message).at(body.at));
        }
        std::str::from_utf8(self.bytes(body)?).map_err(|_| {
            Error::new(Code::BadIndex, format!("{what} is not valid UTF-8")).at(body.at).rule(RULE)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmpv::Value;

    use super::*;

    /// Returns all tokens of the bytes in the form of [`tokens_of`].
    fn tokens(bytes: &[u8]) -> Result<Vec<Token>> {
        let stop = Stop::default();
        let mut reader = Reader::new(&bytes, &stop, 1 << 20);
        let (mut rest, mut all) = (reader.whole(), Vec::new());
        while rest.length() > 0 {
            all.push(reader.next(&mut rest)?);
        }
        Ok(all)
    }

    fn values(depth: u32) -> BoxedStrategy<Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            any::<i16>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f32>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (0..300_usize).prop_map(|length| Value::from("x".repeat(length))),
            (0..300_usize).prop_map(|length| Value::from(vec![7_u8; length])),
            (any::<i8>(), 0..300_usize).prop_map(|(kind, length)| Value::Ext(kind, vec![7; length])),
        ];
        leaf.prop_recursive(depth, 64, 20, |inner| {
            let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..20);
            prop_oneof![
                prop::collection::vec(inner, 0..20).prop_map(Value::Array),
                pairs.prop_map(Value::Map)
            ]
        })
        .boxed()
    }

    /// Returns the tokens of a value, with bodies as bytes.
    fn tokens_of(value: &Value, to: &mut Vec<(Token, Vec<u8>)>) {
        let body = |length: usize| Run { at: 0, end: length as u64 };
        match value {
            Value::Nil => to.push((Token::Nil, Vec::new())),
            Value::Boolean(flag) => to.push((Token::Bool(*flag), Vec::new())),
            Value::Integer(number) => {
                let number = number.as_i64().map_or_else(|| number.as_u64().unwrap().into(), i128::from);
                to.push((Token::Int(number), Vec::new()));
            }
            Value::F32(number) => to.push((Token::Float((*number).into()), Vec::new())),
            Value::F64(number) => to.push((Token::Float(*number), Vec::new())),
            Value::String(text) => {
                to.push((Token::Text(body(text.as_bytes().len())), text.as_bytes().into()));
            }
            Value::Binary(bytes) => to.push((Token::Bytes(body(bytes.len())), bytes.clone())),
            Value::Ext(kind, bytes) => to.push((Token::Extension(*kind, body(bytes.len())), bytes.clone())),
            Value::Array(items) => {
                to.push((Token::Array(items.len() as u64), Vec::new()));
                for item in items {
                    tokens_of(item, to);
                }
            }
            Value::Map(entries) => {
                to.push((Token::Map(entries.len() as u64), Vec::new()));
                for (key, value) in entries {
                    tokens_of(key, to);
                    tokens_of(value, to);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn tokens_are_those_of_rmpv(value in values(4)) {
            let mut bytes = Vec::new();
            rmpv::encode::write_value(&mut bytes, &value).unwrap();
            let mut expected = Vec::new();
            tokens_of(&value, &mut expected);
            let found: Vec<_> = tokens(&bytes).unwrap().into_iter().map(|token| {
                let of = |run: Run| bytes[usize::try_from(run.at).unwrap()..usize::try_from(run.end).unwrap()].to_vec();
                let at_0 = |run: Run| Run { at: 0, end: run.length() };
                match token {
                    Token::Text(run) => (Token::Text(at_0(run)), of(run)),
                    Token::Bytes(run) => (Token::Bytes(at_0(run)), of(run)),
                    Token::Extension(kind, run) => (Token::Extension(kind, at_0(run)), of(run)),
                    other => (other, Vec::new()),
                }
            }).collect();
            // NaN does not equal itself.
            prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }

        #[test]
        fn truncated_values_are_detected(value in values(3), part in 0.0..1.0_f64) {
            let mut bytes = Vec::new();
            rmpv::encode::write_value(&mut bytes, &value).unwrap();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let length = (bytes.len() as f64 * part) as usize;
            let mut expected = Vec::new();
            tokens_of(&value, &mut expected);
            match tokens(&bytes[..length]) {
                Ok(found) => prop_assert!(found.len() < expected.len()),
                Err(error) => prop_assert_eq!(error.code(), Code::Truncated),
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Err(error) = tokens(&bytes) {
                prop_assert!(matches!(error.code(), Code::Truncated | Code::BadIndex));
            }
        }
    }

    #[test]
    fn lengths_beyond_the_data_are_refused() {
        let cases: [(&[u8], Code); 5] = [
            (&[0xc1], Code::BadIndex),
            (&[0xdf, 0xff, 0xff, 0xff, 0xff, 0], Code::Truncated),
            (&[0xdd, 0, 0, 0, 2, 0], Code::Truncated),
            (&[0xc6, 0xff, 0xff, 0xff, 0xff, 0], Code::Truncated),
            (&[0xd8, 1, 0], Code::Truncated),
        ];
        for (bytes, code) in cases {
            assert_eq!(tokens(bytes).unwrap_err().code(), code, "{bytes:?}");
        }
        // In a range within the file nothing is truncated; the length is invalid.
        let (stop, bytes) = (Stop::default(), &[0xc4, 9, 1, 2][..]);
        let mut reader = Reader::new(&bytes, &stop, 100);
        let mut inner = Run { at: 0, end: 3 };
        assert_eq!(reader.next(&mut inner).unwrap_err().code(), Code::BadIndex);
        assert_eq!(inner, Run { at: 0, end: 3 });
    }
}
