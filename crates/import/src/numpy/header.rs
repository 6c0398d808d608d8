//! The header of an array (`numpy.lib.format`, versions 1.0, 2.0 and 3.0): magic, version, the length of a Python dict, the dict.
#![forbid(unsafe_code)]

use ztensor_core::checked::{exact, slice};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::Limits;
use ztensor_core::model::{ByteOrder, DType};

use super::literal::{self, Literal};
use crate::limits::NPY_HEADER_BYTES;

pub const MAGIC: &[u8] = b"\x93NUMPY";
const RULE: &str = "numpy.lib.format";
/// Bytes needed to determine the header length: version 1.0 needs two less.
const PREFIX: u64 = 12;

/// The content of a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    pub elements: Elements,
    /// Whether the first dimension varies fastest.
    pub fortran: bool,
    pub shape: Vec<u64>,
    /// The offset of the elements.
    pub length: u64,
}

/// The element type of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Elements {
    Of(DType, ByteOrder),
    /// A type that zTensor does not have, as spelled by NumPy, and the bytes of an element. `None` for pickled objects, which have no fixed
    /// size.
    Other(String, Option<u64>),
}

impl Header {
    /// Reads a header; `first` returns up to the given number of the first bytes of the array.
    pub fn read(first: impl Fn(u64) -> Result<Vec<u8>>, limits: &Limits) -> Result<Self> {
        let guess = first(256)?;
        let length = length_of(&guess)?;
        let bytes = if guess.len() as u64 >= length { guess } else { first(length)? };
        let bytes = slice(&bytes, 0, length).ok_or_else(|| {
            let message = format!("the header has {length} bytes, but only {} are present", bytes.len());
            Error::new(Code::Truncated, message).rule(RULE)
        })?;
        Self::parse(bytes, limits).map_err(|error| error.rule(RULE))
    }

    fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let major = bytes.get(6).copied().unwrap_or_default();
        let text = bytes.get(if major == 1 { 10 } else { 12 }..).unwrap_or_default();
        let text = if major == 3 {
            let text = std::str::from_utf8(text);
            text.map_err(|_| Error::new(Code::BadIndex, "the header is not valid UTF-8"))?.to_owned()
        } else {
            text.iter().copied().map(char::from).collect()
        };
        let Literal::Dict(items) = literal::parse(&text)? else {
            return Err(Error::new(Code::BadIndex, "the header is not a dict"));
        };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        for (key, value) in items {
            let field = match &key {
                Literal::Text(key) if key == "descr" => &mut descr,
                Literal::Text(key) if key == "fortran_order" => &mut fortran,
                Literal::Text(key) if key == "shape" => &mut shape,
                _ => {
                    return Err(Error::new(Code::BadIndex, "the header has a key that NumPy does not write"));
                }
            };
            if field.replace(value).is_some() {
                return Err(Error::new(Code::BadIndex, "a key occurs twice in the header"));
            }
        }
        let (Some(descr), Some(fortran), Some(shape)) = (descr, fortran, shape) else {
            let message = "the header needs descr, fortran_order and shape";
            return Err(Error::new(Code::BadIndex, message));
        };
        let Literal::Bool(fortran) = fortran else {
            return Err(Error::new(Code::BadIndex, "fortran_order is neither True nor False"));
        };
        Ok(Self {
            elements: elements(&descr)?,
            fortran,
            shape: dims(&shape, limits)?,
            length: bytes.len() as u64,
        })
    }
}

/// Returns the size of the header, from its first bytes.
fn length_of(first: &[u8]) -> Result<u64> {
    if !first.starts_with(MAGIC) {
        return Err(Error::new(Code::BadMagic, "no NumPy magic").at(0).rule(RULE));
    }
    let (Some(prefix), Some(&major), Some(&minor)) = (slice(first, 0, PREFIX), first.get(6), first.get(7))
    else {
        return Err(Error::new(Code::Truncated, "the array ends in its header").rule(RULE));
    };
    let short = prefix.get(8..10).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes);
    let long = prefix.get(8..12).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let length = match (major, minor) {
        (1, 0) => 10 + u64::from(short.unwrap_or_default()),
        (2 | 3, 0) => 12 + u64::from(long.unwrap_or_default()),
        _ => {
            let message = format!("version {major}.{minor} of NumPy's format is not supported");
            return Err(Error::new(Code::UnsupportedVersion, message).at(6).rule(RULE));
        }
    };
    if length > NPY_HEADER_BYTES {
        let message = format!("the header has {length} bytes, the maximum is {NPY_HEADER_BYTES}");
        return Err(Error::new(Code::Limit, message).of_item().at(8).rule(RULE));
    }
    Ok(length)
}

fn dims(shape: &Literal, limits: &Limits) -> Result<Vec<u64>> {
    let Literal::Tuple(items) = shape else {
        return Err(Error::new(Code::BadShape, "the shape is not a tuple"));
    };
    let mut dims = Vec::new();
    for item in items {
        match item {
            Literal::Int(Some(dim)) => limits.push_dim(&mut dims, *dim)?,
            Literal::Int(None) => return exact(u64::MAX, "a dimension").map(|_| dims),
            _ => return Err(Error::new(Code::BadShape, "a dimension is not a nonnegative integer")),
        }
    }
    Ok(dims)
}

