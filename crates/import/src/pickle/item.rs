//! What a value of a checkpoint is: a tensor, something that holds others, or something plain. A library says what its calls mean.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use ztensor_core::error::Result;

use super::form::{Form, Key, entries_of, form};
use super::ndarray::{Array, Raw};
use super::{Node, Object, Pickle, Value};

/// What a value is.
pub enum Item<'p, M: Meanings + ?Sized> {
    Plain(Plain<'p>),
    /// And what else the object holds.
    Tensor(Box<M::Tensor<'p>>, Vec<(Key<'p>, Value)>),
    /// A list: what holds no tensor is an array of the attributes.
    List(Vec<(Key<'p>, Value)>),
    Map(Vec<(Key<'p>, Value)>),
    /// An object of an unknown class, or the result of an unknown call: its state is searched.
    Unknown(String, Vec<(Key<'p>, Value)>),
    /// Something that has no value here: a class, a function, a storage by itself.
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

/// What the calls of a library mean.
pub trait Meanings: 'static {
    type Tensor<'p>;

    /// What a value is. Fails where it is a tensor that makes no sense.
    fn expand(pickle: &Pickle, value: Value) -> Result<Item<'_, Self>>;

    /// An array of NumPy, which any library may hold.
    fn of_array(array: Array<'_>) -> Self::Tensor<'_>;

    /// Bytes that were made for a tensor, instead of being in the pickle as they are.
    fn made(tensor: &Self::Tensor<'_>) -> u64;

    /// An object of a class, or a call, that has no meaning: its name and its parts.
    fn of_object<'p>(_: &'p Pickle, name: String, parts: Vec<(Key<'p>, Value)>) -> Item<'p, Self> {
        Item::Unknown(name, parts)
    }
}

/// What a value is in Python and NumPy.
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
        Form::Persistent(_) => return Item::Nothing("a storage by itself".to_owned()),
        Form::Object(object) => {
            let (name, parts) = parts(pickle, object);
            return M::of_object(pickle, name, parts);
        }
        Form::Absent => return Item::Nothing("something that is not in the file".to_owned()),
    };
    Item::Plain(plain)
}

/// The name and the parts of an object of a class, or of a call, that has no meaning here.
fn parts<'p>(pickle: &'p Pickle, object: &'p Object) -> (String, Vec<(Key<'p>, Value)>) {
    let mut parts: Vec<(Key<'p>, Value)> = Vec::new();
    let mut name = pickle
        .global(object.callee)
        .map_or_else(|| "a call".to_owned(), |(module, name)| format!("{module}.{name}"));
    let args = pickle.items(object.args).unwrap_or_default();
    if matches!(&*name, "copyreg._reconstructor" | "copy_reg._reconstructor") {
        // (class, base, what the base was made of)
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

/// The attributes that states set: a dict, or a pair of dicts (`__slots__`). Anything else is called `state`.
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
