//! `TensorProto.DataType`: element types, and the list that holds elements when there is no raw data.
#![forbid(unsafe_code)]

use ztensor_core::codecs::protobuf::{BYTES, FIXED32, FIXED64, VARINT};
use ztensor_core::model::DType;

/// An element type.
#[derive(Debug)]
pub struct ElementType {
    pub name: &'static str,
    /// `None` if zTensor has no such type.
    pub dtype: Option<DType>,
    /// Bits of an element; 0 for strings.
    pub bits: u32,
    /// The field of `TensorProto` that lists elements of it.
    pub list: Listed,
}

/// The form of elements in a list.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    pub field: u32,
    /// The wire type of an entry.
    pub wire: u32,
    /// The significant low bits of an entry.
    pub bits: u32,
}

impl ElementType {
    /// Returns the type with this number, or `None` if it is unknown or 0.
    pub fn of(number: u64) -> Option<&'static Self> {
        KINDS.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }
}

impl Listed {
    /// Returns the list with this field number of `TensorProto`.
    pub fn of(field: u32) -> Option<Self> {
        [FLOATS, int32s(32), STRINGS, INT64S, DOUBLES, uint64s(64)]
            .into_iter()
            .find(|list| list.field == field)
    }
}

const FLOATS: Listed = Listed { field: 4, wire: FIXED32, bits: 32 };
const DOUBLES: Listed = Listed { field: 10, wire: FIXED64, bits: 64 };
const STRINGS: Listed = Listed { field: 6, wire: BYTES, bits: 0 };
const INT64S: Listed = Listed { field: 7, wire: VARINT, bits: 64 };

const fn int32s(bits: u32) -> Listed {
    Listed { field: 5, wire: VARINT, bits }
}

const fn uint64s(bits: u32) -> Listed {
    Listed { field: 11, wire: VARINT, bits }
}

const fn of(name: &'static str, dtype: DType, list: Listed) -> ElementType {
    ElementType { name, dtype: Some(dtype), bits: dtype.bits(), list }
}

/// Returns a type smaller than a byte, of which an entry holds as many elements as fit.
const fn small(name: &'static str, bits: u32) -> ElementType {
    ElementType { name, dtype: None, bits, list: int32s(8) }
}

pub const FLOAT: u64 = 1;
pub const INT64: u64 = 7;
pub const STRING: u64 = 8;

/// By number, from 1 on.
static KINDS: [ElementType; 28] = [
    of("FLOAT", DType::Float32, FLOATS),
    of("UINT8", DType::Uint8, int32s(8)),
    of("INT8", DType::Int8, int32s(8)),
    of("UINT16", DType::Uint16, int32s(16)),
    of("INT16", DType::Int16, int32s(16)),
    of("INT32", DType::Int32, int32s(32)),
    of("INT64", DType::Int64, INT64S),
    ElementType { name: "STRING", dtype: None, bits: 0, list: STRINGS },
    of("BOOL", DType::Bool, int32s(8)),
    of("FLOAT16", DType::Float16, int32s(16)),
    of("DOUBLE", DType::Float64, DOUBLES),
    of("UINT32", DType::Uint32, uint64s(32)),
    of("UINT64", DType::Uint64, uint64s(64)),
    of("COMPLEX64", DType::Complex64, FLOATS),
    of("COMPLEX128", DType::Complex128, DOUBLES),
    of("BFLOAT16", DType::BFloat16, int32s(16)),
    of("FLOAT8E4M3FN", DType::Float8E4M3Fn, int32s(8)),
    of("FLOAT8E4M3FNUZ", DType::Float8E4M3Fnuz, int32s(8)),
    of("FLOAT8E5M2", DType::Float8E5M2, int32s(8)),
    of("FLOAT8E5M2FNUZ", DType::Float8E5M2Fnuz, int32s(8)),
    small("UINT4", 4),
    small("INT4", 4),
    of("FLOAT4E2M1", DType::Float4E2M1Fn, int32s(8)),
    of("FLOAT8E8M0", DType::Float8E8M0Fnu, int32s(8)),
    small("UINT2", 2),
    small("INT2", 2),
    of("FLOAT6E2M3", DType::Float6E2M3Fn, int32s(6)),
    of("FLOAT6E3M2", DType::Float6E3M2Fn, int32s(6)),
];
