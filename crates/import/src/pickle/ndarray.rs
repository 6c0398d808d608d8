//! NumPy arrays and scalars as pickled by NumPy (`numpy.ndarray.__reduce__`, `__setstate__`).
#![forbid(unsafe_code)]

use std::borrow::Cow;

use ztensor_core::model::{ByteOrder, DType};

use super::{Node, Object, Pickle, Span, Value};

/// An array within a pickle.
#[derive(Clone, Debug)]
pub struct Array<'p> {
    pub shape: Vec<u64>,
    /// NumPy's spelling, without the byte order: `f8`.
    pub spelling: &'p str,
    /// `None` if zTensor has no such type.
    pub dtype: Option<DType>,
    pub byte_order: ByteOrder,
    /// Whether the first index varies fastest.
    pub fortran: bool,
    /// `None` if its elements are Python objects.
    pub data: Option<Raw<'p>>,
}

/// Bytes stored in a pickle.
#[derive(Clone, Debug)]
pub enum Raw<'p> {
    /// Stored as is.
    At(Span),
    /// Stored in an encoded form.
    Made(Cow<'p, [u8]>),
}

impl<'p> Raw<'p> {
    pub fn bytes<'r>(&'r self, pickle: &'p Pickle) -> &'r [u8] {
        match self {
            Self::At(span) => pickle.span(*span),
            Self::Made(bytes) => bytes,
        }
    }

    /// Returns their number, even if they were not read.
    pub fn length(&self) -> u64 {
        match self {
            Self::At(span) => span.length,
            Self::Made(bytes) => bytes.len() as u64,
        }
    }
}

/// Maximum dimensions in NumPy 2.
const DIMS: usize = 64;
/// Maximum bytes of a scalar and of its encoded form.
const SCALAR: u64 = 64;

const MULTIARRAY: [&str; 2] = ["numpy.core.multiarray", "numpy._core.multiarray"];
const NUMERIC: [&str; 2] = ["numpy.core.numeric", "numpy._core.numeric"];

/// Returns whether a call creates an array.
pub fn is_array(module: &str, name: &str) -> bool {
    (MULTIARRAY.contains(&module) && name == "_reconstruct")
        || (NUMERIC.contains(&module) && name == "_frombuffer")
}

/// Returns whether a call creates a number.
pub fn is_scalar(module: &str, name: &str) -> bool {
    MULTIARRAY.contains(&module) && name == "scalar"
}

/// Returns the array that an object represents, or `None` if it is malformed.
pub fn array<'p>(pickle: &'p Pickle, object: &'p Object) -> Option<Array<'p>> {
    let (_, name) = pickle.global(object.callee)?;
    let (shape, dtype, fortran, data) = if name == "_frombuffer" {
        let [data, dtype, shape, order] = *pickle.items(object.args)? else { return None };
        (shape, dtype, pickle.text(order)? == "F", data)
    } else {
        let state = pickle.items(*object.states.last()?)?;
        let (state, [shape, dtype, Value::Bool(fortran), data]) = state.split_last_chunk()? else {
            return None;
        };
        if state.len() > 1 {
            return None;
        }
        (*shape, *dtype, *fortran, *data)
    };
    let dims = pickle.items(shape).filter(|dims| dims.len() <= DIMS)?.iter();
    let shape = dims.map(|&dim| if let Value::Int(dim) = dim { u64::try_from(dim).ok() } else { None });
    let Type { spelling, byte_order } = element_type(pickle, dtype)?;
    Some(Array {
        shape: shape.collect::<Option<_>>()?,
        spelling,
        dtype: dtype_of(spelling),
        byte_order,
        fortran,
        data: raw(pickle, data),
    })
}

/// Returns the number that `scalar(dtype, bytes)` represents, a complex one as two values.
pub fn scalar(pickle: &Pickle, object: &Object) -> Option<Vec<Value>> {
    let [dtype, data] = *pickle.items(object.args)? else { return None };
    let Type { spelling, byte_order } = element_type(pickle, dtype)?;
    let dtype = dtype_of(spelling)?;
    if text_length(pickle, data) > SCALAR {
        return None;
    }
    let raw = raw(pickle, data)?;
    let bytes = raw.bytes(pickle);
    if bytes.len() * 8 != dtype.bits() as usize {
        return None;
    }
    let part = dtype.element_bytes();
    bytes.chunks(part).map(|bytes| number(dtype, byte_order, bytes)).collect()
}

