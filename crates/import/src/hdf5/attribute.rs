//! Attributes of objects (`HDF5 File Format Specification` IV.A.2.m and IV.A.2.v), and conversion of elements to plain values.
#![forbid(unsafe_code)]

use ciborium::Value;
use hdf5_reader::btree_v2::BTreeV2Record;
use hdf5_reader::messages::attribute_info;
use hdf5_reader::messages::dataspace::{self, DataspaceMessage, DataspaceType};
use ztensor_core::arrange::Arrange;
use ztensor_core::checked::{product, slice};
use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::model::{ByteOrder, DType};

use super::datatypes::{Type, TypeClass};
use super::heap::Heap;
use super::reader::{Object, Problems, Reader, message};
use super::storage::bad;

/// An attribute; without a value if it is not a plain value.
pub struct Attribute {
    pub name: String,
    pub value: Option<Value>,
}

/// Maximum dimensions of a dataspace and of an array (`H5S_MAX_RANK`). Nested arrays could have thousands, and equally nested lists would
/// exhaust the stack.
const RANK: usize = 32;

/// The number of values that may still be created.
pub struct Left(pub u64);

/// Returns all readable attributes of an object.
pub fn all(
    reader: &Reader<'_>,
    object: &Object,
    left: &mut Left,
    problems: &mut Problems,
) -> Result<Vec<Attribute>> {
    let mut found = Vec::new();
    for bytes in object.all(message::ATTRIBUTE) {
        found.extend(reader.recover(one(reader, bytes, left), problems)?);
    }
    let Some(info) = object.get(message::ATTRIBUTE_INFO) else { return Ok(found) };
    let dense = dense(reader, info, left, problems);
    found.extend(reader.recover(dense, problems)?.into_iter().flatten());
    Ok(found)
}

/// Reads attributes in a heap, which a version 2 B-tree indexes.
fn dense(
    reader: &Reader<'_>,
    info: &[u8],
    left: &mut Left,
    problems: &mut Problems,
) -> Result<Vec<Attribute>> {
    let info = reader.parse(info, "the attributes of an object", attribute_info::parse)?;
    if !reader.is_defined(info.fractal_heap_address) {
        return Ok(Vec::new());
    }
    let mut heap = Heap::read(&reader.bytes, reader.sizes, info.fractal_heap_address)?;
    let mut records = Vec::new();
    for record in reader.records(info.btree_name_index_address)? {
        let BTreeV2Record::AttributeNameHash { heap_id, flags, creation_order, .. } = record else {
            return Err(bad("the index of attributes has records of the wrong type"));
        };
        records.push((creation_order, flags, heap_id));
    }
    records.arrange_by_key(|record| record.0);
    let mut found = Vec::new();
    for (_, flags, id) in records {
        let attribute = heap.get(&reader.bytes, &id).and_then(|bytes| {
            let shared = if flags & 2 == 0 { None } else { reader.shared(message::ATTRIBUTE, &bytes)? };
            one(reader, &shared.unwrap_or(bytes), left)
        });
        found.extend(reader.recover(attribute, problems)?);
    }
    if !info.creation_order_tracked {
        found.arrange_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(found)
}

/// Returns the dimensions of a dataspace, or `None` if it has no elements and no shape.
pub fn shape(space: &DataspaceMessage) -> Option<&[u64]> {
    (space.dataspace_type != DataspaceType::Null).then_some(&space.dims)
}

fn one(reader: &Reader<'_>, bytes: &[u8], left: &mut Left) -> Result<Attribute> {
    let what = "an attribute";
    let &[version, flags, ..] = bytes else { return Err(bad("an attribute is empty")) };
    if !(1..=3).contains(&version) {
        return Ok(Attribute { name: format!("of version {version}"), value: None });
    }
    // In version 1 this byte is reserved, and each part is padded to 8 bytes.
    let (flags, multiple) = if version == 1 { (0, 8) } else { (flags, 1) };
    let [name, kind, space, data] = reader.parse(bytes, what, |cursor, _, _, _| {
        cursor.skip(2)?;
        let sizes = [cursor.read_u16_le()?, cursor.read_u16_le()?, cursor.read_u16_le()?].map(usize::from);
        if version == 3 {
            cursor.skip(1)?;
        }
        let mut parts: [&[u8]; 4] = [&[]; 4];
        for (part, size) in parts.iter_mut().zip(sizes) {
            *part = cursor.read_bytes(size)?;
            cursor.skip(size.next_multiple_of(multiple) - size)?;
        }
        let [.., data] = &mut parts;
        *data = cursor.slice_from(cursor.position())?;
        Ok(parts.map(<[u8]>::to_vec))
    })?;
    let name = String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    match named(reader, flags, [kind, space, data], left) {
        Ok(value) => Ok(Attribute { name, value }),
        Err(error) if reader.bytes.is_of_item(&error) => Err(of_attribute(&name, &error)),
        Err(error) => Err(error),
    }
}

/// Prefixes an error with the name of the attribute.
fn of_attribute(name: &str, error: &Error) -> Error {
    let message = format!("the attribute {:?}: {}", short(name, NAME), error.message());
    let mut made = Error::new(error.code(), message).of_item();
    if let Some(offset) = error.offset() {
        made = made.at(offset);
    }
    error.broken_rule().into_iter().fold(made, Error::rule)
}

/// Returns the value of an attribute from its type, its shape and its elements.
fn named(
    reader: &Reader<'_>,
    flags: u8,
    [kind, space, data]: [Vec<u8>; 3],
    left: &mut Left,
) -> Result<Option<Value>> {
    let what = "its type and shape";
    let own = |kind: u16, bytes: Vec<u8>, bit: u8| {
        let shared = if flags & bit == 0 { Some(bytes) } else { reader.shared(kind, &bytes)? };
        shared.ok_or_else(|| bad("an attribute refers to a shared message that does not exist"))
    };
    let kind = own(message::DATATYPE, kind, 1)?;
    let space = own(message::DATASPACE, space, 2)?;
    let kind = reader.parse(&kind, what, |_, _, _, _| Type::parse(&kind))?;
    let space = reader.parse(&space, what, dataspace::parse)?;
    match shape(&space) {
        None => Ok(Some(Value::Null)),
        Some(dims) => value(reader, kind, dims, &data, left),
    }
}

/// Converts elements to a single value or nested lists. Returns `None` if they are not plain values or too many.
pub fn value(
    reader: &Reader<'_>,
    kind: Type,
    dims: &[u64],
    data: &[u8],
    left: &mut Left,
) -> Result<Option<Value>> {
    let (own, kind) = kind.flat();
    let dims = [dims, &own].concat();
    if matches!(kind.kind, TypeClass::Other(_)) || dims.len() > RANK {
        return Ok(None);
    }
    let count = product(&dims).and_then(|count| Some((count, count.checked_mul(kind.size)?)));
    let Some((count, bytes)) = count else { return Err(bad("an attribute has 2^64 elements")) };
    let data = slice(data, 0, bytes)
        .ok_or_else(|| Error::new(Code::Truncated, "an attribute has fewer bytes than its shape needs"))?;
    // Lists of no elements take no space in the file, but memory here.
    let lists = if dims.is_empty() {
        0
    } else {
        3 * dims.iter().fold(1_u64, |all, &dim| all.saturating_mul(dim.max(1)))
    };
    let Some(rest) = left.0.checked_sub(count.saturating_add(lists)) else { return Ok(None) };
    left.0 = rest;
    reader.bytes.charge(bytes)?;
    let width = usize::try_from(kind.size).map_err(|_| bad("an element of 2^32 bytes"))?;
    let mut elements = data.chunks_exact(width.max(1));
    nest(&dims, &mut || element(reader, &kind.kind, elements.next().unwrap_or_default())).map(Some)
}

fn nest(dims: &[u64], next: &mut impl FnMut() -> Result<Value>) -> Result<Value> {
    let Some((&count, rest)) = dims.split_first() else { return next() };
    (0..count).map(|_| nest(rest, next)).collect::<Result<Vec<_>>>().map(Value::Array)
}

fn element(reader: &Reader<'_>, kind: &TypeClass, bytes: &[u8]) -> Result<Value> {
    Ok(match kind {
        TypeClass::Number(dtype, order) => number(*dtype, *order, bytes),
        TypeClass::Text => text(bytes.split(|&byte| byte == 0).next().unwrap_or_default()),
        TypeClass::Texts => text(&reader.referred(bytes)?.unwrap_or_default()),
        _ => Value::Bytes(bytes.to_vec()),
    })
}

fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Bytes(bytes.to_vec()),
    }
}

