//! Recognizes entries that equal an earlier one except for a few numbers and a text. An index can have hundreds of
//! thousands of them, and comparing bytes is much cheaper than reading keys.
//!
//! CBOR and JSON items are self-delimiting, so equal bytes have the same meaning at any position. Bytes that were
//! validated once remain valid, and only the content of holes must be checked. (A JSON number ends at the first byte
//! that is not a digit, and the bytes after it are compared.)
#![forbid(unsafe_code)]

use std::borrow::Cow;

use crate::error::Result;

/// A reader of an index that supports repeated entries.
pub trait Spelled<'a> {
    /// Returns all bytes of the index.
    fn bytes(&self) -> &'a [u8];
    /// Returns the current position.
    fn mark(&self) -> Mark;
    /// Returns the position of the next item.
    fn next_item(&mut self) -> Mark;
    /// Moves to a position of a reader of the same bytes.
    fn go_to(&mut self, mark: Mark);
    /// Reads an unsigned integer.
    fn uint(&mut self, what: &str) -> Result<u64>;
    /// Reads a text.
    fn text(&mut self, what: &str) -> Result<Cow<'a, str>>;
    /// Reads an integer in the usual encoding. If there is none, the position is unspecified.
    fn plain_uint(&mut self) -> Option<u64>;
    /// Returns the bytes of a text in the usual encoding, up to a length. They may not be UTF-8.
    fn plain_text(&mut self, max: u64) -> Option<&'a [u8]>;
}

/// A position in the bytes of a reader.
#[derive(Clone, Copy)]
pub struct Mark(pub(super) usize);

/// Maximum numbers that differ between entries.
const NUMBERS: usize = 3;
/// Maximum holes of an entry: the numbers and a text.
const HOLES: usize = NUMBERS + 1;
/// Maximum bytes of a text that is read here; longer ones are not worth it.
const TEXT_BYTES: u64 = 128;

/// A part that may differ between entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hole {
    /// The number with this index in the format.
    Number(usize),
    Text,
}

/// The holes of the current entry.
#[derive(Default)]
pub struct Draft {
    start: usize,
    /// The start and end of each hole.
    holes: Vec<(usize, usize, Hole)>,
}

impl Draft {
    /// Begins an entry.
    pub fn begin<'a>(&mut self, reader: &impl Spelled<'a>) {
        self.start = reader.mark().0;
        self.holes.clear();
    }

    /// Reads the unsigned integer that the format calls the `which`th number.
    pub fn number<'a>(&mut self, reader: &mut impl Spelled<'a>, which: usize, what: &str) -> Result<u64> {
        let start = reader.next_item();
        let number = reader.uint(what)?;
        self.note(start, reader.mark(), Hole::Number(which));
        Ok(number)
    }

    /// Reads the text that differs between entries.
    pub fn text<'a>(&mut self, reader: &mut impl Spelled<'a>, what: &str) -> Result<Cow<'a, str>> {
        let start = reader.next_item();
        let text = reader.text(what)?;
        self.note(start, reader.mark(), Hole::Text);
        Ok(text)
    }

    fn note(&mut self, start: Mark, end: Mark, hole: Hole) {
        if self.holes.len() <= HOLES {
            self.holes.push((start.0, end.0, hole));
        }
    }

    /// Returns the spelling of the entry that ends here; `None` if it has too many holes.
    pub fn spelling<'a>(&self, reader: &impl Spelled<'a>) -> Option<Spelling<'a>> {
        if self.holes.len() > HOLES {
            return None;
        }
        let (bytes, mut at) = (reader.bytes(), self.start);
        let mut pieces = Vec::with_capacity(self.holes.len());
        for &(start, end, hole) in &self.holes {
            pieces.push((bytes.get(at..start)?, hole));
            at = end;
        }
        Some(Spelling { pieces, end: bytes.get(at..reader.mark().0)? })
    }
}

/// The bytes of an entry around its holes.
pub struct Spelling<'a> {
    /// Bytes, and the hole that follows them.
    pieces: Vec<(&'a [u8], Hole)>,
    end: &'a [u8],
}

