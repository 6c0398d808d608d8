//! A Keras archive: the zip, its texts, and the HDF5 file in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ALL.only("keras").unwrap()));
