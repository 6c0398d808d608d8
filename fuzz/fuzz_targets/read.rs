//! A whole file of any format: opened, verified, loaded, cut.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ztensor_core::formats::Formats::default()));
