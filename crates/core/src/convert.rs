//! Copies tensors from an open file to one being written, in pieces: little of a tensor is in memory at once, regardless of its size. Only
//! a frame of `zt.zstd-seekable/1`, which decodes to at most 16 MiB, is held whole. Uses `read` and `write`.
#![forbid(unsafe_code)]

mod batches;
mod cast;
mod column;
mod conversion;
mod dequantize;
mod fitted;
mod inspect;
mod outline;
mod planned;
pub mod quantize;
mod refusal;
pub mod scaled;
mod scaling;
mod selection;
mod sparse_tensor;
mod spooled;
mod steps;
mod target;

use crate::arrange::Arrange;
use cast::{Pushing, cast_length};

pub use cast::Casts;
pub use conversion::{Conversion, Examined};
pub use fitted::{Fitted, fit};
pub use inspect::{depends_on_data, unsupported};
pub use outline::{FilePlan, Mismatch, Outline, Planned, divide, outline};
pub use planned::is_as_planned;
pub use refusal::{Target, attribute_refusal, check_attributes, refusal};
pub use selection::Selection;
pub use steps::{Begun, LeftOut, Part, Plan, PlanRequest, copy_range, derived};

use crate::checked;
use crate::error::{Error, Result};
use crate::inject;
use crate::model::{Attributes, Component, DType, Label, Layout, Tensor};
use crate::read::staging::stored_bytes;
use crate::read::{Reading, Stored};
use crate::sources::owned;
use crate::write::{Spec, Writer};

/// Copies one tensor under a name.
pub fn copy(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    name: &str,
    casts: &Casts,
    writer: &mut Writer,
) -> Result<()> {
    inject::panic_at("convert");
    let attributes = casts.attributes(tensor);
    let spec = spec(tensor, name, casts, attributes.as_deref());
    let named = |error: Error| error.tensor(tensor.name());
    if let Some(target) = casts.quantized(tensor) {
        writer.begin(Spec { components: &announced(reading, tensor, &[], casts)?, ..spec })?;
        quantize::copy(reading, tensor, target.kind, casts, writer).map_err(named)?;
    } else if let Some(dtype) = casts.dequantized(tensor) {
        writer.begin(Spec { components: &announced(reading, tensor, &[], casts)?, ..spec })?;
        let copied = match casts.scaling(tensor) {
            Some(scaling) => scaled::copy(reading, tensor, scaling, dtype, writer),
            None => dequantize::copy(reading, tensor, dtype, writer),
        };
        copied.map_err(named)?;
    } else if matches!(tensor.layout(), Layout::SparseCsr | Layout::SparseCoo) {
        let parts: Vec<&Component> = tensor.other_components().collect();
        let components = announced(reading, tensor, &parts, casts)?;
        sparse_tensor::copy(reading, tensor, casts, writer, Spec { components: &components, ..spec })?;
        parts.into_iter().try_for_each(|part| component(reading, tensor, part, casts, writer))?;
    } else {
        let mut parts: Vec<&Component> = tensor.components().iter().collect();
        if writer.format().canonical.is_some() {
            parts.arrange_by_key(|part| reading.catalog.label(part.role));
        }
        let components = announced(reading, tensor, &parts, casts)?;
        writer.begin(Spec { components: &components, ..spec })?;
        parts.into_iter().try_for_each(|part| component(reading, tensor, part, casts, writer))?;
    }
    writer.end()?;
    owned::trim();
    writer.flush_if_full()
}

/// Lets the writer place its index first, if possible, and sorts the tensors into the order that it requires, so that no byte is written
/// twice. Call it before the first [`copy`].
pub fn lay_out(
    reading: Reading<'_>,
    selection: &mut Selection,
    casts: &Casts,
    writer: &mut Writer,
) -> Result<()> {
    if writer.format().header.is_some() {
        writer.foresee(selection.tensors(reading.catalog).map(|(at, tensor)| {
            let (.., bytes) = written_as(tensor, casts)?;
            Ok((selection.name(at, tensor).into_owned(), bytes))
        }))?;
    }
    if !selection.tensors(reading.catalog).all(|(_, tensor)| is_sized(tensor, casts)) {
        return Ok(());
    }
    let Some(mut plan) = writer.plan() else { return Ok(()) };
    for (at, tensor) in selection.tensors(reading.catalog) {
        let parts: Vec<&Component> = tensor.components().iter().collect();
        plan.add(Spec {
            components: &announced(reading, tensor, &parts, casts)?,
            ..spec(tensor, &selection.name(at, tensor), casts, casts.attributes(tensor).as_deref())
        })?;
    }
    let order = plan.lay_out()?;
    selection.arrange(&order);
    Ok(())
}

