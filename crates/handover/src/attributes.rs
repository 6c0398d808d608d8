//! The attributes of a file or a tensor on a tape: all values of a map in one array of numbers and a few strings, from which the wrapper
//! creates them. Half a million strings cross to JavaScript as fast as one.

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits;
use ztensor_core::model::Attributes;
use ztensor_core::syntax::values::{Event, Visit};

/// Larger integers become bigints.
const MAX_NUMBER: i128 = (1 << 53) - 1;
/// RFC 8949 §3.4.3: an unsigned and a negative integer of any size.
const POSITIVE_BIGNUM: u64 = 2;
const NEGATIVE_BIGNUM: u64 = 3;
/// Larger bignums remain bytes: not every runtime has bigints of that size.
const BIGNUM_BYTES: usize = 1 << 16;
/// UTF-16 units per shared string. A substring keeps all of it in memory.
const UNITS: usize = 1 << 20;

/// The mark before each value on a tape. `lib/values/attributes.ts` has the same table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Null,
    False,
    True,
    /// Followed by the number.
    Number,
    /// Followed by its length in UTF-16 units: a substring of the current string.
    Text,
    /// The next of the bigints.
    Other,
    /// Followed by the number of items, and then the items.
    List,
    /// Followed by the number of keys and values, and then alternating keys and values.
    Map,
    /// Not a value: texts continue in the next string.
    NextString,
    /// In a list: followed by a count, and that many numbers.
    Numbers,
    /// In a list: followed by a count, and that many text lengths in UTF-16 units.
    Texts,
    /// Followed by its length: the next bytes of the buffer that all byte strings share.
    Bytes,
    /// In a list: followed by a count, and that many lengths of byte strings.
    ByteStrings,
    /// At the end of a list of an outline: followed by the number of items that are left out.
    LeftOut,
}

/// Attributes as JavaScript takes them.
pub struct FlatAttributes {
    /// The number of keys and values, and then, alternately for each of them, a mark and its operands.
    pub tape: Vec<f64>,
    /// Concatenated texts.
    pub texts: Vec<String>,
    /// Concatenated byte strings.
    pub bytes: Vec<u8>,
    pub bigints: Vec<Bigint>,
}

/// An integer beyond those of a number.
pub struct Bigint {
    pub is_negative: bool,
    /// The magnitude, least significant word first.
    pub words: Vec<u64>,
}

/// What an outline has of each value.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Maximum number of keys.
    pub keys: u32,
    /// Maximum number of items of a list.
    pub items: u32,
    /// UTF-16 units of a text that is no key: of a longer one at least as many.
    pub units: u32,
}

impl FlatAttributes {
    pub fn of(attributes: Option<&Attributes>) -> Result<Self> {
        let mut tape = Tape::new();
        attributes.map_or(Ok(()), |attributes| attributes.visit(&mut tape))?;
        Ok(tape.finish())
    }

    /// The beginnings of attributes, and the number of all keys: of long lists the first items and the number of the others, of long texts
    /// the first characters.
    pub fn outline(attributes: &Attributes, extent: Extent) -> Result<(Self, u64)> {
        let mut outline = Outline::new(extent);
        attributes.visit(&mut outline)?;
        let keys = outline.keys();
        Ok((outline.tape.finish(), keys))
    }
}

/// A tape that is being written.
#[derive(Default)]
struct Tape {
    marks: Vec<f64>,
    /// Completed strings, and the current one with its UTF-16 units.
    full: Vec<String>,
    text: String,
    units: usize,
    bytes: Vec<u8>,
    bigints: Vec<Bigint>,
    /// Open lists and maps, outermost first.
    open: Vec<Open>,
    /// Position of the count of the current run of a list.
    run: Option<(Mark, usize)>,
    tag: Option<u64>,
}

/// A list or a map that is being written.
#[derive(Default)]
struct Open {
    list: bool,
    /// Position of its count.
    position: usize,
    count: u32,
}

#[allow(clippy::cast_precision_loss)] // lengths in memory
impl Tape {
    fn new() -> Self {
        Self { marks: vec![0.0], open: vec![Open::default()], ..Self::default() }
    }

