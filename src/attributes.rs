//! Conversion of attributes to JavaScript: all values of a map are passed in one array of numbers and a few strings, from which the wrapper
//! creates them. Half a million strings cross as fast as one.

use napi::bindgen_prelude::{BigInt, Float64ArraySlice, JsValue, ToNapiValue, Uint8ArraySlice, Unknown};
use napi::{Env, JsString, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
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
    /// The next value of `others`.
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
}

/// `tape` holds the number of keys and values, and then, alternately for each of them, a mark and its operands.
#[napi(object, object_from_js = false)]
pub struct FlatAttributes<'env> {
    pub tape: Float64ArraySlice<'env>,
    /// Concatenated texts.
    pub texts: Vec<JsString<'env>>,
    /// Bytes and bigints.
    #[napi(ts_type = "Array<Uint8Array | bigint>")]
    pub others: Vec<Unknown<'env>>,
}

pub fn to_js<'env>(
    env: &'env Env,
    attributes: Option<&Attributes>,
) -> Result<CoreResult<FlatAttributes<'env>>> {
    let mut tape = Tape { marks: vec![0.0], open: vec![Open::default()], ..Tape::default() };
    if let Err(error) = attributes.map_or(Ok(()), |attributes| attributes.visit(&mut tape)) {
        return Ok(Err(error));
    }
    tape.end();
    tape.hand(env).map(Ok)
}

/// The attributes before they are converted to JavaScript values.
#[derive(Default)]
struct Tape {
    marks: Vec<f64>,
    /// Completed strings, and the current one with its UTF-16 units.
    full: Vec<String>,
    text: String,
    units: usize,
    others: Vec<Other>,
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

enum Other {
    Bytes(Vec<u8>),
    Big { negative: bool, words: Vec<u64> },
}

#[allow(clippy::cast_precision_loss)] // lengths in memory
impl Tape {
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

    fn begin(&mut self, mark: Mark) -> CoreResult<()> {
        if self.open.len() >= limits::VALUE_DEPTH {
            let message = format!("values are nested more than {} deep", limits::VALUE_DEPTH);
            return Err(CoreError::new(Code::Limit, message));
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

    fn number(&mut self, value: f64) {
        self.item(Mark::Number, Mark::Numbers, value);
    }

    fn other(&mut self, other: Other) {
        self.mark(Mark::Other);
        self.others.push(other);
    }

    fn hand(mut self, env: &Env) -> Result<FlatAttributes<'_>> {
        self.full.push(self.text);
        let texts = self.full.iter().map(|text| string(env, text)).collect::<Result<_>>()?;
        let others = self.others.into_iter().map(|other| match other {
            // Uses memory of V8, which moves it itself: memory owned by a class of the binding generator disappears with the thread.
            Other::Bytes(bytes) => Ok(Uint8ArraySlice::copy_from(env, bytes)?.to_unknown()),
            Other::Big { negative, words } => BigInt { sign_bit: negative, words }.into_unknown(env),
        });
        let others = others.collect::<Result<_>>()?;
        Ok(FlatAttributes { tape: Float64ArraySlice::copy_from(env, self.marks)?, texts, others })
    }
}

/// Returns the length in UTF-16 units: each byte that begins a character counts as one, or as two for a 4-byte character.
fn units(text: &str) -> usize {
    let begins = |byte: &u8| usize::from(byte & 0xc0 != 0x80) + usize::from(*byte >= 0xf0);
    text.as_bytes().iter().map(begins).sum()
}

fn string<'env>(env: &'env Env, text: &str) -> Result<JsString<'env>> {
    if text.is_ascii() {
        return env.create_string_latin1(text);
    }
    env.create_string_utf16(text.encode_utf16().collect::<Vec<_>>())
}

impl Visit for Tape {
    fn visit(&mut self, event: Event<'_>) -> CoreResult<()> {
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
            *count = count.checked_add(1).ok_or_else(|| CoreError::new(Code::Limit, "too many values"))?;
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
                self.other(Other::Big { negative: integer < 0, words });
            }
            Event::Text(text) => self.text(text),
            Event::Bytes(bytes) => match tag {
                Some(tag @ (POSITIVE_BIGNUM | NEGATIVE_BIGNUM)) if bytes.len() <= BIGNUM_BYTES => {
                    let negative = tag == NEGATIVE_BIGNUM;
                    self.other(Other::Big { negative, words: words_of(negative, bytes) });
                }
                _ => self.other(Other::Bytes(bytes.to_vec())),
            },
            Event::Array => self.begin(Mark::List)?,
            Event::Map => self.begin(Mark::Map)?,
        }
        Ok(())
    }
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
