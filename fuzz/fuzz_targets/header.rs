//! Valid safetensors files whose header is mutated in its numbers, names and lists, and rewritten.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use ztensor_core::formats::Formats;

const FILES: &[&[u8]] = &[
    include_bytes!("../../__test__/fixtures/st-dtypes.safetensors"),
    include_bytes!("../../__test__/fixtures/st-metadata.safetensors"),
    include_bytes!("../../__test__/fixtures/st-empty-tensors.safetensors"),
];

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let Ok(&file) = input.choose(FILES) else { return };
    let size = u64::from_le_bytes(file[..8].try_into().expect("8 bytes")) as usize;
    let (header, data) = file[8..].split_at(size);
    let root: serde_json::Value = serde_json::from_slice(header).expect("the fixtures are valid");
    let Ok(root) = ztensor_fuzz::mutate::json(&root, &mut input) else { return };
    let header = serde_json::to_vec(&root).expect("memory");
    let made = [&(header.len() as u64).to_le_bytes()[..], &header, data].concat();
    ztensor_fuzz::read(&made, Formats::default().only("safetensors").unwrap());
});
