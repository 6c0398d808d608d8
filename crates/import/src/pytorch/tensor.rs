//! Tensors as `torch.save` pickles them: calls of `torch._utils` and their arguments.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use super::kind::{self, Kind};
use crate::pickle::form::{Form, form};
use crate::pickle::ndarray::Array;
use crate::pickle::{Node, Object, Pickle, Value};

const RULE: &str = "torch._utils";
/// More dimensions than any limit allows.
const DIMS: usize = 1024;
/// Entries of a tensor's metadata that are looked through. Real ones have two.
const METADATA: usize = 64;

/// A tensor of any layout.
#[derive(Debug)]
pub enum Tensor<'p> {
    Strided(Strided<'p>),
    Quantized(Quantized<'p>),
    Sparse(Sparse<'p>),
    /// One that has no data.
    Meta(Kind<'p>, Vec<u64>),
    Array(Array<'p>),
}

/// Elements of a storage.
#[derive(Debug)]
pub struct Strided<'p> {
    pub storage: Storage<'p>,
    pub kind: Kind<'p>,
    /// In elements of `kind`, as the strides.
    pub offset: u64,
    pub shape: Vec<u64>,
    pub strides: Vec<u64>,
    /// What is left to be done to the elements when they are read.
    pub conj: bool,
    pub neg: bool,
}

/// What a persistent id says of a storage.
#[derive(Clone, Copy, Debug)]
pub struct Storage<'p> {
    pub key: &'p str,
    /// What its elements are counted in.
    pub kind: Kind<'p>,
    /// How many there are; `None` where the id does not say.
    pub elements: Option<u64>,
    /// Of a storage that is a part of another: its beginning, in elements.
    pub start: u64,
}

#[derive(Debug)]
pub struct Quantized<'p> {
    pub data: Strided<'p>,
    pub scales: Scales<'p>,
}

#[derive(Debug)]
pub enum Scales<'p> {
    One {
        scale: f64,
        zero: i64,
    },
    /// One for each index of a dimension.
    Each {
        scales: Box<Strided<'p>>,
        zeros: Box<Strided<'p>>,
        axis: u64,
    },
}

/// A sparse tensor by its components, in the order in which PyTorch gives them.
#[derive(Debug)]
pub struct Sparse<'p> {
    /// As `torch.layout` calls it.
    pub layout: &'p str,
    pub shape: Vec<u64>,
    /// The indices, or the compressed and the plain ones.
    pub indices: Vec<Strided<'p>>,
    pub values: Strided<'p>,
}

/// The tensor that a call of `torch` makes; `None` where it makes none, or one of a layout or scheme that is not known here. Fails with `ZT_BAD_INDEX` where its arguments are not those of
/// a tensor.
pub fn of_call<'p>(pickle: &'p Pickle, name: &str, args: &'p [Value]) -> Result<Option<Tensor<'p>>> {
    let malformed = || {
        Error::new(Code::BadIndex, format!("the arguments of {name} are not those of a tensor")).rule(RULE)
    };
    let tensor = match name {
        "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3" => {
            strided(pickle, name, args).map(|found| found.map(Tensor::Strided))?
        }
        "_rebuild_qtensor" | "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor"
            if is_newer(pickle, name, args) =>
        {
            return Ok(None);
        }
        "_rebuild_qtensor" => quantized(pickle, args)?.map(Tensor::Quantized),
        "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor" => sparse(pickle, args)?.map(Tensor::Sparse),
        "_rebuild_meta_tensor_no_storage" => meta(pickle, args),
        "_rebuild_device_tensor_from_numpy" | "_rebuild_device_tensor_from_cpu_tensor" => match args {
            [data, ..] => match form(pickle, *data) {
                Form::Array(array) => Some(Tensor::Array(array)),
                _ => as_strided(pickle, *data)?.map(Tensor::Strided),
            },
            _ => None,
        },
        _ => return Ok(None),
    };
    tensor.map(Some).ok_or_else(malformed)
}

/// A type by its name. Any name may be that of a type which is newer than this.
fn dtype_of(pickle: &Pickle, value: Value) -> Option<Kind<'_>> {
    let (module, name) = pickle.global(value)?;
    Some(kind::of_dtype(module, name).unwrap_or(Kind::unknown(name)))
}