    fn finish(mut self) -> FlatAttributes {
        self.end();
        self.full.push(self.text);
        let Self { marks: tape, full: texts, bytes, bigints, .. } = self;
        FlatAttributes { tape, texts, bytes, bigints }
    }

    fn mark(&mut self, mark: Mark) {
        self.run = None;
        self.marks.push(f64::from(mark as u8));
    }

    /// Appends a numeric value: alone, or to the run of a list.
    fn item(&mut self, alone: Mark, run: Mark, value: f64) {
        if !self.open.last().is_some_and(|open| open.list) {
            self.mark(alone);
        } else if let Some((same, position)) = self.run
            && same == run
            && let Some(count) = self.marks.get_mut(position)
        {
            *count += 1.0;
        } else {
            self.mark(run);
            self.run = Some((run, self.marks.len()));
            self.marks.push(1.0);
        }
        self.marks.push(value);
    }

    fn begin(&mut self, mark: Mark) -> Result<()> {
        if self.open.len() >= limits::VALUE_DEPTH {
            let message = format!("values are nested more than {} deep", limits::VALUE_DEPTH);
            return Err(Error::new(Code::Limit, message));
        }
        self.mark(mark);
        self.open.push(Open { list: mark == Mark::List, position: self.marks.len(), count: 0 });
        self.marks.push(0.0);
        Ok(())
    }

    fn end(&mut self) {
        self.run = None;
        if let Some(ended) = self.open.pop()
            && let Some(slot) = self.marks.get_mut(ended.position)
        {
            *slot = f64::from(ended.count);
        }
    }

    fn text(&mut self, text: &str) {
        let units = units(text);
        if self.units > 0 && self.units + units > UNITS {
            self.full.push(std::mem::take(&mut self.text));
            self.units = 0;
            self.mark(Mark::NextString);
        }
        self.text.push_str(text);
        self.units += units;
        self.item(Mark::Text, Mark::Texts, units as f64);
    }

    /// Ends the items of a list of which some are left out.
    fn left_out(&mut self, count: u64) {
        self.mark(Mark::LeftOut);
        self.marks.push(count as f64);
    }

    fn number(&mut self, value: f64) {
        self.item(Mark::Number, Mark::Numbers, value);
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let no_memory = |_| Error::new(Code::Limit, "not enough memory for the byte strings");
        self.bytes.try_reserve(bytes.len()).map_err(no_memory)?;
        self.bytes.extend_from_slice(bytes);
        self.item(Mark::Bytes, Mark::ByteStrings, bytes.len() as f64);
        Ok(())
    }

    fn bigint(&mut self, is_negative: bool, words: Vec<u64>) {
        self.mark(Mark::Other);
        self.bigints.push(Bigint { is_negative, words });
    }
}

/// Returns the length in UTF-16 units: each byte that begins a character counts as one, or as two for a 4-byte character.
fn units(text: &str) -> usize {
    let begins = |byte: &u8| usize::from(byte & 0xc0 != 0x80) + usize::from(*byte >= 0xf0);
    text.as_bytes().iter().map(begins).sum()
}

impl Visit for Tape {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        let tag = self.tag.take();
        match event {
            Event::End => {
                self.end();
                return Ok(());
            }
            Event::Tag(tag) => {
                self.tag = Some(tag);
                return Ok(());
            }
            _ => {}
        }
        if let Some(Open { count, .. }) = self.open.last_mut() {
            *count = count.checked_add(1).ok_or_else(|| Error::new(Code::Limit, "too many values"))?;
        }
        match event {
            Event::Null | Event::Tag(_) | Event::End => self.mark(Mark::Null),
            Event::Bool(flag) => self.mark(if flag { Mark::True } else { Mark::False }),
            Event::Float(float) => self.number(float),
            #[allow(clippy::cast_precision_loss)] // within 2^53
            Event::Integer(integer) if integer.abs() <= MAX_NUMBER => self.number(integer as f64),
            Event::Integer(integer) => {
                let magnitude = integer.unsigned_abs();
                #[allow(clippy::cast_possible_truncation)] // the two halves
                let words = vec![magnitude as u64, (magnitude >> 64) as u64];
                self.bigint(integer < 0, words);
            }
            Event::Text(text) => self.text(text),
            Event::Bytes(bytes) => match tag {
                Some(tag @ (POSITIVE_BIGNUM | NEGATIVE_BIGNUM)) if bytes.len() <= BIGNUM_BYTES => {
                    let negative = tag == NEGATIVE_BIGNUM;
                    self.bigint(negative, words_of(negative, bytes));
                }
                _ => self.bytes(bytes)?,
            },
            Event::Array => self.begin(Mark::List)?,
            Event::Map => self.begin(Mark::Map)?,
        }
        Ok(())
    }
}

