//! Decoding of one zstd frame (RFC 8878) that comes and goes in pieces, so that neither side of it stands in memory.
#![forbid(unsafe_code)]

use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer};

use super::zstd::{MAGIC, error, library, too_large};
use crate::error::Result;
use crate::limits;

/// Bytes of the frame held at once.
const INPUT: usize = 1 << 20;
/// Decoded bytes handed on at once: a multiple of every element's width.
const OUTPUT: usize = 4 << 20;

/// The size of what a frame decodes to.
#[derive(Clone, Copy)]
pub enum Size {
    Exactly(u64),
    UpTo(u64),
}

/// Decodes a frame of `stored` bytes, which `read` gives in their order, and calls `each` with the decoded bytes, 4 MiB at
/// a time. Gives how many those were. `ZT_DECODE` where the bytes are anything else than one frame of the right size.
pub fn decode(
    stored: u64,
    size: Size,
    mut read: impl FnMut(&mut [u8]) -> Result<()>,
    mut each: impl FnMut(&mut [u8]) -> Result<()>,
) -> Result<u64> {
    let mut left = stored;
    let mut input = vec![0; usize::try_from(stored).unwrap_or(INPUT).min(INPUT)];
    read(&mut input)?;
    left -= input.len() as u64;
    check_header(&input, size)?;
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(limits::ZSTD_WINDOW_LOG)).map_err(library)?;
    let (mut consumed, mut total) = (0, 0_u64);
    let mut output = vec![0; OUTPUT];
    loop {
        let mut filled = 0;
        let mut ended = false;
        while filled < output.len() && !ended {
            if consumed == input.len() && left > 0 {
                input.resize(usize::try_from(left).unwrap_or(INPUT).min(INPUT), 0);
                read(&mut input)?;
                left -= input.len() as u64;
                consumed = 0;
            }
            let mut source = InBuffer { src: &input, pos: consumed };
            let mut target = OutBuffer::around_pos(output.as_mut_slice(), filled);
            let hint = context.decompress_stream(&mut target, &mut source).map_err(library)?;
            let (before, written) = ((consumed, filled), target.pos());
            (consumed, filled) = (source.pos, written);
            ended = hint == 0;
            if !ended && before == (consumed, filled) && left == 0 {
                return Err(error("the zstd frame ends in the middle"));
            }
        }
        total += filled as u64;
        match size {
            Size::Exactly(length) if total > length => {
                return Err(error(format!("the zstd frame holds more than the tensor's {length} bytes")));
            }
            Size::UpTo(limit) if total > limit => return Err(too_large(limit)),
            _ => {}
        }
        if ended && (consumed < input.len() || left > 0) {
            let frame = stored - left - (input.len() - consumed) as u64;
            return Err(error(format!("the zstd frame is {frame} bytes long, the component {stored}")));
        }
        each(output.get_mut(..filled).unwrap_or_default())?;
        if ended {
            break;
        }
    }
    match size {
        Size::Exactly(length) if total != length => Err(wrong(total, length)),
        _ => Ok(total),
    }
}

fn wrong(found: u64, length: u64) -> crate::error::Error {
    error(format!("the zstd frame holds {found} bytes, the tensor {length}"))
}

/// Refuses what is no frame, or one that says itself that its size is another one.
fn check_header(begin: &[u8], size: Size) -> Result<()> {
    if begin.get(..4) != Some(&MAGIC) {
        return Err(error("the component does not begin with a zstd frame"));
    }
    let declared = zstd_safe::get_frame_content_size(begin);
    match (declared.map_err(|_| error("the zstd frame header is damaged"))?, size) {
        (Some(declared), Size::Exactly(length)) if declared != length => Err(wrong(declared, length)),
        (Some(declared), Size::UpTo(limit)) if declared > limit => Err(too_large(limit)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::zstd::decode_into;
    use crate::error::Code;
    use crate::work::Stop;

    fn decoded(frame: &[u8], size: Size) -> Result<Vec<u8>> {
        let (mut at, mut output) = (0, Vec::new());
        let read = |piece: &mut [u8]| {
            piece.copy_from_slice(&frame[at..at + piece.len()]);
            at += piece.len();
            Ok(())
        };
        decode(frame.len() as u64, size, read, |piece| {
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
    fn frames_larger_than_every_buffer() {
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
    fn a_frame_that_does_not_say_its_size() {
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
    fn what_is_not_one_frame() {
        let good = zstd::bulk::compress(b"tensor tensor tensor", 3).unwrap();
        let twice = [good.clone(), good.clone()].concat();
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
        for bad in [&twice[..], &skippable, &good[..good.len() - 1], &[], b"no frame"] {
            for size in [Size::Exactly(20), Size::UpTo(100)] {
                assert_eq!(decoded(bad, size).unwrap_err().code(), Code::Decode, "{bad:?}");
            }
        }
    }

    #[test]
    fn a_window_beyond_the_cap_is_refused() {
        // A frame header of its own: a window of 2^28 bytes, then one empty last block.
        let wide = [0x28, 0xb5, 0x2f, 0xfd, 0, (28 - 10) << 3, 1, 0, 0];
        assert_eq!(decoded(&wide, Size::UpTo(100)).unwrap_err().code(), Code::Decode);
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
