//! Decodes a component stored as zstd frames (RFC 8878) in memory.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use zstd::zstd_safe::{self, DCtx};

use super::frames::{self, Head, Judge, Size, error};
use super::zstd_pieces;
use super::zstd_stream::{Decoder, library};
use crate::error::{Code, Error, Result};
use crate::work::Stop;

/// Maximum output size that is decoded by one call per frame: about 30 ms at 1.2 GB/s.
const ONE_SHOT: usize = 32 << 20;
/// Maximum input size that is decoded by one call, because blocks may be empty.
const ONE_SHOT_INPUT: usize = 2 * ONE_SHOT;
/// Decoded bytes between two checks of the stop flag.
const PIECE: usize = 8 << 20;

/// Decodes `input`, a sequence of frames, into `output`, which must be filled completely.
///
/// The streaming decoder is authoritative, because it also decodes large data, and data that is only checked. The whole-frame decoder is
/// faster, and yields the same result.
pub fn decode_into(input: &[u8], output: &mut [u8], stop: &Stop) -> Result<()> {
    if output.len() <= ONE_SHOT && input.len() <= ONE_SHOT_INPUT && decoded_at_once(input, output, stop)? {
        return Ok(());
    }
    let length = output.len();
    let mut decoder = Decoder::new(Size::Exactly(length as u64))?;
    let (mut consumed, mut filled) = (0, 0);
    loop {
        stop.check()?;
        // The decoder itself reports a byte too many.
        let mut one_more = [0];
        let target = match output.get_mut(filled..length.min(filled + PIECE)) {
            Some(target) if !target.is_empty() => target,
            _ => &mut one_more,
        };
        let (taken, written) = decoder.step(input.get(consumed..).unwrap_or_default(), target)?;
        (consumed, filled) = (consumed + taken, filled + written);
        if (taken, written) == (0, 0) {
            break;
        }
    }
    decoder.finish((input.len() - consumed) as u64).map(drop)
}

/// Returns whether the whole-frame decoder decodes `input`; fails for errors that no decoder can recover from.
fn decoded_at_once(input: &[u8], output: &mut [u8], stop: &Stop) -> Result<bool> {
    let mut judge = Judge::new(Size::Exactly(output.len() as u64));
    let (mut rest, mut filled) = (input, 0);
    while !rest.is_empty() {
        stop.check()?;
        let Some(head) = frames::head(rest)? else { return Ok(false) };
        judge.begin(&head)?;
        let length = match head {
            Head::Skippable(length) => usize::try_from(length).ok(),
            Head::Data { .. } => {
                let length = zstd_safe::find_frame_compressed_size(rest).ok();
                let frame = length.and_then(|length| rest.get(..length));
                let target = output.get_mut(filled..).unwrap_or_default();
                let Some(Ok(written)) = frame.map(|frame| decompress(target, frame)) else {
                    return Ok(false);
                };
                filled += written;
                judge.decoded(written)?;
                judge.end()?;
                length
            }
        };
        let Some(next) = length.and_then(|length| rest.get(length..)) else { return Ok(false) };
        rest = next;
    }
    judge.finish().map(|_| true)
}

/// Decodes `input`, which must be exactly one data frame, into `output`, which must be filled completely.
pub fn decode_frame(input: &[u8], output: &mut [u8]) -> Result<()> {
    let Some(Head::Data { content, .. }) = frames::head(input)? else {
        return Err(error("the data is not a zstd frame"));
    };
    let length = output.len();
    let wrong = |found| Err(error(format!("the zstd frame holds {found} bytes, not {length}")));
    if let Some(content) = content.filter(|&content| content != length as u64) {
        return wrong(content);
    }
    let frame = zstd_safe::find_frame_compressed_size(input).map_err(library)?;
    if frame != input.len() {
        return Err(error(format!("the zstd frame is {frame} bytes long, not {}", input.len())));
    }
    match decompress(output, input)? {
        written if written == length => Ok(()),
        written => wrong(written as u64),
    }
}

/// Decodes a whole frame. The decoder is retained per thread: creating one costs as much as a frame of some KiB.
fn decompress(output: &mut [u8], input: &[u8]) -> Result<usize> {
    thread_local!(static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) });
    let mut context = CONTEXT.take().unwrap_or_else(DCtx::create);
    let written = context.decompress(output, input).map_err(library)?; // one that failed is not used again
    CONTEXT.set(Some(context));
    Ok(written)
}

