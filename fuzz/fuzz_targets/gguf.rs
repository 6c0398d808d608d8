//! A whole GGUF file: opened, its metadata told, its tensors read in every way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::formats::Formats;

static FORMATS: Formats = Formats::of(&[ztensor_import::IMPORT]);

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, FORMATS.only("gguf").unwrap()));
