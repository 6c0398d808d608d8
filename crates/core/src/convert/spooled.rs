//! Sparse tensors that are too large to be held: their blobs are decoded into a nameless file, and checked and arranged from
//! there in blocks.
#![forbid(unsafe_code)]

use super::cast::{Casts, Pushing, cast_length};
use super::cells::Cells;
use super::column::{BLOCK, Column};
use super::rising;
use super::sparse::index_dtype;
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::layouts::elements::Elements;
use crate::layouts::indices::Indices;
use crate::layouts::{coo, csr};
use crate::model::{Component, DType, DataRule, Label, Layout, Tensor};
use crate::read::Reading;
use crate::sinks::Spool;
use crate::write::{Dialect, Spec, Writer, arrange};

/// A sparse tensor decoded into nameless files, after the rules of its layout were checked.
struct Spooled {
    blobs: Spool,
    /// Where the blob of each component begins and ends.
    places: Vec<(u64, u64)>,
    /// Values and columns where rows had to be sorted.
    sorted: Option<[Spool; 2]>,
}

impl Spooled {
    /// `parts` are the components in the order of `read::sparse_parts`; `spool` makes a nameless file.
    fn new(
        reading: Reading<'_>,
        tensor: Tensor<'_>,
        parts: &[&Component],
        dialect: Dialect,
        spool: &dyn Fn() -> Result<Spool>,
    ) -> Result<Self> {
        let mut blobs = spool()?;
        let places = fill(reading, tensor, parts, &mut blobs)?;
        let mut spooled = Self { blobs, places, sorted: None };
        let columns = spooled.columns(tensor, parts)?;
        let sorted = check(reading, tensor, &columns)
            .and_then(|()| make_strict(reading, tensor, parts, &columns, dialect, spool))
            .map_err(|error| error.tensor(tensor.name()))?;
        spooled.sorted = sorted;
        Ok(spooled)
    }

