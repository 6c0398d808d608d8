//! A Flax checkpoint: MessagePack, arrays, chunks, plain values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ALL.only("flax").unwrap()));
