//! Decoding of a component stored as one zstd frame (RFC 8878).
#![forbid(unsafe_code)]

use std::cell::RefCell;

use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer};

use crate::error::{Code, Error, Result};
use crate::limits;
use crate::work::Stop;

/// Outputs up to this size are decoded by one call: about 30 ms at 1.2 GB/s.
const ONE_SHOT: usize = 32 << 20;
/// Decoded bytes between two looks at the stop flag.
const PIECE: usize = 8 << 20;

/// What a frame begins with.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(Code::Decode, message)
}

pub(super) fn library(code: usize) -> Error {
    error(format!("the zstd frame is damaged: {}", zstd_safe::get_error_name(code)))
}

pub(super) fn too_large(limit: u64) -> Error {
    Error::new(Code::Limit, format!("the frame decodes to more than {limit} bytes (option maxDecodedBytes)"))
}

/// The size that the frame itself declares, after checking that `input` is exactly one frame.
fn declared_size(input: &[u8]) -> Result<Option<u64>> {
    let frame = zstd_safe::find_frame_compressed_size(input).map_err(library)?;
    if frame != input.len() {
        let message = format!("the zstd frame is {frame} bytes long, the component {}", input.len());
        return Err(error(message));
    }
    if input.get(..4) != Some(&MAGIC) {
        return Err(error("the component is a skippable frame, not zstd data"));
    }
    zstd_safe::get_frame_content_size(input).map_err(|_| error("the zstd frame header is damaged"))
}

/// Decodes `input` into `output`, which must be filled to its last byte.
pub fn decode_into(input: &[u8], output: &mut [u8], stop: &Stop) -> Result<()> {
    let wrong_size =
        |found: u64| error(format!("the zstd frame holds {found} bytes, the tensor {}", output.len()));
    if let Some(declared) = declared_size(input)?.filter(|&declared| declared != output.len() as u64) {
        return Err(wrong_size(declared));
    }
    if output.len() <= ONE_SHOT {
        let length = output.len();
        let written = decompress(output, input)?;
        if written != length {
            return Err(error(format!("the zstd frame holds {written} bytes, the tensor {length}")));
        }
        return Ok(());
    }
    let length = output.len();
    let mut stream = Stream::new(input)?;
    let mut filled = 0;
    while filled < length {
        stop.check()?;
        let end = length.min(filled + PIECE);
        let written = stream.fill(&mut output[filled..end])?;
        if written == 0 {
            return Err(error(format!("the zstd frame holds {filled} bytes, the tensor {length}")));
        }
        filled += written;
    }
    if stream.fill(&mut [0])? > 0 {
        return Err(error(format!("the zstd frame holds more than the tensor's {length} bytes")));
    }
    Ok(())
}

/// Decodes a whole frame. The thread keeps the decoder: making one costs as much as a frame of some KiB.
fn decompress(output: &mut [u8], input: &[u8]) -> Result<usize> {
    thread_local!(static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) });
    let mut context = CONTEXT.take().unwrap_or_else(DCtx::create);
    let written = context.decompress(output, input).map_err(library)?; // one that failed is not used again
    CONTEXT.set(Some(context));
    Ok(written)
}

/// Decodes a frame whose size nothing but itself can tell, up to `limit` bytes.
pub fn decode_unsized(input: &[u8], limit: u64, stop: &Stop) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    each_piece(input, limit, stop, |piece| {
        output
            .try_reserve(piece.len())
            .map_err(|_| Error::new(Code::Limit, "not enough memory to decode"))?;
        output.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(output)
}

/// Decodes a frame in pieces and gives its whole length, up to `limit` bytes, without keeping it.
pub fn each_piece(
    input: &[u8],
    limit: u64,
    stop: &Stop,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let declared = declared_size(input)?;
    if declared.is_some_and(|declared| declared > limit) {
        return Err(too_large(limit));
    }
    let mut stream = Stream::new(input)?;
    let mut piece = vec![0; 1 << 20];
    let mut total = 0_u64;
    loop {
        stop.check()?;
        let written = stream.fill(&mut piece)?;
        if written == 0 {
            break;
        }
        total += written as u64;
        if total > limit {
            return Err(too_large(limit));
        }
        each(piece.get(..written).unwrap_or_default())?;
    }
    if declared.is_some_and(|declared| declared != total) {
        return Err(error("the zstd frame holds another number of bytes than its header says"));
    }
    Ok(total)
}

/// A streaming decoder over a frame in memory, with the window capped.
struct Stream<'a> {
    context: DCtx<'static>,
    input: InBuffer<'a>,
    ended: bool,
}

