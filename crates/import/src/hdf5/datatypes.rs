//! Datatypes (`HDF5 File Format Specification` IV.A.2.d): maps them to zTensor dtypes, and names the others.
//!
//! The library drops the bit layout of numbers, which distinguishes float16 from bfloat16.
#![forbid(unsafe_code)]

use hdf5_reader::error::Error as Refusal;
use hdf5_reader::io::Cursor;
use ztensor_core::model::{ByteOrder, DType};

use super::reader::Parsed;

/// Maximum nesting of types: a compound of arrays of complex numbers takes three.
const DEPTH: u32 = 32;

/// The type of an element.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Bytes of an element.
    pub size: u64,
    pub kind: TypeClass,
}

#[derive(Clone, PartialEq, Debug)]
pub enum TypeClass {
    Number(DType, ByteOrder),
    /// A fixed-length string, padded with zeros or spaces.
    Text,
    /// References to variable-length strings.
    Texts,
    /// An array of another type with these dimensions.
    Array(Vec<u64>, Box<Type>),
    Opaque,
    /// A description.
    Other(&'static str),
}

impl Type {
    pub fn parse(bytes: &[u8]) -> Parsed<Self> {
        Self::read(&mut Cursor::new(bytes), 0)
    }

    /// Returns the type of each element, with the dimensions that arrays add.
    pub fn flat(mut self) -> (Vec<u64>, Self) {
        let mut dims = Vec::new();
        while let TypeClass::Array(own, base) = self.kind {
            dims.extend(own);
            self = *base;
        }
        (dims, self)
    }

    fn read(cursor: &mut Cursor<'_>, depth: u32) -> Parsed<Self> {
        if depth > DEPTH {
            return Err(invalid("types are nested too deep"));
        }
        let head = cursor.read_u32_le()?;
        let (class, version, flags) = (head & 15, head >> 4 & 15, head >> 8);
        let size = cursor.read_u32_le()?;
        let order = if flags & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let kind = match class {
            0 => integer(cursor, size, order, flags & 8 != 0)?,
            1 => float(cursor, size, flags)?,
            2 => {
                cursor.skip(2)?;
                TypeClass::Other("a time")
            }
            3 => TypeClass::Text,
            4 => integer(cursor, size, order, false)?,
            5 => {
                cursor.skip((flags & 0xff).next_multiple_of(8) as usize)?;
                TypeClass::Opaque
            }
            6 => compound(cursor, flags & 0xffff, size, version, depth)?,
            7 => TypeClass::Other("a reference"),
            8 => enumeration(cursor, flags & 0xffff, version, depth)?,
            9 => {
                Self::read(cursor, depth + 1)?;
                if flags & 15 == 1 { TypeClass::Texts } else { TypeClass::Other("a variable-length list") }
            }
            10 => array(cursor, version, depth)?,
            11 => complex(&Self::read(cursor, depth + 1)?).unwrap_or(TypeClass::Other("a complex number")),
            _ => TypeClass::Other("of an unknown class"),
        };
        let size = u64::from(size);
        let parts = match &kind {
            TypeClass::Number(dtype, _) => Some(u64::from(dtype.bits() / 8)),
            TypeClass::Array(dims, base) => {
                dims.iter().try_fold(base.size, |bytes, &dim| bytes.checked_mul(dim))
            }
            _ => Some(size),
        };
        if size == 0 || parts != Some(size) {
            return Err(invalid("the size of a type does not match its members"));
        }
        Ok(Self { size, kind })
    }
}

fn invalid(what: &str) -> Refusal {
    Refusal::InvalidData(what.to_owned())
}

fn integer(cursor: &mut Cursor<'_>, size: u32, order: ByteOrder, signed: bool) -> Parsed<TypeClass> {
    let (offset, precision) = (cursor.read_u16_le()?, cursor.read_u16_le()?);
    let dtype = match (size, signed) {
        _ if offset != 0 || u32::from(precision) != size.saturating_mul(8) => None,
        (1, true) => Some(DType::Int8),
        (2, true) => Some(DType::Int16),
        (4, true) => Some(DType::Int32),
        (8, true) => Some(DType::Int64),
        (1, false) => Some(DType::Uint8),
        (2, false) => Some(DType::Uint16),
        (4, false) => Some(DType::Uint32),
        (8, false) => Some(DType::Uint64),
        _ => None,
    };
    Ok(dtype.map_or(TypeClass::Other("an integer of unusual size"), |dtype| TypeClass::Number(dtype, order)))
}

fn float(cursor: &mut Cursor<'_>, size: u32, flags: u32) -> Parsed<TypeClass> {
    let (offset, precision) = (cursor.read_u16_le()?, cursor.read_u16_le()?);
    let parts = cursor.read_bytes(4)?;
    let bias = cursor.read_u32_le()?;
    // Position and size in bits of exponent and mantissa.
    let dtype = match (size, parts, bias) {
        (8, [52, 11, 0, 52], 1023) => Some(DType::Float64),
        (4, [23, 8, 0, 23], 127) => Some(DType::Float32),
        (2, [10, 5, 0, 10], 15) => Some(DType::Float16),
        (2, [7, 8, 0, 7], 127) => Some(DType::BFloat16),
        (1, [3, 4, 0, 3], 7) => Some(DType::Float8E4M3Fn),
        (1, [2, 5, 0, 2], 15) => Some(DType::Float8E5M2),
        _ => None,
    };
    let order = match (flags & 1, flags >> 6 & 1) {
        (0, 0) => Some(ByteOrder::Little),
        (1, 0) => Some(ByteOrder::Big),
        _ => None,
    };
    // The sign is the highest bit, and the leading bit of the mantissa is implied.
    let default = offset == 0
        && u32::from(precision) == size.saturating_mul(8)
        && flags >> 8 & 0xff == size.saturating_mul(8).saturating_sub(1)
        && flags >> 4 & 3 == 2;
    Ok(match (dtype, order) {
        (Some(dtype), Some(order)) if default => TypeClass::Number(dtype, order),
        _ => TypeClass::Other("a float of unusual size"),
    })
}

/// Reads a zero-terminated string. Before version 3 it is padded to a multiple of 8 bytes.
fn name<'c>(cursor: &mut Cursor<'c>, version: u32) -> Parsed<&'c [u8]> {
    let left = cursor.slice_from(cursor.position())?;
    let length =
        left.iter().position(|&byte| byte == 0).ok_or_else(|| invalid("a type name is not terminated"))?;
    let taken = if version < 3 { (length + 1).next_multiple_of(8) } else { length + 1 };
    cursor.skip(taken)?;
    left.get(..length).ok_or_else(|| invalid("a type name is not terminated"))
}

