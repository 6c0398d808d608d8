//! A strict pull reader of JSON (RFC 8259) for indexes: objects, arrays, strings and unsigned integers are read, anything else is validated
//! and skipped.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashSet;

use ciborium::Value;

use super::Keys;
use super::repeats::{Mark, Spelled};
use crate::error::{Code, Error, NAME, Result, short};
use crate::limits;

/// Who checks that the keys of an object are unique.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    /// The reader.
    Here,
    /// The caller, which has a table of them anyway.
    ByCaller,
}

/// Repeated keys that are kept for a message.
const REPEATED: usize = 8;

/// A reader for the text of one index.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    base: u64,
    /// Reads what Python's `json` reads.
    is_python: bool,
    /// How often a key was repeated, and the first such keys.
    repeats: usize,
    repeated: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Creates a reader. `base` is the file offset of the first byte, for errors.
    pub fn new(text: &'a str, base: u64) -> Self {
        Self { text, at: 0, base, is_python: false, repeats: 0, repeated: Vec::new() }
    }

    /// Creates a reader for what Python's `json` module reads beyond RFC 8259: `NaN`, `Infinity` and `-Infinity`, and repeated keys, of
    /// which the last one counts.
    pub fn python(text: &'a str, base: u64) -> Self {
        Self { is_python: true, ..Self::new(text, base) }
    }

    /// Returns how often a key was repeated.
    pub fn repeats(&self) -> usize {
        self.repeats
    }

    /// Returns the first keys that were repeated.
    pub fn repeated(&self) -> &[String] {
        &self.repeated
    }

    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::new(Code::BadIndex, message).at(self.base + self.at as u64)
    }

    /// Returns the number of bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the text from a position to the next byte to be read.
    pub fn text_from(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// Returns the next byte that is not white space.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        // Writers of indexes use no spaces, so it is almost always the first byte.
        match self.bytes().get(self.at) {
            Some(&byte) if byte > b' ' => Some(byte),
            _ => self.peek_past_space(),
        }
    }

    #[cold]
    fn peek_past_space(&mut self) -> Option<u8> {
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.bytes().get(self.at).copied()
    }

    #[inline]
    fn expect(&mut self, wanted: u8, what: &str) -> Result<()> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(self.unexpected(what))
    }

    #[cold]
    fn unexpected(&self, what: &str) -> Error {
        self.error(format!("expected {what}, found {}", self.found()))
    }

    fn found(&self) -> String {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            None => "the end of the header".to_owned(),
            Some(character) => format!("{character:?}"),
        }
    }

    /// Requires that only white space follows the root.
    pub fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error(format!("{} follows the end of the JSON", self.found()))),
        }
    }

    /// Calls `each` with each key of an object; it must read exactly the value.
    pub fn object(
        &mut self,
        what: &str,
        unique: Unique,
        mut each: impl FnMut(&mut Self, &Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        self.expect(b'{', what)?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut seen = Keys::default();
        loop {
            let key = self.string("a key")?;
            self.expect(b':', "':'")?;
            each(self, &key)?;
            if unique == Unique::Here && !seen.insert(key.clone()) {
                self.repeat(&key)?;
            }
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return self.expect(b'}', "',' or '}'"),
            }
        }
    }

    /// Notes that a key was repeated. Fails unless the reader reads what Python reads.
    #[cold]
    pub fn repeat(&mut self, key: &str) -> Result<()> {
        if !self.is_python {
            return Err(self.twice(key));
        }
        self.repeats += 1;
        if self.repeated.len() < REPEATED {
            self.repeated.push(short(key, NAME).into_owned());
        }
        Ok(())
    }

    /// Builds the error for a duplicate key.
    #[cold]
    pub fn twice(&self, key: &str) -> Error {
        self.error(format!("the key {key:?} occurs twice")).rule("unique keys")
    }

    /// Calls `each` before each item of an array; it must read exactly that item.
    pub fn array(&mut self, what: &str, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(b'[', what)?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            each(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return self.expect(b']', "',' or ']'"),
            }
        }
    }

    /// Reads an unsigned integer: only digits, no leading zero, no fraction, no exponent.
    pub fn uint(&mut self, what: &str) -> Result<u64> {
        self.peek();
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        let mut value = Some(0_u64);
        let mut digits = 0;
        while let Some(digit) =
            rest.get(digits).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10)
        {
            value = value.and_then(|value| value.checked_mul(10)?.checked_add(u64::from(digit)));
            digits += 1;
        }
        let leading_zero = digits > 1 && rest.first() == Some(&b'0');
        let goes_on = matches!(rest.get(digits), Some(b'.' | b'e' | b'E'));
        if digits == 0 || leading_zero || goes_on {
            return Err(self.error(format!("{what} must be an unsigned integer in plain digits")));
        }
        let value = value.ok_or_else(|| {
            Error::new(Code::Limit, format!("{what} exceeds a u64")).at(self.base + self.at as u64)
        })?;
        self.at += digits;
        Ok(value)
    }

    /// Reads a string, borrowed if it has no escapes.
    pub fn string(&mut self, what: &str) -> Result<Cow<'a, str>> {
        self.expect(b'"', what)?;
        let mut unescaped: Option<String> = None;
        loop {
            let rest = self.bytes().get(self.at..).unwrap_or_default();
            let plain = plain_run(rest);
            // Both ends are ASCII, so the slice is at character boundaries.
            let run = self.text.get(self.at..self.at + plain).unwrap_or_default();
            self.at += plain;
            match rest.get(plain) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(match unescaped {
                        None => Cow::Borrowed(run),
                        Some(mut text) => {
                            text.push_str(run);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(run);
                    self.at += 1;
                    let character = self.escape()?;
                    unescaped.get_or_insert_default().push(character);
                }
                Some(_) => return Err(self.error("an unescaped control character in a string")),
                None => return Err(self.error("a string is not terminated")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let kind = self.bytes().get(self.at).copied();
        self.at += 1;
        Ok(match kind {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => self.unicode()?,
            _ => return Err(self.error("an escape that is not valid JSON")),
        })
    }

    fn unicode(&mut self) -> Result<char> {
        let first = self.hex4()?;
        let mut code = first;
        if (0xd800..0xdc00).contains(&first) {
            if self.bytes().get(self.at..self.at + 2) != Some(b"\\u") {
                return Err(self.error("a lone surrogate in a string"));
            }
            self.at += 2;
            let second = self.hex4()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.error("a lone surrogate in a string"));
            }
            code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        }
        char::from_u32(code).ok_or_else(|| self.error("a lone surrogate in a string"))
    }

    fn hex4(&mut self) -> Result<u32> {
        let digits = self.bytes().get(self.at..self.at + 4).unwrap_or_default();
        let mut value = 0;
        for &digit in digits {
            let digit =
                char::from(digit).to_digit(16).ok_or_else(|| self.error("\\u needs four hex digits"))?;
            value = value * 16 + digit;
        }
        if digits.len() < 4 {
            return Err(self.error("\\u needs four hex digits"));
        }
        self.at += 4;
        Ok(value)
    }

    /// Takes `null` if it comes next.
    pub fn null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.word("null").is_ok()
    }

    /// Validates and skips any value.
    pub fn skip(&mut self) -> Result<()> {
        self.skip_at(limits::JSON_DEPTH, Unique::Here)
    }

    /// Like [`Self::skip`], for a value that nothing reads: its keys may repeat, so that they take no memory.
    pub fn ignore(&mut self) -> Result<()> {
        self.skip_at(limits::JSON_DEPTH, Unique::ByCaller)
    }

    fn skip_at(&mut self, depth: u32, unique: Unique) -> Result<()> {
        let Some(deeper) = depth.checked_sub(1) else {
            let message = format!("values are nested more than {} deep", limits::JSON_DEPTH);
            return Err(Error::new(Code::Limit, message).at(self.base + self.at as u64));
        };
        match self.peek() {
            Some(b'{') => self.object("an object", unique, |reader, _| reader.skip_at(deeper, unique)),
            Some(b'[') => self.array("an array", |reader| reader.skip_at(deeper, unique)),
            Some(b'"') => self.string("a string").map(drop),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number(),
        }
    }

    /// Reads any value, deducting the number of values from `left`.
    pub fn value(&mut self, left: &mut u32) -> Result<Value> {
        self.value_at(left, limits::JSON_DEPTH)
    }

    fn value_at(&mut self, left: &mut u32, depth: u32) -> Result<Value> {
        let (Some(deeper), Some(rest)) = (depth.checked_sub(1), left.checked_sub(1)) else {
            let message = "too many values, or values nested too deep";
            return Err(Error::new(Code::Limit, message)
                .option("maxAttributeValues")
                .at(self.base + self.at as u64));
        };
        *left = rest;
        Ok(match self.peek() {
            Some(b'{') => {
                let mut entries = Vec::new();
                let repeats = self.repeats;
                self.object("an object", Unique::Here, |reader, key| {
                    entries.push((Value::Text(key.to_string()), reader.value_at(left, deeper)?));
                    Ok(())
                })?;
                if self.repeats > repeats {
                    keep_last(&mut entries, |(key, _)| key.as_text().unwrap_or_default().to_owned());
                }
                Value::Map(entries)
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.array("an array", |reader| {
                    items.push(reader.value_at(left, deeper)?);
                    Ok(())
                })?;
                Value::Array(items)
            }
            Some(b'"') => Value::Text(self.string("a string")?.into_owned()),
            Some(b't') => self.word("true").map(|()| Value::Bool(true))?,
            Some(b'f') => self.word("false").map(|()| Value::Bool(false))?,
            Some(b'n') => self.word("null").map(|()| Value::Null)?,
            _ => {
                let start = self.at;
                self.number()?;
                let text = self.text.get(start..self.at).unwrap_or_default();
                let float = || text.parse::<f64>().map_or(Value::Null, Value::Float);
                text.parse::<i64>()
                    .map_or_else(|_| text.parse::<u64>().map_or_else(|_| float(), Value::from), Value::from)
            }
        })
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.error(format!("expected a value, found {}", self.found())))
    }

    fn number(&mut self) -> Result<()> {
        if self.is_python && ["NaN", "Infinity", "-Infinity"].into_iter().any(|word| self.word(word).is_ok())
        {
            return Ok(());
        }
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        let digits_from =
            |from: usize| rest.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let integer = digits_from(sign);
        let mut length = sign + integer;
        let mut valid = integer == 1 || (integer > 1 && rest.get(sign) != Some(&b'0'));
        if rest.get(length) == Some(&b'.') {
            let fraction = digits_from(length + 1);
            valid &= fraction > 0;
            length += 1 + fraction;
        }
        if matches!(rest.get(length), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits_from(length + 1 + signed);
            valid &= exponent > 0;
            length += 1 + signed + exponent;
        }
        if !valid {
            return Err(self.error(format!("expected a value, found {}", self.found())));
        }
        self.at += length;
        Ok(())
    }
}

