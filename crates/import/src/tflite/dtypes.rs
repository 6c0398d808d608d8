//! Element types (`TensorType`).
#![forbid(unsafe_code)]

use ztensor_core::model::DType;

pub struct ElementType {
    /// The name in the schema.
    pub name: &'static str,
    pub dtype: Option<DType>,
    /// Bits of an element; 0 if it has no fixed size.
    pub bits: u32,
}

impl ElementType {
    pub fn is_text(&self) -> bool {
        self.name == "STRING"
    }
}

const fn of(name: &'static str, dtype: DType) -> ElementType {
    ElementType { name, dtype: Some(dtype), bits: dtype.bits() }
}

const fn other(name: &'static str, bits: u32) -> ElementType {
    ElementType { name, dtype: None, bits }
}

/// By number.
const KINDS: [ElementType; 23] = [
    of("FLOAT32", DType::Float32),
    of("FLOAT16", DType::Float16),
    of("INT32", DType::Int32),
    of("UINT8", DType::Uint8),
    of("INT64", DType::Int64),
    other("STRING", 0),
    of("BOOL", DType::Bool),
    of("INT16", DType::Int16),
    of("COMPLEX64", DType::Complex64),
    of("INT8", DType::Int8),
    of("FLOAT64", DType::Float64),
    of("COMPLEX128", DType::Complex128),
    of("UINT64", DType::Uint64),
    other("RESOURCE", 0),
    other("VARIANT", 0),
    of("UINT32", DType::Uint32),
    of("UINT16", DType::Uint16),
    other("INT4", 4),
    of("BFLOAT16", DType::BFloat16),
    other("INT2", 2),
    other("UINT4", 4),
    of("FLOAT8_E4M3FN", DType::Float8E4M3Fn),
    of("FLOAT8_E5M2", DType::Float8E5M2),
];

/// Returns the type with this number, or `None` if it is unknown.
pub fn kind(number: u8) -> Option<&'static ElementType> {
    const { &KINDS }.get(usize::from(number))
}