/// Two consecutive floats of the same type are a complex number, as written by h5py.
fn compound(cursor: &mut Cursor<'_>, count: u32, size: u32, version: u32, depth: u32) -> Parsed<TypeClass> {
    let width = match size {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    };
    let mut parts = Vec::new();
    for _ in 0..count {
        let name = name(cursor, version)?;
        let offset = if version < 3 { cursor.read_u32_le()?.into() } else { cursor.read_uvar(width)? };
        if version == 1 {
            cursor.skip(28)?;
        }
        let member = Type::read(cursor, depth + 1)?;
        if parts.len() < 3 {
            parts.push((name, offset, member));
        }
    }
    if let [(real, 0, first), (imaginary, at, second)] = &*parts
        && matches!((*real, *imaginary), (b"r", b"i") | (b"real", b"imag"))
        && (first, *at, 2 * first.size) == (second, first.size, size.into())
        && let Some(kind) = complex(first)
    {
        return Ok(kind);
    }
    Ok(TypeClass::Other("a structure"))
}

fn complex(part: &Type) -> Option<TypeClass> {
    match part.kind {
        TypeClass::Number(DType::Float32, order) => Some(TypeClass::Number(DType::Complex64, order)),
        TypeClass::Number(DType::Float64, order) => Some(TypeClass::Number(DType::Complex128, order)),
        _ => None,
    }
}

/// An enumeration is read as its integers; one-byte FALSE and TRUE are h5py's bool.
fn enumeration(cursor: &mut Cursor<'_>, count: u32, version: u32, depth: u32) -> Parsed<TypeClass> {
    let base = Type::read(cursor, depth + 1)?;
    let mut names = Vec::new();
    for _ in 0..count {
        let name = name(cursor, version)?;
        if names.len() < 3 {
            names.push(name);
        }
    }
    let width = usize::try_from(base.size).unwrap_or(usize::MAX);
    let mut values = Vec::new();
    for _ in 0..count {
        let value = cursor.read_bytes(width)?;
        if values.len() < 3 {
            values.push(value);
        }
    }
    let is_bool = matches!((&*names, &*values), ([b"FALSE", b"TRUE"], [[0], [1]]));
    Ok(match base.kind {
        TypeClass::Number(DType::Int8 | DType::Uint8, order) if is_bool => {
            TypeClass::Number(DType::Bool, order)
        }
        kind @ TypeClass::Number(..) => kind,
        _ => TypeClass::Other("an enumeration"),
    })
}

fn array(cursor: &mut Cursor<'_>, version: u32, depth: u32) -> Parsed<TypeClass> {
    let rank = usize::from(cursor.read_u8()?);
    if version < 3 {
        cursor.skip(3)?;
    }
    let dims = (0..rank).map(|_| Ok(u64::from(cursor.read_u32_le()?))).collect::<Parsed<Vec<_>>>()?;
    if version < 3 {
        cursor.skip(4 * rank)?;
    }
    Ok(TypeClass::Array(dims, Box::new(Type::read(cursor, depth + 1)?)))
}