impl<'a> Spelled<'a> for Reader<'a> {
    fn bytes(&self) -> &'a [u8] {
        Reader::bytes(self)
    }

    fn mark(&self) -> Mark {
        Mark(self.at)
    }

    fn next_item(&mut self) -> Mark {
        self.peek();
        self.mark()
    }

    fn go_to(&mut self, mark: Mark) {
        self.at = mark.0;
    }

    fn uint(&mut self, what: &str) -> Result<u64> {
        Reader::uint(self, what)
    }

    fn text(&mut self, what: &str) -> Result<Cow<'a, str>> {
        self.string(what)
    }

    fn plain_uint(&mut self) -> Option<u64> {
        /// Maximum digits of a number that cannot exceed a u64.
        const DIGITS: usize = 19;
        let rest = self.bytes().get(self.at..)?;
        let (mut value, mut digits) = (0_u64, 0);
        for byte in rest.iter().take(DIGITS + 1) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            digits += 1;
        }
        let plain = digits == 1 || (2..=DIGITS).contains(&digits) && rest.first() != Some(&b'0');
        self.at += digits;
        plain.then_some(value)
    }

    fn plain_text(&mut self, max: u64) -> Option<&'a [u8]> {
        let rest = self.bytes().get(self.at..)?.strip_prefix(b"\"")?;
        let text = rest.get(..plain_run(rest))?;
        if rest.get(text.len()) != Some(&b'"') || text.len() as u64 > max {
            return None;
        }
        self.at += text.len() + 2;
        Some(text)
    }
}

