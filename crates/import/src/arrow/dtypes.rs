//! Types of elements (`Schema.fbs`, union `Type`).
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::DType;

use crate::flatbuffer::{Flat, Table};

pub const SCHEMA: &str = "Arrow Columnar Format: Schema message";

/// A type, as far as it determines the location of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Fixed-size values, in the buffer after the validity bitmap.
    Plain(Element),
    FixedSizeList(u64),
    /// Lists whose offsets have this many bytes.
    List(u64),
    Struct,
    /// Variable-size values: the number of buffers, and a description.
    Other(Buffers, &'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    Of(DType),
    /// One bit each.
    Bool,
    /// This many bytes each, without a zTensor dtype.
    Untyped(u64, &'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffers {
    Count(u64),
    /// This many buffers, and in version 4 an additional validity bitmap before them.
    Union(u64),
    /// Two, and as many more as the batch states.
    Views,
}

/// Reads the type of a field or a tensor, whose type number and table are fields of `table`.
pub fn read(flat: &mut Flat<'_>, table: Table, number: u16) -> Result<Type> {
    use Buffers::{Count, Union, Views};
    let kind = flat.u8(table, number)?;
    let of = flat.table(table, number + 1)?;
    let number = |flat: &mut Flat<'_>, field, default: i32| match of {
        Some(of) => {
            flat.position(of, field, 4)?.map_or(Ok(default), |at| flat.array(at).map(i32::from_le_bytes))
        }
        None => Ok(default),
    };
    let small = |flat: &mut Flat<'_>, field: u16, default: i16| match of {
        Some(of) => {
            flat.position(of, field, 2)?.map_or(Ok(default), |at| flat.array(at).map(i16::from_le_bytes))
        }
        None => Ok(default),
    };
    let untyped = |width, name| Type::Plain(Element::Untyped(width, name));
    Ok(match kind {
        1 => Type::Other(Count(0), "null"),
        2 => match of.map(|of| integer(flat, of)).transpose()?.flatten() {
            Some(dtype) => Type::Plain(Element::Of(dtype)),
            None => Type::Other(Count(2), "an integer of unknown width"),
        },
        3 => match small(flat, 0, 0)? {
            0 => Type::Plain(Element::Of(DType::Float16)),
            1 => Type::Plain(Element::Of(DType::Float32)),
            2 => Type::Plain(Element::Of(DType::Float64)),
            _ => Type::Other(Count(2), "a float of unknown precision"),
        },
        4 => Type::Other(Count(3), "binary"),
        5 => Type::Other(Count(3), "utf8"),
        6 => Type::Plain(Element::Bool),
        7 => match number(flat, 2, 128)? {
            32 => untyped(4, "decimal32"),
            64 => untyped(8, "decimal64"),
            128 => untyped(16, "decimal128"),
            256 => untyped(32, "decimal256"),
            _ => Type::Other(Count(2), "a decimal of unknown width"),
        },
        8 => {
            if small(flat, 0, 1)? == 0 {
                untyped(4, "date32")
            } else {
                untyped(8, "date64")
            }
        }
        9 => {
            if number(flat, 1, 32)? == 32 {
                untyped(4, "time32")
            } else {
                untyped(8, "time64")
            }
        }
        10 => untyped(8, "timestamp"),
        11 => match small(flat, 0, 0)? {
            0 => untyped(4, "interval of months"),
            1 => untyped(8, "interval of days"),
            _ => untyped(16, "interval of months, days and nanoseconds"),
        },
        12 => Type::List(4),
        13 => Type::Struct,
        14 => Type::Other(Union(if small(flat, 0, 0)? == 0 { 1 } else { 2 }), "union"),
        15 => match u64::try_from(number(flat, 0, 0)?) {
            Ok(width) => untyped(width, "fixed_size_binary"),
            Err(_) => Type::Other(Count(2), "binary of negative width"),
        },
        16 => match u64::try_from(number(flat, 0, 0)?) {
            Ok(size) => Type::FixedSizeList(size),
            Err(_) => Type::Other(Count(1), "lists of negative size"),
        },
        17 => Type::Other(Count(2), "map"),
        18 => untyped(8, "duration"),
        19 => Type::Other(Count(3), "large_binary"),
        20 => Type::Other(Count(3), "large_utf8"),
        21 => Type::List(8),
        22 => Type::Other(Count(0), "run_end_encoded"),
        23 => Type::Other(Views, "binary_view"),
        24 => Type::Other(Views, "utf8_view"),
        25 => Type::Other(Count(3), "list_view"),
        26 => Type::Other(Count(3), "large_list_view"),
        other => {
            // The number of its buffers is unknown, so the buffers of later columns cannot be located.
            let message = format!("the schema uses the unknown type {other}");
            return Err(Error::new(Code::UnsupportedVersion, message).rule(SCHEMA));
        }
    })
}

/// Returns the dtype of a table `Int`.
pub fn integer(flat: &mut Flat<'_>, table: Table) -> Result<Option<DType>> {
    let signed = flat.u8(table, 1)? != 0;
    Ok(Some(match (flat.i32(table, 0)?, signed) {
        (8, true) => DType::Int8,
        (16, true) => DType::Int16,
        (32, true) => DType::Int32,
        (64, true) => DType::Int64,
        (8, false) => DType::Uint8,
        (16, false) => DType::Uint16,
        (32, false) => DType::Uint32,
        (64, false) => DType::Uint64,
        _ => return Ok(None),
    }))
}
