//! Python values: the containers and calls of the standard library and NumPy. Any other callee is only a name.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;

use super::ndarray::{self, Array, Raw};
use super::{Node, Object, Pickle, Value};

/// The structure of a value.
#[derive(Debug)]
pub enum Form<'p> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// An integer beyond 64 bits: two's complement, little-endian.
    Long(&'p [u8]),
    Text(Cow<'p, str>),
    Bytes(Raw<'p>),
    /// A list, a tuple or a set.
    Items(Cow<'p, [Value]>),
    Entries(Vec<(Key<'p>, Value)>),
    Array(Array<'p>),
    /// A global, known only by its name.
    Named(&'p str, &'p str),
    Persistent(Value),
    /// An unknown call.
    Object(&'p Object),
    /// A value that is not in the file.
    Absent,
}

/// The key of a value in its container.
#[derive(Clone, Copy, Debug)]
pub enum Key<'p> {
    Index(usize),
    Text(&'p str),
    /// A key that is not a string.
    Value(Value),
}

pub fn form(pickle: &Pickle, value: Value) -> Form<'_> {
    match value {
        Value::None => return Form::None,
        Value::Bool(flag) => return Form::Bool(flag),
        Value::Int(number) => return Form::Int(number),
        Value::Float(number) => return Form::Float(number),
        Value::Node(_) => {}
    }
    if let Some(text) = pickle.text(value) {
        return Form::Text(Cow::Borrowed(text));
    }
    if let Some(items) = pickle.node(value).and_then(Node::items) {
        return Form::Items(Cow::Borrowed(items));
    }
    match pickle.node(value) {
        Some(Node::Bytes(span)) => Form::Bytes(Raw::At(*span)),
        Some(Node::Made(bytes)) => Form::Bytes(Raw::Made(Cow::Borrowed(bytes))),
        Some(Node::Long(span)) => Form::Long(pickle.span(*span)),
        Some(Node::Dict(entries)) => Form::Entries(entries_of(pickle, entries)),
        Some(Node::Persistent(id)) => Form::Persistent(*id),
        Some(Node::Global(..)) => {
            pickle.global(value).map_or(Form::Absent, |(module, name)| Form::Named(module, name))
        }
        Some(Node::Object(object)) => call(pickle, object),
        _ => Form::Absent,
    }
}

fn call<'p>(pickle: &'p Pickle, object: &'p Object) -> Form<'p> {
    let Some((module, name)) = pickle.global(object.callee) else { return Form::Object(object) };
    let args = pickle.items(object.args).unwrap_or_default();
    match (module, name) {
        ("collections", "OrderedDict" | "defaultdict" | "Counter") | ("builtins" | "__builtin__", "dict") => {
            dict(pickle, object, if name == "defaultdict" { &[] } else { args })
        }
        ("builtins" | "__builtin__", "list" | "tuple" | "set" | "frozenset") | ("collections", "deque") => {
            let given =
                args.first().and_then(|&items| pickle.node(items)).and_then(Node::items).unwrap_or_default();
            Form::Items(match (given, &*object.items) {
                (given, []) => Cow::Borrowed(given),
                ([], added) => Cow::Borrowed(added),
                (given, added) => Cow::Owned([given, added].concat()),
            })
        }
        ("builtins" | "__builtin__", "complex") => Form::Items(Cow::Borrowed(args)),
        _ if ndarray::is_array(module, name) => {
            ndarray::array(pickle, object).map_or(Form::Object(object), Form::Array)
        }
        _ if ndarray::is_scalar(module, name) => match ndarray::scalar(pickle, object) {
            Some(parts) => match *parts {
                [Value::Bool(flag)] => Form::Bool(flag),
                [Value::Int(number)] => Form::Int(number),
                [Value::Float(number)] => Form::Float(number),
                _ => Form::Items(Cow::Owned(parts)),
            },
            None => Form::Object(object),
        },
        _ if ndarray::is_dtype(pickle, object) => ndarray::dtype_text(pickle, object)
            .map_or(Form::Object(object), |text| Form::Text(Cow::Owned(text))),
        _ => match ndarray::encoded(pickle, object) {
            Some(bytes) => Form::Bytes(Raw::Made(Cow::Owned(bytes))),
            None => Form::Object(object),
        },
    }
}

/// Reads a dict of the standard library: constructor arguments, items that were set, and attributes of the object.
fn dict<'p>(pickle: &'p Pickle, object: &'p Object, args: &'p [Value]) -> Form<'p> {
    let mut all: Vec<Value> = Vec::new();
    match args.first().and_then(|&made| pickle.node(made)) {
        Some(Node::Dict(entries)) => all.extend(entries),
        // Python 2 stores a list of pairs.
        Some(Node::List(pairs)) => {
            all.extend(
                pairs.iter().filter_map(|&pair| pickle.items(pair)).filter(|pair| pair.len() == 2).flatten(),
            );
        }
        _ => {}
    }
    all.extend(&object.entries);
    for &state in &object.states {
        if let Some(Node::Dict(entries)) = pickle.node(state) {
            // `state_dict()` keeps the versions of its modules there: not data of the model.
            let tensors =
                entries.as_chunks::<2>().0.iter().filter(|[key, _]| pickle.text(*key) != Some("_metadata"));
            all.extend(tensors.flatten());
        }
    }
    Form::Entries(entries_of(pickle, &all))
}

/// Returns the entries of a dict. As in Python, the last value of a duplicate key takes the position of the first.
pub fn entries_of<'p>(pickle: &'p Pickle, flat: &[Value]) -> Vec<(Key<'p>, Value)> {
    let mut entries: Vec<(Key<'p>, Value)> = Vec::with_capacity(flat.len() / 2);
    let mut positions = HashMap::with_capacity(flat.len() / 2);
    // A long string that is reused as a key is compared only once.
    let mut long = HashMap::new();
    for &[name, value] in flat.as_chunks::<2>().0 {
        let position = match name {
            Value::Node(id) if pickle.short(name).is_none() => {
                let next = entries.len();
                *long.entry(id).or_insert_with(|| *positions.entry(same(pickle, name)).or_insert(next))
            }
            _ => *positions.entry(same(pickle, name)).or_insert(entries.len()),
        };
        match entries.get_mut(position) {
            Some(entry) => entry.1 = value,
            None => entries.push((pickle.text(name).map_or(Key::Value(name), Key::Text), value)),
        }
    }
    entries
}

fn same(pickle: &Pickle, key: Value) -> Same<'_> {
    match key {
        Value::None => Same::None,
        Value::Bool(truth) => Same::Int(truth.into()),
        Value::Int(number) => Same::Int(number),
        Value::Float(number) => Same::Float(number.to_bits()),
        Value::Node(id) => pickle.text(key).map_or(Same::Node(id), Same::Text),
    }
}

/// Keys that are equal in Python.
#[derive(PartialEq, Eq, Hash)]
enum Same<'p> {
    None,
    Int(i64),
    Float(u64),
    Text(&'p str),
    Node(u32),
}
