//! Copies tensors from an open file into one being written, in pieces: whatever its size, little of a tensor is in
//! memory at once. Held whole is one frame of `zt.zstd-seekable/1`, which decodes to at most 16 MiB. Uses `read` and
//! `write`.
#![forbid(unsafe_code)]

mod cast;
mod chosen;
mod column;
mod judge;
mod refusal;
mod sparse_tensor;
mod spooled;

use cast::{Pushing, cast_length};

pub use cast::Casts;
pub use chosen::Chosen;
pub use judge::{is_judged, unfit};
pub use refusal::{Wanted, attribute_refusal, refusal};

use crate::checked;
use crate::error::Result;
use crate::inject;
use crate::model::{Component, DType, Layout, Tensor};
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
    let spec = spec(tensor, name, casts);
    match tensor.layout() {
        Layout::SparseCsr | Layout::SparseCoo => {
            let parts: Vec<&Component> = tensor.other_components().collect();
            let components = announced(reading, tensor, &parts, casts)?;
            sparse_tensor::copy(reading, tensor, casts, writer, Spec { components: &components, ..spec })?;
            parts.into_iter().try_for_each(|part| component(reading, tensor, part, casts, writer))?;
        }
        _ => {
            let mut parts: Vec<&Component> = tensor.components().iter().collect();
            if writer.format().canonical.is_some() {
                parts.sort_by_key(|part| reading.catalog.label(part.role));
            }
            let components = announced(reading, tensor, &parts, casts)?;
            writer.begin(Spec { components: &components, ..spec })?;
            parts.into_iter().try_for_each(|part| component(reading, tensor, part, casts, writer))?;
        }
    }
    writer.end()?;
    owned::tidy();
    writer.flush_if_full()
}

/// Has the writer put its index first, where that can be done, and puts the tensors into the order that it asks for: then no byte is
/// written twice. Call it before the first [`copy`].
pub fn lay_out(reading: Reading<'_>, chosen: &mut Chosen, casts: &Casts, writer: &mut Writer) -> Result<()> {
    let known = |(_, tensor): (usize, Tensor<'_>)| {
        let [data] = tensor.components() else { return false };
        tensor.layout() == Layout::Dense && data.byte_length().is_some()
    };
    if !chosen.tensors(reading.catalog).all(known) {
        return Ok(());
    }
    let Some(mut plan) = writer.plan() else { return Ok(()) };
    for (at, tensor) in chosen.tensors(reading.catalog) {
        let parts: Vec<&Component> = tensor.components().iter().collect();
        plan.add(Spec {
            components: &announced(reading, tensor, &parts, casts)?,
            ..spec(tensor, &chosen.name(at, tensor), casts)
        })?;
    }
    let order = plan.lay_out()?;
    chosen.arrange(&order);
    Ok(())
}

/// A tensor as the writer is told of it, but for its components.
fn spec<'a>(tensor: Tensor<'a>, name: &'a str, casts: &Casts) -> Spec<'a> {
    Spec {
        name,
        shape: tensor.shape(),
        layout: tensor.layout_name(),
        dtype: casts.tensor(tensor),
        attributes: tensor.attributes(),
        components: &[],
    }
}

/// What the writer is told of components that are copied as they are: role, type and bytes.
fn announced<'a>(
    reading: Reading<'a>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    casts: &Casts,
) -> Result<Vec<(&'a str, Option<DType>, u64)>> {
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

/// Bytes read at once where they go into the writer's own memory: they are hashed while they are in the second-level cache.
const SLOT: u64 = 512 << 10;

/// From here on it pays to have the kernel copy, for which all that waits has to be written first.
const KERNEL: u64 = 1 << 20;

/// Has the kernel copy raw data where nobody has to see it, else reads it to where it will be written or compressed from,
/// without a copy between; only blobs that are compressed as they come take one.
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
