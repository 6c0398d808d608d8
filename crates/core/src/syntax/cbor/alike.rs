//! Entries that are spelled like one before them but for a few numbers and a text: an index has them by the hundred
//! thousand, and comparing bytes is much less work than reading keys.
//!
//! CBOR says of each item where it ends, so bytes that were read once say the same wherever they stand: what was found
//! good stays good, and only what fills the holes has to be judged.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::{Reader, TEXT, UNSIGNED};
use crate::error::Result;

/// Numbers that an entry may differ in.
const NUMBERS: usize = 3;
/// Holes of an entry: the numbers and a text.
const HOLES: usize = NUMBERS + 1;
/// Bytes of a text that is read here; longer ones are not worth it.
const TEXT_BYTES: u64 = 128;

/// What may differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hole {
    /// The number of which the format speaks as this one.
    Number(usize),
    Text,
}

/// The holes of the entry that is being read.
#[derive(Default)]
pub struct Draft {
    start: usize,
    /// From where to where each goes.
    holes: Vec<(usize, usize, Hole)>,
}

impl Draft {
    /// An entry begins here.
    pub fn begin(&mut self, reader: &Reader<'_>) {
        self.start = reader.at;
        self.holes.clear();
    }

    /// Reads the unsigned integer that the format calls the `which`th number.
    pub fn number(&mut self, reader: &mut Reader<'_>, which: usize, what: &str) -> Result<u64> {
        let start = reader.at;
        let number = reader.uint(what)?;
        self.note(start, reader.at, Hole::Number(which));
        Ok(number)
    }

    /// Reads the text that differs from entry to entry.
    pub fn text<'a>(&mut self, reader: &mut Reader<'a>, what: &str) -> Result<Cow<'a, str>> {
        let start = reader.at;
        let text = reader.text(what)?;
        self.note(start, reader.at, Hole::Text);
        Ok(text)
    }

    fn note(&mut self, start: usize, end: usize, hole: Hole) {
        if self.holes.len() <= HOLES {
            self.holes.push((start, end, hole));
        }
    }

    /// How the entry that ends here is spelled; `None` where it has more holes than fit.
    pub fn spelling<'a>(&self, reader: &Reader<'a>) -> Option<Spelling<'a>> {
        if self.holes.len() > HOLES {
            return None;
        }
        let mut at = self.start;
        let mut pieces = Vec::with_capacity(self.holes.len());
        for &(start, end, hole) in &self.holes {
            pieces.push((reader.bytes.get(at..start)?, hole));
            at = end;
        }
        Some(Spelling { pieces, end: reader.bytes.get(at..reader.at)? })
    }
}

/// How an entry is spelled around its holes.
pub struct Spelling<'a> {
    /// Bytes, and the hole that follows them.
    pieces: Vec<(&'a [u8], Hole)>,
    end: &'a [u8],
}

/// What filled the holes.
#[derive(Default, Debug)]
pub struct Filling<'a> {
    pub numbers: [Option<u64>; NUMBERS],
    pub text: Option<&'a str>,
}

impl<'a> Spelling<'a> {
    /// Reads the entry that comes next if it is spelled so, and otherwise nothing.
    pub fn read(&self, reader: &mut Reader<'a>) -> Option<Filling<'a>> {
        let start = reader.at;
        let filling = self.fill(reader);
        if filling.is_none() {
            reader.at = start;
        }
        filling
    }

    fn fill(&self, reader: &mut Reader<'a>) -> Option<Filling<'a>> {
        let mut filling = Filling::default();
        for &(piece, hole) in &self.pieces {
            reader.literal(piece)?;
            match hole {
                Hole::Number(which) => *filling.numbers.get_mut(which)? = Some(reader.plain_head(UNSIGNED)?),
                Hole::Text => filling.text = Some(reader.plain_text()?),
            }
        }
        reader.literal(self.end)?;
        Some(filling)
    }
}

/// Spellings that are remembered: the tensors of a layer have a few shapes, and come in turns.
const KNOWN: usize = 8;

/// The spellings met last, with what the format knows of entries that are spelled so.
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
    /// Reads the entry that comes next if it is spelled in one of these ways, and otherwise nothing.
    pub fn read(&self, reader: &mut Reader<'a>) -> Option<(&T, Filling<'a>)> {
        self.known.iter().find_map(|(spelling, known)| Some((known, spelling.read(reader)?)))
    }

    /// Remembers one, in the place of the oldest.
    pub fn add(&mut self, spelling: Spelling<'a>, known: T) {
        match self.known.get_mut(self.oldest) {
            Some(place) => *place = (spelling, known),
            None => self.known.push((spelling, known)),
        }
        self.oldest = (self.oldest + 1) % KNOWN;
    }
}

impl<'a> Reader<'a> {
    fn literal(&mut self, wanted: &[u8]) -> Option<()> {
        let end = self.at + wanted.len();
        if self.bytes.get(self.at..end)? != wanted {
            return None;
        }
        self.at = end;
        Some(())
    }

