//! An OpenVINO model: its XML, and the constants that it describes, whose data is missing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ALL.only("openvino").unwrap()));
