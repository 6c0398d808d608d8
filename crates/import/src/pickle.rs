//! Python's pickle, protocols 0 to 5, read as data: nothing is imported, called or built.
//!
//! A global is the name of one. What a call would make is an [`Object`] that keeps the callee, the arguments, and what was set or
//! appended later; whoever knows the callee knows what it means. Values refer to nodes by number, so that one may be part of itself.
//! Every opcode makes one value at most: memory follows the bytes that were read, whatever they claim.
#![forbid(unsafe_code)]

pub mod attributes;
mod condense;
pub mod form;
pub mod item;
mod machine;
pub mod ndarray;
mod repr;
mod text;
pub mod walk;

use ztensor_core::checked::slice;
use ztensor_core::error::Result;
use ztensor_core::formats::Input;
use ztensor_core::limits::Limits;

use condense::{Condensed, Gap};

/// Bytes of a module's or a function's name.
const NAME_BYTES: u64 = 1024;

/// A value: small ones as they are, others by the number of their node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Node(u32),
}

/// Bytes of the pickle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub start: u64,
    pub length: u64,
}

#[derive(Clone, Debug)]
pub enum Node {
    /// Valid UTF-8.
    Text(Span),
    /// A text that was spelled with escapes, or is no valid UTF-8: lone surrogates are escapes in it.
    Unescaped(Box<str>),
    Bytes(Span),
    /// A string of Python 2 that was spelled with escapes, or is no text.
    Made(Box<[u8]>),
    /// An integer beyond 64 bits: two's complement, little-endian.
    Long(Span),
    List(Vec<Value>),
    Tuple(Box<[Value]>),
    Set(Vec<Value>),
    /// Keys and values in turn, in the order in which they were set; a key may come again.
    Dict(Vec<Value>),
    /// Module and name.
    Global(Value, Value),
    /// A global by its number in a registry that is not in the file (PEP 307).
    Extension(u32),
    /// A reference to something outside, by an id that the container knows.
    Persistent(Value),
    /// A buffer that is not in the file (PEP 574).
    Absent,
    Object(Box<Object>),
}

impl Node {
    /// Of a list, a tuple or a set.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Self::List(items) | Self::Set(items) => Some(items),
            Self::Tuple(items) => Some(items),
            _ => None,
        }
    }
}

/// What a call would have made.
#[derive(Clone, Debug)]
pub struct Object {
    /// Of `callee(*args)`, or `callee.__new__(callee, *args)`.
    pub callee: Value,
    pub args: Value,
    /// Keyword arguments, or None.
    pub kwargs: Value,
    /// What `__setstate__` was given, each time.
    pub states: Vec<Value>,
    /// What was appended or added.
    pub items: Vec<Value>,
    /// Keys and values that were set, in turn.
    pub entries: Vec<Value>,
}

/// The values of one pickle.
#[derive(Debug)]
pub struct Pickle {
    bytes: Box<[u8]>,
    /// What of the pickle `bytes` lacks.
    gaps: Box<[Gap]>,
    nodes: Vec<Node>,
    root: Value,
}

impl Pickle {
    /// Reads the pickle that `bytes` begin with; what follows it is not looked at. `at` is the offset of `bytes` in their file, for
    /// messages.
    ///
    /// Fails with `ZT_TRUNCATED` where the bytes end first, `ZT_BAD_INDEX` where they are no pickle, `ZT_LIMIT` where it has more than
    /// 33 million opcodes, or two for each of `Limits::max_attribute_values` where those are more.
    pub fn parse(bytes: &[u8], at: u64, limits: &Limits) -> Result<Self> {
        let (nodes, root, end) = machine::run(bytes, &[], at, limits)?;
        Ok(Self { bytes: bytes.get(..end).unwrap_or_default().into(), gaps: Box::default(), nodes, root })
    }

    /// Reads the pickle that a file begins with, but for long byte strings: their places are known, their bytes are not read. What
    /// follows the pickle is not looked at.
    ///
    /// Fails as [`Pickle::parse`] does, and with `ZT_LIMIT` where the rest has more than `most` bytes.
    pub fn read(input: &Input<'_>, most: u64) -> Result<Self> {
        let Condensed { bytes, gaps } = condense::read(input, most)?;
        let (nodes, root, end) = machine::run(&bytes, &gaps, 0, input.limits)?;
        let mut bytes = bytes;
        bytes.truncate(end);
        Ok(Self { bytes: bytes.into(), gaps: gaps.into(), nodes, root })
    }

    /// Bytes of the pickle, up to its STOP, that were read.
    pub fn byte_length(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn root(&self) -> Value {
        self.root
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(id) => self.nodes.get(id as usize),
            _ => None,
        }
    }

    /// The bytes of a span; none of one that was left out.
    pub fn span(&self, span: Span) -> &[u8] {
        let before = self.gaps.partition_point(|gap| gap.end() <= span.start);
        let left_out = before.checked_sub(1).and_then(|last| self.gaps.get(last)).map_or(0, Gap::left_out);
        if self.is_left_out(span) {
            return &[];
        }
        slice(&self.bytes, span.start.saturating_sub(left_out), span.length).unwrap_or_default()
    }

    /// Whether the bytes of a span were not read.
    pub fn is_left_out(&self, span: Span) -> bool {
        self.gaps.binary_search_by_key(&span.start, |gap| gap.start).is_ok_and(|_| span.length > 0)
    }

    /// A text, or a string of Python 2 that is valid UTF-8.
    pub fn text(&self, value: Value) -> Option<&str> {
        match self.node(value)? {
            Node::Text(span) => std::str::from_utf8(self.span(*span)).ok(),
            Node::Unescaped(text) => Some(text),
            Node::Made(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Items of a list or a tuple.
    pub fn items(&self, value: Value) -> Option<&[Value]> {
        match self.node(value)? {
            Node::List(items) => Some(items),
            Node::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Module and name; `None` where they are longer than any.
    pub fn global(&self, value: Value) -> Option<(&str, &str)> {
        match *self.node(value)? {
            Node::Global(module, name) => Some((self.short(module)?, self.short(name)?)),
            _ => None,
        }
    }

    /// A text of no more than [`NAME_BYTES`]: a longer one would have to be looked through each time that it is named.
    pub fn short(&self, value: Value) -> Option<&str> {
        let length = match self.node(value)? {
            Node::Text(span) => span.length,
            Node::Unescaped(text) => text.len() as u64,
            Node::Made(bytes) => bytes.len() as u64,
            _ => return None,
        };
        if length <= NAME_BYTES { self.text(value) } else { None }
    }

    /// What Python's `repr` would show, of the first characters.
    pub fn repr(&self, value: Value) -> String {
        repr::of(self, value).0
    }
}
