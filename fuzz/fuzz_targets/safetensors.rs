//! The header of a safetensors file whose data is missing. Its rules account for every byte of data, so the length comes from the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::formats::safetensors_parse::parse_index;

fuzz_target!(|input: (u16, &[u8])| {
    let (data, header) = input;
    let total = 8 + header.len() as u64 + u64::from(data);
    ztensor_fuzz::list(parse_index(header, total, &ztensor_fuzz::limits()), total);
});
