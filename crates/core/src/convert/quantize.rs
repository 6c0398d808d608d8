//! Quantizes tensors to ggml's blocks: elements are widened to float32 and encoded in batches on all cores, as they are read.
#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::batches::{Batches, gather};
use super::cast::Casts;
use super::scaled::Scales;
pub use super::target::Target;
use crate::checked::{index, product};
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::{BlockType, too_large};
use crate::kernels::quantize::{BlockEncoder, first_not_finite};
use crate::kernels::widen::{float32_len, to_float32};
use crate::model::{DType, Label, Layout, Tensor};
use crate::read::Reading;
use crate::sources::owned::Owned;
use crate::sources::scratch;
use crate::work;
use crate::write::Writer;

/// The number of elements that one core encodes at a time, a multiple of every block size. As float32 they fit into the second-level cache.
const STEP: usize = 1 << 15;
/// The number of elements in a batch.
const BATCH: usize = 64 * STEP;

/// Returns the size of the blocks of a tensor in bytes. Fails with `ZT_BAD_SHAPE` unless its rows are whole blocks.
pub fn length(tensor: Tensor<'_>, kind: BlockEncoder) -> Result<u64> {
    let shape = tensor.shape();
    let (row, block) = (shape.last().copied().unwrap_or(1), kind.elements() as u64);
    if !row.is_multiple_of(block) {
        let message = format!(
            "rows of {row} elements cannot be quantized to {}, whose blocks have {block} elements",
            kind.name()
        );
        return Err(Error::new(Code::BadShape, message));
    }
    let bytes = product(shape).and_then(|elements| (elements / block).checked_mul(kind.bytes() as u64));
    bytes.ok_or_else(too_large)
}

/// Fails unless the elements of a tensor can be quantized.
pub(super) fn check(tensor: Tensor<'_>, kind: BlockEncoder, casts: &Casts) -> Result<()> {
    if tensor.layout_name() == SPLIT_MXFP4 {
        if kind.name() != "mxfp4" {
            let message = format!(
                "the tensor is quantized to mxfp4 already; convert it to GGUF, and that to {}",
                kind.name()
            );
            return Err(Error::new(Code::BadDtype, message));
        }
    } else if casts.scaling(tensor).is_none() {
        Source::of(tensor)?;
    }
    length(tensor, kind).map(drop)
}

/// The layout of MXFP4 in two components, as in the checkpoints of gpt-oss: 16 bytes of "data" for each byte of "scales". It becomes
/// `gguf.mxfp4/1`, without a change of any number.
pub const SPLIT_MXFP4: &str = "mxfp4.split/1";

/// Returns a block of ggml: the scale, then in each byte an element of the first half and one of the second. The source has neighbors in
/// each byte, the first in the low bits.
pub fn joined_block(scale: u8, source: &[u8; 16]) -> [u8; 17] {
    let nibble = |at: usize| source.get(at / 2).copied().unwrap_or_default() >> (4 * (at % 2)) & 15;
    let mut block = [scale; 17];
    for (at, byte) in block.iter_mut().skip(1).enumerate() {
        *byte = nibble(at) | nibble(at + 16) << 4;
    }
    block
}

/// Pushes the blocks of a tensor of [`SPLIT_MXFP4`]. Only the scales, 1/16 of its bytes, are in memory at once.
fn join_blocks(reading: Reading<'_>, tensor: Tensor<'_>, writer: &mut Writer) -> Result<()> {
    let scales = reading.component(tensor, reading.component_of(tensor, Label::SCALES)?)?;
    let (mut scales, mut begun, mut output) = (scales.iter().copied(), Vec::new(), Vec::new());
    reading.pieces(tensor, reading.component_of(tensor, Label::DATA)?, |piece| {
        begun.extend_from_slice(piece);
        let (blocks, rest) = begun.as_chunks::<16>();
        output.clear();
        for block in blocks {
            output.extend(joined_block(scales.next().ok_or_else(wrong_size)?, block));
        }
        begun = rest.to_vec();
        writer.push(&output)?;
        writer.flush_if_full()
    })?;
    if begun.is_empty() && scales.next().is_none() { Ok(()) } else { Err(wrong_size()) }
}

/// How the elements of a tensor are stored.
#[derive(Clone, Copy)]
enum Source<'s> {
    Plain(DType),
    Blocks(BlockType),
    Scaled(&'s Scales<'s>),
}