impl<'a> Stream<'a> {
    fn new(input: &'a [u8]) -> Result<Self> {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(limits::ZSTD_WINDOW_LOG)).map_err(library)?;
        Ok(Self { context, input: InBuffer::around(input), ended: false })
    }

    /// Fills as much of `output` as the frame holds and says how much that was.
    fn fill(&mut self, output: &mut [u8]) -> Result<usize> {
        let length = output.len();
        let mut buffer = OutBuffer::around(output);
        while buffer.pos() < length && !self.ended {
            let before = (buffer.pos(), self.input.pos);
            let hint = self.context.decompress_stream(&mut buffer, &mut self.input).map_err(library)?;
            self.ended = hint == 0;
            if !self.ended && before == (buffer.pos(), self.input.pos) {
                return Err(error("the zstd frame ends in the middle"));
            }
        }
        Ok(buffer.pos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 3).unwrap()
    }

    #[test]
    fn every_wrong_size_is_refused() {
        let stop = Stop::default();
        let good = frame(b"tensor tensor tensor");
        let mut output = [0; 20];
        decode_into(&good, &mut output, &stop).unwrap();
        assert_eq!(&output, b"tensor tensor tensor");
        let twice = [good.clone(), good.clone()].concat();
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
        let cut = &good[..good.len() - 1];
        for bad in [&twice[..], &skippable, cut, &[], b"no frame"] {
            assert_eq!(decode_into(bad, &mut output, &stop).unwrap_err().code(), Code::Decode, "{bad:?}");
            assert_eq!(decode_unsized(bad, 100, &stop).unwrap_err().code(), Code::Decode, "{bad:?}");
        }
        for length in [0, 19, 21] {
            assert_eq!(decode_into(&good, &mut vec![0; length], &stop).unwrap_err().code(), Code::Decode);
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = frame(&vec![0; 64 << 20]);
        let stop = Stop::default();
        assert_eq!(decode_unsized(&bomb, 1 << 20, &stop).unwrap_err().code(), Code::Limit);
        assert_eq!(decode_unsized(&bomb, 64 << 20, &stop).unwrap().len(), 64 << 20);
        let mut output = vec![1; 64 << 20];
        decode_into(&bomb, &mut output, &stop).unwrap();
        assert!(output.iter().all(|&byte| byte == 0));
        stop.set();
        assert_eq!(decode_into(&bomb, &mut output, &stop).unwrap_err().code(), Code::Aborted);
    }

    proptest! {
        #[test]
        fn damage_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 1..500), at: usize, flip: u8) {
            let length = bytes.len();
            bytes = frame(&bytes);
            let at = at % bytes.len();
            bytes[at] ^= flip;
            let _ = decode_into(&bytes, &mut vec![0; length], &Stop::default());
            let _ = decode_unsized(&bytes, 1 << 20, &Stop::default());
        }
    }

    /// Found by fuzzing: of libzstd's two decoders the one of whole frames refuses such a block, the one of streams
    /// passes over it. Neither makes anything of it.
    #[test]
    fn a_compressed_block_of_no_bytes_holds_nothing() {
        let header = [0x28, 0xb5, 0x2f, 0xfd, 0, 0]; // no size, a window of 1 KiB
        let blocks = [[0, 0, 0], [4, 0, 0], [1, 0, 0]]; // raw; compressed, of no bytes; raw, the last
        let frame = [&header[..], &blocks.concat()].concat();
        let stop = Stop::default();
        assert!(decode_unsized(&frame, 100, &stop).is_ok_and(|bytes| bytes.is_empty()));
        assert!(decode_into(&frame, &mut [], &stop).is_err());
    }
}