/// Whether a call names a layout or a scheme of quantization that is not known here.
fn is_newer(pickle: &Pickle, name: &str, args: &[Value]) -> bool {
    if name == "_rebuild_qtensor" {
        let scheme = args.get(4).and_then(|&parameters| pickle.items(parameters)?.first().copied());
        let scheme = scheme.and_then(|scheme| pickle.global(scheme));
        return scheme
            .is_some_and(|(_, name)| name != "per_tensor_affine" && !name.starts_with("per_channel_affine"));
    }
    let layout = args.first().and_then(|&layout| layout_of(pickle, layout));
    layout.is_some_and(|name| {
        !matches!(name, "sparse_coo" | "sparse_csr" | "sparse_csc" | "sparse_bsr" | "sparse_bsc")
    })
}

/// The name of a function of `torch._utils`.
pub fn rebuild(pickle: &Pickle, callee: Value) -> Option<&str> {
    pickle.global(callee).filter(|(module, _)| *module == "torch._utils").map(|(_, name)| name)
}

fn strided<'p>(pickle: &'p Pickle, name: &str, args: &'p [Value]) -> Result<Option<Strided<'p>>> {
    let (dtype, metadata) = match (name, args) {
        ("_rebuild_tensor", [_, _, _, _]) | ("_rebuild_tensor_v2", [_, _, _, _, _, _]) => (None, None),
        ("_rebuild_tensor_v2", [_, _, _, _, _, _, metadata]) => (None, Some(*metadata)),
        ("_rebuild_tensor_v3", [_, _, _, _, _, _, dtype]) => (Some(*dtype), None),
        ("_rebuild_tensor_v3", [_, _, _, _, _, _, dtype, metadata]) => (Some(*dtype), Some(*metadata)),
        _ => return Ok(None),
    };
    let &[storage, offset, shape, strides, ..] = args else { return Ok(None) };
    let Some(storage) = storage_of(pickle, storage)? else { return Ok(None) };
    let kind = match dtype {
        None => storage.kind,
        Some(dtype) => match dtype_of(pickle, dtype) {
            Some(kind) => kind,
            None => return Ok(None),
        },
    };
    let (Some(offset), Some(shape), Some(strides)) =
        (number(offset)?, numbers(pickle, shape)?, numbers(pickle, strides)?)
    else {
        return Ok(None);
    };
    if shape.len() != strides.len() {
        return Err(bad(format!("{} dimensions have {} strides", shape.len(), strides.len())));
    }
    let flag = |wanted: &str| {
        let entries = match pickle.node(metadata?)? {
            Node::Dict(entries) if entries.len() <= METADATA => entries,
            _ => return None,
        };
        let entries = entries.as_chunks::<2>().0;
        entries.iter().find(|[key, _]| pickle.text(*key) == Some(wanted)).map(|&[_, value]| value)
    };
    let [conj, neg] = ["conj", "neg"].map(|name| flag(name) == Some(Value::Bool(true)));
    Ok(Some(Strided { storage, kind, offset, shape, strides, conj, neg }))
}

/// What a value is where a strided tensor has to be: a component of another. Parameters and subclasses are taken off.
fn as_strided(pickle: &Pickle, value: Value) -> Result<Option<Strided<'_>>> {
    let Some(Node::Object(object)) = pickle.node(value) else { return Ok(None) };
    let Some(name) = rebuild(pickle, object.callee) else { return Ok(None) };
    strided(pickle, name, pickle.items(object.args).unwrap_or_default())
}

/// A storage by its persistent id: `('storage', class, key, location, numel)`, where it is a part of another with
/// `(key, offset, numel)` behind that.
pub fn storage_of(pickle: &Pickle, value: Value) -> Result<Option<Storage<'_>>> {
    let Some(Node::Persistent(id)) = pickle.node(value) else { return Ok(None) };
    let Some((&[tag, class, key, _, count], view)) = pickle.items(*id).and_then(<[Value]>::split_first_chunk)
    else {
        return Ok(None);
    };
    let (Some("storage"), Some((module, name)), Some(key)) =
        (pickle.short(tag), pickle.global(class), pickle.short(key))
    else {
        return Ok(None);
    };
    let kind = kind::of_storage(module, name).unwrap_or(Kind::unknown(name));
    let elements = match count {
        Value::Int(count) => u64::try_from(count).ok(),
        _ => None,
    };
    let start = match view.first().and_then(|&view| pickle.items(view)) {
        Some(&[_, start, _]) => number(start)?.unwrap_or_default(),
        _ => 0,
    };
    Ok(Some(Storage { key, kind, elements, start }))
}