/// Keys of a nested map that an outline has: their text is longer than what is shown of a value.
const NESTED_KEYS: u64 = 4096;

/// Passes the beginnings of values on to a tape.
struct Outline {
    tape: Tape,
    extent: Extent,
    /// Open lists and maps that are passed on, outermost first.
    open: Vec<Level>,
    /// Open lists and maps that are not passed on.
    skipped: u32,
    tag: Option<u64>,
}

/// A list or a map, of which values were visited.
struct Level {
    values: u64,
    max: u64,
    list: bool,
    /// Whether all keys are texts: the wrapper states the size of other maps.
    named: bool,
}

impl Outline {
    fn new(extent: Extent) -> Self {
        let all = Level { values: 0, max: u64::from(extent.keys) * 2, list: false, named: true };
        Self { tape: Tape::new(), extent, open: vec![all], skipped: 0, tag: None }
    }

    /// Returns the number of all keys.
    fn keys(&self) -> u64 {
        self.open.first().map_or(0, |all| all.values / 2)
    }

    /// Counts a value, and returns whether it is passed on.
    fn takes(&mut self, event: &Event<'_>) -> bool {
        let is_outermost = self.open.len() == 1;
        let Some(level) = self.open.last_mut() else { return false };
        let is_key = !level.list && level.values.is_multiple_of(2);
        level.named &= !is_key || matches!(event, Event::Text(_));
        level.values += 1;
        level.values <= level.max || !(level.list || level.named || is_outermost)
    }
}

impl Visit for Outline {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        if self.skipped > 0 {
            match event {
                Event::Array | Event::Map => self.skipped += 1,
                Event::End => self.skipped -= 1,
                _ => {}
            }
            return Ok(());
        }
        if event == Event::End {
            if let Some(Level { list: true, values, max, .. }) = self.open.pop()
                && values > max
            {
                self.tape.left_out(values - max);
            }
            return self.tape.visit(event);
        }
        if let Event::Tag(tag) = event {
            self.tag = Some(tag);
            return Ok(());
        }
        let tag = self.tag.take();
        // Keys are whole: programs look them up.
        let is_key = self.open.len() == 1 && self.open.iter().all(|all| all.values.is_multiple_of(2));
        let is_taken = self.takes(&event);
        if let Event::Array | Event::Map = event {
            if !is_taken {
                self.skipped = 1;
                return Ok(());
            }
            let list = event == Event::Array;
            let max = if list { u64::from(self.extent.items) } else { NESTED_KEYS * 2 };
            self.open.push(Level { values: 0, max, list, named: true });
        } else if !is_taken {
            return Ok(());
        }
        if let Some(tag) = tag {
            self.tape.visit(Event::Tag(tag))?;
        }
        match event {
            Event::Text(text) if !is_key => {
                self.tape.visit(Event::Text(beginning(text, self.extent.units as usize)))
            }
            event => self.tape.visit(event),
        }
    }
}

/// Returns the first characters of a text that have at least so many UTF-16 units.
fn beginning(text: &str, min: usize) -> &str {
    if text.len() <= min {
        return text;
    }
    let mut units = 0;
    let end = text.char_indices().find(|(_, character)| {
        let is_end = units >= min;
        units += character.len_utf16();
        is_end
    });
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// Returns the magnitude of a bignum. A negative one represents -1 - n.
fn words_of(negative: bool, bytes: &[u8]) -> Vec<u64> {
    let mut words: Vec<u64> = bytes
        .rchunks(8)
        .map(|word| word.iter().fold(0, |value, &byte| (value << 8) | u64::from(byte)))
        .collect();
    if negative {
        let mut carry = true;
        for word in &mut words {
            (*word, carry) = word.overflowing_add(u64::from(carry));
        }
        if carry {
            words.push(1);
        }
    }
    if words.is_empty() {
        words.push(0);
    }
    words
}