impl Source<'_> {
    fn of(tensor: Tensor<'_>) -> Result<Self> {
        let plain = tensor.dtype().filter(|dtype| {
            matches!(tensor.layout(), Layout::Dense)
                && float32_len(*dtype, 0).is_some()
                && dtype.bits().is_multiple_of(8)
        });
        if let Some(dtype) = plain {
            return Ok(Self::Plain(dtype));
        }
        BlockType::of_tensor(tensor).map(Self::Blocks).map_err(|_| {
            let message = format!(
                "{} cannot be quantized: supported are dense tensors of numbers, and ggml's blocks",
                tensor.dtype().map_or(tensor.layout_name(), |dtype| dtype.name())
            );
            Error::new(Code::BadDtype, message)
        })
    }

    /// Returns the number of elements that belong together, and their bytes.
    fn unit(self) -> Result<(usize, usize)> {
        match self {
            Self::Plain(dtype) => Ok((1, dtype.element_bytes())),
            Self::Blocks(block) => Ok((index(block.elements, "a block")?, index(block.bytes, "a block")?)),
            Self::Scaled(scales) => Ok((1, scales.width())),
        }
    }

    fn widen(self, first: usize, input: &[u8], out: &mut [u8]) -> Result<()> {
        match self {
            Self::Plain(dtype) => to_float32(dtype, input, out),
            Self::Blocks(block) => block.fill(input, out),
            Self::Scaled(scales) => scales.widen(first as u64, input, out),
        }
    }

    /// Encodes elements from the index `first` on, which are whole blocks, and whole rows if they have weights.
    fn encode(
        self,
        (first, input): (usize, &[u8]),
        kind: BlockEncoder,
        out: &mut [u8],
        weights: Option<&Weights<'_>>,
    ) -> Result<()> {
        let count = out.len() / kind.bytes() * kind.elements();
        scratch::with(4 * count as u64, |widened| {
            self.widen(first, input, widened)?;
            let floats = widened.as_chunks::<4>().0.iter().map(|&bytes| f32::from_ne_bytes(bytes));
            let floats: Vec<f32> = floats.collect();
            if let Some(at) = first_not_finite(&floats) {
                let value = floats.get(at).copied().unwrap_or_default();
                return Err(not_quantizable(&format!("element {} is {value}", first + at)));
            }
            if let Some(weights) = weights {
                let row_out = weights.row / kind.elements() * kind.bytes();
                let rows = floats.chunks(weights.row).zip(out.chunks_mut(row_out));
                for ((floats, out), number) in rows.zip(first / weights.row..) {
                    kind.quantize(floats, weights.row, Some(weights.of_row(number)), out)?;
                }
            } else {
                // Without weights, blocks do not depend on their row.
                kind.quantize(&floats, count.max(kind.elements()), None, out)?;
            }
            kind.first_invalid_block(out).map_or(Ok(()), |block| {
                let from = first + block * kind.elements();
                let last = from + kind.elements() - 1;
                let what = format!("elements {from} to {last} are too large for a scale of {}", kind.name());
                Err(not_quantizable(&what))
            })
        })
    }
}

/// Fails with `ZT_BAD_SHAPE` unless there is a weight for each column of each matrix of a stack.
pub fn check_weights(tensor: Tensor<'_>, weights: &[f32]) -> Result<()> {
    Weights::of(tensor, weights).map(drop)
}

/// Weights of columns.
struct Weights<'w> {
    /// Elements of a row.
    row: usize,
    /// Rows of a matrix.
    rows: usize,
    /// A row of weights for each matrix.
    all: &'w [f32],
}

impl<'w> Weights<'w> {
    /// Fails with `ZT_BAD_SHAPE` unless there is a weight for each column of each matrix.
    fn of(tensor: Tensor<'_>, all: &'w [f32]) -> Result<Self> {
        let shape = tensor.shape();
        let [row, rows] = [1, 2].map(|back| shape.len().checked_sub(back).and_then(|at| shape.get(at)));
        let (row, rows) = (row.copied().unwrap_or(1), rows.copied().unwrap_or(1));
        let matrices = product(shape).and_then(|elements| elements.checked_div(row.checked_mul(rows)?));
        if matrices.and_then(|matrices| matrices.checked_mul(row)) != Some(all.len() as u64) {
            let message = format!("the importance matrix has {} weights for the shape {shape:?}", all.len());
            return Err(Error::new(Code::BadShape, message));
        }
        Ok(Self { row: index(row, "a row")?, rows: index(rows, "a matrix")?.max(1), all })
    }