/// Removes all items but the last one of each key, in linear time.
pub fn keep_last<T>(items: &mut Vec<T>, key: impl Fn(&T) -> String) {
    let mut seen = HashSet::with_capacity(items.len());
    let mut stays: Vec<bool> = items.iter().rev().map(|item| seen.insert(key(item))).collect();
    items.retain(|_| stays.pop().unwrap_or(true));
}

/// Returns the number of leading bytes that are literal in a string: no quote, no backslash, no control character. Eight at a time: names
/// are most of an index.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The lowest set bit marks the first byte below `bound` (at most 0x80); bits above it may be wrong.
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGH;
    let (words, _) = bytes.as_chunks::<8>();
    for (at, &word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(word);
        let special = below(word, 0x20)
            | below(word ^ (ONES * u64::from(b'"')), 1)
            | below(word ^ (ONES * u64::from(b'\\')), 1);
        if special != 0 {
            return at * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let start = words.len() * 8;
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|&&byte| byte != b'"' && byte != b'\\' && byte >= 0x20).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn skip(text: &str) -> Result<()> {
        let mut reader = Reader::new(text, 0);
        reader.skip()?;
        reader.end()
    }

    #[test]
    fn skip_accepts_only_valid_json() {
        for good in
            ["{}", "[]", " [1, -0.5e+3 ,\"a\\u00e9\\ud83d\\ude00\", {\"a\":{}}, true, null] \n", "0", "-0"]
        {
            assert!(skip(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "01",
            "1.",
            ".5",
            "1e",
            "+1",
            "nul",
            "\"",
            "\"\\x\"",
            "\"\n\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "[1 2]",
            "{}x",
            "\u{feff}{}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"\\u0061\":2}",
            "NaN",
            "'a'",
        ] {
            assert_eq!(skip(bad).map_err(|error| error.code()), Err(Code::BadIndex), "{bad}");
        }
        assert_eq!(skip(&"[".repeat(200)).unwrap_err().code(), Code::Limit);
    }

    #[test]
    fn values_are_read() {
        let value = |text, mut left| Reader::new(text, 0).value(&mut left).map_err(|error| error.code());
        let read = value("{\"a\": [1, -2, 1.5, 1e3, true, null, \"\\u00e9\"]}", 10).unwrap();
        let items = vec![1.into(), (-2).into(), 1.5.into(), 1e3.into(), true.into(), Value::Null, "é".into()];
        assert_eq!(read, Value::Map(vec![("a".into(), Value::Array(items))]));
        assert_eq!(value("18446744073709551615", 1), Ok(u64::MAX.into()));
        assert_eq!(value("[1, 2]", 2), Err(Code::Limit));
        assert_eq!(value(&"[".repeat(200), 1000), Err(Code::Limit));
    }

    #[test]
    fn python_reads_infinities_and_repeated_keys() {
        let text =
            "{\"a\": [NaN, Infinity, -Infinity, 1], \"b\": {\"c\": 1, \"d\": 2, \"c\": 3}, \"a\": -0.5}";
        let mut reader = Reader::python(text, 0);
        let read = reader.value(&mut 20).unwrap();
        reader.end().unwrap();
        let inner = Value::Map(vec![("d".into(), 2.into()), ("c".into(), 3.into())]);
        assert_eq!(read, Value::Map(vec![("b".into(), inner), ("a".into(), (-0.5).into())]));
        assert_eq!((reader.repeats(), reader.repeated()), (2, &["c".to_owned(), "a".to_owned()][..]));
        let numbers = Reader::python("[NaN, Infinity, -Infinity]", 0).value(&mut 9).unwrap();
        let floats: Vec<f64> =
            numbers.as_array().unwrap().iter().map(|number| number.as_float().unwrap()).collect();
        assert!(floats[0].is_nan() && floats[1..] == [f64::INFINITY, f64::NEG_INFINITY]);
        Reader::python(text, 0).skip().unwrap();
        for bad in ["nan", "inf", "+Infinity", "- Infinity", "NaNs", "\"\\ud800\"", "'a'"] {
            let mut reader = Reader::python(bad, 0);
            assert!(reader.skip().and_then(|()| reader.end()).is_err(), "{bad}");
        }
    }

    #[test]
    fn integers_are_plain() {
        let uint = |text| Reader::new(text, 0).uint("n").map_err(|error| error.code());
        assert_eq!(uint("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(uint("18446744073709551616"), Err(Code::Limit));
        for bad in ["", "-1", "01", "1.0", "1e2", "\"1\"", "0x1"] {
            if bad == "0x1" {
                assert_eq!(uint(bad), Ok(0), "the caller rejects the x");
            } else {
                assert_eq!(uint(bad), Err(Code::BadIndex), "{bad}");
            }
        }
    }

    proptest! {
        #[test]
        fn strings_survive(text: String) {
            let escaped: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let quoted = format!("\"{}\"", escaped.concat());
            prop_assert_eq!(Reader::new(&quoted, 0).string("s").unwrap(), text);
        }

        #[test]
        fn plain_runs_end_at_the_first_special_byte(bytes in proptest::collection::vec(0x1d_u8..=0xff, 0..40), at: usize) {
            let slow = |bytes: &[u8]| {
                bytes.iter().take_while(|&&byte| byte != b'"' && byte != b'\\' && byte >= 0x20).count()
            };
            prop_assert_eq!(plain_run(&bytes), slow(&bytes));
            let mut plain = vec![b'a'; 40];
            plain[at % 40] = bytes.first().copied().unwrap_or(b'"');
            prop_assert_eq!(plain_run(&plain), slow(&plain));
        }

        #[test]
        fn never_panics(text: String) {
            let _ = skip(&text);
        }
    }
}
