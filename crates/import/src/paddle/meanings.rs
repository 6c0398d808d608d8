//! The calls in Paddle pickles: `_pickle_save` stores a tensor as `tuple((name, array))`, and an unnamed tensor as `eval('data', {'data':
//! array})`.
#![forbid(unsafe_code)]

use ztensor_core::error::Result;

use crate::pickle::form::{Form, Key, form};
use crate::pickle::item::{self, Meanings};
use crate::pickle::ndarray::{Array, Raw};
use crate::pickle::{Node, Pickle, Value};

/// The key of the arrays that were divided: of each its shape and the names of its slices. The misspelling is Paddle's.
pub const SPLITS: &str = "UnpackBigParamInfor@@";

pub struct Paddle;

type Item<'p> = item::Item<'p, Paddle>;

/// An array and Paddle's name of the original tensor.
pub struct Parameter<'p> {
    pub name: Option<&'p str>,
    pub array: Array<'p>,
}

impl Meanings for Paddle {
    type Tensor<'p> = Parameter<'p>;

    fn expand(pickle: &Pickle, value: Value) -> Result<Item<'_>> {
        if let Some(parameter) = parameter(pickle, value) {
            return Ok(Item::Tensor(Box::new(parameter), Vec::new()));
        }
        let item = item::python(pickle, value);
        Ok(match item {
            // Read together with the arrays it refers to.
            Item::Map(mut entries) if value == pickle.root() => {
                entries.retain(|(key, _)| !matches!(key, Key::Text(SPLITS)));
                Item::Map(entries)
            }
            other => other,
        })
    }

    fn of_array(array: Array<'_>) -> Parameter<'_> {
        Parameter { name: None, array }
    }

    fn made(parameter: &Parameter<'_>) -> u64 {
        match &parameter.array.data {
            Some(Raw::Made(bytes)) => bytes.len() as u64,
            _ => 0,
        }
    }
}

/// Returns the tensor created by a call, if it has exactly the form that Paddle writes.
fn parameter(pickle: &Pickle, value: Value) -> Option<Parameter<'_>> {
    let Node::Object(object) = pickle.node(value)? else { return None };
    let ("builtins" | "__builtin__", callee) = pickle.global(object.callee)? else { return None };
    let args = pickle.items(object.args)?;
    let (name, array) = match (callee, args) {
        ("tuple", &[pair]) => {
            let &[name, array] = pickle.items(pair)? else { return None };
            (Some(pickle.short(name)?), array)
        }
        ("eval", &[code, names]) if pickle.text(code) == Some("data") => {
            let Node::Dict(names) = pickle.node(names)? else { return None };
            let &[name, array] = &**names else { return None };
            if pickle.text(name) != Some("data") {
                return None;
            }
            (None, array)
        }
        _ => return None,
    };
    match form(pickle, array) {
        Form::Array(array) if array.data.is_some() => Some(Parameter { name, array }),
        _ => None,
    }
}