/// The content of the holes.
#[derive(Default, Debug)]
pub struct Filling<'a> {
    pub numbers: [Option<u64>; NUMBERS],
    pub text: Option<&'a [u8]>,
}

impl<'a> Spelling<'a> {
    /// Reads the next entry if it has this spelling, otherwise nothing.
    pub fn read(&self, reader: &mut impl Spelled<'a>) -> Option<Filling<'a>> {
        let start = reader.mark();
        let filling = self.fill(reader);
        if filling.is_none() {
            reader.go_to(start);
        }
        filling
    }

    fn fill(&self, reader: &mut impl Spelled<'a>) -> Option<Filling<'a>> {
        let mut filling = Filling::default();
        for &(piece, hole) in &self.pieces {
            literal(reader, piece)?;
            match hole {
                Hole::Number(which) => *filling.numbers.get_mut(which)? = Some(reader.plain_uint()?),
                Hole::Text => filling.text = Some(reader.plain_text(TEXT_BYTES)?),
            }
        }
        literal(reader, self.end)?;
        Some(filling)
    }
}

fn literal<'a>(reader: &mut impl Spelled<'a>, wanted: &[u8]) -> Option<()> {
    let start = reader.mark().0;
    let end = start + wanted.len();
    if reader.bytes().get(start..end)? != wanted {
        return None;
    }
    reader.go_to(Mark(end));
    Some(())
}

/// Maximum remembered spellings: the tensors of a layer have a few shapes, which alternate.
const KNOWN: usize = 8;

/// The most recent spellings, with the format's information about entries with them.
pub struct Spellings<'a, T> {
    known: Vec<(Spelling<'a>, T)>,
    oldest: usize,
}

impl<T> Default for Spellings<'_, T> {
    fn default() -> Self {
        Self { known: Vec::new(), oldest: 0 }
    }
}

impl<'a, T> Spellings<'a, T> {
    /// Reads the next entry if it has one of these spellings, otherwise nothing.
    pub fn read(&self, reader: &mut impl Spelled<'a>) -> Option<(&T, Filling<'a>)> {
        self.known.iter().find_map(|(spelling, known)| Some((known, spelling.read(reader)?)))
    }

