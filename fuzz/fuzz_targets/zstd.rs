//! Compressed data, including skippable frames, in any sequence: all ways of decoding it agree, with known or unknown length, whole or in
//! pieces of any size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::codecs::frames::Size;
use ztensor_core::codecs::{zstd, zstd_pieces};
use ztensor_core::error::{Code, Result};
use ztensor_core::work::Stop;

const LIMIT: u64 = 1 << 20;

/// Decodes with the piecewise decoder.
fn streamed(input: &[u8], size: Size) -> Result<Vec<u8>> {
    let (mut at, mut output) = (0, Vec::new());
    let mut read = |piece: &mut [u8]| {
        piece.copy_from_slice(&input[at..at + piece.len()]);
        at += piece.len();
        Ok(())
    };
    zstd_pieces::decode(input.len() as u64, size, &Stop::default(), &mut read, &mut |piece| {
        output.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(output)
}

fn agree(input: &[u8]) {
    let stop = Stop::default();
    let unsized_ = zstd::decode_unsized(input, LIMIT, &stop);
    let length = match &unsized_ {
        Ok(whole) => whole.len(),
        // Undecodable data cannot be decoded with any expected length.
        Err(_) => 64,
    };
    assert!(length as u64 <= LIMIT);
    for expected in [length, length + 1, length.saturating_sub(1)] {
        let size = Size::Exactly(expected as u64);
        let mut output = vec![0; expected];
        let into =
            zstd::decode_into(input, &mut output, &stop).map(|()| output).map_err(|error| error.code());
        assert_eq!(streamed(input, size).map_err(|error| error.code()), into);
        let judged = zstd::each_piece(input, size, &stop, |_| Ok(())).map_err(|error| error.code());
        assert_eq!(judged.is_ok(), into.is_ok());
        match (&unsized_, into) {
            (Ok(whole), into) if expected == length => assert_eq!(into.as_ref(), Ok(whole)),
            (_, into) => assert!(into.is_err()),
        }
    }
    // A single frame yields the same in the other decoders.
    let mut output = vec![0; length];
    if zstd::decode_frame(input, &mut output).is_ok() {
        let window = unsized_.as_ref().is_err_and(|error| error.code() == Code::Limit);
        assert!(window || unsized_.as_ref().is_ok_and(|whole| *whole == output));
    }
}

fuzz_target!(|input: &[u8]| {
    agree(input);
    // Again after a frame of one byte and a skippable one, so that mutations of a frame also produce sequences.
    let before = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 1, 9, 0, 0, b'x', 0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, b'y'];
    agree(&[&before, input].concat());
});
