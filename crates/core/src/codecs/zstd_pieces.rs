//! Decodes zstd frames in pieces, so that neither input nor output is fully in memory.
#![forbid(unsafe_code)]

use super::frames::Size;
use super::zstd_stream::Decoder;
use crate::error::Result;
use crate::work::Stop;

/// Input bytes held at once.
const INPUT: usize = 1 << 20;
/// Decoded bytes passed on at once: a multiple of every element size.
const OUTPUT: usize = 4 << 20;

/// Decodes frames of `stored` bytes in total, which `read` returns in sequence, and calls `each` with the decoded bytes, 4 MiB at a time.
/// Returns their number. Fails with `ZT_DECODE` unless the bytes are frames of the right size.
pub fn decode(
    stored: u64,
    size: Size,
    stop: &Stop,
    read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<u64> {
    let mut decoder = Decoder::new(size)?;
    let (mut input, mut unread) = (Vec::new(), stored);
    let mut output = vec![0; capacity(size)];
    let (mut consumed, mut filled) = (0, 0);
    loop {
        stop.check()?;
        let target = output.get_mut(filled..).unwrap_or_default();
        let (taken, written) = decoder.step(input.get(consumed..).unwrap_or_default(), target)?;
        (consumed, filled) = (consumed + taken, filled + written);
        if filled == output.len() {
            each(&mut output)?;
            filled = 0;
        }
        if (taken, written) == (0, 0) {
            if unread == 0 {
                break;
            }
            // The rest is the beginning of a frame header.
            input.drain(..consumed);
            consumed = 0;
            let remaining = input.len();
            input.resize(remaining + usize::try_from(unread).unwrap_or(INPUT).min(INPUT), 0);
            let next = input.get_mut(remaining..).unwrap_or_default();
            read(next)?;
            unread -= next.len() as u64;
        }
    }
    let total = decoder.finish((input.len() - consumed) as u64)?;
    each(output.get_mut(..filled).unwrap_or_default())?;
    Ok(total)
}

/// Returns the size of the output buffer: one byte more than expected, so that excess bytes are detected.
fn capacity(size: Size) -> usize {
    let (Size::Exactly(max) | Size::UpTo(max)) = size;
    usize::try_from(max).ok().and_then(|max| max.checked_add(1)).unwrap_or(OUTPUT).min(OUTPUT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codecs::zstd::decode_into;
    use crate::error::Code;

    fn decoded(frame: &[u8], size: Size) -> Result<Vec<u8>> {
        let (mut at, mut output) = (0, Vec::new());
        let read = |piece: &mut [u8]| {
            piece.copy_from_slice(&frame[at..at + piece.len()]);
            at += piece.len();
            Ok(())
        };
        decode(frame.len() as u64, size, &Stop::default(), &mut { read }, &mut |piece| {
            output.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(output)
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0] & 0x3f
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn frames_larger_than_every_buffer_are_decoded() {
        for length in [0, 1, OUTPUT - 1, OUTPUT, OUTPUT + 1, 3 * OUTPUT + 7] {
            let bytes = noise(length);
            let frame = zstd::bulk::compress(&bytes, 1).unwrap();
            let whole = decoded(&frame, Size::Exactly(length as u64)).unwrap();
            assert!(whole == bytes, "{length}");
            assert!(decoded(&frame, Size::UpTo(length as u64)).unwrap() == bytes);
            if length > 0 {
                let short = length as u64 - 1;
                assert_eq!(decoded(&frame, Size::UpTo(short)).unwrap_err().code(), Code::Limit);
                assert_eq!(decoded(&frame, Size::Exactly(short)).unwrap_err().code(), Code::Decode);
            }
        }
    }

    #[test]
    fn frames_without_a_content_size_are_decoded() {
        let bytes = noise(OUTPUT + 5);
        let frame = zstd::stream::encode_all(&bytes[..], 1).unwrap();
        assert!(decoded(&frame, Size::UpTo(u64::MAX)).unwrap() == bytes);
        assert!(decoded(&frame, Size::Exactly(bytes.len() as u64)).unwrap() == bytes);
        for length in [0, bytes.len() as u64 - 1, bytes.len() as u64 + 1] {
            assert_eq!(decoded(&frame, Size::Exactly(length)).unwrap_err().code(), Code::Decode);
        }
        assert_eq!(decoded(&frame, Size::UpTo(100)).unwrap_err().code(), Code::Limit);
    }

    #[test]
    fn frames_across_buffer_boundaries_are_decoded() {
        let bytes = noise(2 * OUTPUT + 3);
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0x2f, 0][..], &vec![7; 0x2f_ffff]].concat();
        for length in [INPUT - 9, INPUT - 1, INPUT, OUTPUT - 1, OUTPUT + 1] {
            let (first, second) = bytes.split_at(length);
            let frames = [first, second].map(|part| zstd::stream::encode_all(part, 1).unwrap());
            let sequence = [&frames[0][..], &skippable, &frames[1]].concat();
            let size = Size::Exactly(bytes.len() as u64);
            assert!(decoded(&sequence, size).unwrap() == bytes, "{length}");
            assert!(decoded(&sequence, Size::UpTo(u64::MAX)).unwrap() == bytes, "{length}");
            for bad in [&sequence[..sequence.len() - 1], &[&sequence[..], &[0]].concat()] {
                assert_eq!(decoded(bad, size).unwrap_err().code(), Code::Decode);
            }
        }
        // Headers that are split between pieces of the input.
        for shift in 0..20_u32 {
            let skipped = INPUT - 20 + shift as usize;
            let length = u32::try_from(skipped).unwrap().to_le_bytes();
            let sequence = [
                &[0x50, 0x2a, 0x4d, 0x18][..],
                &length,
                &vec![0; skipped],
                &zstd::bulk::compress(b"tensor", 1).unwrap(),
            ]
            .concat();
            assert_eq!(decoded(&sequence, Size::Exactly(6)).unwrap(), b"tensor");
        }
    }

    #[test]
    fn invalid_sequences_of_frames_are_rejected() {
        let good = zstd::bulk::compress(b"tensor tensor tensor", 3).unwrap();
        let more = [&good[..], b"more"].concat();
        for bad in [&more[..], &good[..good.len() - 1], &[], b"no frame"] {
            for size in [Size::Exactly(20), Size::UpTo(100)] {
                assert_eq!(decoded(bad, size).unwrap_err().code(), Code::Decode, "{bad:?}");
            }
        }
    }

    #[test]
    fn a_window_beyond_the_cap_is_refused() {
        // A custom frame header: a window of 2^28 bytes, then one empty last block.
        let wide = [0x28, 0xb5, 0x2f, 0xfd, 0, (28 - 10) << 3, 1, 0, 0];
        assert_eq!(decoded(&wide, Size::UpTo(100)).unwrap_err().code(), Code::Limit);
        let narrow = [0x28, 0xb5, 0x2f, 0xfd, 0, (20 - 10) << 3, 1, 0, 0];
        assert_eq!(decoded(&narrow, Size::UpTo(100)).unwrap(), b"");
    }

    proptest! {
        #[test]
        fn agrees_with_the_decoder_of_whole_frames(
            mut bytes in prop::collection::vec(any::<u8>(), 1..500), at: usize, flip: u8,
        ) {
            let length = bytes.len();
            bytes = zstd::bulk::compress(&bytes, 3).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            let mut whole = vec![0; length];
            let expected = decode_into(&bytes, &mut whole, &Stop::default()).map(|()| whole);
            let found = decoded(&bytes, Size::Exactly(length as u64));
            prop_assert_eq!(found.map_err(|error| error.code()), expected.map_err(|error| error.code()));
        }
    }
}
