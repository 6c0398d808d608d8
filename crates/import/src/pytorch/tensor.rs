//! Tensors as pickled by `torch.save`: calls of `torch._utils` and their arguments.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use super::element_type::{self, ElementType};
use crate::pickle::form::{Form, form};
use crate::pickle::ndarray::Array;
use crate::pickle::{Node, Object, Pickle, Value};

const RULE: &str = "torch._utils";
/// A limit above any allowed rank.
const DIMS: usize = 1024;
/// Maximum metadata entries of a tensor that are examined. Real ones have two.
const METADATA: usize = 64;

/// A tensor of any layout.
#[derive(Debug)]
pub enum Tensor<'p> {
    Strided(Strided<'p>),
    Quantized(Quantized<'p>),
    Sparse(Sparse<'p>),
    /// A tensor without data.
    Meta(ElementType<'p>, Vec<u64>),
    Array(Array<'p>),
    /// An array whose elements PyTorch converts when it loads them: tensors of other devices are saved by NumPy, which has no bfloat16.
    Cast(Array<'p>, ElementType<'p>),
}

/// Elements of a storage.
#[derive(Debug)]
pub struct Strided<'p> {
    pub storage: Storage<'p>,
    pub kind: ElementType<'p>,
    /// In elements of `kind`, like the strides.
    pub offset: u64,
    pub shape: Vec<u64>,
    pub strides: Vec<u64>,
    /// Operations to apply when the elements are read.
    pub conj: bool,
    pub neg: bool,
}

/// The storage described by a persistent id.
#[derive(Clone, Copy, Debug)]
pub struct Storage<'p> {
    pub key: &'p str,
    /// The type in which its elements are counted.
    pub kind: ElementType<'p>,
    /// The number of elements; `None` if the id does not state it.
    pub elements: Option<u64>,
    /// The start in elements, if it is part of another storage.
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

/// A sparse tensor by its components, in PyTorch's order.
#[derive(Debug)]
pub struct Sparse<'p> {
    /// The name of the `torch.layout`.
    pub layout: &'p str,
    pub shape: Vec<u64>,
    /// The indices, or the compressed and the plain ones.
    pub indices: Vec<Strided<'p>>,
    pub values: Strided<'p>,
}

/// Returns the tensor that a `torch` call creates, or `None` if it creates none or one with an unknown layout or scheme. Fails with
/// `ZT_BAD_INDEX` if its arguments are invalid.
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
        "_rebuild_xla_tensor"
        | "_rebuild_mlc_tensor"
        | "_rebuild_device_tensor_from_numpy"
        | "_rebuild_device_tensor_from_cpu_tensor" => match args {
            [data, dtype, ..] => match (form(pickle, *data), dtype_of(pickle, *dtype)) {
                (Form::Array(array), Some(kind)) if array.dtype == kind.dtype => Some(Tensor::Array(array)),
                (Form::Array(array), Some(kind)) => Some(Tensor::Cast(array, kind)),
                (Form::Array(_), None) => None,
                _ => as_strided(pickle, *data)?.map(Tensor::Strided),
            },
            _ => None,
        },
        _ => return Ok(None),
    };
    tensor.map(Some).ok_or_else(malformed)
}

/// Returns the type with this name. An unknown name may be a newer type.
fn dtype_of(pickle: &Pickle, value: Value) -> Option<ElementType<'_>> {
    let (module, name) = pickle.global(value)?;
    Some(element_type::of_dtype(module, name).unwrap_or(ElementType::unknown(name)))
}

/// Returns whether a call uses an unknown layout or quantization scheme.
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

/// Returns the name of a `torch._utils` function.
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

/// Returns the strided tensor in a value that is a component of another. Parameters and subclasses are unwrapped.
fn as_strided(pickle: &Pickle, value: Value) -> Result<Option<Strided<'_>>> {
    let Some(Node::Object(object)) = pickle.node(value) else { return Ok(None) };
    let Some(name) = rebuild(pickle, object.callee) else { return Ok(None) };
    strided(pickle, name, pickle.items(object.args).unwrap_or_default())
}

/// Returns the storage of a persistent id: `('storage', class, key, location, numel)`, followed by `(key, offset, numel)` if it is part of
/// another.
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
    let kind = element_type::of_storage(module, name).unwrap_or(ElementType::unknown(name));
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

/// Returns the layout of `torch.sparse_csr`, or of `torch.serialization._get_layout('torch.sparse_csr')`.
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
            .map_err(|_| bad(format!("{number} is not a valid size, offset or stride: it is negative"))),
        _ => Ok(None),
    }
}

/// Returns the integers of a tuple, a list or a `torch.Size`.
fn numbers(pickle: &Pickle, value: Value) -> Result<Option<Vec<u64>>> {
    let inner = match pickle.node(value) {
        Some(Node::Object(object)) if pickle.global(object.callee) == Some(("torch", "Size")) => {
            pickle.items(object.args).and_then(|args| args.first()).copied().unwrap_or(Value::None)
        }
        _ => value,
    };
    let Some(items) = pickle.items(inner) else { return Ok(None) };
    if items.len() > DIMS {
        return Err(bad(format!("a tensor has {} dimensions", items.len())));
    }
    items.iter().map(|&item| number(item)).collect()
}

fn bad(message: String) -> Error {
    Error::new(Code::BadShape, message).rule(RULE)
}
