//! The index of a zt12 file whose data is missing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::formats::zt12;

fuzz_target!(|index: &[u8]| {
    let (offset, total) = (1 << 20, (1 << 20) + index.len() as u64 + 16);
    ztensor_fuzz::list(zt12::parse_index(index, offset, total, &ztensor_fuzz::limits()), total);
});
