//! How 0.1, 1.0 and 1.1-1.2 spell dtypes.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::model::DType;

/// Parses a dtype of 0.1 or of 1.0 §4.2.
pub fn tensor_dtype(text: &str) -> Result<DType> {
    DType::ALL[..13].iter().copied().find(|dtype| dtype.name() == text).ok_or_else(|| unknown_dtype(text))
}

fn unknown_dtype(text: &str) -> Error {
    Error::new(Code::BadDtype, format!("{text:?} is not a dtype of this format"))
}

/// Parses a storage type of 1.2 §2, or an additional one of 1.1 §II.4.
pub(super) fn component_dtype(text: &str) -> Result<DType> {
    Ok(match text {
        "f64" => DType::Float64,
        "f32" => DType::Float32,
        "f16" => DType::Float16,
        "bf16" => DType::BFloat16,
        "i64" => DType::Int64,
        "i32" => DType::Int32,
        "i16" => DType::Int16,
        "i8" => DType::Int8,
        "u64" => DType::Uint64,
        "u32" => DType::Uint32,
        "u16" => DType::Uint16,
        "u8" => DType::Uint8,
        "bool" => DType::Bool,
        "f8_e4m3" => DType::Float8E4M3Fn,
        "f8_e5m2" => DType::Float8E5M2,
        "complex64" => DType::Complex64,
        "complex128" => DType::Complex128,
        _ => return Err(unknown_dtype(text)),
    })
}

/// Parses a logical type of 1.2 §2, and checks its storage type. Returns `None` if the logical type is unknown.
pub(super) fn logical_dtype(logical: &str, storage: &str) -> Result<Option<DType>> {
    let stored = component_dtype(storage)?;
    let (dtype, over) = match logical {
        "f8_e4m3fn" => (DType::Float8E4M3Fn, DType::Uint8),
        "f8_e5m2" => (DType::Float8E5M2, DType::Uint8),
        "f8_e4m3fnuz" => (DType::Float8E4M3Fnuz, DType::Uint8),
        "f8_e5m2fnuz" => (DType::Float8E5M2Fnuz, DType::Uint8),
        "complex64" => (DType::Complex64, DType::Float32),
        "complex128" => (DType::Complex128, DType::Float64),
        same if same == storage => return Ok(Some(stored)),
        _ => return Ok(None),
    };
    if stored != over && stored != dtype {
        let message = format!("the type {logical:?} is stored as {}, not as {storage:?}", over.name());
        return Err(Error::new(Code::BadDtype, message));
    }
    Ok(Some(dtype))
}
