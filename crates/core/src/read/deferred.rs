//! Elements that are produced only when their destination is available: memory of the caller, which only one thread may write to. Stored
//! data is read and its digest verified beforehand, except data without a digest in the page cache, which is read only then, because that
//! is the only copy needed.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use super::{Reading, claimable, widened};
use crate::checked::{index, product, slice};
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::BlockType;
use crate::kernels::widen;
use crate::model::{Component, DType, Label, Tensor};
use crate::sources::owned::Owned;
use crate::sources::{ReadAt, Sources};
use crate::work::{self, Stop};

/// Stored elements, and their conversion.
pub struct Deferred {
    stored: Stored,
    kind: Decoding,
    /// Bytes of the result.
    length: u64,
}

enum Stored {
    Here(Owned),
    /// A range of a file in the page cache, with the name of the tensor.
    Cached {
        tensor: Box<str>,
        file: u32,
        offset: u64,
        length: u64,
    },
}

#[derive(Clone, Copy)]
enum Decoding {
    /// Decoded to float32.
    Blocks(BlockType),
    /// Widened to float32.
    Dense(DType),
    /// Unchanged.
    Same,
}

/// The work per element while copying, from least to most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    Copy,
    Widen,
    Decode,
}

/// Minimum and maximum bytes that one core produces at a time. The maximum still fits its cache together with the input.
const MIN_PIECE: usize = 256 << 10;
const MAX_PIECE: usize = 1 << 20;
/// Pieces per core if there are enough bytes, to balance the load.
const PIECES: usize = 4;

/// Permitted locations of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// In the page cache: no read and no waiting.
    Cached,
    /// Anywhere: uncached data is read at once.
    Anywhere,
}

impl Reading<'_> {
    /// Returns the elements of a tensor of ggml blocks as float32; `None` for other quantized tensors, and if they are out of reach. Fails
    /// like [`Reading::dequantize`].
    pub fn deferred_blocks(&self, tensor: Tensor<'_>, reach: Reach) -> Result<Option<Deferred>> {
        if !tensor.layout_name().starts_with("gguf.") {
            return Ok(None);
        }
        let block = BlockType::of_tensor(tensor).map_err(|error| error.tensor(tensor.name()))?;
        let elements = product(tensor.shape()).unwrap_or(u64::MAX);
        let length = self.float32_bytes(elements).map_err(|error| error.tensor(tensor.name()))?;
        let component = self.component_of(tensor, Label::DATA)?;
        let Some(stored) = self.within_reach(tensor, component, reach)? else { return Ok(None) };
        let fits = (elements / block.elements).checked_mul(block.bytes) == Some(stored.length());
        Ok(fits.then_some(Deferred { stored, kind: Decoding::Blocks(block), length }))
    }

    /// Returns the elements of a dense component as float32; `None` if its size does not match the shape, its type has no float32 form, or
    /// it is out of reach.
    pub fn deferred_float32(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        reach: Reach,
    ) -> Result<Option<Deferred>> {
        let Some((dtype, elements)) = component.dtype.zip(product(tensor.shape())) else { return Ok(None) };
        if widen::to_float32(dtype, &[], &mut []).is_err() {
            return Ok(None);
        }
        let length = self.float32_bytes(elements).map_err(|error| error.tensor(tensor.name()))?;
        let Some(stored) = self.within_reach(tensor, component, reach)? else { return Ok(None) };
        let wanted = elements.checked_mul(u64::from(dtype.bits())).map(|bits| bits.div_ceil(8));
        let fits = wanted == Some(stored.length());
        Ok(fits.then_some(Deferred { stored, kind: Decoding::Dense(dtype), length }))
    }

    /// Returns the elements of a component unchanged; `None` if they must be read first.
    pub fn deferred(&self, tensor: Tensor<'_>, component: &Component) -> Option<Deferred> {
        let is_in_order =
            cfg!(target_endian = "little") || component.dtype.is_none_or(|dtype| dtype.bits() <= 8);
        let stored = self.cached(tensor, component).filter(|_| is_in_order)?;
        let length = stored.length();
        Some(Deferred { stored, kind: Decoding::Same, length })
    }

    fn within_reach(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        reach: Reach,
    ) -> Result<Option<Stored>> {
        match (self.cached(tensor, component), reach) {
            (None, Reach::Anywhere) => self.component(tensor, component).map(|read| Some(Stored::Here(read))),
            (cached, _) => Ok(cached),
        }
    }

    /// Returns the location of elements that need no validation and are already in memory, which only Linux reports.
    fn cached(&self, tensor: Tensor<'_>, component: &Component) -> Option<Stored> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let (offset, length) = widened::stored(component, None)?.unhashed()?;
        let source = self.source(component).ok()?;
        source.local()?;
        claimable(source, offset, length).ok()?;
        let (tensor, file) = (tensor.name().into(), component.file());
        source.is_cached(offset, length).then_some(Stored::Cached { tensor, file, offset, length })
    }
}

