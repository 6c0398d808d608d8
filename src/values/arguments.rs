//! Arguments from JavaScript as values of the core. The wrapper has checked them, so a wrong one is a bug in it.

use napi::Result;
use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::model::DType;
use ztensor_core::write::{Compression, WriteFormat};

use crate::js::error::misuse;
use crate::values::formats::FORMATS;

/// Converts a whole number from JavaScript.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn unsigned(value: f64) -> Option<u64> {
    ((0.0..=9_007_199_254_740_991.0).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

/// An alignment, in bytes.
pub fn alignment(alignment: f64) -> Result<u64> {
    unsigned(alignment).filter(|alignment| *alignment > 0).ok_or_else(|| misuse("no alignment"))
}

/// A digest algorithm by its name.
pub fn digest(name: Option<&str>) -> Result<Option<Algorithm>> {
    name.map(|name| Algorithm::from_name(name).ok_or_else(|| misuse("no such digest"))).transpose()
}

/// Compression at a level, on all cores; none without a level.
pub fn compression(level: Option<i32>, min_savings: f64, frame: u32) -> Option<Compression> {
    let threads =
        std::thread::available_parallelism().map_or(1, |threads| u32::try_from(threads.get()).unwrap_or(1));
    level.map(|level| Compression { level, min_savings, threads, frame })
}

/// A format and version by its id.
pub fn format(name: &str) -> Result<&'static WriteFormat> {
    FORMATS.write_format(name).ok_or_else(|| misuse("no such write format"))
}

/// A dtype by its code.
pub fn dtype(code: Option<u32>) -> Result<Option<DType>> {
    let known = code.map(|code| {
        u8::try_from(code).ok().and_then(DType::from_code).ok_or_else(|| misuse("no such dtype"))
    });
    known.transpose()
}

/// A size or a dimension.
pub fn size(size: f64) -> Result<u64> {
    unsigned(size).ok_or_else(|| misuse("no size"))
}
