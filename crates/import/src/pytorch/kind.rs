//! Element types, by the names of `torch.dtype` and by the classes of storages.
#![forbid(unsafe_code)]

use ztensor_core::model::DType;

/// An element type of PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// As `torch` calls it.
    pub name: &'static str,
    /// `None` where zTensor has no such type, or packs it otherwise.
    pub dtype: Option<DType>,
    /// Bytes of an element.
    pub width: u64,
}

impl Kind {
    /// Whether the top bit of an element, or of each part of a complex one, is its sign; not known of types that zTensor lacks.
    pub fn has_signs(self) -> bool {
        use DType::{BFloat16, Complex64, Complex128, Float16, Float32, Float64};
        matches!(self.dtype, Some(Float64 | Float32 | Float16 | BFloat16 | Complex64 | Complex128) | None)
    }
}

const fn kind(name: &'static str, dtype: DType) -> Kind {
    Kind { name, dtype: Some(dtype), width: dtype.bits() as u64 / 8 }
}

const fn other(name: &'static str, width: u64) -> Kind {
    Kind { name, dtype: None, width }
}

pub const UINT8: Kind = kind("uint8", DType::Uint8);

/// Those that models are made of first.
const KINDS: [Kind; 29] = [
    kind("float32", DType::Float32),
    kind("bfloat16", DType::BFloat16),
    kind("float16", DType::Float16),
    kind("int64", DType::Int64),
    kind("float64", DType::Float64),
    kind("int32", DType::Int32),
    kind("int16", DType::Int16),
    kind("int8", DType::Int8),
    UINT8,
    kind("bool", DType::Bool),
    kind("complex64", DType::Complex64),
    kind("complex128", DType::Complex128),
    kind("uint16", DType::Uint16),
    kind("uint32", DType::Uint32),
    kind("uint64", DType::Uint64),
    kind("float8_e4m3fn", DType::Float8E4M3Fn),
    kind("float8_e5m2", DType::Float8E5M2),
    kind("float8_e4m3fnuz", DType::Float8E4M3Fnuz),
    kind("float8_e5m2fnuz", DType::Float8E5M2Fnuz),
    kind("float8_e8m0fnu", DType::Float8E8M0Fnu),
    other("complex32", 4),
    other("qint8", 1),
    other("quint8", 1),
    other("qint32", 4),
    other("quint4x2", 1),
    other("quint2x4", 1),
    // Two in a byte, which counts as one element there.
    other("float4_e2m1fn_x2", 1),
    other("bits8", 1),
    other("bits16", 2),
];

/// Other names of the same types.
const ALIASES: [(&str, &str); 9] = [
    ("float", "float32"),
    ("double", "float64"),
    ("half", "float16"),
    ("long", "int64"),
    ("int", "int32"),
    ("short", "int16"),
    ("cfloat", "complex64"),
    ("cdouble", "complex128"),
    ("chalf", "complex32"),
];

const STORAGES: [(&str, &str); 20] = [
    ("FloatStorage", "float32"),
    ("BFloat16Storage", "bfloat16"),
    ("HalfStorage", "float16"),
    ("LongStorage", "int64"),
    ("DoubleStorage", "float64"),
    ("IntStorage", "int32"),
    ("ShortStorage", "int16"),
    ("CharStorage", "int8"),
    ("ByteStorage", "uint8"),
    ("BoolStorage", "bool"),
    ("ComplexFloatStorage", "complex64"),
    ("ComplexDoubleStorage", "complex128"),
    ("QInt8Storage", "qint8"),
    ("QUInt8Storage", "quint8"),
    ("QInt32Storage", "qint32"),
    ("QUInt4x2Storage", "quint4x2"),
    ("QUInt2x4Storage", "quint2x4"),
    ("UntypedStorage", "uint8"),
    ("_UntypedStorage", "uint8"),
    ("ComplexHalfStorage", "complex32"),
];

/// The type of a global `torch.<name>`.
pub fn of_dtype(module: &str, name: &str) -> Option<Kind> {
    if module != "torch" {
        return None;
    }
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    KINDS.iter().find(|kind| kind.name == name).copied()
}

/// The type of the elements that a storage of a class is counted in.
pub fn of_storage(module: &str, name: &str) -> Option<Kind> {
    if !matches!(module, "torch" | "torch.storage" | "torch.cuda") {
        return None;
    }
    let (_, name) = STORAGES.iter().find(|(class, _)| *class == name)?;
    of_dtype("torch", name)
}

/// The plain integers that the elements of a quantized type are stored as; `None` where several share a byte.
pub fn stored_as(kind: Kind) -> Option<DType> {
    match kind.name {
        "qint8" => Some(DType::Int8),
        "quint8" => Some(DType::Uint8),
        "qint32" => Some(DType::Int32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_storage_and_alias_has_a_type() {
        for (class, _) in STORAGES {
            assert!(of_storage("torch", class).is_some(), "{class}");
        }
        for (alias, _) in ALIASES {
            assert!(of_dtype("torch", alias).is_some(), "{alias}");
        }
        assert_eq!(of_dtype("os", "float32"), None);
        assert_eq!(of_storage("os", "FloatStorage"), None);
    }
}
