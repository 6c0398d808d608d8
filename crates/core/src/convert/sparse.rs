//! Sparse tensors on their way: checked as their layout asks, and arranged as the target has them.
#![forbid(unsafe_code)]

use super::cast::{Casts, cast_length};
use super::spooled;
use crate::checked::bytes_of;
use crate::error::Result;
use crate::layouts::coo::Coo;
use crate::layouts::elements;
use crate::layouts::indices::Indices;
use crate::model::{Component, DType, DataRule, Label, Tensor};
use crate::read::{Reading, sparse_parts};
use crate::sinks::Spool;
use crate::sources::owned::Owned;
use crate::work::PIECE;
use crate::write::{Dialect, Spec, Writer, arrange, strict};

/// Sparse tensors up to this size are held whole while they are checked and arranged.
const HELD: u64 = 8 << 20;

/// Whether the arrays are too large to be held.
fn is_spooled(parts: &[&Component]) -> bool {
    let length = parts.iter().try_fold(0_u64, |total, part| total.checked_add(part.byte_length()?));
    length.is_none_or(|length| length > HELD)
}

/// The arrays of a tensor as the target has them, in the order of `read::sparse_parts`.
struct Held {
    arrays: Vec<Owned>,
    /// The type of the index arrays.
    index: DType,
    /// Bytes of a value.
    width: u64,
}

impl Held {
    fn new(
        reading: Reading<'_>,
        tensor: Tensor<'_>,
        parts: &[&Component],
        casts: &Casts,
        dialect: Dialect,
    ) -> Result<Self> {
        let mut arrays = reading.sparse(tensor)?;
        let target = casts.tensor(tensor);
        if let (Some(values), Some((from, to))) = (arrays.first_mut(), tensor.dtype().zip(target)) {
            let mut cast = Owned::zeroed(cast_length(Some(from), target, values.len() as u64)?)?;
            crate::kernels::cast::cast(from, to, values, &mut cast)?;
            *values = cast;
        }
        let index = index_dtype(dialect, parts);
        for (array, part) in arrays.iter_mut().zip(parts).skip(1) {
            if let Some(dtype) = part.dtype.filter(|&dtype| dtype != index) {
                *array = arrange::widened(dtype, array)?;
            }
        }
        let width = target.and_then(|dtype| bytes_of(1, dtype.bits())).unwrap_or(1);
        if dialect == Dialect::Zt2 {
            make_strict(tensor, &mut arrays, index, width).map_err(|error| error.tensor(tensor.name()))?;
        }
        Ok(Self { arrays, index, width })
    }
}

/// The type of index arrays in the target.
pub fn index_dtype(dialect: Dialect, parts: &[&Component]) -> DType {
    match dialect {
        Dialect::Zt2 => strict::index_dtype(parts.iter().skip(1).map(|part| part.dtype)),
        _ => DType::Uint64,
    }
}

/// Fails as [`copy`] would for the tensor's data. `rule`: what the target asks of the values; `spool` makes a nameless file.
pub fn judge(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    rule: Option<DataRule>,
    casts: &Casts,
    dialect: Dialect,
    spool: &dyn Fn() -> Result<Spool>,
) -> Result<()> {
    let parts = sparse_parts(tensor)?;
    if is_spooled(&parts) {
        return spooled::judge(reading, tensor, &parts, rule, dialect, spool);
    }
    let held = Held::new(reading, tensor, &parts, casts, dialect)?;
    held.arrays.first().map_or(Ok(()), |values| elements::check(rule, values))
}

/// Copies the arrays of a sparse tensor. `spec` has the components beside them, whose bytes come behind theirs.
pub fn copy(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    casts: &Casts,
    writer: &mut Writer,
    spec: Spec<'_>,
) -> Result<()> {
    let parts = sparse_parts(tensor)?;
    if is_spooled(&parts) {
        return spooled::copy(reading, tensor, &parts, casts, writer, spec);
    }
    let dialect = writer.dialect();
    let Held { mut arrays, index, width } = Held::new(reading, tensor, &parts, casts, dialect)?;
    let announced = parts.iter().zip(&arrays).map(|(part, array)| {
        let dtype = if part.role == Label::VALUES { casts.tensor(tensor) } else { Some(index) };
        (reading.catalog.label(part.role), dtype, array.len() as u64)
    });
    let mut announced: Vec<_> = announced.collect();
    if dialect == Dialect::Zt2 {
        // In the order of the roles' names, so that canonical blobs need not be moved.
        announced.rotate_left(1);
        arrays.rotate_left(1);
    }
    announced.extend(spec.components);
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

fn push(reading: Reading<'_>, writer: &mut Writer, bytes: &[u8]) -> Result<()> {
    for piece in bytes.chunks(PIECE) {
        reading.watch.stop.check()?;
        writer.push(piece)?;
        writer.flush_if_full()?;
    }
    Ok(())
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
