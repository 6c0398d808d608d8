//! Converts quantized tensors to dense tensors of floats. Each value is computed as float32, as by `dequantize`, and
//! rounded once. Batches of a few MiB are decoded on all cores. Only codes and scales stored in separate components are
//! loaded whole.
#![forbid(unsafe_code)]

use super::batches::{Batches, gather};
use crate::checked::{bytes_of, index, product};
use crate::error::{Code, Error, Result};
use crate::kernels::cast::cast;
use crate::kernels::dequantize::{BlockType, PIECE, Quantized, too_large};
use crate::kernels::swap::swap_bytes;
use crate::model::{DType, Label, Tensor};
use crate::read::Reading;
use crate::sources::scratch;
use crate::write::Writer;

/// The number of elements that one core decodes at a time. As float32 they fit into the second-level cache. A multiple
/// of every block size.
const STEP: usize = 1 << 16;
/// The number of elements in a batch.
const BATCH: usize = 64 * STEP;

/// Returns the size in bytes of a tensor's elements in the target dtype.
pub fn length(tensor: Tensor<'_>, dtype: DType) -> Result<u64> {
    product(tensor.shape()).and_then(|elements| bytes_of(elements, dtype.bits())).ok_or_else(too_large)
}

/// Fails if the tensor cannot be decoded because its parameters contradict each other.
pub fn check(tensor: Tensor<'_>) -> Result<()> {
    match Quantized::new(tensor)? {
        Some(_) => Ok(()),
        None => BlockType::of_tensor(tensor).map(drop),
    }
}

/// Pushes the elements of a quantized tensor into the writer as `dtype`: float32, float16 or bfloat16.
pub fn copy(reading: Reading<'_>, tensor: Tensor<'_>, dtype: DType, writer: &mut Writer) -> Result<()> {
    if let Some(quantized) = Quantized::new(tensor)? {
        return codes(reading, tensor, &quantized, dtype, writer);
    }
    let block = BlockType::of_tensor(tensor)?;
    let unit = (index(block.elements, "a block")?, index(block.bytes, "a block")?);
    widened(reading, tensor, unit, dtype, too_many, writer, |_, input, out| block.fill(input, out))
}

/// Pushes elements, which are stored in units of so many elements and bytes, into the writer as they are read. `widen` gets the index of the
/// first element, whole units, and the output for their elements as float32 in the byte order of the host. Verifies the digest of the
/// component. Fails with `wrong_size` if there are more or fewer elements than the shape requires.
pub(super) fn widened(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    (elements, bytes): (usize, usize),
    dtype: DType,
    wrong_size: fn() -> Error,
    writer: &mut Writer,
    widen: impl Fn(u64, &[u8], &mut [u8]) -> Result<()> + Sync,
) -> Result<()> {
    let component = reading.component_of(tensor, Label::DATA)?;
    let mut batches = Batches::new(reading, writer);
    let mut left = product(tensor.shape()).ok_or_else(too_large)?;
    let mut done = 0;
    let flush = |waiting: &[u8]| {
        let count = waiting.len() / bytes * elements;
        left = left.checked_sub(count as u64).ok_or_else(wrong_size)?;
        add(&mut batches, dtype, (STEP, count), |first, out| {
            let from = first / elements * bytes;
            let input = waiting.get(from..from + out.len() / 4 / elements * bytes);
            widen(done + first as u64, input.unwrap_or_default(), out)
        })?;
        done += count as u64;
        Ok(())
    };
    gather(reading, tensor, component, (BATCH / elements * bytes, bytes), wrong_size, flush)?;
    if left > 0 { Err(wrong_size()) } else { batches.finish() }
}

/// Decodes codes and scales stored in separate components.
fn codes(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    quantized: &Quantized,
    dtype: DType,
    writer: &mut Writer,
) -> Result<()> {
    let parts = reading.quantized_parts(tensor, quantized)?;
    let mut batches = Batches::new(reading, writer);
    let mut from = 0;
    while from < quantized.elements {
        let count = index((quantized.elements - from).min(BATCH as u64), "a batch")?;
        // `decode` starts at multiples of a piece.
        add(&mut batches, dtype, (PIECE, count), |first, out| {
            quantized.decode(&parts, from + first as u64, out.as_chunks_mut::<4>().0)
        })?;
        from += count as u64;
    }
    batches.finish()
}

/// Adds a batch of `count` elements that `decode` produces as float32 in the byte order of the host. `decode` gets the index of the
/// first element of a step, and the output buffer of the step.
fn add(
    batches: &mut Batches<'_, '_>,
    dtype: DType,
    (step, count): (usize, usize),
    decode: impl Fn(usize, &mut [u8]) -> Result<()> + Sync,
) -> Result<()> {
    let width = dtype.element_bytes();
    let float32 = |first: usize, out: &mut [u8]| {
        decode(first, out)?;
        if cfg!(target_endian = "big") {
            swap_bytes(out, 4);
        }
        Ok(())
    };
    batches.add(step * width, count * width, |at, out| {
        if dtype == DType::Float32 {
            return float32(at * step, out);
        }
        scratch::with((out.len() / width * 4) as u64, |floats| {
            float32(at * step, floats)?;
            cast(DType::Float32, dtype, floats, out)
        })
    })
}

fn too_many() -> Error {
    Error::new(Code::Decode, "the data is not as many blocks as the shape asks for")
}