    fn columns(&self, tensor: Tensor<'_>, parts: &[&Component]) -> Result<Vec<Column<'_>>> {
        let columns =
            parts.iter().zip(&self.places).map(|(part, &place)| Column::new(&self.blobs, part, place));
        let mut columns = columns.collect::<Result<Vec<_>>>().map_err(|error| error.tensor(tensor.name()))?;
        if let (Some([values, indices]), [old_values, old_indices, _]) = (&self.sorted, &mut columns[..]) {
            *old_values = Column::whole(values, old_values.dtype, old_values.elements());
            *old_indices = Column::whole(indices, old_indices.dtype, old_indices.elements());
        }
        Ok(columns)
    }
}

/// Fails as [`copy`] would for the tensor's data.
pub fn judge(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    rule: Option<DataRule>,
    dialect: Dialect,
    spool: &dyn Fn() -> Result<Spool>,
) -> Result<()> {
    let spooled = Spooled::new(reading, tensor, parts, dialect, spool)?;
    let columns = spooled.columns(tensor, parts)?;
    let (Some(values), Some(_)) = (columns.first(), rule) else { return Ok(()) };
    let mut elements = Elements::new(rule);
    values.blocks(0, values.elements(), |_, bytes| {
        reading.watch.stop.check()?;
        elements.update(&bytes)
    })?;
    elements.finish()
}

/// As [`super::sparse::copy`]; `parts` are the components in the order of `read::sparse_parts`.
pub fn copy(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    casts: &Casts,
    writer: &mut Writer,
    spec: Spec<'_>,
) -> Result<()> {
    let spooled = Spooled::new(reading, tensor, parts, writer.dialect(), &|| writer.spool())?;
    let columns = spooled.columns(tensor, parts)?;
    let zt2 = writer.dialect() == Dialect::Zt2;
    let index = index_dtype(writer.dialect(), parts);
    let announced = parts.iter().zip(&columns).map(|(part, column)| {
        let (dtype, length) = if part.role == Label::VALUES {
            let dtype = casts.component(tensor, part);
            (dtype, cast_length(part.dtype, dtype, column.length)?)
        } else {
            (Some(index), column.elements() * index.element_bytes() as u64)
        };
        Ok((reading.catalog.label(part.role), dtype, length))
    });
    let mut announced = announced.collect::<Result<Vec<_>>>()?;
    if zt2 {
        // In the order of the roles' names, so that canonical blobs need not be moved.
        announced.rotate_left(1);
    }
    announced.extend(spec.components);
    writer.begin(Spec { components: &announced, ..spec })?;
    let target = casts.tensor(tensor);
    let indices = |column: &Column<'_>, writer: &mut Writer| index_array(reading, column, index, writer);
    match (&columns[..], writer.dialect()) {
        ([values, coords], Dialect::Zt01 | Dialect::Btf) => {
            packed_coo(reading, tensor.shape().len() as u64, values, target, coords, writer)
        }
        ([values, columns, indptr], Dialect::Zt01) => {
            indices(indptr, writer)?;
            indices(columns, writer)?;
            value_array(reading, values, target, writer)
        }
        ([values, others @ ..], Dialect::Zt2) => {
            others.iter().try_for_each(|column| indices(column, writer))?;
            value_array(reading, values, target, writer)
        }
        ([values, others @ ..], _) => {
            value_array(reading, values, target, writer)?;
            others.iter().try_for_each(|column| indices(column, writer))
        }
        ([], _) => Ok(()),
    }
}

/// What version 2 promises of its sparse tensors: checked of a source of that version, and made so for a target of it.
/// Gives values and columns where rows had to be sorted.
fn make_strict(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    columns: &[Column<'_>],
    dialect: Dialect,
    spool: &dyn Fn() -> Result<Spool>,
) -> Result<Option<[Spool; 2]>> {
    let stop = &reading.watch.stop;
    let promised = parts.get(1).and_then(|part| part.rule);
    let wanted = dialect == Dialect::Zt2;
    match columns {
        [values, indices, indptr] if wanted || promised == Some(DataRule::RisingColumns) => {
            match rising::first_fall(indices, indptr, stop)? {
                None => Ok(None),
                // Packed values come from version 2 alone.
                Some(fall) if promised == Some(DataRule::RisingColumns) || values.dtype.bits() < 8 => {
                    Err(fall.error())
                }
                Some(_) => {
                    let (mut new_values, mut new_indices) = (spool()?, spool()?);
                    rising::sort([values, indices, indptr], [&mut new_values, &mut new_indices], stop)?;
                    Ok(Some([new_values, new_indices]))
                }
            }
        }
        [values, coords] if wanted || promised == Some(DataRule::UniqueCells) => {
            let shape = tensor.shape();
            let nnz = coords.elements().checked_div(shape.len() as u64);
            let cells = Cells { coords, shape, nnz: nnz.unwrap_or_else(|| values.elements()) };
            cells.check_unique(stop).map(|()| None)
        }
        _ => Ok(None),
    }
}

/// Decodes each blob into the spool, one that several components share but once, and says where the blob of each component
/// begins and ends.
fn fill(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    spool: &mut Spool,
) -> Result<Vec<(u64, u64)>> {
    let mut places: Vec<(u64, u64)> = Vec::new();
    let mut end = 0;
    for (at, part) in parts.iter().enumerate() {
        let shared = parts.iter().take(at).position(|earlier| {
            let place = |part: &Component| part.blob().map(|blob| (blob.span(), blob.encoding));
            place(part).is_some_and(|blob| place(earlier) == Some(blob))
        });
        if let Some(place) = shared.and_then(|shared| places.get(shared)) {
            places.push(*place);
            continue;
        }
        let start = end;
        let written = reading.blob_pieces(part, |piece| {
            end += piece.len() as u64;
            spool.write(piece)
        });
        written.map_err(|error| error.tensor(tensor.name()).component(reading.catalog.label(part.role)))?;
        places.push((start, end));
    }
    Ok(places)
}

/// The rules that only the data can tell, as `Csr::check` and `Coo::check` have them.
fn check(reading: Reading<'_>, tensor: Tensor<'_>, columns: &[Column<'_>]) -> Result<()> {
    let stop = &reading.watch.stop;
    match (tensor.layout(), tensor.shape(), columns) {
        (Layout::SparseCsr, &[rows, cols], [values, indices, indptr]) => {
            csr::check_lengths(rows, values.dtype, [values.length, indices.elements(), indptr.elements()])?;
            let mut pointers = csr::Pointers::default();
            indptr.blocks(0, indptr.elements(), |_, bytes| {
                stop.check()?;
                pointers.next(&Indices::new(indptr.dtype, &bytes)?)
            })?;
            pointers.end(indices.elements())?;
            indices.blocks(0, indices.elements(), |first, bytes| {
                stop.check()?;
                csr::check_columns(
                    &Indices::new(indices.dtype, &bytes)?,
                    cols,
                    checked::index(first, "a column")?,
                )
            })
        }
        (_, shape, [values, coords]) => {
            let rank = shape.len() as u64;
            let nnz = coords.elements().checked_div(rank).unwrap_or_else(|| values.elements());
            coo::check_lengths(shape.len(), values.dtype, [values.length, nnz, coords.elements()])?;
            shape.iter().enumerate().try_for_each(|(d, &dim)| {
                let begin = d as u64 * nnz;
                coords.blocks(begin, begin + nnz, |first, bytes| {
                    stop.check()?;
                    coo::check_axis(&Indices::new(coords.dtype, &bytes)?, d, dim, nnz, first - begin)
                })
            })
        }
        _ => Err(Error::new(Code::BadLayout, "a component is missing")),
    }
}

fn value_array(
    reading: Reading<'_>,
    values: &Column<'_>,
    to: Option<DType>,
    writer: &mut Writer,
) -> Result<()> {
    let mut pushing = Pushing::new(writer, Some(values.dtype), to);
    values.blocks(0, values.elements(), |_, bytes| {
        reading.watch.stop.check()?;
        pushing.push(&bytes)
    })
}

fn index_array(reading: Reading<'_>, column: &Column<'_>, to: DType, writer: &mut Writer) -> Result<()> {
    column.blocks(0, column.elements(), |_, bytes| {
        reading.watch.stop.check()?;
        if column.dtype == to {
            writer.push(&bytes)?;
        } else {
            writer.push(&arrange::widened(column.dtype, &bytes)?)?;
        }
        writer.flush_if_full()
    })
}

/// The one blob of a COO tensor: in 0.1 entries of coordinates and a value, in BTF all coordinates and then all values.
fn packed_coo(
    reading: Reading<'_>,
    rank: u64,
    values: &Column<'_>,
    to: Option<DType>,
    coords: &Column<'_>,
    writer: &mut Writer,
) -> Result<()> {
    let nnz = values.elements();
    let dialect = writer.dialect();
    let target = to.unwrap_or(values.dtype);
    let btf = dialect == Dialect::Btf;
    if btf {
        writer.push(&[nnz.to_le_bytes(), rank.to_le_bytes()].concat())?;
    }
    let block = (BLOCK / rank.max(1)).max(1);
    let mut first = 0;
    while first < nnz {
        reading.watch.stop.check()?;
        let count = block.min(nnz - first);
        let mut tuples = Vec::new();
        for d in 0..rank {
            let axis = coords.read(d * nnz + first, count)?;
            tuples.extend_from_slice(&arrange::widened(coords.dtype, &axis)?);
        }
        let entries = if btf {
            arrange::tuples(usize::try_from(rank).unwrap_or(0), &tuples)
        } else {
            let bytes = values.read(first, count)?;
            let width = target.element_bytes();
            let mut cast = vec![0; bytes.len() / values.dtype.element_bytes() * width];
            crate::kernels::cast::cast(values.dtype, target, &bytes, &mut cast)?;
            arrange::coo(dialect, usize::try_from(rank).unwrap_or(0), width, &cast, &tuples)?.to_vec()
        };
        writer.push(&entries)?;
        writer.flush_if_full()?;
        first += count;
    }
    if btf {
        writer.push(&nnz.to_le_bytes())?;
        value_array(reading, values, to, writer)?;
    }
    Ok(())
}