/// Returns whether a tensor is written as one blob whose length is known from the index.
pub fn is_sized(tensor: Tensor<'_>, casts: &Casts) -> bool {
    if casts.dequantized(tensor).is_some() || casts.quantized(tensor).is_some() {
        return true;
    }
    let [data] = tensor.components() else { return false };
    !matches!(tensor.layout(), Layout::SparseCsr | Layout::SparseCoo) && data.byte_length().is_some()
}

/// Returns the layout and the dtype that a tensor is written with, and the bytes that its elements take then, before compression.
pub fn written_as<'a>(tensor: Tensor<'a>, casts: &'a Casts) -> Result<(&'a str, Option<DType>, u64)> {
    let Spec { layout, dtype, shape, .. } = spec(tensor, "", casts, None);
    let bytes = match (casts.quantized(tensor), dtype) {
        (Some(target), _) => quantize::length(tensor, target.kind)?,
        (None, Some(dtype)) if layout == "dense" => checked::product(shape)
            .and_then(|elements| checked::bytes_of(elements, dtype.bits()))
            .unwrap_or(u64::MAX),
        _ => stored_bytes(tensor),
    };
    Ok((layout, dtype, bytes))
}

/// Returns the announcement of a tensor to the writer, without its components.
fn spec<'a>(
    tensor: Tensor<'a>,
    name: &'a str,
    casts: &'a Casts,
    attributes: Option<&'a Attributes>,
) -> Spec<'a> {
    let layout = match casts.quantized(tensor) {
        Some(target) => &target.layout,
        None if casts.dequantized(tensor).is_some() => "dense",
        None => tensor.layout_name(),
    };
    Spec { name, shape: tensor.shape(), layout, dtype: casts.tensor(tensor), attributes, components: &[] }
}

/// Returns the announcement of components that are copied unchanged: role, type and size.
fn announced<'a>(
    reading: Reading<'a>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    casts: &Casts,
) -> Result<Vec<(&'a str, Option<DType>, u64)>> {
    if let Some(target) = casts.quantized(tensor) {
        let length = quantize::length(tensor, target.kind)?;
        return Ok(vec![(reading.catalog.label(Label::DATA), Some(DType::Uint8), length)]);
    }
    if let Some(dtype) = casts.dequantized(tensor) {
        return Ok(vec![(
            reading.catalog.label(Label::DATA),
            Some(dtype),
            dequantize::length(tensor, dtype)?,
        )]);
    }
    let one = |part: &&Component| {
        let dtype = casts.component(tensor, part);
        let length = reading.measured(tensor, part)?;
        Ok((reading.catalog.label(part.role), dtype, cast_length(part.dtype, dtype, length)?))
    };
    parts.iter().map(one).collect()
}

fn component(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    part: &Component,
    casts: &Casts,
    writer: &mut Writer,
) -> Result<()> {
    let target = casts.component(tensor, part);
    if part.is_raw_blob() && !part.is_swapped() && target == part.dtype {
        return raw(reading, part, writer).map_err(|error| error.tensor(tensor.name()));
    }
    let mut pushing = Pushing::new(writer, part.dtype, target);
    reading.pieces(tensor, part, |piece| pushing.push(piece))
}

/// Bytes read at once into the writer's memory: they are hashed while they are in the second-level cache.
const SLOT: u64 = 512 << 10;

/// Minimum size for copying by the kernel, which requires that all pending data is written first.
const KERNEL: u64 = 1 << 20;

/// Copies raw data by the kernel if it need not be inspected. Otherwise reads it directly into the memory that it is written or compressed
/// from; only blobs compressed on arrival need a copy.
fn raw(reading: Reading<'_>, part: &Component, writer: &mut Writer) -> Result<()> {
    let mut stored = Stored::new(reading, part)?;
    if stored.left() >= KERNEL {
        stored.hand_over(|file, offset, limit| writer.copy_range(file, offset, limit))?;
    }
    let mut piece = Vec::new();
    while stored.left() > 0 {
        let count = stored.left().min(SLOT);
        if writer.takes_raw() {
            writer.fill(count, |slot| stored.read(slot))?;
            continue;
        }
        piece.resize(checked::index(count, "a piece")?, 0);
        stored.read(&mut piece)?;
        writer.push(&piece)?;
        writer.flush_if_full()?;
    }
    stored.finish()
}
