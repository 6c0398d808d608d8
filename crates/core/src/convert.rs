//! Copies tensors from an open file into one being written, in pieces: whatever its size, little of a tensor stands in
//! memory at once. Held whole are sparse tensors of packed values, and one frame of `zt.zstd-seekable/1`, which decodes to
//! 16 MiB at most.
#![forbid(unsafe_code)]

mod cast;
mod cells;
mod pieces;
mod refusal;
mod rising;
mod spooled;

use cast::{Pushing, cast_length};

pub use cast::Casts;
pub use refusal::{Wanted, attribute_refusal, refusal};

use crate::catalog::{ByteOrder, Component, DType, Encoding, Label, Layout, Tensor};
use crate::checked::{self, bytes_of};
use crate::error::Result;
use crate::inject;
use crate::layout::coo::Coo;
use crate::layout::indices::Indices;
use crate::read::{Reading, Stored};
use crate::source::owned::{self, Owned};
use crate::work::PIECE;
use crate::write::{Dialect, Spec, Writer, arrange, strict};

/// Copies one tensor under a name.
pub fn copy(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    name: &str,
    casts: &Casts,
    writer: &mut Writer,
) -> Result<()> {
    inject::panic_at("convert");
    let spec = Spec {
        name,
        shape: tensor.shape(),
        layout: tensor.layout_name(),
        dtype: casts.tensor(tensor),
        attributes: tensor.attributes(),
        components: &[],
    };
    match tensor.layout() {
        Layout::SparseCsr | Layout::SparseCoo => sparse(reading, tensor, casts, writer, spec)?,
        _ => {
            let mut components = Vec::new();
            let mut parts: Vec<&Component> = tensor.components().iter().collect();
            if writer.dialect() == Dialect::Zt2 {
                parts.sort_by_key(|part| reading.catalog.label(part.role));
            }
            for &part in &parts {
                let role = reading.catalog.label(part.role);
                let dtype = casts.component(tensor, part);
                let length = pieces::decoded_length(reading, tensor, part)?;
                components.push((role, dtype, cast_length(part.dtype, dtype, length)?));
            }
            writer.begin(Spec { components: &components, ..spec })?;
            for part in parts {
                component(reading, tensor, part, casts, writer)?;
            }
        }
    }
    writer.end()?;
    owned::tidy();
    writer.flush_if_full()
}

fn component(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    part: &Component,
    casts: &Casts,
    writer: &mut Writer,
) -> Result<()> {
    let target = casts.component(tensor, part);
    let plain = part.encoding == Encoding::Raw && part.part.is_none() && part.byte_order == ByteOrder::Little;
    if plain && target == part.dtype {
        return raw(reading, part, writer).map_err(|error| error.tensor(tensor.name()));
    }
    let mut pushing = Pushing::new(writer, part.dtype, target);
    pieces::decoded(reading, tensor, part, |piece| pushing.push(piece))
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

fn push(reading: Reading<'_>, writer: &mut Writer, bytes: &[u8]) -> Result<()> {
    for piece in bytes.chunks(PIECE) {
        reading.watch.stop.check()?;
        writer.push(piece)?;
        writer.flush_if_full()?;
    }
    Ok(())
}

/// Sparse tensors up to this size are held whole while they are checked and arranged.
const HELD: u64 = 8 << 20;

fn sparse(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    casts: &Casts,
    writer: &mut Writer,
    spec: Spec<'_>,
) -> Result<()> {
    let parts = crate::read::sparse_parts(tensor)?;
    let dialect = writer.dialect();
    let length = parts.iter().try_fold(0_u64, |total, part| total.checked_add(part.decoded_length?));
    // Packed values have no place of their own in a file.
    let packed = parts.iter().any(|part| part.dtype.is_some_and(|dtype| dtype.bits() < 8));
    if !packed && length.is_none_or(|length| length > HELD) {
        return spooled::copy(reading, tensor, &parts, casts, writer, spec);
    }
    let mut arrays = reading.sparse(tensor)?;
    let target = casts.tensor(tensor);
    if let (Some(values), Some((from, to))) = (arrays.first_mut(), tensor.dtype().zip(target)) {
        let mut cast = Owned::zeroed(cast_length(Some(from), target, values.len() as u64)?)?;
        crate::cast::cast(from, to, values, &mut cast)?;
        *values = cast;
    }
    let index = match dialect {
        Dialect::Zt2 => strict::index_dtype(parts.iter().skip(1).map(|part| part.dtype)),
        _ => DType::Uint64,
    };
    for (array, part) in arrays.iter_mut().zip(&parts).skip(1) {
        if let Some(dtype) = part.dtype.filter(|&dtype| dtype != index) {
            *array = arrange::widened(dtype, array)?;
        }
    }
    let width = target.and_then(|dtype| bytes_of(1, dtype.bits())).unwrap_or(1);
    if dialect == Dialect::Zt2 {
        make_strict(tensor, &mut arrays, index, width).map_err(|error| error.tensor(tensor.name()))?;
    }
    let announced = parts.iter().zip(&arrays).map(|(part, array)| {
        let dtype = if part.role == Label::VALUES { target } else { Some(index) };
        (reading.catalog.label(part.role), dtype, array.len() as u64)
    });
    let mut announced: Vec<_> = announced.collect();
    if dialect == Dialect::Zt2 {
        // In the order of the roles' names, so that canonical blobs need not be moved.
        announced.rotate_left(1);
        arrays.rotate_left(1);
    }
    writer.begin(Spec { components: &announced, ..spec })?;
    match (&arrays[..], dialect) {
        ([values, coords], Dialect::Zt01 | Dialect::Btf) => {
            let width = usize::try_from(width).unwrap_or(1);
            let blob = arrange::coo(dialect, tensor.shape().len(), width, values, coords)?;
            push(reading, writer, &blob)
        }
        ([values, indices, indptr], _) if dialect != Dialect::Zt2 => {
            let order = arrange::csr(dialect, values, indices, indptr);
            order.into_iter().try_for_each(|array| push(reading, writer, array))
        }
        (arrays, _) => arrays.iter().try_for_each(|array| push(reading, writer, array)),
    }
}

/// Columns in rising order and cells that stand once, as the profiles of zTensor 2 ask.
fn make_strict(tensor: Tensor<'_>, arrays: &mut [Owned], index: DType, width: u64) -> Result<()> {
    match arrays {
        [values, indices, indptr] => {
            let width = usize::try_from(width).unwrap_or(1);
            let pointers = Indices::new(index, indptr)?;
            let sorted = strict::rising_rows(Indices::new(index, indices)?, pointers, values, width, 0)?;
            if let Some((new_values, new_indices)) = sorted {
                (*values, *indices) = (new_values, new_indices);
            }
            Ok(())
        }
        [values, coords] => {
            let dtype = tensor.dtype().unwrap_or(DType::Uint8);
            Coo { shape: tensor.shape(), dtype, values, coords: Indices::new(index, coords)? }
                .check_strictly()
        }
        _ => Ok(()),
    }
}
