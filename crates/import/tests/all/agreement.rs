//! Files that are held together by the oracle of the fuzz targets.

#[path = "../../../../fuzz/src/ways.rs"]
#[allow(clippy::expect_used, clippy::cast_possible_truncation)] // the oracle is the fuzzer's
pub mod ways;

use ztensor_core::error::Code;
use ztensor_core::formats::{CORE, Formats};
use ztensor_core::limits::Limits;
use ztensor_core::open::{Lookup, Request, detect};
use ztensor_core::read::Reading;
use ztensor_core::work::Watch;
use ztensor_gguf::GGUF;
use ztensor_import::IMPORT;

/// Every format, detected by the first and last bytes of a file.
pub fn any_format() -> Formats {
    Formats::of(&[CORE, GGUF, IMPORT])
}

/// What is done with a file that is read; `None` where it is refused, by an error that is ours to give.
pub fn reading<T>(bytes: &[u8], formats: Formats, with: impl FnOnce(Reading<'_>) -> T) -> Option<T> {
    let limits = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
    // A file of a set is read alone.
    let request = Request { formats, limits, lookup: Lookup::Unread, ..Request::default() };
    let catalog = match detect::parse_alone(&bytes, &request) {
        Ok(catalog) => catalog,
        Err(error) => {
            assert_ne!(error.code(), Code::Internal, "{error}");
            return None;
        }
    };
    catalog.attributes.values().unwrap();
    let watch = Watch::default();
    Some(with(Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch }))
}

/// Whether the file was read, by every way of reading the same.
pub fn agree(bytes: &[u8], formats: Formats) -> bool {
    reading(bytes, formats, |reading| ways::agree(reading, bytes.len() as u64)).is_some()
}