    fn plain_text(&mut self) -> Option<&'a str> {
        let length = self.plain_head(TEXT).filter(|&length| length <= TEXT_BYTES)?;
        let end = self.at + usize::try_from(length).ok()?;
        let text = std::str::from_utf8(self.bytes.get(self.at..end)?).ok()?;
        self.at = end;
        Some(text)
    }

    /// Goes back to where a reader of the same bytes stood.
    pub fn go_back(&mut self, mark: Mark) {
        self.at = mark.0;
    }

    /// Where the reader stands.
    pub fn mark(&self) -> Mark {
        Mark(self.at)
    }
}

/// A place in the bytes of a reader.
#[derive(Clone, Copy)]
pub struct Mark(usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(draft: &mut Draft, reader: &mut Reader<'a>) -> Result<(u64, Cow<'a, str>)> {
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
        let mut reader = Reader::new(first, 0, 0);
        assert_eq!(read(&mut draft, &mut reader).unwrap(), (300, Cow::Borrowed("one")));
        let spelling = draft.spelling(&reader).unwrap();
        let alike: [(&[u8], u64, &str); 3] = [
            (first, 300, "one"),
            (b"\xa4\x61a\x01\x61n\x00\x61t\x60\x61z\xf6", 0, ""),
            (b"\xa4\x61a\x01\x61n\x1a\x00\x01\x00\x00\x61t\x64four\x61z\xf6\x00", 0x1_0000, "four"),
        ];
        for (bytes, number, text) in alike {
            let filling = spelling.read(&mut Reader::new(bytes, 0, 0)).unwrap();
            assert_eq!((filling.numbers, filling.text), ([None, Some(number), None], Some(text)));
        }
        let others: [&[u8]; 8] = [
            b"\xa4\x61a\x02\x61n\x00\x61t\x60\x61z\xf6",     // another literal
            b"\xa4\x61a\x01\x61n\x20\x61t\x60\x61z\xf6",     // a negative number
            b"\xa4\x61a\x01\x61n\x18\x01\x61t\x60\x61z\xf6", // a wide head
            b"\xa4\x61a\x01\x61n\x00\x61t\x61\xff\x61z\xf6", // no UTF-8
            b"\xa4\x61a\x01\x61n\x00\x61t\x7f\xff\x61z\xf6", // an indefinite text
            b"\xa4\x61a\x01\x61n\x00\x61t\x60\x61z\xf5",     // another end
            b"\xa4\x61a\x01\x61n\x00\x61t\x60\x61z",         // cut short
            b"\xa4\x61a\x01\x61n\x00\x61t\x63on",            // cut short in the text
        ];
        for bytes in others {
            let mut reader = Reader::new(bytes, 0, 0);
            assert!(spelling.read(&mut reader).is_none(), "{bytes:02x?}");
            assert_eq!(reader.at, 0, "{bytes:02x?}");
        }
    }

    #[test]
    fn entries_with_many_holes_have_no_spelling() {
        let bytes = b"\xa1\x61n\x00".repeat(HOLES + 2);
        let mut reader = Reader::new(&bytes, 0, 0);
        let mut draft = Draft::default();
        draft.begin(&reader);
        for count in 1..=HOLES + 2 {
            let number = reader.fields("an entry", |reader, _| draft.number(reader, 0, "n").map(drop));
            number.unwrap();
            assert_eq!(draft.spelling(&reader).is_some(), count <= HOLES);
        }
    }
}
