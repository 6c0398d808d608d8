//! Paddle files: pickles with arrays, read without their data, and combined parameters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ALL.only("paddle").unwrap()));
