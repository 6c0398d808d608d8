//! Compressed data: with its length known, and without. Where both decoders give something it must be the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::codec::zstd;
use ztensor_core::work::Stop;

const LIMIT: u64 = 1 << 20;

fuzz_target!(|frame: &[u8]| {
    let stop = Stop::default();
    let Ok(whole) = zstd::decode_unsized(frame, LIMIT, &stop) else { return };
    assert!(whole.len() as u64 <= LIMIT);
    let mut output = vec![0; whole.len()];
    // libzstd's decoder of whole frames refuses a compressed block of no bytes, that of streams passes over it.
    if zstd::decode_into(frame, &mut output, &stop).is_ok() {
        assert_eq!(output, whole);
    }
    assert!(zstd::decode_into(frame, &mut vec![0; whole.len() + 1], &stop).is_err());
    if let Some(shorter) = whole.len().checked_sub(1) {
        assert!(zstd::decode_into(frame, &mut vec![0; shorter], &stop).is_err());
    }
});
