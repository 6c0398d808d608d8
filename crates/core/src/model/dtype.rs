//! The element types of all formats.
#![forbid(unsafe_code)]

/// An element type. The discriminant is passed to JavaScript, so the order is part of the binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum DType {
    Float64,
    Float32,
    Float16,
    BFloat16,
    Int64,
    Int32,
    Int16,
    Int8,
    Uint64,
    Uint32,
    Uint16,
    Uint8,
    Bool,
    Float8E4M3Fn,
    Float8E5M2,
    Float8E4M3Fnuz,
    Float8E5M2Fnuz,
    Float8E8M0Fnu,
    Float6E2M3Fn,
    Float6E3M2Fn,
    Float4E2M1Fn,
    Complex64,
    Complex128,
}

impl DType {
    /// Every dtype, in the order of the discriminants.
    pub const ALL: [Self; 23] = [
        Self::Float64,
        Self::Float32,
        Self::Float16,
        Self::BFloat16,
        Self::Int64,
        Self::Int32,
        Self::Int16,
        Self::Int8,
        Self::Uint64,
        Self::Uint32,
        Self::Uint16,
        Self::Uint8,
        Self::Bool,
        Self::Float8E4M3Fn,
        Self::Float8E5M2,
        Self::Float8E4M3Fnuz,
        Self::Float8E5M2Fnuz,
        Self::Float8E8M0Fnu,
        Self::Float6E2M3Fn,
        Self::Float6E3M2Fn,
        Self::Float4E2M1Fn,
        Self::Complex64,
        Self::Complex128,
    ];

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Returns the bits of one element; below 8 the elements are packed.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Complex128 => 128,
            Self::Float64 | Self::Int64 | Self::Uint64 | Self::Complex64 => 64,
            Self::Float32 | Self::Int32 | Self::Uint32 => 32,
            Self::Float16 | Self::BFloat16 | Self::Int16 | Self::Uint16 => 16,
            Self::Float6E2M3Fn | Self::Float6E3M2Fn => 6,
            Self::Float4E2M1Fn => 4,
            _ => 8,
        }
    }

    /// Returns the bytes of the scalar that byte order and alignment apply to: the part of a complex number, 1 for packed types.
    pub const fn element_bytes(self) -> usize {
        match self {
            Self::Complex64 => 4,
            Self::Complex128 => 8,
            _ if self.bits() < 8 => 1,
            _ => self.bits() as usize / 8,
        }
    }

    /// Returns whether elements can index rows and columns.
    pub const fn is_index(self) -> bool {
        matches!(
            self,
            Self::Int64
                | Self::Int32
                | Self::Int16
                | Self::Int8
                | Self::Uint64
                | Self::Uint32
                | Self::Uint16
                | Self::Uint8
        )
    }

    /// Returns the canonical name, as in NumPy and `ml_dtypes`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float64 => "float64",
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Int64 => "int64",
            Self::Int32 => "int32",
            Self::Int16 => "int16",
            Self::Int8 => "int8",
            Self::Uint64 => "uint64",
            Self::Uint32 => "uint32",
            Self::Uint16 => "uint16",
            Self::Uint8 => "uint8",
            Self::Bool => "bool",
            Self::Float8E4M3Fn => "float8_e4m3fn",
            Self::Float8E5M2 => "float8_e5m2",
            Self::Float8E4M3Fnuz => "float8_e4m3fnuz",
            Self::Float8E5M2Fnuz => "float8_e5m2fnuz",
            Self::Float8E8M0Fnu => "float8_e8m0fnu",
            Self::Float6E2M3Fn => "float6_e2m3fn",
            Self::Float6E3M2Fn => "float6_e3m2fn",
            Self::Float4E2M1Fn => "float4_e2m1fn",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DType;

    #[test]
    fn codes_follow_the_discriminants() {
        for (code, dtype) in DType::ALL.into_iter().enumerate() {
            assert_eq!(dtype as usize, code);
        }
        assert_eq!(DType::from_code(23), None);
    }
}
