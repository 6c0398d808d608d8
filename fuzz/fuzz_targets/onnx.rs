//! An ONNX model: its graph, subgraphs and functions, lists of numbers, raw bytes, sparse tensors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ALL.only("onnx").unwrap()));
