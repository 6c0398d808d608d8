//! The manifest of a zTensor 2 file whose data is missing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::formats::zt2;

fuzz_target!(|manifest: &[u8]| {
    let (offset, total) = (1 << 20, (1 << 20) + manifest.len() as u64 + zt2::FOOTER);
    ztensor_fuzz::list(zt2::parse_manifest(manifest, offset, total, &ztensor_fuzz::limits()), total);
});
