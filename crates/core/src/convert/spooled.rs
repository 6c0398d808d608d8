//! Sparse tensors that are too large to be held: their blobs are decoded into a nameless file, and checked and arranged from
//! there in blocks.
#![forbid(unsafe_code)]

use super::cast::{Casts, Pushing, cast_length};
use super::cells::Cells;
use super::{pieces, rising};
use crate::catalog::{ByteOrder, Component, DType, DataRule, Label, Layout, Part, Tensor};
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::layout::indices::Indices;
use crate::layout::records::{self, Records};
use crate::layout::{coo, csr};
use crate::read::Reading;
use crate::sink::Spool;
use crate::swap::swap_bytes;
use crate::write::{Dialect, Spec, Writer, arrange, strict};

/// Elements handled at a time.
pub(super) const BLOCK: u64 = 64 << 10;
/// Bytes of records read at once.
const RECORDS: u64 = 4 << 20;

/// One array of the tensor, wherever it lies in the spool.
pub(super) struct Column<'a> {
    spool: &'a Spool,
    /// The blob in the spool.
    start: u64,
    end: u64,
    part: Part,
    pub(super) dtype: DType,
    big: bool,
    /// Bytes of the array.
    length: u64,
}

impl<'a> Column<'a> {
    /// An array that is all of a spool, of `elements` of a type.
    fn whole(spool: &'a Spool, dtype: DType, elements: u64) -> Self {
        let length = elements * dtype.element_bytes() as u64;
        Self {
            spool,
            start: 0,
            end: length,
            part: Part::Range { start: 0, length },
            dtype,
            big: false,
            length,
        }
    }

    /// Bytes of `count` elements from element `first` on.
    pub(super) fn read(&self, first: u64, count: u64) -> Result<Vec<u8>> {
        let width = self.dtype.element_bytes() as u64;
        let mut bytes = vec![0; checked::index(count * width, "a block")?];
        match self.part {
            Part::Records(records) => self.gather(records, first, &mut bytes)?,
            Part::Range { start, .. } => self.fill(start.saturating_add(first * width), &mut bytes)?,
            Part::InBlob(_) => return Err(outside()),
        }
        if self.big {
            swap_bytes(&mut bytes, self.dtype.element_bytes());
        }
        Ok(bytes)
    }

    fn fill(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let at = self.start.checked_add(at).ok_or_else(outside)?;
        checked::end_within(at, bytes.len() as u64, self.end).ok_or_else(outside)?;
        self.spool.read_at(at, bytes)
    }

    /// Elements stand field by field, each field in `count` records.
    fn gather(&self, records: Records, first: u64, mut out: &mut [u8]) -> Result<()> {
        let mut at = first;
        while !out.is_empty() {
            let (field, record) = (at / records.count.max(1), at % records.count.max(1));
            let wanted = out.len() as u64 / records.width.max(1);
            let room = (RECORDS / records.stride.max(1)).max(1);
            let count = (records.count - record).min(wanted).min(room);
            let begin = record.checked_mul(records.stride).and_then(|at| at.checked_add(records.start));
            let begin = begin.and_then(|at| at.checked_add(field * records.width)).ok_or_else(outside)?;
            let length = (count - 1) * records.stride + records.width;
            let mut input = vec![0; checked::index(length, "records")?];
            self.fill(begin, &mut input)?;
            let (now, later) = out.split_at_mut(checked::index(count * records.width, "a block")?);
            records::from_records(&input, Records { start: 0, fields: 1, count, ..records }, now)?;
            out = later;
            at += count;
        }
        Ok(())
    }

    pub(super) fn elements(&self) -> u64 {
        self.length / self.dtype.element_bytes() as u64
    }

    /// The indices that `bytes` of it are.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Vec<u64>> {
        let indices = Indices::new(self.dtype, bytes)?;
        let mut numbers = vec![0; indices.len()];
        if indices.decode(0, &mut numbers) < numbers.len() {
            return Err(Error::new(Code::BadSparse, "an index is negative or too large"));
        }
        Ok(numbers)
    }

    /// `count` indices from element `first` on.
    pub(super) fn numbers(&self, first: u64, count: u64) -> Result<Vec<u64>> {
        self.decode(&self.read(first, count)?)
    }

    /// Calls `each` with the position of the first element and the bytes of each block from `first` to `end`.
    pub(super) fn blocks(
        &self,
        first: u64,
        end: u64,
        mut each: impl FnMut(u64, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut at = first;
        while at < end {
            let count = BLOCK.min(end - at);
            each(at, self.read(at, count)?)?;
            at += count;
        }
        Ok(())
    }
}

