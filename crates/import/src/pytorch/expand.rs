//! Classifies the values of a checkpoint: a tensor, a container, or a plain value.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use ztensor_core::error::Result;

use super::element_type;
use super::tensor::{self, Tensor, layout_of};
use crate::limits::PICKLE_ALIASES;
use crate::pickle::form::{Form, Key, form};
use crate::pickle::item::{self, Meanings, Plain, indexed, states};
use crate::pickle::ndarray::{Array, Raw};
use crate::pickle::{Node, Pickle, Value};

/// An item of a PyTorch checkpoint.
pub type Item<'p> = item::Item<'p, Torch>;

/// The meaning of torch calls.
pub struct Torch;

impl Meanings for Torch {
    type Tensor<'p> = Tensor<'p>;

    fn expand(pickle: &Pickle, value: Value) -> Result<Item<'_>> {
        expand(pickle, value)
    }

    fn of_array(array: Array<'_>) -> Tensor<'_> {
        Tensor::Array(array)
    }

    fn made(tensor: &Tensor<'_>) -> u64 {
        match tensor {
            Tensor::Array(array) | Tensor::Cast(array, _) => match &array.data {
                Some(Raw::Made(bytes)) => bytes.len() as u64,
                _ => 0,
            },
            _ => 0,
        }
    }

    fn of_object<'p>(pickle: &'p Pickle, name: String, parts: Vec<(Key<'p>, Value)>) -> Item<'p> {
        if name.starts_with("__torch__.") {
            // A TorchScript class: it consists only of its state.
            return Item::Map(parts);
        }
        if is_module(&parts) { Item::Map(module(pickle, parts)) } else { Item::Unknown(name, parts) }
    }
}

/// Parts of a module's dict that do not appear in names.
const MODULE: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// Classifies a value. Fails for an invalid tensor.
fn expand(pickle: &Pickle, value: Value) -> Result<Item<'_>> {
    let mut value = value;
    // A parameter of a parameter of a …: real ones are nested once or twice.
    for _ in 0..PICKLE_ALIASES {
        match torch(pickle, value)? {
            Meaning::Item(item) => return Ok(item),
            Meaning::Same(inner) => value = inner,
            Meaning::Other => return Ok(item::python(pickle, value)),
        }
    }
    Ok(Item::Nothing("values nested in calls".to_owned()))
}

enum Meaning<'p> {
    Item(Item<'p>),
    /// An alias of another value.
    Same(Value),
    /// Not a torch call.
    Other,
}

fn torch(pickle: &Pickle, value: Value) -> Result<Meaning<'_>> {
    if let Some((module, name)) = pickle.global(value) {
        let known = element_type::of_dtype(module, name).is_some()
            || layout_of(pickle, value).is_some_and(is_constant);
        let text = || Item::Plain(Plain::Text(Cow::Owned(format!("{module}.{name}"))));
        return Ok(if known { Meaning::Item(text()) } else { Meaning::Other });
    }
    let Some(Node::Object(object)) = pickle.node(value) else { return Ok(Meaning::Other) };
    let Some((module, name)) = pickle.global(object.callee) else { return Ok(Meaning::Other) };
    let args = pickle.items(object.args).unwrap_or_default();
    let item = match (module, name) {
        ("torch._utils", "_rebuild_parameter") | ("torch.nn.parameter", "Parameter" | "Buffer")
            if object.states.is_empty() =>
        {
            return Ok(args.first().map_or(Meaning::Other, |&inner| Meaning::Same(inner)));
        }
        ("torch._utils", "_rebuild_parameter_with_state") => {
            let &[inner, _, _, state] = args else { return Ok(Meaning::Other) };
            let mut rest = Vec::new();
            states(pickle, &[state], &mut rest);
            with_rest(expand_once(pickle, inner)?, rest)
        }
        ("torch._tensor" | "torch.tensor", "_rebuild_from_type_v2" | "_rebuild_from_type") => {
            let &[callee, _, inner, state] = args else { return Ok(Meaning::Other) };
            subclass(pickle, callee, inner, state)?
        }
        ("torch._utils", name) => match tensor::of_call(pickle, name, args)? {
            Some(tensor) => Item::Tensor(Box::new(tensor), Vec::new()),
            None => return Ok(Meaning::Other),
        },
        ("torch", "Size")
        | (
            "torch.jit._pickle",
            "build_intlist" | "build_tensorlist" | "build_doublelist" | "build_boollist" | "restore_type_tag",
        ) => {
            return Ok(args.first().map_or(Meaning::Other, |&inner| Meaning::Same(inner)));
        }
        ("torch", "device") => {
            let parts: Vec<_> = args
                .iter()
                .map(|&part| pickle.text(part).map_or_else(|| pickle.repr(part), str::to_owned))
                .collect();
            Item::Plain(Plain::Text(Cow::Owned(parts.join(":"))))
        }
        ("torch.serialization", "_get_layout") => match layout_of(pickle, value) {
            Some(layout) => Item::Plain(Plain::Text(Cow::Owned(format!("torch.{layout}")))),
            None => return Ok(Meaning::Other),
        },
        _ => return Ok(Meaning::Other),
    };
    Ok(Meaning::Item(item))
}