fn elements(descr: &Literal) -> Result<Elements> {
    match descr {
        Literal::Text(text) => typed(text),
        // A structured dtype, or a type with a shape.
        Literal::List(_) | Literal::Tuple(_) => {
            let bytes =
                size_of(descr).ok_or_else(|| Error::new(Code::BadDtype, "descr is not a NumPy type"))?;
            let bytes = if has_objects(descr) { None } else { Some(bytes) };
            Ok(Elements::Other("a structured type".to_owned(), bytes))
        }
        _ => Err(Error::new(Code::BadDtype, "descr is neither a string nor a list")),
    }
}

/// Returns the bytes of an element of a type, or `None` if it is not a NumPy type.
fn size_of(descr: &Literal) -> Option<u64> {
    match descr {
        Literal::Text(text) => match typed(text).ok()? {
            Elements::Of(dtype, _) => Some(u64::from(dtype.bits() / 8)),
            // As part of a structured type it is a pointer.
            Elements::Other(_, bytes) => Some(bytes.unwrap_or(8)),
        },
        Literal::List(fields) => {
            let mut bytes = 0_u64;
            for field in fields {
                let Literal::Tuple(parts) = field else { return None };
                let (name, kind, shape) = match &**parts {
                    [name, kind] => (name, kind, None),
                    [name, kind, shape] => (name, kind, Some(shape)),
                    _ => return None,
                };
                // A name, or a title and a name.
                if !matches!(name, Literal::Text(_) | Literal::Tuple(_)) {
                    return None;
                }
                bytes =
                    bytes.checked_add(size_of(kind)?.checked_mul(shape.map_or(Some(1), elements_of)?)?)?;
            }
            Some(bytes)
        }
        Literal::Tuple(parts) => match &**parts {
            [kind, shape] => size_of(kind)?.checked_mul(elements_of(shape)?),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the number of elements of a type with a shape.
fn elements_of(shape: &Literal) -> Option<u64> {
    match shape {
        Literal::Int(dim) => *dim,
        Literal::Tuple(dims) => dims.iter().try_fold(1_u64, |all, dim| match dim {
            Literal::Int(dim) => all.checked_mul((*dim)?),
            _ => None,
        }),
        _ => None,
    }
}

/// Returns whether elements are or contain objects, which are pickled.
fn has_objects(descr: &Literal) -> bool {
    match descr {
        Literal::Text(text) => text.trim_start_matches(['<', '>', '|', '=']).starts_with('O'),
        Literal::List(fields) => fields.iter().any(|field| match field {
            Literal::Tuple(parts) => parts.get(1).is_some_and(has_objects),
            _ => false,
        }),
        Literal::Tuple(parts) => parts.first().is_some_and(has_objects),
        _ => false,
    }
}

/// Parses an array-protocol type string: byte order, kind, bytes (for `U` characters), and a unit for dates.
fn typed(text: &str) -> Result<Elements> {
    let (order, rest) = match text.strip_prefix(['<', '>', '|', '=']) {
        Some(rest) if text.starts_with('>') => (ByteOrder::Big, rest),
        Some(rest) => (ByteOrder::Little, rest),
        None => (ByteOrder::Little, text),
    };
    let mut characters = rest.chars();
    let kind = characters.next().unwrap_or(' ');
    let size = characters.as_str();
    let dtype = match (kind, size) {
        ('b', "1") | ('?', "") => DType::Bool,
        ('i', "1") => DType::Int8,
        ('i', "2") => DType::Int16,
        ('i', "4") => DType::Int32,
        ('i', "8") => DType::Int64,
        ('u', "1") => DType::Uint8,
        ('u', "2") => DType::Uint16,
        ('u', "4") => DType::Uint32,
        ('u', "8") => DType::Uint64,
        ('f', "2") => DType::Float16,
        ('f', "4") => DType::Float32,
        ('f', "8") => DType::Float64,
        ('c', "8") => DType::Complex64,
        ('c', "16") => DType::Complex128,
        // The one-byte float registered by ml_dtypes. Its other types are saved as V1 and V2.
        ('f', "1") => DType::Float8E5M2,
        ('O', "" | "4" | "8") => return Ok(Elements::Other(text.to_owned(), None)),
        _ => {
            let bytes = other_bytes(kind, size);
            let bytes =
                bytes.ok_or_else(|| Error::new(Code::BadDtype, format!("{text:?} is not a NumPy type")))?;
            return Ok(Elements::Other(text.to_owned(), Some(bytes)));
        }
    };
    Ok(Elements::Of(dtype, order))
}

/// Returns the bytes of an element of a type missing in zTensor, or `None` if it is not a NumPy type.
fn other_bytes(kind: char, size: &str) -> Option<u64> {
    let (digits, unit) = size.split_once('[').map_or((size, None), |(digits, unit)| (digits, Some(unit)));
    let is_unit = |unit: &str| {
        let unit = unit.strip_suffix(']');
        unit.is_some_and(|unit| !unit.is_empty() && unit.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    let plain = digits.is_empty() || digits.bytes().all(|digit| digit.is_ascii_digit());
    // NumPy stores the bytes of an element in an int.
    let number = if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok() };
    let number = number.filter(|&number| plain && number <= i32::MAX.unsigned_abs().into())?;
    match (kind, number, unit) {
        // Long doubles, of 80 or 128 bits.
        ('f', 10 | 12 | 16, None) | ('c', 20 | 24 | 32, None) | ('S' | 'a' | 'V', _, None) => Some(number),
        ('U', _, None) => Some(4 * number).filter(|&bytes| bytes <= i32::MAX.unsigned_abs().into()),
        ('M' | 'm', 8, unit) if unit.is_none_or(is_unit) => Some(8),
        _ => None,
    }
}
