//! Elements as float32 that are not made until there is a place for them: memory of somebody else's, which only its own thread may
//! write to. What is stored is read, and its digest checked, before that.
#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::Reading;
use crate::checked::{index, product, slice};
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::BlockType;
use crate::kernels::widen;
use crate::model::{Component, DType, Label, Tensor};
use crate::sources::owned::Owned;
use crate::work;

/// Stored elements, and how they become float32.
pub struct Deferred {
    stored: Owned,
    kind: Kind,
    /// Bytes as float32.
    length: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    Blocks(BlockType),
    Dense(DType),
}

/// Bytes of float32 that one core makes in one go.
const PIECE: usize = 256 << 10;

impl Reading<'_> {
    /// The elements of a tensor of ggml's blocks; `None` of other quantized tensors. Fails as [`Reading::dequantize`] does.
    pub fn deferred_blocks(&self, tensor: Tensor<'_>) -> Result<Option<Deferred>> {
        if !tensor.layout_name().starts_with("gguf.") {
            return Ok(None);
        }
        let block = BlockType::of_tensor(tensor).map_err(|error| error.tensor(tensor.name()))?;
        let elements = product(tensor.shape()).unwrap_or(u64::MAX);
        let length = self.float32_bytes(elements).map_err(|error| error.tensor(tensor.name()))?;
        let stored = self.component(tensor, self.component_of(tensor, Label::DATA)?)?;
        let fits = (elements / block.elements).checked_mul(block.bytes) == Some(stored.len() as u64);
        Ok(fits.then_some(Deferred { stored, kind: Kind::Blocks(block), length }))
    }

    /// The elements of a dense component; `None` where its bytes are not what the shape asks for, or have no float32 form.
    pub fn deferred(&self, tensor: Tensor<'_>, component: &Component) -> Result<Option<Deferred>> {
        let Some((dtype, elements)) = component.dtype.zip(product(tensor.shape())) else { return Ok(None) };
        if widen::to_float32(dtype, &[], &mut []).is_err() {
            return Ok(None);
        }
        let length = self.float32_bytes(elements).map_err(|error| error.tensor(tensor.name()))?;
        let stored = self.component(tensor, component)?;
        let wanted = elements.checked_mul(u64::from(dtype.bits())).map(|bits| bits.div_ceil(8));
        let fits = wanted == Some(stored.len() as u64);
        Ok(fits.then_some(Deferred { stored, kind: Kind::Dense(dtype), length }))
    }
}

impl Deferred {
    /// Bytes of all elements as float32.
    pub fn byte_length(&self) -> u64 {
        self.length
    }

    /// Makes the bytes from `start` on, as many as `out` has, in the byte order of the host, on all cores. Fails with
    /// `ZT_INVALID_ARG` where that is not within the elements, or does not begin and end between two blocks of them.
    pub fn fill(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let outside = || Error::new(Code::InvalidArg, "elements outside of a tensor, or within a block");
        // Bits of what is stored for so many bytes of float32.
        let (bits, bytes) = match self.kind {
            Kind::Blocks(block) => (block.bytes.saturating_mul(8), block.elements.saturating_mul(4)),
            Kind::Dense(dtype) => (u64::from(dtype.bits()).saturating_mul(8), 32),
        };
        let stored = |bytes_of: u64| {
            let units = bytes_of.is_multiple_of(bytes).then(|| bytes_of / bytes)?;
            units.checked_mul(bits / 8)
        };
        let end =
            start.checked_add(out.len() as u64).filter(|&end| end <= self.length).ok_or_else(outside)?;
        let first = stored(start).ok_or_else(outside)?;
        // The last elements of a narrow type may not fill their unit.
        let last =
            if end == self.length { self.stored.len() as u64 } else { stored(end).ok_or_else(outside)? };
        let count = last.checked_sub(first).ok_or_else(outside)?;
        let input = slice(&self.stored, first, count).ok_or_else(outside)?;
        let step = PIECE - PIECE % index(bytes, "a block")?;
        let inputs: Vec<_> =
            input.chunks(index(stored(step as u64).ok_or_else(outside)?, "a block")?).collect();
        let outputs: Vec<_> = out.chunks_mut(step).map(|out| Mutex::new(Some(out))).collect();
        work::try_each_on(work::cores(), inputs.len().max(outputs.len()), |at| {
            let out = outputs.get(at).and_then(|out| out.lock().ok()?.take()).unwrap_or_default();
            let input = inputs.get(at).copied().unwrap_or_default();
            match self.kind {
                Kind::Blocks(block) => block.fill(input, out),
                Kind::Dense(dtype) => widen::to_float32(dtype, input, out),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(stored: &[u8], kind: Kind, elements: u64) {
        let mut whole = vec![0; usize::try_from(elements * 4).unwrap()];
        match kind {
            Kind::Blocks(block) => block.fill(stored, &mut whole).unwrap(),
            Kind::Dense(dtype) => widen::to_float32(dtype, stored, &mut whole).unwrap(),
        }
        let deferred = Deferred { stored: Owned::from(stored.to_vec()), kind, length: elements * 4 };
        assert_eq!(deferred.byte_length(), elements * 4);
        for step in [1024, 3 * 1024, 1 << 20, 4 << 20] {
            let mut out = vec![1; whole.len()];
            let mut at = 0;
            for part in out.chunks_mut(step) {
                deferred.fill(at, part).unwrap();
                at += part.len() as u64;
            }
            assert!(out == whole, "{step}");
        }
        let code = |start, length: usize| deferred.fill(start, &mut vec![0; length]).unwrap_err().code();
        assert_eq!(code(0, whole.len() + 1024), Code::InvalidArg);
        assert_eq!(code(4, whole.len() - 4), Code::InvalidArg);
        assert_eq!(code(0, 4), Code::InvalidArg);
        assert_eq!(code(u64::MAX, 1024), Code::InvalidArg);
    }

    #[test]
    fn what_is_made_in_pieces_is_what_is_made_at_once() {
        let noise: Vec<u8> =
            (0..900_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
        for name in ["q4_k", "q8_0", "iq1_m", "nvfp4"] {
            let block = BlockType::of(name).unwrap();
            let count = noise.len() as u64 / block.bytes;
            let stored = &noise[..usize::try_from(count * block.bytes).unwrap()];
            // NaN of noise would not equal itself as numbers; as bytes it does.
            agrees(stored, Kind::Blocks(block), count * block.elements);
        }
        agrees(&noise, Kind::Dense(DType::BFloat16), 450_000);
        agrees(&noise[..200_001], Kind::Dense(DType::Int8), 200_001);
        agrees(&noise[..100_001], Kind::Dense(DType::Float4E2M1Fn), 200_001);
    }
}
