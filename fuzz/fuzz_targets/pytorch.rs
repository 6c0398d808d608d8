//! A PyTorch checkpoint: both containers, and the pickle in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ALL.only("pytorch").unwrap()));