fn quantized<'p>(pickle: &'p Pickle, args: &'p [Value]) -> Result<Option<Quantized<'p>>> {
    let [_, _, _, _, parameters, ..] = args else { return Ok(None) };
    let plain: Option<&[Value]> = args.get(..4);
    let Some(data) = plain.map(|plain| strided(pickle, "_rebuild_tensor", plain)).transpose()?.flatten()
    else {
        return Ok(None);
    };
    let Some(parameters) = pickle.items(*parameters) else { return Ok(None) };
    let scheme = parameters.first().and_then(|&scheme| pickle.global(scheme)).map(|(_, name)| name);
    let scales = match (scheme, parameters) {
        (Some("per_tensor_affine"), &[_, scale, Value::Int(zero)]) => {
            let scale = match scale {
                Value::Float(scale) => scale,
                #[allow(clippy::cast_precision_loss)] // a scale of 2^53 is none
                Value::Int(scale) => scale as f64,
                _ => return Ok(None),
            };
            Scales::One { scale, zero }
        }
        (Some(name), &[_, scales, zeros, axis]) if name.starts_with("per_channel_affine") => {
            let (Some(scales), Some(zeros), Some(axis)) =
                (as_strided(pickle, scales)?, as_strided(pickle, zeros)?, number(axis)?)
            else {
                return Ok(None);
            };
            Scales::Each { scales: Box::new(scales), zeros: Box::new(zeros), axis }
        }
        _ => return Ok(None),
    };
    Ok(Some(Quantized { data, scales }))
}

fn sparse<'p>(pickle: &'p Pickle, args: &'p [Value]) -> Result<Option<Sparse<'p>>> {
    let &[layout, parts] = args else { return Ok(None) };
    let (Some(layout), Some(parts)) = (layout_of(pickle, layout), pickle.items(parts)) else {
        return Ok(None);
    };
    let (indices, values, shape) = match (layout, parts) {
        ("sparse_coo", [indices, values, shape] | [indices, values, shape, _]) => {
            (vec![*indices], *values, *shape)
        }
        ("sparse_csr" | "sparse_csc" | "sparse_bsr" | "sparse_bsc", [pointers, indices, values, shape]) => {
            (vec![*pointers, *indices], *values, *shape)
        }
        _ => return Ok(None),
    };
    let indices =
        indices.into_iter().map(|part| as_strided(pickle, part)).collect::<Result<Option<Vec<_>>>>()?;
    let (Some(indices), Some(values), Some(shape)) =
        (indices, as_strided(pickle, values)?, numbers(pickle, shape)?)
    else {
        return Ok(None);
    };
    Ok(Some(Sparse { layout, shape, indices, values }))
}

/// `torch.sparse_csr`, or `torch.serialization._get_layout('torch.sparse_csr')`.
pub fn layout_of(pickle: &Pickle, value: Value) -> Option<&str> {
    if let Some(("torch", name)) = pickle.global(value) {
        return Some(name);
    }
    let Node::Object(object) = pickle.node(value)? else { return None };
    let Object { callee, args, .. } = &**object;
    if pickle.global(*callee)? != ("torch.serialization", "_get_layout") {
        return None;
    }
    pickle.text(*pickle.items(*args)?.first()?)?.strip_prefix("torch.")
}

fn meta<'p>(pickle: &'p Pickle, args: &[Value]) -> Option<Tensor<'p>> {
    let &[dtype, shape, ..] = args else { return None };
    Some(Tensor::Meta(dtype_of(pickle, dtype)?, numbers(pickle, shape).ok()??))
}

fn number(value: Value) -> Result<Option<u64>> {
    match value {
        Value::Int(number) => u64::try_from(number)
            .map(Some)
            .map_err(|_| bad(format!("{number} is no size, offset or stride: it is below 0"))),
        _ => Ok(None),
    }
}

/// The integers of a tuple, a list or a `torch.Size`.
fn numbers(pickle: &Pickle, value: Value) -> Result<Option<Vec<u64>>> {
    let inner = match pickle.node(value) {
        Some(Node::Object(object)) if pickle.global(object.callee) == Some(("torch", "Size")) => {
            pickle.items(object.args).and_then(|args| args.first()).copied().unwrap_or(Value::None)
        }
        _ => value,
    };
    let Some(items) = pickle.items(inner) else { return Ok(None) };
    if items.len() > DIMS {
        return Err(bad(format!("a tensor of {} dimensions", items.len())));
    }
    items.iter().map(|&item| number(item)).collect()
}

fn bad(message: String) -> Error {
    Error::new(Code::BadShape, message).rule(RULE)
}
