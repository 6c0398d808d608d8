//! The index of a sharded safetensors checkpoint: as bytes, and as a valid one whose JSON is mutated. Its files are in its
//! folder or below it, and each tensor is in one of them.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use ztensor_core::error::Code;
use ztensor_core::open::weight_map;

const INDEX: &str = r#"{"metadata": {"total_size": 24.0, "total_parameters": 6, "by": ["x", {"y": null}]}, "weight_map": {
    "z.first": "model-00001-of-00002.safetensors", "a.second": "model-00001-of-00002.safetensors",
    "b.third": "model-00002-of-00002.safetensors"}}"#;

fuzz_target!(|input: &[u8]| {
    parse(input);
    let root: serde_json::Value = serde_json::from_str(INDEX).expect("it is valid");
    if let Ok(root) = ztensor_fuzz::mutate::json(&root, &mut Unstructured::new(input)) {
        parse(&serde_json::to_vec(&root).expect("memory"));
    }
});

fn parse(bytes: &[u8]) {
    let map = match weight_map::parse(bytes, &ztensor_fuzz::limits()) {
        Ok(map) => map,
        Err(error) => {
            assert_ne!(error.code(), Code::Internal, "{error}");
            return;
        }
    };
    assert!(map.files.is_sorted());
    for file in &map.files {
        let mut components = std::path::Path::new(file).components();
        let below = components.all(|component| matches!(component, std::path::Component::Normal(_)));
        assert!(below && !file.contains(['\\', ':', '\0']), "{file:?}");
    }
    let numbered = map.tensors.iter().all(|&(_, file)| (file as usize) < map.files.len());
    assert!(numbered, "{:?}", map.tensors);
}
