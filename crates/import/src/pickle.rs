//! Python's pickle, protocols 0 to 5, read as data: nothing is imported, called or built.
//!
//! A global is only its name. A call becomes an [`Object`] that holds the callee, the arguments, and what was set or appended later; its
//! meaning is up to code that knows the callee. Values refer to nodes by number, so that one may contain itself. Every opcode creates at
//! most one value: memory is proportional to the bytes read, whatever they claim.
#![forbid(unsafe_code)]

pub mod attributes;
mod condense;
pub mod form;
pub mod item;
mod machine;
pub mod ndarray;
mod node;
mod repr;
mod text;
pub mod walk;

use ztensor_core::checked::slice;
use ztensor_core::error::Result;
use ztensor_core::formats::Input;
use ztensor_core::limits::Limits;

use condense::{Condensed, Gap};
pub use node::{Node, Object, Span, Value};

/// Maximum bytes of a module or function name.
const NAME_BYTES: u64 = 1024;

/// The values of one pickle.
#[derive(Debug)]
pub struct Pickle {
    bytes: Box<[u8]>,
    /// Ranges of the pickle missing in `bytes`.
    gaps: Box<[Gap]>,
    nodes: Vec<Node>,
    root: Value,
}

impl Pickle {
    /// Reads the pickle at the start of `bytes` and ignores what follows. `at` is the offset of `bytes` in their file, for messages.
    ///
    /// Fails with `ZT_TRUNCATED` if the bytes end early, `ZT_BAD_INDEX` if they are not a pickle, and `ZT_LIMIT` if it has more than 33
    /// million opcodes, or more than two for each of `Limits::max_attribute_values` if that is larger.
    pub fn parse(bytes: &[u8], at: u64, limits: &Limits) -> Result<Self> {
        let (nodes, root, end) = machine::run(bytes, &[], at, limits)?;
        Ok(Self { bytes: bytes.get(..end).unwrap_or_default().into(), gaps: Box::default(), nodes, root })
    }

    /// Reads the pickle at the start of a file except long byte strings, whose positions are recorded without reading them. What follows
    /// the pickle is ignored.
    ///
    /// Fails like [`Pickle::parse`], and with `ZT_LIMIT` if the remaining bytes exceed `max`.
    pub fn read(input: &Input<'_>, max: u64) -> Result<Self> {
        let Condensed { bytes, gaps } = condense::read(input, max)?;
        let (nodes, root, end) = machine::run(&bytes, &gaps, 0, input.limits)?;
        let mut bytes = bytes;
        bytes.truncate(end);
        Ok(Self { bytes: bytes.into(), gaps: gaps.into(), nodes, root })
    }

    /// Returns the number of bytes of the pickle, up to its STOP, that were read.
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

    /// Returns the bytes of a span, or none if it was not read.
    pub fn span(&self, span: Span) -> &[u8] {
        let before = self.gaps.partition_point(|gap| gap.end() <= span.start);
        let left_out = before.checked_sub(1).and_then(|last| self.gaps.get(last)).map_or(0, Gap::left_out);
        if self.is_left_out(span) {
            return &[];
        }
        slice(&self.bytes, span.start.saturating_sub(left_out), span.length).unwrap_or_default()
    }

    /// Returns whether the bytes of a span were not read.
    pub fn is_left_out(&self, span: Span) -> bool {
        self.gaps.binary_search_by_key(&span.start, |gap| gap.start).is_ok_and(|_| span.length > 0)
    }

    /// Returns a string, or a Python 2 string that is valid UTF-8.
    pub fn text(&self, value: Value) -> Option<&str> {
        match self.node(value)? {
            Node::Text(span) => std::str::from_utf8(self.span(*span)).ok(),
            Node::Unescaped(text) => Some(text),
            Node::Made(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the items of a list or a tuple.
    pub fn items(&self, value: Value) -> Option<&[Value]> {
        match self.node(value)? {
            Node::List(items) => Some(items),
            Node::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Returns module and name, or `None` if they are too long.
    pub fn global(&self, value: Value) -> Option<(&str, &str)> {
        match *self.node(value)? {
            Node::Global(module, name) => Some((self.short(module)?, self.short(name)?)),
            _ => None,
        }
    }

    /// Returns a string of at most [`NAME_BYTES`]: longer ones would be costly to compare each time.
    pub fn short(&self, value: Value) -> Option<&str> {
        let length = match self.node(value)? {
            Node::Text(span) => span.length,
            Node::Unescaped(text) => text.len() as u64,
            Node::Made(bytes) => bytes.len() as u64,
            _ => return None,
        };
        if length <= NAME_BYTES { self.text(value) } else { None }
    }
}