    /// Remembers a spelling, replacing the oldest.
    pub fn add(&mut self, spelling: Spelling<'a>, known: T) {
        match self.known.get_mut(self.oldest) {
            Some(slot) => *slot = (spelling, known),
            None => self.known.push((spelling, known)),
        }
        self.oldest = (self.oldest + 1) % KNOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{cbor, json};

    fn read<'a>(draft: &mut Draft, reader: &mut cbor::Reader<'a>) -> Result<(u64, Cow<'a, str>)> {
        let (mut number, mut text) = (0, Cow::Borrowed(""));
        draft.begin(reader);
        reader.fields("the entry", |reader, key| {
            match key {
                "n" => number = draft.number(reader, 1, "n")?,
                "t" => text = draft.text(reader, "t")?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        Ok((number, text))
    }

    #[test]
    fn only_holes_may_differ() {
        // {"a": 1, "n": 300, "t": "one", "z": null}
        let first = b"\xa4\x61a\x01\x61n\x19\x01\x2c\x61t\x63one\x61z\xf6";
        let mut draft = Draft::default();
        let mut reader = cbor::Reader::new(first, 0, 0);
        assert_eq!(read(&mut draft, &mut reader).unwrap(), (300, Cow::Borrowed("one")));
        let spelling = draft.spelling(&reader).unwrap();
        let same_spelling: [(&[u8], u64, &[u8]); 4] = [
            (first, 300, b"one"),
            (b"\xa4\x61a\x01\x61n\x00\x61t\x60\x61z\xf6", 0, b""),
            (b"\xa4\x61a\x01\x61n\x1a\x00\x01\x00\x00\x61t\x64four\x61z\xf6\x00", 0x1_0000, b"four"),
            // The caller validates the text.
            (b"\xa4\x61a\x01\x61n\x00\x61t\x61\xff\x61z\xf6", 0, b"\xff"),
        ];
        for (bytes, number, text) in same_spelling {
            let filling = spelling.read(&mut cbor::Reader::new(bytes, 0, 0)).unwrap();
            assert_eq!((filling.numbers, filling.text), ([None, Some(number), None], Some(text)));
        }
        let others: [&[u8]; 7] = [
            b"\xa4\x61a\x02\x61n\x00\x61t\x60\x61z\xf6",     // another literal
            b"\xa4\x61a\x01\x61n\x20\x61t\x60\x61z\xf6",     // a negative number
            b"\xa4\x61a\x01\x61n\x18\x01\x61t\x60\x61z\xf6", // a wide head
            b"\xa4\x61a\x01\x61n\x00\x61t\x7f\xff\x61z\xf6", // an indefinite text
            b"\xa4\x61a\x01\x61n\x00\x61t\x60\x61z\xf5",     // another end
            b"\xa4\x61a\x01\x61n\x00\x61t\x60\x61z",         // truncated
            b"\xa4\x61a\x01\x61n\x00\x61t\x63on",            // truncated in the text
        ];
        for bytes in others {
            let mut reader = cbor::Reader::new(bytes, 0, 0);
            assert!(spelling.read(&mut reader).is_none(), "{bytes:02x?}");
            assert_eq!(reader.mark().0, 0, "{bytes:02x?}");
        }
    }

    #[test]
    fn json_entries_with_other_numbers_and_texts_match() {
        let first = r#" {"n": [12, 3] ,"t":"one"}"#;
        let mut draft = Draft::default();
        let mut reader = json::Reader::new(first, 0);
        draft.begin(&reader);
        let mut which = 0;
        reader
            .object("the entry", json::Unique::Here, |reader, key| {
                if &**key == "t" {
                    return draft.text(reader, "t").map(drop);
                }
                reader.array("n", |reader| {
                    which += 1;
                    draft.number(reader, which - 1, "a number").map(drop)
                })
            })
            .unwrap();
        let spelling = draft.spelling(&reader).unwrap();
        for (text, numbers, name) in [
            (first, [12, 3], "one"),
            (r#" {"n": [1234567890123456789, 0] ,"t":"é"}, "#, [1_234_567_890_123_456_789, 0], "é"),
            (r#" {"n": [9999999999999999999, 3] ,"t":""}"#, [9_999_999_999_999_999_999, 3], ""),
        ] {
            let filling = spelling.read(&mut json::Reader::new(text, 0)).unwrap();
            assert_eq!(filling.numbers, [Some(numbers[0]), Some(numbers[1]), None], "{text}");
            assert_eq!(filling.text, Some(name.as_bytes()), "{text}");
        }
        for text in [
            r#"{"n": [12, 3] ,"t":"one"}"#,
            r#" {"n": [12.0, 3] ,"t":"one"}"#,
            r#" {"n": [1e2, 3] ,"t":"one"}"#,
            r#" {"n": [-1, 3] ,"t":"one"}"#,
            r#" {"n": [012, 3] ,"t":"one"}"#,
            r#" {"n": [, 3] ,"t":"one"}"#,
            r#" {"n": [12,3] ,"t":"one"}"#,
            // Numbers with twenty digits are left to the reader that knows the limit.
            r#" {"n": [18446744073709551615, 3] ,"t":"one"}"#,
            r#" {"n": [12, 3] ,"t":"o\ne"}"#,
            r#" {"n": [12, 3] ,"t":"one"#,
            r#" {"n": [12, 3"#,
        ] {
            let mut reader = json::Reader::new(text, 0);
            assert!(spelling.read(&mut reader).is_none(), "{text}");
            assert_eq!(reader.mark().0, 0, "{text}");
        }
    }

    #[test]
    fn entries_with_many_holes_have_no_spelling() {
        let bytes = b"\xa1\x61n\x00".repeat(HOLES + 2);
        let mut reader = cbor::Reader::new(&bytes, 0, 0);
        let mut draft = Draft::default();
        draft.begin(&reader);
        for count in 1..=HOLES + 2 {
            let number = reader.fields("an entry", |reader, _| draft.number(reader, 0, "n").map(drop));
            number.unwrap();
            assert_eq!(draft.spelling(&reader).is_some(), count <= HOLES);
        }
    }
}