impl Stored {
    fn length(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::Cached { length, .. } => *length,
        }
    }
}

/// Part of the stored data.
enum Input<'a> {
    Bytes(&'a [u8]),
    Range(&'a dyn ReadAt, u64),
}

impl Deferred {
    /// Returns the bytes of all elements.
    pub fn byte_length(&self) -> u64 {
        self.length
    }

    /// Returns the work needed per element.
    pub fn work(&self) -> Work {
        match self.kind {
            Decoding::Same => Work::Copy,
            Decoding::Dense(_) => Work::Widen,
            Decoding::Blocks(_) => Work::Decode,
        }
    }

    /// Produces the bytes from `start` on into `out`, in the byte order of the host, on all cores. `sources`: those of the reading. Fails
    /// with `ZT_INVALID_ARG` if the range is not within the elements or not aligned to blocks, and with `ZT_TRUNCATED` and `ZT_IO` if the
    /// file changed.
    pub fn fill(&self, sources: &dyn Sources, start: u64, out: &mut [u8]) -> Result<()> {
        let outside =
            || Error::new(Code::InvalidArg, "the range is outside the tensor, or not aligned to its blocks");
        // Bits of stored data for a number of bytes produced.
        let (bits, bytes) = match self.kind {
            Decoding::Blocks(block) => (block.bytes.saturating_mul(8), block.elements.saturating_mul(4)),
            Decoding::Dense(dtype) => (u64::from(dtype.bits()).saturating_mul(8), 32),
            Decoding::Same => (8, 1),
        };
        let stored = |bytes_of: u64| {
            let units = bytes_of.is_multiple_of(bytes).then(|| bytes_of / bytes)?;
            units.checked_mul(bits / 8)
        };
        let end =
            start.checked_add(out.len() as u64).filter(|&end| end <= self.length).ok_or_else(outside)?;
        let first = stored(start).ok_or_else(outside)?;
        // The last elements of a narrow type may not fill their unit.
        let last = if end == self.length { self.stored.length() } else { stored(end).ok_or_else(outside)? };
        let count = last.checked_sub(first).ok_or_else(outside)?;
        let piece = (out.len() / (PIECES * work::cores())).clamp(MIN_PIECE, MAX_PIECE);
        let step = piece - piece % index(bytes, "a block")?;
        let input_step = stored(step as u64).ok_or_else(outside)?;
        let input = match &self.stored {
            Stored::Here(all) => Input::Bytes(slice(all, first, count).ok_or_else(outside)?),
            Stored::Cached { file, offset, .. } => {
                Input::Range(sources.source(*file)?, offset.saturating_add(first))
            }
        };
        let pieces = usize::try_from(count.div_ceil(input_step)).map_err(|_| outside())?;
        let outputs: Vec<_> = out.chunks_mut(step).map(|out| Mutex::new(Some(out))).collect();
        let buffers = Mutex::new(Vec::new());
        let lock = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let fill_piece = |at: usize| {
            let out = outputs.get(at).and_then(|out| out.lock().ok()?.take()).unwrap_or_default();
            let begin = count.min(at as u64 * input_step);
            let length = input_step.min(count - begin);
            match &input {
                Input::Bytes(all) => self.convert(slice(all, begin, length).ok_or_else(outside)?, out),
                Input::Range(source, offset) if self.work() == Work::Copy => {
                    source.read_at(offset + begin, out, Stop::never())
                }
                Input::Range(source, offset) => {
                    let mut buffer: Vec<u8> = lock().pop().unwrap_or_default();
                    buffer.resize(index(length, "a piece")?, 0);
                    source.read_at(offset + begin, &mut buffer, Stop::never())?;
                    self.convert(&buffer, out)?;
                    lock().push(buffer);
                    Ok(())
                }
            }
        };
        let made = work::try_each_on(work::cores(), pieces.max(outputs.len()), fill_piece);
        made.map_err(|error| match &self.stored {
            Stored::Here(_) => error,
            Stored::Cached { tensor, .. } => error.tensor(tensor),
        })
    }

    fn convert(&self, input: &[u8], out: &mut [u8]) -> Result<()> {
        match self.kind {
            Decoding::Blocks(block) => block.fill(input, out),
            Decoding::Dense(dtype) => widen::to_float32(dtype, input, out),
            Decoding::Same => {
                out.copy_from_slice(input);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(stored: &[u8], kind: Decoding, elements: u64) {
        let mut whole = vec![0; usize::try_from(elements * 4).unwrap()];
        match kind {
            Decoding::Blocks(block) => block.fill(stored, &mut whole).unwrap(),
            Decoding::Dense(dtype) => widen::to_float32(dtype, stored, &mut whole).unwrap(),
            Decoding::Same => whole.copy_from_slice(stored),
        }
        let length = whole.len() as u64;
        let nothing: &[u8] = &[];
        let here = Deferred { stored: Stored::Here(Owned::from(stored.to_vec())), kind, length };
        // The same bytes in a file, after some others.
        let file = [&[9; 77], stored].concat();
        let range = Stored::Cached { tensor: "t".into(), file: 0, offset: 77, length: stored.len() as u64 };
        let there = Deferred { stored: range, kind, length };
        agree(&here, &nothing, &whole);
        agree(&there, &&*file, &whole);
        let truncated = there.fill(&&file[..file.len() - 1], 0, &mut vec![0; whole.len()]).unwrap_err();
        assert_eq!(truncated.tensor_name(), Some("t"));
    }

    fn agree(deferred: &Deferred, sources: &dyn Sources, whole: &[u8]) {
        let converts = deferred.work() != Work::Copy;
        assert_eq!(deferred.byte_length(), whole.len() as u64);
        for step in [1024, 3 * 1024, 1 << 20, 4 << 20] {
            let mut out = vec![1; whole.len()];
            let mut at = 0;
            for part in out.chunks_mut(step) {
                deferred.fill(sources, at, part).unwrap();
                at += part.len() as u64;
            }
            assert!(out == whole, "{step}");
        }
        let code =
            |start, length: usize| deferred.fill(sources, start, &mut vec![0; length]).unwrap_err().code();
        assert_eq!(code(0, whole.len() + 1024), Code::InvalidArg);
        if converts {
            assert_eq!(code(4, whole.len() - 4), Code::InvalidArg);
            assert_eq!(code(0, 4), Code::InvalidArg);
        }
        assert_eq!(code(u64::MAX, 1024), Code::InvalidArg);
    }

    #[test]
    fn a_result_in_pieces_equals_the_whole_result() {
        let noise: Vec<u8> =
            (0..900_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
        for name in ["q4_k", "q8_0", "iq1_m", "nvfp4"] {
            let block = BlockType::of(name).unwrap();
            let count = noise.len() as u64 / block.bytes;
            let stored = &noise[..usize::try_from(count * block.bytes).unwrap()];
            // As numbers, NaN would not equal itself; as bytes it does.
            agrees(stored, Decoding::Blocks(block), count * block.elements);
        }
        agrees(&noise, Decoding::Dense(DType::BFloat16), 450_000);
        agrees(&noise[..200_001], Decoding::Dense(DType::Int8), 200_001);
        agrees(&noise, Decoding::Same, 225_000);
        agrees(&noise[..100_001], Decoding::Dense(DType::Float4E2M1Fn), 200_001);
    }
}