/// Returns the bits of an element, zero-extended.
fn bits(order: ByteOrder, bytes: &[u8]) -> u64 {
    let add = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
    match order {
        ByteOrder::Little => bytes.iter().rev().fold(0, add),
        ByteOrder::Big => bytes.iter().fold(0, add),
    }
}

#[allow(clippy::cast_possible_truncation)] // the bits of a type are no more than it has
fn number(dtype: DType, order: ByteOrder, bytes: &[u8]) -> Value {
    let half = bytes.len() / 2;
    let of = |dtype, bytes: &[u8]| number(dtype, order, bytes);
    let bits = || bits(order, bytes);
    match dtype {
        DType::Bool => Value::Bool(bits() != 0),
        DType::Float64 => Value::Float(f64::from_bits(bits())),
        DType::Float32 => Value::Float(f32::from_bits(bits() as u32).into()),
        DType::Float16 => Value::Float(half::f16::from_bits(bits() as u16).into()),
        DType::BFloat16 => Value::Float(half::bf16::from_bits(bits() as u16).into()),
        DType::Int64 => Value::from(bits().cast_signed()),
        DType::Int32 => Value::from((bits() as u32).cast_signed()),
        DType::Int16 => Value::from((bits() as u16).cast_signed()),
        DType::Int8 => Value::from((bits() as u8).cast_signed()),
        DType::Uint64 | DType::Uint32 | DType::Uint16 | DType::Uint8 => Value::from(bits()),
        DType::Complex64 => {
            let (real, imaginary) = bytes.split_at(half);
            Value::Array(vec![of(DType::Float32, real), of(DType::Float32, imaginary)])
        }
        DType::Complex128 => {
            let (real, imaginary) = bytes.split_at(half);
            Value::Array(vec![of(DType::Float64, real), of(DType::Float64, imaginary)])
        }
        _ => Value::Bytes(bytes.to_vec()),
    }
}
