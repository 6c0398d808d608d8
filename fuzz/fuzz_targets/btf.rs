//! A BTF file, whose records stand between the data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::model::Container;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, Some(Container::Btf)));
