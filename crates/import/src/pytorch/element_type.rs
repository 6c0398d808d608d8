//! Element types, by the names of `torch.dtype` and by storage classes.
#![forbid(unsafe_code)]

use ztensor_core::model::DType;

/// A PyTorch element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementType<'p> {
    /// The name in `torch`.
    pub name: &'p str,
    /// `None` if zTensor has no such type or packs it differently.
    pub dtype: Option<DType>,
    /// Bits of an element; 0 for an unknown type.
    pub bits: u64,
}

impl<'p> ElementType<'p> {
    /// Creates an unknown type.
    pub const fn unknown(name: &'p str) -> Self {
        Self { name, dtype: None, bits: 0 }
    }

    /// Returns the bytes of an element, or `None` if it is smaller than a byte or unknown.
    pub fn width(self) -> Option<u64> {
        (self.bits >= 8).then_some(self.bits / 8)
    }

    /// Returns the bytes of the unit that a storage counts: elements, or bytes if several elements share one. `None` if unknown.
    pub fn unit(self) -> Option<u64> {
        (self.bits > 0).then(|| self.bits.div_ceil(8))
    }

    /// Returns the bytes of consecutive elements, with the last byte padded. `None` if the type is unknown or the result exceeds u64.
    pub fn bytes(self, elements: u64) -> Option<u64> {
        let bits = u128::from(elements) * u128::from(self.bits);
        u64::try_from(bits.div_ceil(8)).ok().filter(|_| self.bits > 0)
    }

    /// Returns whether the top bit of an element, or of each part of a complex one, is a sign. False for types that zTensor does not have.
    pub fn has_signs(self) -> bool {
        use DType::{BFloat16, Complex64, Complex128, Float16, Float32, Float64};
        matches!(self.dtype, Some(Float64 | Float32 | Float16 | BFloat16 | Complex64 | Complex128) | None)
    }
}

const fn kind(name: &'static str, dtype: DType) -> ElementType<'static> {
    ElementType { name, dtype: Some(dtype), bits: dtype.bits() as u64 }
}

const fn other(name: &'static str, bits: u64) -> ElementType<'static> {
    ElementType { name, dtype: None, bits }
}

pub const UINT8: ElementType<'static> = kind("uint8", DType::Uint8);

/// The most common types come first.
const KINDS: [ElementType<'static>; 47] = [
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
    other("complex32", 32),
    other("bcomplex32", 32),
    other("qint8", 8),
    other("quint8", 8),
    other("qint32", 32),
    // Several elements share a byte.
    other("quint4x2", 4),
    other("quint2x4", 2),
    // Several values share a byte, which PyTorch counts as one element.
    other("float4_e2m1fn_x2", 8),
    other("bits1x8", 8),
    other("bits2x4", 8),
    other("bits4x2", 8),
    other("bits8", 8),
    other("bits16", 16),
    // Each element has its own byte.
    other("uint1", 8),
    other("uint2", 8),
    other("uint3", 8),
    other("uint4", 8),
    other("uint5", 8),
    other("uint6", 8),
    other("uint7", 8),
    other("int1", 8),
    other("int2", 8),
    other("int3", 8),
    other("int4", 8),
    other("int5", 8),
    other("int6", 8),
    other("int7", 8),
];

/// Aliases of types.
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

/// Returns the type of a global `torch.<name>`.
pub fn of_dtype(module: &str, name: &str) -> Option<ElementType<'static>> {
    if module != "torch" {
        return None;
    }
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    KINDS.iter().find(|kind| kind.name == name).copied()
}

/// Returns the element type of a storage class.
pub fn of_storage(module: &str, name: &str) -> Option<ElementType<'static>> {
    if !matches!(module, "torch" | "torch.storage" | "torch.cuda") {
        return None;
    }
    let (_, name) = STORAGES.iter().find(|(class, _)| *class == name)?;
    of_dtype("torch", name)
}

/// Returns the integer dtype that stores a quantized type, or `None` if several elements share a byte.
pub fn stored_as(kind: ElementType<'_>) -> Option<DType> {
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
