//! The values of a pickle.
#![forbid(unsafe_code)]

/// A value: small ones inline, others by the number of their node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Node(u32),
}

/// A byte range of the pickle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub start: u64,
    pub length: u64,
}

#[derive(Clone, Debug)]
pub enum Node {
    /// Valid UTF-8.
    Text(Span),
    /// A string that was written with escapes or is not valid UTF-8. Lone surrogates are represented as escapes.
    Unescaped(Box<str>),
    Bytes(Span),
    /// A Python 2 string that was written with escapes or is not text.
    Made(Box<[u8]>),
    /// An integer beyond 64 bits: two's complement, little-endian.
    Long(Span),
    List(Vec<Value>),
    Tuple(Box<[Value]>),
    Set(Vec<Value>),
    /// Alternating keys and values, in the order in which they were set; a key may occur again.
    Dict(Vec<Value>),
    /// Module and name.
    Global(Value, Value),
    /// A global by its number in an external registry (PEP 307).
    Extension(u32),
    /// A reference to external data, by an id that the container resolves.
    Persistent(Value),
    /// An out-of-band buffer (PEP 574).
    Absent,
    Object(Box<Object>),
}

impl Node {
    /// Returns the items of a list, a tuple or a set.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Self::List(items) | Self::Set(items) => Some(items),
            Self::Tuple(items) => Some(items),
            _ => None,
        }
    }
}

/// The result of a call that is not executed.
#[derive(Clone, Debug)]
pub struct Object {
    /// The callee of `callee(*args)` or `callee.__new__(callee, *args)`.
    pub callee: Value,
    pub args: Value,
    /// Keyword arguments, or None.
    pub kwargs: Value,
    /// The arguments of each `__setstate__` call.
    pub states: Vec<Value>,
    /// Items that were appended or added.
    pub items: Vec<Value>,
    /// Alternating keys and values that were set.
    pub entries: Vec<Value>,
}