fn number(dtype: DType, byte_order: ByteOrder, bytes: &[u8]) -> Option<Value> {
    let mut wide = [0; 8];
    let little = bytes.iter().copied();
    match byte_order {
        ByteOrder::Little => wide.iter_mut().zip(little).for_each(|(to, byte)| *to = byte),
        ByteOrder::Big => wide.iter_mut().zip(little.rev()).for_each(|(to, byte)| *to = byte),
    }
    let bits = u64::from_le_bytes(wide);
    let shift = 64 - 8 * u32::try_from(bytes.len()).ok()?;
    Some(match dtype {
        DType::Float64 | DType::Complex128 => Value::Float(f64::from_bits(bits)),
        DType::Float32 | DType::Complex64 => Value::Float(f32::from_bits(u32::try_from(bits).ok()?).into()),
        DType::Float16 => Value::Float(half(u16::try_from(bits).ok()?)),
        DType::Bool => Value::Bool(bits != 0),
        DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8 => {
            Value::Int((bits << shift).cast_signed() >> shift)
        }
        DType::Uint64 | DType::Uint32 | DType::Uint16 | DType::Uint8 => match i64::try_from(bits) {
            Ok(number) => Value::Int(number),
            #[allow(clippy::cast_precision_loss)] // beyond 2^63; a scalar of that size is a hash or a seed
            Err(_) => Value::Float(bits as f64),
        },
        _ => return None,
    })
}

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Returns the length of the text that encodes bytes.
fn text_length(pickle: &Pickle, value: Value) -> u64 {
    let Some(Node::Object(object)) = pickle.node(value) else { return 0 };
    let text = pickle.items(object.args).and_then(|args| pickle.node(*args.first()?));
    match text {
        Some(Node::Text(span) | Node::Bytes(span)) => span.length,
        Some(Node::Unescaped(text)) => text.len() as u64,
        _ => 0,
    }
}

struct Type<'p> {
    spelling: &'p str,
    byte_order: ByteOrder,
}

/// Returns the type of `numpy.dtype('f8', False, True)` with the state `(3, '<', …)`.
fn element_type(pickle: &Pickle, value: Value) -> Option<Type<'_>> {
    let Node::Object(object) = pickle.node(value)? else { return None };
    if !is_dtype(pickle, object) {
        return None;
    }
    let spelling = pickle.text(*pickle.items(object.args)?.first()?)?;
    let state = object.states.last().and_then(|&state| pickle.items(state));
    let order = state.and_then(|state| pickle.text(*state.get(1)?));
    let (spelling, order) = match spelling.split_at_checked(1) {
        Some((order @ ("<" | ">" | "|" | "="), spelling)) => (spelling, Some(order)),
        _ => (spelling, order),
    };
    let byte_order = if order == Some(">") { ByteOrder::Big } else { ByteOrder::Little };
    Some(Type { spelling, byte_order })
}

/// Returns whether an object is a `numpy.dtype` or one of its classes.
pub fn is_dtype(pickle: &Pickle, object: &Object) -> bool {
    matches!(pickle.global(object.callee), Some(("numpy", "dtype")))
}

/// Returns NumPy's spelling of a `numpy.dtype`.
pub fn dtype_text(pickle: &Pickle, object: &Object) -> Option<String> {
    pickle.text(*pickle.items(object.args)?.first()?).map(str::to_owned)
}

fn dtype_of(spelling: &str) -> Option<DType> {
    Some(match spelling {
        "f8" => DType::Float64,
        "f4" => DType::Float32,
        "f2" => DType::Float16,
        "i8" => DType::Int64,
        "i4" => DType::Int32,
        "i2" => DType::Int16,
        "i1" => DType::Int8,
        "u8" => DType::Uint64,
        "u4" => DType::Uint32,
        "u2" => DType::Uint16,
        "u1" => DType::Uint8,
        "b1" => DType::Bool,
        "c8" => DType::Complex64,
        "c16" => DType::Complex128,
        _ => return None,
    })
}

/// Returns bytes, including `_codecs.encode(text, 'latin1')` from protocols without bytes and Python 2 strings.
pub fn raw(pickle: &Pickle, value: Value) -> Option<Raw<'_>> {
    match pickle.node(value)? {
        Node::Bytes(span) | Node::Text(span) => Some(Raw::At(*span)),
        Node::Made(bytes) => Some(Raw::Made(Cow::Borrowed(bytes))),
        Node::Object(object) => encoded(pickle, object).map(|bytes| Raw::Made(Cow::Owned(bytes))),
        _ => None,
    }
}

/// Returns the bytes created by `_codecs.encode(text, 'latin1')`, `bytearray(…)` or `bytes()`.
pub fn encoded(pickle: &Pickle, object: &Object) -> Option<Vec<u8>> {
    let args = pickle.items(object.args)?;
    match (pickle.global(object.callee)?, args) {
        (("builtins" | "__builtin__", "bytes" | "bytearray"), []) => Some(Vec::new()),
        (("_codecs", "encode") | ("builtins" | "__builtin__", "bytearray"), &[text, encoding]) => {
            if !matches!(pickle.text(encoding)?, "latin1" | "latin-1" | "iso-8859-1") {
                return None;
            }
            pickle.text(text)?.chars().map(|char| u8::try_from(u32::from(char)).ok()).collect()
        }
        (("builtins" | "__builtin__", "bytearray" | "bytes"), &[bytes]) => match pickle.node(bytes)? {
            Node::Bytes(span) if !pickle.is_left_out(*span) => Some(pickle.span(*span).to_vec()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn halves() {
        let cases = [
            (0, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (1, 2_f64.powi(-24)),
            (0x7c00, f64::INFINITY),
        ];
        for (bits, expected) in cases {
            assert_eq!(half(bits).to_bits(), expected.to_bits(), "{bits:#x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}
