//! A pickle as the values of a legacy checkpoint, followed by one storage of 64 bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

const HEAD: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.";
const STORAGE: &[u8] = b"\x80\x02](U\x010e.\x10\0\0\0\0\0\0\0";

fuzz_target!(|pickle: &[u8]| {
    let file = [HEAD, pickle, STORAGE, &[7; 64]].concat();
    ztensor_fuzz::read(&file, ALL.only("pytorch").unwrap());
});
