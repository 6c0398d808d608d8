//! Element types (`ov::element::Type`), and numbers as spelled in the model.
#![forbid(unsafe_code)]

use ztensor_core::model::DType;

pub struct ElementType {
    /// The name used by `element_type`.
    pub name: &'static str,
    /// The name used by the `precision` of a port.
    pub precision: &'static str,
    pub dtype: Option<DType>,
    /// Elements that are stored together, and the bytes they take.
    elements: u64,
    bytes: u64,
}

impl ElementType {
    /// Returns the bytes of some elements, or `None` if they exceed u64.
    pub fn bytes_of(&self, elements: u64) -> Option<u64> {
        let groups = if self.elements == 1 { elements } else { elements.div_ceil(self.elements) };
        groups.checked_mul(self.bytes)
    }
}

const fn of(name: &'static str, precision: &'static str, dtype: DType) -> ElementType {
    let bits = dtype.bits() as u64;
    let (elements, bytes) = if bits < 8 { (8 / bits, 1) } else { (1, bits / 8) };
    ElementType { name, precision, dtype: Some(dtype), elements, bytes }
}

const fn other(name: &'static str, precision: &'static str, elements: u64, bytes: u64) -> ElementType {
    ElementType { name, precision, dtype: None, elements, bytes }
}

const KINDS: [ElementType; 24] = [
    of("f64", "FP64", DType::Float64),
    of("f32", "FP32", DType::Float32),
    of("f16", "FP16", DType::Float16),
    of("bf16", "BF16", DType::BFloat16),
    of("i64", "I64", DType::Int64),
    of("i32", "I32", DType::Int32),
    of("i16", "I16", DType::Int16),
    of("i8", "I8", DType::Int8),
    of("u64", "U64", DType::Uint64),
    of("u32", "U32", DType::Uint32),
    of("u16", "U16", DType::Uint16),
    of("u8", "U8", DType::Uint8),
    of("boolean", "BOOL", DType::Bool),
    of("f8e4m3", "F8E4M3", DType::Float8E4M3Fn),
    of("f8e5m2", "F8E5M2", DType::Float8E5M2),
    of("f8e8m0", "F8E8M0", DType::Float8E8M0Fnu),
    of("f4e2m1", "F4E2M1", DType::Float4E2M1Fn),
    other("i4", "I4", 2, 1),
    other("u4", "U4", 2, 1),
    other("nf4", "NF4", 2, 1),
    other("u2", "U2", 4, 1),
    other("u1", "U1", 8, 1),
    // Their high and low bits are stored separately.
    other("u3", "U3", 8, 3),
    other("u6", "U6", 4, 3),
];

/// Strings, which are not tensors.
pub const TEXT: &str = "string";

/// Returns the type with this name, or `None` if it is unknown.
pub fn kind(name: &str) -> Option<&'static ElementType> {
    const { &KINDS }.iter().find(|kind| kind.name == name)
}

/// Converts a precision to an `element_type` name.
pub fn of_precision(precision: &str) -> String {
    let kind = const { &KINDS }.iter().find(|kind| kind.precision == precision);
    kind.map_or_else(|| precision.to_ascii_lowercase(), |kind| kind.name.to_owned())
}

/// Parses an unsigned decimal number.
pub fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_openvino() {
        for (name, elements, bytes) in [
            ("f64", 3, 24),
            ("f4e2m1", 5, 3),
            ("nf4", 3, 2),
            ("u1", 11, 2),
            ("u2", 5, 2),
            ("u3", 9, 6),
            ("u6", 5, 6),
            ("boolean", 3, 3),
            ("i4", 0, 0),
        ] {
            assert_eq!(kind(name).unwrap().bytes_of(elements), Some(bytes), "{name}");
        }
        assert_eq!(kind("f64").unwrap().bytes_of(u64::MAX), None);
    }

    #[test]
    fn numbers_have_only_digits() {
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        for text in ["", "-1", "+1", " 1", "1.0", "18446744073709551616", "0x1"] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(of_precision("BOOL"), "boolean");
        assert_eq!(of_precision("STRING"), "string");
    }
}
