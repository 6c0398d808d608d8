//! A BTF file, whose records are between the data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::formats::Formats;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, Formats::default().only("btf").unwrap()));
