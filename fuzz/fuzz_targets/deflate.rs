//! Deflate streams, bare or in zlib's format: the whole-stream decoder yields the same as the piecewise one. It may accept a damaged stream
//! that the other rejects, but only for codes listed in `codecs/deflate_whole.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::codecs::frames::Size;
use ztensor_core::codecs::{deflate, deflate_whole};
use ztensor_core::work::Stop;

const LIMIT: u64 = 1 << 20;
/// zlib's messages for those codes.
const ALONE: [&str; 4] = [
    "too many length or distance symbols",
    "invalid code lengths set",
    "invalid distance code",
    "invalid literal/length code",
];

/// Returns why zlib rejects a stream. It is fed byte by byte, because its faster mode loses the reason.
fn reason(input: &[u8], zlib: bool) -> String {
    let mut decoder = flate2::Decompress::new(zlib);
    loop {
        let before = (decoder.total_in(), decoder.total_out());
        let rest = &input[usize::try_from(before.0).unwrap()..];
        match decoder.decompress(rest, &mut [0], flate2::FlushDecompress::None) {
            Err(error) => return error.to_string(),
            Ok(flate2::Status::StreamEnd) => return "no damage".to_owned(),
            Ok(_) if (decoder.total_in(), decoder.total_out()) == before => return "an early end".to_owned(),
            Ok(_) => {}
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let stop = Stop::default();
    let Some((&flags, input)) = input.split_first() else { return };
    let zlib = flags & 1 == 1;
    let length = match deflate::decode(input, zlib, Size::UpTo(LIMIT), &stop) {
        Ok(whole) => whole.len(),
        Err(_) => usize::from(flags) << 4,
    };
    for length in [length, length + 1, length.saturating_sub(1)] {
        let mut output = vec![0; length];
        let whole = deflate_whole::decodes(input, zlib, &mut output);
        let mut into = vec![0; length];
        let decoded = deflate::decode_into(input, zlib, &mut into, &stop, |_| ());
        match deflate::decode(input, zlib, Size::Exactly(length as u64), &stop) {
            Ok(bytes) => assert!(whole && decoded.is_ok() && output == bytes && into == bytes),
            Err(error) if whole => {
                let reason = reason(input, zlib);
                assert!(ALONE.iter().any(|alone| reason.contains(alone)), "{error}: {reason}");
                assert!(decoded.is_ok() && into == output);
            }
            Err(error) => assert_eq!(decoded.map_err(|error| error.code()), Err(error.code())),
        }
    }
});