    fn of_row(&self, number: usize) -> &'w [f32] {
        let start = number / self.rows * self.row;
        self.all.get(start..start + self.row).unwrap_or_default()
    }
}

/// Quantizes the little-endian elements of `input`, the next ones of the open tensor, on all cores, and pushes their blocks into the writer.
/// Fails with `ZT_INVALID_ARG` unless they are whole blocks, and with `ZT_BAD_DTYPE` if they are not finite or too large for a scale.
pub fn push(writer: &mut Writer, dtype: DType, input: &[u8], kind: BlockEncoder) -> Result<()> {
    let width = dtype.element_bytes();
    let count = input.len() / width;
    if !input.len().is_multiple_of(width) || !count.is_multiple_of(kind.elements()) {
        return Err(writer.named(Error::new(Code::InvalidArg, "the elements are not whole blocks")));
    }
    let first = index(writer.pushed(), "a tensor")? / kind.bytes() * kind.elements();
    let mut output = Owned::to_fill((count / kind.elements() * kind.bytes()) as u64)?;
    let steps = output.chunks_mut(STEP / kind.elements() * kind.bytes());
    let steps: Vec<_> = steps.zip(input.chunks(STEP * width)).map(|step| Mutex::new(Some(step))).collect();
    let encoded = work::try_each_on(work::cores(), steps.len(), |at| {
        let step = steps.get(at).and_then(|step| step.lock().ok()?.take());
        let Some((out, input)) = step else { return Ok(()) };
        Source::Plain(dtype).encode((first + at * STEP, input), kind, out, None)
    });
    encoded.map_err(|error| writer.named(error))?;
    drop(steps);
    writer.push(&output)
}

/// Pushes the elements of a tensor into the writer as blocks. Verifies the digest of the component. With weights of importance,
/// errors are weighed.
pub(super) fn copy(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    kind: BlockEncoder,
    casts: &Casts,
    writer: &mut Writer,
) -> Result<()> {
    if tensor.layout_name() == SPLIT_MXFP4 {
        return join_blocks(reading, tensor, writer);
    }
    let mut left = product(tensor.shape()).ok_or_else(too_large)?;
    let scaling = casts.scaling(tensor);
    if left == 0 && scaling.is_some() {
        return Ok(());
    }
    let scales = scaling.map(|scaling| Scales::read(reading, tensor, scaling)).transpose()?;
    let source = scales.as_ref().map_or_else(|| Source::of(tensor), |scales| Ok(Source::Scaled(scales)))?;
    let importance = casts.importance(tensor);
    let (elements, bytes) = source.unit()?;
    let weights = importance.map(|all| Weights::of(tensor, all)).transpose()?;
    // With weights, a step consists of whole rows.
    let step = weights.as_ref().map_or(STEP, |weights| weights.row * (STEP / weights.row).max(1));
    let steps = (BATCH / step).max(1);
    let batch = steps * step / elements * bytes;
    let (step_in, step_out) = (step / elements * bytes, step / kind.elements() * kind.bytes());
    let mut done = 0;
    let component = reading.component_of(tensor, Label::DATA)?;
    let mut batches = Batches::new(reading, writer);
    let flush = |waiting: &[u8]| {
        let count = waiting.len() / bytes * elements;
        left = left.checked_sub(count as u64).ok_or_else(wrong_size)?;
        batches.add(step_out, count / kind.elements() * kind.bytes(), |at, out| {
            let count = out.len() / kind.bytes() * kind.elements();
            let from = at * step_in;
            let input = waiting.get(from..from + count / elements * bytes).unwrap_or_default();
            source.encode((done + at * step, input), kind, out, weights.as_ref())
        })?;
        done += count;
        Ok(())
    };
    gather(reading, tensor, component, (batch, bytes), wrong_size, flush)?;
    if left > 0 { Err(wrong_size()) } else { batches.finish() }
}

/// The error of elements whose blocks `llama-quantize` rejects, too (`ggml_validate_row_data`).
fn not_quantizable(what: &str) -> Error {
    Error::new(
        Code::BadDtype,
        format!("{what}, so the tensor cannot be quantized; f32 and bf16 can store it"),
    )
}

fn wrong_size() -> Error {
    Error::new(Code::Decode, "the data does not have the size that the shape requires")
}
