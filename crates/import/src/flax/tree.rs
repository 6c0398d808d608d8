//! Walks the values of a checkpoint: arrays become tensors named by their paths, plain values become attributes.
#![forbid(unsafe_code)]

use ciborium::Value;
use ciborium::value::Integer;
use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::layouts;
use ztensor_core::model::{
    Attributes, Blob, Builder, ByteOrder, Catalog, Component, DType, Data, Label, Layout, NewTensor,
};

use super::array::{Array, COMPLEX, RULE};
use super::chunked::{self, Chunked, MARKER};
use super::plain::{Budget, Plain};
use crate::damage;
use crate::limits::{FLAX_DEPTH, FLAX_NAME_BYTES, FLAX_VALUE_BYTES};
use crate::msgpack::{Reader, Run, Token};
use crate::names::Names;
use crate::repr;

/// The name of a tensor that is the whole file, and the key of a value that is.
const ALONE: &str = "tensor";
const ALONE_PLAIN: &str = "value";
/// Characters of a path in a warning.
const SHOWN: usize = 256;

pub struct Tree<'s> {
    reader: Reader<'s>,
    builder: Builder,
    path: String,
    budget: Budget,
    names: Names,
}

/// The plain part of a value, and whether it contains arrays.
type Read = (Option<Value>, bool);

impl<'s> Tree<'s> {
    pub fn new(reader: Reader<'s>, builder: Builder) -> Self {
        let budget = Budget::new(builder.limits());
        Self { reader, builder, path: String::new(), budget, names: Names::default() }
    }

    pub fn finish(self) -> Catalog {
        self.builder.finish()
    }

    /// Takes the root from a range.
    pub fn read(&mut self, rest: &mut Run) -> Result<()> {
        let (plain, _) = self.value(rest, 0)?;
        let entries = match plain {
            Some(Value::Map(entries)) => entries,
            Some(value) => vec![(Value::Text(ALONE_PLAIN.to_owned()), value)],
            None => Vec::new(),
        };
        if !entries.is_empty() {
            self.builder.set_attributes(Attributes::from(entries));
        }
        Ok(())
    }

    fn value(&mut self, rest: &mut Run, depth: u32) -> Result<Read> {
        let token = self.reader.next(rest)?;
        let holds = matches!(token, Token::Array(_) | Token::Map(_));
        if depth > FLAX_DEPTH {
            let message = format!("values are nested more than {FLAX_DEPTH} deep");
            return Err(Error::new(Code::Limit, message).at(rest.at).rule(RULE));
        }
        if let Token::Extension(kind, body) = token
            && kind != COMPLEX
        {
            return self.extension(kind, body);
        }
        let retained = match self.budget.spend(if holds { 3 } else { 1 }) {
            Ok(retained) => retained,
            Err(message) => {
                self.skip(&message);
                false
            }
        };
        let (value, holds) = match token {
            Token::Map(entries) => self.map(entries, rest, depth)?,
            Token::Array(items) => self.list(items, rest, depth)?,
            _ if !retained => (None, false),
            token => (self.plain(token)?, false),
        };
        // If there are too many values to retain, the arrays are listed nevertheless.
        Ok((value.filter(|_| retained), holds))
    }

    /// Returns a value that is not a container, or `None` if it is too long for an attribute.
    fn plain(&mut self, token: Token) -> Result<Option<Value>> {
        Ok(Some(match token {
            Token::Nil => Value::Null,
            Token::Bool(flag) => Value::Bool(flag),
            Token::Int(number) => Integer::try_from(number).map_or(Value::Null, Value::Integer),
            Token::Float(number) => Value::Float(number),
            Token::Text(body) | Token::Bytes(body) if body.length() > FLAX_VALUE_BYTES => {
                self.skip(&format!("a value of {} bytes is too long for an attribute", body.length()));
                return Ok(None);
            }
            Token::Text(body) => Value::Text(self.reader.text(body, FLAX_VALUE_BYTES, "a text")?.to_owned()),
            Token::Bytes(body) => Value::Bytes(self.reader.bytes(body)?.to_vec()),
            Token::Extension(_, body) => {
                let read = self.complex(body);
                return self.recover(read);
            }
            // Lists and maps, which are containers.
            _ => return Ok(None),
        }))
    }

    fn map(&mut self, entries: u64, rest: &mut Run, depth: u32) -> Result<Read> {
        let start = *rest;
        let mut plain = Plain::of(true);
        for nth in 0..entries {
            let (key, part) = self.key(rest)?;
            if part == MARKER {
                let read = if nth == 0 {
                    self.chunked(entries, start)
                } else {
                    let message = format!("{MARKER:?} is not the first key of its map");
                    Err(Error::new(Code::BadIndex, message).at(rest.at).rule(RULE))
                };
                *rest = start;
                self.reader.skip(entries.saturating_mul(2), rest)?;
                self.recover(read)?;
                return Ok((None, true));
            }
            self.entry(&mut plain, key, &part, rest, depth)?;
        }
        Ok(plain.into_value())
    }

    fn list(&mut self, items: u64, rest: &mut Run, depth: u32) -> Result<Read> {
        let mut plain = Plain::of(false);
        for nth in 0..items {
            self.entry(&mut plain, Value::from(nth), &nth.to_string(), rest, depth)?;
        }
        Ok(plain.into_value())
    }