/// Layouts, schemes and memory formats, which are constants of `torch`.
fn is_constant(name: &str) -> bool {
    matches!(
        name,
        "strided"
            | "sparse_coo"
            | "sparse_csr"
            | "sparse_csc"
            | "sparse_bsr"
            | "sparse_bsc"
            | "_mkldnn"
            | "jagged"
            | "per_tensor_affine"
            | "per_channel_affine"
            | "per_channel_affine_float_qparams"
            | "contiguous_format"
            | "channels_last"
            | "channels_last_3d"
            | "preserve_format"
    )
}

/// Returns a tensor of a subclass: the result of `callee(*inner)`, and its own state.
fn subclass(pickle: &Pickle, callee: Value, inner: Value, state: Value) -> Result<Item<'_>> {
    let mut rest = Vec::new();
    states(pickle, &[state], &mut rest);
    let Some(name) = tensor::rebuild(pickle, callee) else {
        return Ok(Item::Map(rest));
    };
    let args = pickle.items(inner).unwrap_or_default();
    match (name, args) {
        // A subclass that stores its tensors in its state and has no data itself.
        ("_rebuild_wrapper_subclass", _) => Ok(Item::Map(rest)),
        ("_rebuild_parameter" | "_rebuild_parameter_with_state", [inner, ..]) => {
            Ok(with_rest(expand_once(pickle, *inner)?, rest))
        }
        _ => Ok(match tensor::of_call(pickle, name, args)? {
            Some(tensor) => Item::Tensor(Box::new(tensor), rest),
            None => Item::Unknown(format!("torch._utils.{name}"), indexed(args).chain(rest).collect()),
        }),
    }
}

/// Returns a tensor that is not a parameter. Only one level, to avoid recursion.
fn expand_once(pickle: &Pickle, value: Value) -> Result<Item<'_>> {
    let Some(Node::Object(object)) = pickle.node(value) else { return Ok(Item::Map(Vec::new())) };
    let args = pickle.items(object.args).unwrap_or_default();
    let tensor = tensor::rebuild(pickle, object.callee).map(|name| tensor::of_call(pickle, name, args));
    Ok(match tensor.transpose()?.flatten() {
        Some(tensor) => Item::Tensor(Box::new(tensor), Vec::new()),
        None => Item::Map(indexed(args).collect()),
    })
}

fn with_rest<'p>(item: Item<'p>, rest: Vec<(Key<'p>, Value)>) -> Item<'p> {
    match item {
        Item::Tensor(tensor, mut own) => {
            own.extend(rest);
            Item::Tensor(tensor, own)
        }
        Item::Map(mut own) => {
            own.extend(rest);
            Item::Map(own)
        }
        other => other,
    }
}

fn is_module(parts: &[(Key<'_>, Value)]) -> bool {
    let has = |wanted: &str| parts.iter().any(|(key, _)| matches!(key, Key::Text(text) if *text == wanted));
    has("_parameters") && has("_modules")
}

/// Returns the parts of a `torch.nn.Module`: parameters, buffers and modules by name, as in `state_dict()`, and public attributes.
fn module<'p>(pickle: &'p Pickle, parts: Vec<(Key<'p>, Value)>) -> Vec<(Key<'p>, Value)> {
    let mut all = Vec::new();
    for (key, value) in parts {
        match key {
            Key::Text(text) if MODULE.contains(&text) => match form(pickle, value) {
                Form::Entries(entries) => {
                    all.extend(entries.into_iter().filter(|(_, value)| *value != Value::None));
                }
                _ => all.push((key, value)),
            },
            Key::Text(text) if text.starts_with('_') => {}
            _ => all.push((key, value)),
        }
    }
    all
}
