//! Classifies the values of a checkpoint: a tensor, a container, or a plain value. A library defines the meaning of its calls.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use ztensor_core::error::Result;

use super::form::{Form, Key, entries_of, form};
use super::ndarray::{Array, Raw};
use super::{Node, Object, Pickle, Value};

/// The class of a value.
pub enum Item<'p, M: Meanings + ?Sized> {
    Plain(Plain<'p>),
    /// A tensor, and the other parts of the object.
    Tensor(Box<M::Tensor<'p>>, Vec<(Key<'p>, Value)>),
    /// A list. Without tensors it becomes an array in the attributes.
    List(Vec<(Key<'p>, Value)>),
    Map(Vec<(Key<'p>, Value)>),
    /// An object of an unknown class, or the result of an unknown call: its state is searched.
    Unknown(String, Vec<(Key<'p>, Value)>),
    /// Something without a value: a class, a function, a storage on its own.
    Nothing(String),
}

pub enum Plain<'p> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Long(&'p [u8]),
    Text(Cow<'p, str>),
    Bytes(Raw<'p>),
}

/// The meaning of the calls of a library.
pub trait Meanings: 'static {
    type Tensor<'p>;

    /// Classifies a value. Fails for an invalid tensor.
    fn expand(pickle: &Pickle, value: Value) -> Result<Item<'_, Self>>;

    /// Converts a NumPy array, which any library may use.
    fn of_array(array: Array<'_>) -> Self::Tensor<'_>;

    /// Returns the bytes allocated for a tensor that is not stored in the pickle as is.
    fn made(tensor: &Self::Tensor<'_>) -> u64;

    /// Classifies an object of an unknown class or the result of an unknown call.
    fn of_object<'p>(_: &'p Pickle, name: String, parts: Vec<(Key<'p>, Value)>) -> Item<'p, Self> {
        Item::Unknown(name, parts)
    }
}

/// Classifies a Python or NumPy value.
pub fn python<M: Meanings + ?Sized>(pickle: &Pickle, value: Value) -> Item<'_, M> {
    let plain = match form(pickle, value) {
        Form::None => Plain::Null,
        Form::Bool(flag) => Plain::Bool(flag),
        Form::Int(number) => Plain::Int(number),
        Form::Float(number) => Plain::Float(number),
        Form::Long(bytes) => Plain::Long(bytes),
        Form::Text(text) => Plain::Text(text),
        Form::Bytes(Raw::At(span)) if pickle.is_left_out(span) => {
            return Item::Nothing(format!("a value of {} bytes", span.length));
        }
        Form::Bytes(bytes) => Plain::Bytes(bytes),
        Form::Items(items) => return Item::List(indexed(&items).collect()),
        Form::Entries(entries) => return Item::Map(entries),
        Form::Array(array) if array.data.is_some() => {
            return Item::Tensor(Box::new(M::of_array(array)), Vec::new());
        }
        Form::Array(_) => return Item::Nothing("an array of objects".to_owned()),
        Form::Named(module, name) => return Item::Nothing(format!("{module}.{name}")),
        Form::Persistent(_) => return Item::Nothing("a storage on its own".to_owned()),
        Form::Object(object) => {
            let (name, parts) = parts(pickle, object);
            return M::of_object(pickle, name, parts);
        }
        Form::Absent => return Item::Nothing("something that is not in the file".to_owned()),
    };
    Item::Plain(plain)
}

/// Returns the name and the parts of an object of an unknown class or the result of an unknown call.
fn parts<'p>(pickle: &'p Pickle, object: &'p Object) -> (String, Vec<(Key<'p>, Value)>) {
    let mut parts: Vec<(Key<'p>, Value)> = Vec::new();
    let mut name = pickle
        .global(object.callee)
        .map_or_else(|| "a call".to_owned(), |(module, name)| format!("{module}.{name}"));
    let args = pickle.items(object.args).unwrap_or_default();
    if matches!(&*name, "copyreg._reconstructor" | "copy_reg._reconstructor") {
        // (class, base, constructor arguments of the base)
        if let [class, _, made] = args {
            name = pickle.repr(*class);
            states(pickle, &[*made], &mut parts);
        }
    } else {
        parts.extend(indexed(args).filter(|(_, value)| pickle.global(*value).is_none()));
    }
    states(pickle, &[object.kwargs], &mut parts);
    parts.extend(indexed(&object.items));
    parts.extend(entries_of(pickle, &object.entries));
    states(pickle, &object.states, &mut parts);
    (name, parts)
}

/// Adds the attributes set by states: a dict, or a pair of dicts (`__slots__`). Anything else is named `state`.
pub fn states<'p>(pickle: &'p Pickle, given: &[Value], parts: &mut Vec<(Key<'p>, Value)>) {
    for &state in given {
        let both = match pickle.node(state) {
            Some(Node::Tuple(both)) if both.len() == 2 => both.to_vec(),
            _ => vec![state],
        };
        let dicts: Option<Vec<_>> = both
            .iter()
            .map(|&one| match form(pickle, one) {
                Form::Entries(entries) => Some(entries),
                Form::None => Some(Vec::new()),
                _ => None,
            })
            .collect();
        match dicts {
            Some(dicts) => parts.extend(dicts.into_iter().flatten()),
            None => parts.push((Key::Text("state"), state)),
        }
    }
}

pub fn indexed<'p>(items: &[Value]) -> impl Iterator<Item = (Key<'p>, Value)> {
    items.iter().enumerate().map(|(index, &value)| (Key::Index(index), value))
}