    /// Takes the value of a key, whose path component is `part`.
    fn entry(&mut self, plain: &mut Plain, key: Value, part: &str, rest: &mut Run, depth: u32) -> Result<()> {
        let length = self.path.len();
        if depth > 0 {
            self.path.push('.');
        }
        self.path.push_str(part);
        let (value, holds) = self.value(rest, depth + 1)?;
        self.path.truncate(length);
        if holds {
            plain.holds();
        }
        if let Some(value) = value {
            plain.add(key, part, value);
        }
        Ok(())
    }

    /// Returns a key and its form in a path.
    fn key(&mut self, rest: &mut Run) -> Result<(Value, String)> {
        let at = rest.at;
        let text = |text: String| (Value::Text(text.clone()), text);
        Ok(match self.reader.next(rest)? {
            Token::Text(body) => text(self.reader.text(body, FLAX_NAME_BYTES, "a key")?.to_owned()),
            Token::Int(number) => {
                let key = Integer::try_from(number).map_or(Value::Null, Value::Integer);
                (key, number.to_string())
            }
            Token::Nil => text("None".to_owned()),
            Token::Bool(flag) => text(if flag { "True" } else { "False" }.to_owned()),
            Token::Float(number) => text(repr::float(number)),
            Token::Bytes(body) if body.length() <= FLAX_NAME_BYTES => {
                let mut shown = String::new();
                repr::quoted_bytes(self.reader.bytes(body)?, &mut shown);
                text(shown)
            }
            _ => {
                let message = "a key is neither a string nor a number";
                return Err(Error::new(Code::BadIndex, message).at(at).rule(RULE));
            }
        })
    }

    fn extension(&mut self, kind: i8, body: Run) -> Result<Read> {
        if !Array::is_kind(kind) {
            self.skip(&format!("the extension type {kind} is not defined by Flax"));
            return Ok((None, false));
        }
        // Damage in an array does not extend past its body.
        let added = self.array(body);
        self.recover(added)?;
        Ok((None, true))
    }

    fn array(&mut self, body: Run) -> Result<()> {
        let array = Array::of(&mut self.reader, body)
            .map_err(|error| error.rule("flax.serialization: _ndarray_from_bytes"))?;
        let data = Data::Blob(Blob::raw(array.data.at, array.data.length()));
        self.tensor(&array.shape, &array.spelling, array.dtype, array.byte_order, data)
    }

    /// Adds a chunked array: the entries of a map, which begin at `entries`.
    fn chunked(&mut self, count: u64, mut entries: Run) -> Result<()> {
        let Chunked { shape, spelling, dtype, byte_order, data } =
            chunked::read(&mut self.reader, count, &mut entries)?;
        self.tensor(&shape, &spelling, dtype, byte_order, data)
    }

    /// Returns what was read, or records the error as damage.
    fn recover<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        // A path may be long and belong to many values.
        let name = if read.is_err() { short(self.name(), NAME).into_owned() } else { String::new() };
        damage::recover(&mut self.builder, &name, read).map_err(|error| error.tensor(&name))
    }

    /// Reads a Python complex number, stored as two floats.
    fn complex(&mut self, mut body: Run) -> Result<Value> {
        let start = body.at;
        let mut next = |body: &mut Run| match self.reader.next(body) {
            Err(error) if !matches!(error.code(), Code::Truncated | Code::BadIndex) => Err(error),
            token => Ok(token.unwrap_or(Token::Nil)),
        };
        if next(&mut body)? == Token::Array(2)
            && let Token::Float(real) = next(&mut body)?
            && let Token::Float(imaginary) = next(&mut body)?
            && body.length() == 0
        {
            return Ok(Value::Array(vec![Value::Float(real), Value::Float(imaginary)]));
        }
        let message = format!("{}: a complex number is not two floats", self.shown());
        Err(Error::new(Code::BadIndex, message).at(start).rule(RULE))
    }

    fn tensor(
        &mut self,
        shape: &[u64],
        spelling: &str,
        dtype: Option<DType>,
        byte_order: ByteOrder,
        data: Data,
    ) -> Result<()> {
        let name = self.new_name();
        if dtype.is_none() {
            let guess = if matches!(spelling, "void16" | "V2" | "|V2") {
                ": it may be bfloat16, whose name is not stored"
            } else {
                ""
            };
            let message = format!(
                "{spelling:?} is not a zTensor type{guess}; the bytes can be read, the values cannot"
            );
            self.builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(&name), None);
        }
        let mut components = self.builder.no_components();
        components.push(Component { byte_order, ..Component::new(Label::DATA, dtype, data) });
        let (layout, name) = (Layout::Dense, &*name);
        let mut tensor = NewTensor { name, shape, layout, dtype, components, attributes: None };
        layouts::check(&mut tensor)?;
        self.builder.add_tensor(tensor)
    }

    /// Returns a unique name for the current tensor.
    fn new_name(&mut self) -> String {
        let path = if self.path.is_empty() { ALONE } else { &self.path };
        self.names.unique(&mut self.builder, path)
    }

    fn name(&self) -> &str {
        if self.path.is_empty() { ALONE } else { &self.path }
    }

    fn shown(&self) -> String {
        self.name().chars().take(SHOWN).collect()
    }

    fn skip(&mut self, message: &str) {
        let message = format!("{}: {message}", self.shown());
        self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
    }
}
