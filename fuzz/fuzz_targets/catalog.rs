//! Valid zTensor files whose index is mutated in its numbers, names and lists, and rewritten.
#![no_main]

use arbitrary::Unstructured;
use ciborium::Value;
use libfuzzer_sys::fuzz_target;

macro_rules! fixtures {
    ($($name:literal),*) => { &[$(include_bytes!(concat!("../../__test__/fixtures/", $name))),*] };
}
const FILES: &[&[u8]] = fixtures!(
    "zt01-dtypes.zt",
    "zt01h-zstd.zt",
    "zt01h-crc32c.zt",
    "zt01h-big-endian.zt",
    "zt101-sparse.zt",
    "zt101-zstd.zt",
    "zt10h-sha256.zt",
    "zt10h-attributes.zt",
    "zt10h-extension-format.zt",
    "zt111-sparse.zt",
    "zt12-crc32c.zt",
    "zt12-zstd.zt",
    "zt12h-logical.zt"
);
const MAGIC: &[u8] = b"ZTEN1000";

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let Ok(&file) = input.choose(FILES) else { return };
    // The bytes after the index: its size, and from 1.1 on the magic again.
    let footer = if file.ends_with(MAGIC) { 16 } else { 8 };
    let Some((front, end)) = file.split_at_checked(file.len() - footer) else { return };
    let size = u64::from_le_bytes(end[..8].try_into().expect("8 bytes")) as usize;
    let (data, index) = front.split_at(front.len() - size);
    let mut root: Value = ciborium::from_reader(index).expect("the fixtures are valid");
    let mutated = ztensor_fuzz::mutate::components(&mut root, &mut input);
    if mutated.and_then(|()| ztensor_fuzz::mutate::value(&mut root, &mut input)).is_err() {
        return;
    }
    let mut made = data.to_vec();
    ciborium::into_writer(&root, &mut made).expect("memory");
    let size = (made.len() - data.len()) as u64;
    made.extend(size.to_le_bytes());
    made.extend(&end[8..]);
    ztensor_fuzz::read(&made, ztensor_core::formats::Formats::default());
});
