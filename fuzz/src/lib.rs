//! Exercises everything that a reader offers on bytes that a parser accepted. A panic, an abort, a hang, memory beyond libFuzzer's limit,
//! or a failed assertion here is a finding.

pub mod mutate;
pub mod ways;

use ztensor_core::error::{Code, Result};
use ztensor_core::formats::{CORE, Formats};
use ztensor_core::limits::Limits;
use ztensor_core::model::Catalog;
use ztensor_core::open::{Lookup, Request, detect};
use ztensor_core::read::Reading;
use ztensor_core::work::Watch;
use ztensor_gguf::GGUF;
use ztensor_import::IMPORT;

/// The formats of all crates.
pub const ALL: Formats = Formats::of(&[CORE, GGUF, IMPORT]);

/// Small, so that a few bytes cannot cause seconds of work.
pub fn limits() -> Limits {
    Limits { max_decoded_bytes: 1 << 20, ..Limits::default() }
}

/// Exercises the catalog of an index whose data is missing.
pub fn list(parsed: Result<Catalog>, total: u64) {
    let catalog = match parsed {
        Ok(catalog) => catalog,
        Err(error) => {
            assert_ne!(error.code(), Code::Internal, "{error}");
            return;
        }
    };
    for tensor in catalog.iter() {
        assert_eq!(catalog.find(tensor.name()), Some(tensor.ordinal()));
        for component in tensor.components() {
            if component.stored_length() > 0 {
                let end = component.offset().checked_add(component.stored_length());
                assert!(end.is_some_and(|end| end <= total), "{} {component:?}", tensor.name());
            }
        }
    }
}

/// Opens a whole file and reads it in every way.
pub fn read(bytes: &[u8], formats: Formats) {
    let limits = limits();
    // A file of a set is read on its own.
    let request = Request { formats, limits, lookup: Lookup::Unread, ..Request::default() };
    let catalog = match detect::parse_alone(&bytes, &request) {
        Ok(catalog) => catalog,
        Err(error) => {
            assert_ne!(error.code(), Code::Internal, "{error}");
            return;
        }
    };
    let watch = Watch::default();
    ways::agree(
        Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch },
        bytes.len() as u64,
    );
}
