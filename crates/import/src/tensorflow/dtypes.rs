//! Element types, `DataType` of `types.proto`.
#![forbid(unsafe_code)]

use ztensor_core::model::DType;

/// An element type.
pub struct ElementType {
    pub name: &'static str,
    /// `None` if zTensor has no such type.
    pub dtype: Option<DType>,
    /// Bytes of an element, at least one; `None` for types without a fixed size, which are not numeric.
    pub width: Option<u64>,
}

impl ElementType {
    /// Returns the type with this number, or `None` if it is unknown.
    pub fn of(number: u64) -> Option<&'static Self> {
        KINDS.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }
}

const fn of(name: &'static str, dtype: DType) -> ElementType {
    ElementType { name, dtype: Some(dtype), width: Some(dtype.bits() as u64 / 8) }
}

const fn untyped(name: &'static str, width: u64) -> ElementType {
    ElementType { name, dtype: None, width: Some(width) }
}

const fn no_array(name: &'static str) -> ElementType {
    ElementType { name, dtype: None, width: None }
}

/// By number, from 1 on.
static KINDS: [ElementType; 33] = [
    of("DT_FLOAT", DType::Float32),
    of("DT_DOUBLE", DType::Float64),
    of("DT_INT32", DType::Int32),
    of("DT_UINT8", DType::Uint8),
    of("DT_INT16", DType::Int16),
    of("DT_INT8", DType::Int8),
    no_array("DT_STRING"),
    of("DT_COMPLEX64", DType::Complex64),
    of("DT_INT64", DType::Int64),
    of("DT_BOOL", DType::Bool),
    untyped("DT_QINT8", 1),
    untyped("DT_QUINT8", 1),
    untyped("DT_QINT32", 4),
    of("DT_BFLOAT16", DType::BFloat16),
    untyped("DT_QINT16", 2),
    untyped("DT_QUINT16", 2),
    of("DT_UINT16", DType::Uint16),
    of("DT_COMPLEX128", DType::Complex128),
    of("DT_HALF", DType::Float16),
    no_array("DT_RESOURCE"),
    no_array("DT_VARIANT"),
    of("DT_UINT32", DType::Uint32),
    of("DT_UINT64", DType::Uint64),
    of("DT_FLOAT8_E5M2", DType::Float8E5M2),
    of("DT_FLOAT8_E4M3FN", DType::Float8E4M3Fn),
    of("DT_FLOAT8_E4M3FNUZ", DType::Float8E4M3Fnuz),
    untyped("DT_FLOAT8_E4M3B11FNUZ", 1),
    of("DT_FLOAT8_E5M2FNUZ", DType::Float8E5M2Fnuz),
    untyped("DT_INT4", 1),
    untyped("DT_UINT4", 1),
    untyped("DT_INT2", 1),
    untyped("DT_UINT2", 1),
    untyped("DT_FLOAT4_E2M1FN", 1),
];