fn outside() -> Error {
    Error::new(Code::Decode, "the decoded blob is shorter than its parts")
}

/// Copies a sparse tensor; `parts` are its components in the order of `read::sparse_parts`.
pub fn copy(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    casts: &Casts,
    writer: &mut Writer,
    spec: Spec<'_>,
) -> Result<()> {
    let mut spool = writer.spool()?;
    let places = fill(reading, tensor, parts, &mut spool)?;
    let columns = parts.iter().zip(places).map(|(part, place)| column(&spool, part, place));
    let mut columns = columns.collect::<Result<Vec<_>>>().map_err(|error| error.tensor(tensor.name()))?;
    let sorted = check(reading, tensor, &columns)
        .and_then(|()| make_strict(reading, tensor, parts, &columns, writer))
        .map_err(|error| error.tensor(tensor.name()))?;
    if let (Some([values, indices]), [old_values, old_indices, _]) = (&sorted, &mut columns[..]) {
        *old_values = Column::whole(values, old_values.dtype, old_values.elements());
        *old_indices = Column::whole(indices, old_indices.dtype, old_indices.elements());
    }
    let zt2 = writer.dialect() == Dialect::Zt2;
    let index =
        if zt2 { strict::index_dtype(parts.iter().skip(1).map(|part| part.dtype)) } else { DType::Uint64 };
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
    writer: &Writer,
) -> Result<Option<[Spool; 2]>> {
    let stop = &reading.watch.stop;
    let promised = parts.get(1).and_then(|part| part.data_rule);
    let wanted = writer.dialect() == Dialect::Zt2;
    match columns {
        [values, indices, indptr] if wanted || promised == Some(DataRule::RisingColumns) => {
            match rising::first_fall(indices, indptr, stop)? {
                None => Ok(None),
                Some(fall) if promised == Some(DataRule::RisingColumns) => Err(fall.error()),
                Some(_) => {
                    let (mut new_values, mut new_indices) = (writer.spool()?, writer.spool()?);
                    rising::sort([values, indices, indptr], [&mut new_values, &mut new_indices], stop)?;
                    Ok(Some([new_values, new_indices]))
                }
            }
        }
        [values, coords] if wanted || promised == Some(DataRule::UniqueCells) => {
            let cells = Cells { coords, shape: tensor.shape(), nnz: values.elements() };
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
            earlier.inline.is_none()
                && part.inline.is_none()
                && (earlier.file, earlier.offset, earlier.encoding) == (part.file, part.offset, part.encoding)
                && earlier.stored_length == part.stored_length
        });
        if let Some(place) = shared.and_then(|shared| places.get(shared)) {
            places.push(*place);
            continue;
        }
        let start = end;
        let mut write = |piece: &[u8]| {
            end += piece.len() as u64;
            spool.write(piece)
        };
        let written = match &part.inline {
            Some(inline) => write(inline),
            None => pieces::blob(reading, part, |piece| write(piece)),
        };
        written.map_err(|error| error.tensor(tensor.name()).component(reading.catalog.label(part.role)))?;
        places.push((start, end));
    }
    Ok(places)
}

fn column<'a>(spool: &'a Spool, part: &Component, (start, end): (u64, u64)) -> Result<Column<'a>> {
    let total = end - start;
    let place = match part.part.as_deref() {
        None => Part::Range { start: 0, length: total },
        Some(Part::InBlob(array)) => array.place(total)?.0,
        Some(place) => *place,
    };
    let length = match place {
        Part::Range { length, .. } => Some(length),
        Part::Records(records) => records.byte_length(),
        Part::InBlob(_) => None,
    };
    let dtype = part.dtype.ok_or_else(|| Error::new(Code::BadDtype, "the type of an array is not known"))?;
    let length = length.ok_or_else(outside)?;
    if !length.is_multiple_of(dtype.element_bytes() as u64) {
        let message = format!("{length} bytes are not whole elements of {}", dtype.name());
        return Err(Error::new(Code::BadSparse, message));
    }
    let big = part.byte_order == ByteOrder::Big && part.inline.is_none();
    Ok(Column { spool, start, end, part: place, dtype, big, length })
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
            crate::cast::cast(values.dtype, target, &bytes, &mut cast)?;
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
