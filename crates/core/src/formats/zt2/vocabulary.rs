//! Maps the names of zTensor 2 to those of the catalog and back: storage and logical types (§4, Appendix A), layouts
//! (§5), encodings (§5.3).
#![forbid(unsafe_code)]

use crate::model::DType;

/// The only registered encoding.
pub const ZSTD_SEEKABLE: &str = "zt.zstd-seekable/1";

/// How a manifest spells a dtype: its storage type and, if it differs, its logical type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spelling {
    pub storage: &'static str,
    pub logical: Option<&'static str>,
}

/// The twelve storage types (§4.1).
const STORAGE: [(&str, DType); 12] = [
    ("f64", DType::Float64),
    ("f32", DType::Float32),
    ("f16", DType::Float16),
    ("bf16", DType::BFloat16),
    ("i64", DType::Int64),
    ("i32", DType::Int32),
    ("i16", DType::Int16),
    ("i8", DType::Int8),
    ("u64", DType::Uint64),
    ("u32", DType::Uint32),
    ("u16", DType::Uint16),
    ("u8", DType::Uint8),
];

/// The registered logical types, each with its dtype and its required storage type (Appendix A).
const LOGICAL: [(&str, DType, DType); 9] = [
    ("bool", DType::Bool, DType::Uint8),
    ("f8_e4m3fn", DType::Float8E4M3Fn, DType::Uint8),
    ("f8_e5m2", DType::Float8E5M2, DType::Uint8),
    ("f8_e4m3fnuz", DType::Float8E4M3Fnuz, DType::Uint8),
    ("f8_e5m2fnuz", DType::Float8E5M2Fnuz, DType::Uint8),
    ("f8_e8m0", DType::Float8E8M0Fnu, DType::Uint8),
    ("f4_e2m1", DType::Float4E2M1Fn, DType::Uint8),
    ("complex64", DType::Complex64, DType::Float32),
    ("complex128", DType::Complex128, DType::Float64),
];

/// Returns the storage type with a name.
pub fn storage(name: &str) -> Option<DType> {
    STORAGE.iter().find(|(storage, _)| *storage == name).map(|&(_, dtype)| dtype)
}

/// Returns the name of a storage type; `None` for any other dtype.
pub fn storage_name(dtype: DType) -> Option<&'static str> {
    STORAGE.iter().find(|&&(_, storage)| storage == dtype).map(|&(name, _)| name)
}

/// Returns the dtype and the required storage type of a logical type; `None` if it is not registered.
pub fn logical(name: &str) -> Option<(DType, DType)> {
    LOGICAL.iter().find(|(logical, ..)| *logical == name).map(|&(_, dtype, storage)| (dtype, storage))
}

/// Returns the spelling of `dtype` in a manifest; `None` for the 6-bit floats, which version 2 does not support.
pub fn spelling(dtype: DType) -> Option<Spelling> {
    if let Some(storage) = storage_name(dtype) {
        return Some(Spelling { storage, logical: None });
    }
    let &(logical, _, over) = LOGICAL.iter().find(|&&(_, logical, _)| logical == dtype)?;
    Some(Spelling { storage: storage_name(over)?, logical: Some(logical) })
}

/// Returns the decoded size in bytes of `elements` elements; the last byte of a packed dtype is padded. `None` if it
/// exceeds a u64.
pub fn size(dtype: DType, elements: u64) -> Option<u64> {
    u64::try_from((u128::from(elements) * u128::from(dtype.bits())).div_ceil(8)).ok()
}

/// The layouts with known rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    Dense,
    SparseCsr,
    SparseCoo,
    QuantGroup,
    Mx,
    /// Specific to this package and not registered in the specification, so that converted models keep their values.
    TfliteQuantized,
    /// `gguf.<type>/1`.
    Gguf,
}

const PROFILES: [(&str, Profile); 6] = [
    ("dense", Profile::Dense),
    ("zt.sparse_csr/1", Profile::SparseCsr),
    ("zt.sparse_coo/1", Profile::SparseCoo),
    ("zt.quant_group/1", Profile::QuantGroup),
    ("zt.mx/1", Profile::Mx),
    ("tflite.quantized/1", Profile::TfliteQuantized),
];

/// The ggml types with a registered layout `gguf.<type>/1`.
pub const GGML_TYPES: [&str; 22] = [
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q8_k", "iq1_s",
    "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "mxfp4",
];

/// Returns the ggml type of a layout `gguf.<type>/1`, if it is registered.
pub fn ggml_type(layout: &str) -> Option<&str> {
    let name = layout.strip_prefix("gguf.")?.strip_suffix("/1")?;
    GGML_TYPES.contains(&name).then_some(name)
}

/// Returns the profile of a layout id; `None` if its rules are not known.
pub fn profile(layout: &str) -> Option<Profile> {
    let named = PROFILES.iter().find(|(id, _)| *id == layout).map(|&(_, profile)| profile);
    named.or_else(|| ggml_type(layout).map(|_| Profile::Gguf))
}

/// Returns the layout id of the catalog's `layout`: the profiles of its sparse layouts, and all other names unchanged.
pub fn layout_id(layout: &str) -> &str {
    match layout {
        "sparse_csr" => "zt.sparse_csr/1",
        "sparse_coo" => "zt.sparse_coo/1",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_name_round_trips() {
        for dtype in DType::ALL {
            let Some(Spelling { storage: stored, logical: named }) = spelling(dtype) else {
                assert!(matches!(dtype, DType::Float6E2M3Fn | DType::Float6E3M2Fn));
                continue;
            };
            let over = storage(stored);
            assert_eq!(named.map_or(over, |name| logical(name).map(|(dtype, _)| dtype)), Some(dtype));
            assert_eq!(named.map_or(over, |name| logical(name).map(|(_, over)| over)), over);
        }
        assert_eq!(storage("bool"), None);
        assert_eq!(logical("u8"), None);
    }

    #[test]
    fn sizes_of_appendix_a() {
        assert_eq!(size(DType::Float4E2M1Fn, 5), Some(3));
        assert_eq!(size(DType::Complex64, 3), Some(24));
        assert_eq!(size(DType::Complex128, 3), Some(48));
        assert_eq!(size(DType::Bool, 3), Some(3));
        assert_eq!(size(DType::Uint16, u64::MAX), None);
        assert_eq!(size(DType::Uint8, u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn layout_ids_map_to_profiles() {
        assert_eq!(profile("gguf.q4_k/1"), Some(Profile::Gguf));
        assert_eq!(profile("tflite.quantized/1"), Some(Profile::TfliteQuantized));
        for unknown in
            ["gguf.q4_k/2", "gguf.f32/1", "gguf.Q4_K/1", "zt.mx/2", "sparse_csr", "tflite.quantized/2"]
        {
            assert_eq!(profile(unknown), None, "{unknown}");
        }
        for layout in ["dense", "sparse_csr", "sparse_coo"] {
            assert!(profile(layout_id(layout)).is_some());
        }
    }
}
