//! An array of NumPy's: its header, and all that can be asked of its elements.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ALL.only("npy").unwrap()));