/// Decodes frames of unknown size, up to `limit` bytes.
pub fn decode_unsized(input: &[u8], limit: u64, stop: &Stop) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    each_piece(input, Size::UpTo(limit), stop, |piece| {
        output
            .try_reserve(piece.len())
            .map_err(|_| Error::new(Code::Limit, "not enough memory to decode"))?;
        output.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(output)
}

/// Decodes frames to new memory.
pub fn decode_to(input: &[u8], size: Size, stop: &Stop) -> Result<Vec<u8>> {
    match size {
        Size::UpTo(limit) => decode_unsized(input, limit, stop),
        Size::Exactly(length) => {
            let mut output = claimed(length)?;
            decode_into(input, &mut output, stop)?;
            Ok(output)
        }
    }
}

/// Allocates zeroed memory, if available.
fn claimed(length: u64) -> Result<Vec<u8>> {
    let refused = || Error::new(Code::Limit, "not enough memory to decode");
    let length = usize::try_from(length).map_err(|_| refused())?;
    let mut output = Vec::new();
    output.try_reserve_exact(length).map_err(|_| refused())?;
    output.resize(length, 0);
    Ok(output)
}

/// Decodes frames in pieces and returns the total length, without retaining it.
pub fn each_piece(
    input: &[u8],
    size: Size,
    stop: &Stop,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut rest = input;
    let mut read = |piece: &mut [u8]| {
        let short = || Error::new(Code::Internal, "more compressed data is requested than available");
        let (next, further) = rest.split_at_checked(piece.len()).ok_or_else(short)?;
        piece.copy_from_slice(next);
        rest = further;
        Ok(())
    };
    zstd_pieces::decode(input.len() as u64, size, stop, &mut read, &mut |piece| each(piece))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 3).unwrap()
    }

    /// Builds a frame of one raw block with an arbitrary header.
    fn framed(header: &[u8], content: &[u8]) -> Vec<u8> {
        let block = u32::try_from(content.len()).unwrap() << 3 | 1;
        [&[0x28, 0xb5, 0x2f, 0xfd], header, &block.to_le_bytes()[..3], content].concat()
    }

    fn skippable(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [&[0x50 | kind, 0x2a, 0x4d, 0x18], &length[..], content].concat()
    }

    /// Decodes `input` in every way and checks that the results are equal.
    fn decoded(input: &[u8], length: usize) -> Result<Vec<u8>> {
        let stop = Stop::default();
        let mut output = vec![0xaa; length];
        let into = decode_into(input, &mut output, &stop).map(|()| output);
        let size = Size::Exactly(length as u64);
        for step in [1, 7, input.len().max(1)] {
            let mut pieces = Vec::new();
            let mut decoder = Decoder::new(size).unwrap();
            let mut buffer = vec![0; step];
            let (mut at, mut end) = (0, 0);
            let streamed = loop {
                match decoder.step(&input[at..end], &mut buffer) {
                    Err(error) => break Err(error),
                    Ok((0, 0)) if end == input.len() => break decoder.finish((end - at) as u64),
                    Ok((0, 0)) => end = input.len().min(end + step),
                    Ok((taken, written)) => {
                        at += taken;
                        pieces.extend_from_slice(&buffer[..written]);
                    }
                }
            };
            assert_eq!(streamed.map(|_| pieces).map_err(|e| e.code()), into.clone().map_err(|e| e.code()));
        }
        let mut whole = Vec::new();
        let pieces = each_piece(input, size, &stop, |piece| {
            whole.extend_from_slice(piece);
            Ok(())
        });
        assert_eq!(pieces.map(|_| whole).map_err(|e| e.code()), into.clone().map_err(|e| e.code()));
        if let Ok(bytes) = &into {
            assert_eq!(&decode_unsized(input, length as u64, &stop).unwrap(), bytes);
        }
        into
    }

    const TEXT: &[u8] = b"tensor tensor tensor";

    #[test]
    fn frames_follow_each_other_and_some_are_skipped() {
        let (a, b, none) = (frame(&TEXT[..7]), frame(&TEXT[7..]), frame(b""));
        let unsized_b = framed(&[0, 80], &TEXT[7..]);
        let skipped = skippable(0, b"anything");
        let sequences = [
            vec![frame(TEXT)],
            vec![a.clone(), b.clone()],
            vec![a.clone(), unsized_b.clone()],
            vec![skipped.clone(), a.clone(), b.clone()],
            vec![a.clone(), skippable(15, b""), b.clone(), skipped.clone()],
            vec![none.clone(), a.clone(), none.clone(), unsized_b, none],
        ];
        for sequence in sequences {
            assert_eq!(decoded(&sequence.concat(), 20).unwrap(), TEXT);
        }
        assert_eq!(decoded(&skipped, 0).unwrap(), b"");
        let many = vec![frame(b"x"); 5000].concat();
        assert_eq!(decoded(&many, 5000).unwrap(), vec![b'x'; 5000]);
    }

    #[test]
    fn invalid_sequences_of_frames_are_rejected() {
        let (good, skipped) = (frame(TEXT), skippable(0, b"anything"));
        let after = |bytes: &[u8]| [&good, bytes].concat();
        let cases = [
            vec![],
            b"no frame".to_vec(),
            b"\x28\xb5".to_vec(),
            good[..good.len() - 1].to_vec(),
            skipped.clone(),
            after(b"m"),
            after(b"more bytes"),
            after(&[0; 8]),
            after(&good),
            after(&frame(b"x")),
            after(&good[..4]),
            after(&skipped[..skipped.len() - 1]),
            after(&skipped[..7]),
            [frame(&TEXT[..7]), frame(&TEXT[8..])].concat(),
            [frame(&TEXT[..7]), frame(&TEXT[7..])[..9].to_vec()].concat(),
        ];
        for bad in cases {
            assert_eq!(decoded(&bad, 20).unwrap_err().code(), Code::Decode, "{bad:02x?}");
        }
        for length in [0, 19, 21] {
            assert_eq!(decoded(&good, length).unwrap_err().code(), Code::Decode);
        }
    }

    /// Single-segment frames have a window of their content size.
    #[test]
    fn the_content_size_of_a_header_is_verified() {
        let claims = |bytes: u64| [&[0xe0], &bytes.to_le_bytes()[..]].concat();
        let claims_in_window = |bytes: u64, window: u8| [&[0xc0, window][..], &bytes.to_le_bytes()].concat();
        let window = |log: u8| vec![0, (log - 10) << 3];
        let cases = [
            (claims(20), None),
            (claims(19), Some(Code::Decode)),
            (claims(21), Some(Code::Decode)),
            (claims(1 << 63), Some(Code::Decode)),
            // libzstd treats these as unknown and as an error, respectively.
            (claims(u64::MAX), Some(Code::Decode)),
            (claims(u64::MAX - 1), Some(Code::Decode)),
            (claims_in_window(u64::MAX, 80), Some(Code::Decode)),
            (claims_in_window(20, 80), None),
            (claims_in_window(20, 17 << 3), None),
            (claims_in_window(20, 18 << 3), Some(Code::Limit)),
            (window(10), None),
            (window(27), None),
            (vec![0, (17 << 3) | 1], Some(Code::Limit)),
            (window(28), Some(Code::Limit)),
            (window(31), Some(Code::Limit)),
            (window(41), Some(Code::Limit)),
            (vec![0x08, 80], Some(Code::Decode)),
            (vec![0x10, 80], None),
            (vec![0x01, 80, 0], None),
            (vec![0x01, 80, 42], Some(Code::Decode)),
            (vec![0x03, 80, 0, 0, 0, 1], Some(Code::Decode)),
        ];
        for (header, code) in cases {
            let found = decoded(&framed(&header, TEXT), 20);
            assert_eq!(found.as_ref().err().map(Error::code), code, "{header:02x?}");
            let second = [frame(b"x"), framed(&header, TEXT)].concat();
            assert_eq!(decoded(&second, 21).err().map(|error| error.code()), code, "{header:02x?}");
        }
        let error = decoded(&framed(&window(28), TEXT), 20).unwrap_err().to_string();
        assert!(error.contains("window of 268435456 bytes, more than 2^27"), "{error}");
        let error = decoded(&framed(&[0x01, 80, 42], TEXT), 20).unwrap_err().to_string();
        assert!(error.contains("needs the dictionary 42"), "{error}");
    }

    #[test]
    fn a_checksum_is_checked_in_each_frame() {
        let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
        compressor.include_checksum(true).unwrap();
        let sealed = [compressor.compress(&TEXT[..7]).unwrap(), compressor.compress(&TEXT[7..]).unwrap()];
        assert_eq!(decoded(&sealed.concat(), 20).unwrap(), TEXT);
        for end in [sealed[0].len(), sealed.concat().len()] {
            let mut damaged = sealed.concat();
            damaged[end - 1] ^= 1;
            assert_eq!(decoded(&damaged, 20).unwrap_err().code(), Code::Decode);
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = frame(&vec![0; 64 << 20]);
        let stop = Stop::default();
        assert_eq!(decode_unsized(&bomb, 1 << 20, &stop).unwrap_err().code(), Code::Limit);
        assert_eq!(decode_unsized(&bomb, 64 << 20, &stop).unwrap().len(), 64 << 20);
        let twice = [&bomb[..], &bomb].concat();
        assert_eq!(decode_unsized(&twice, 100 << 20, &stop).unwrap_err().code(), Code::Limit);
        for (input, length) in [(&bomb, 64 << 20), (&twice, 128 << 20)] {
            let mut output = vec![1; length];
            decode_into(input, &mut output, &stop).unwrap();
            assert!(output.iter().all(|&byte| byte == 0));
        }
        stop.set();
        assert_eq!(decode_into(&bomb, &mut vec![1; 64 << 20], &stop).unwrap_err().code(), Code::Aborted);
        assert_eq!(decode_into(&frame(TEXT), &mut [0; 20], &stop).unwrap_err().code(), Code::Aborted);
        assert_eq!(decode_unsized(&bomb, 64 << 20, &stop).unwrap_err().code(), Code::Aborted);
    }

    #[test]
    fn decode_frame_accepts_exactly_one_frame() {
        let good = frame(TEXT);
        let mut output = [0; 20];
        decode_frame(&good, &mut output).unwrap();
        assert_eq!(output, TEXT);
        let (twice, skipped) = ([&good[..], &good].concat(), skippable(0, b""));
        let followed = [&good[..], &skipped].concat();
        for bad in [&[], &good[..good.len() - 1], &twice, &skipped, &followed, b"no frame"] {
            assert_eq!(decode_frame(bad, &mut output).unwrap_err().code(), Code::Decode, "{bad:02x?}");
        }
        for length in [0, 19, 21] {
            assert_eq!(decode_frame(&good, &mut vec![0; length]).unwrap_err().code(), Code::Decode);
        }
        let claim = framed(&[&[0xe0], &u64::MAX.to_le_bytes()[..]].concat(), TEXT);
        assert_eq!(decode_frame(&claim, &mut output).unwrap_err().code(), Code::Decode);
    }

    proptest! {
        #[test]
        fn all_decoders_agree(
            parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0_u8..4), 1..5),
            at: prop::sample::Index,
            flip in prop_oneof![Just(0_u8), any::<u8>()],
        ) {
            let mut plain = Vec::new();
            let mut input = Vec::new();
            for (bytes, kind) in &parts {
                match kind {
                    0 => input.extend(skippable(bytes.len().try_into().unwrap_or(0) & 15, bytes)),
                    1 => input.extend(framed(&[0, 80], bytes)),
                    _ => input.extend(frame(bytes)),
                }
                if *kind > 0 {
                    plain.extend_from_slice(bytes);
                }
            }
            let at = at.index(input.len());
            input[at] ^= flip;
            let found = decoded(&input, plain.len());
            if flip == 0 {
                prop_assert_eq!(found.unwrap(), plain);
            }
        }
    }

    /// Found by fuzzing: libzstd's whole-frame decoder rejects such a block, its streaming decoder skips it, as the Python readers do.
    #[test]
    fn a_compressed_block_of_no_bytes_holds_nothing() {
        let header = [0x28, 0xb5, 0x2f, 0xfd, 0, 0]; // no size, a window of 1 KiB
        let blocks = [[0, 0, 0], [4, 0, 0], [1, 0, 0]]; // raw; compressed, of no bytes; raw, the last
        let frame = [&header[..], &blocks.concat()].concat();
        assert_eq!(decoded(&frame, 0).unwrap(), b"");
        assert_eq!(decode_frame(&frame, &mut []).unwrap_err().code(), Code::Decode);
    }
}
