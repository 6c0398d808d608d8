//! Elements at a list of indices along one axis, as NumPy's `take`. Rows that are stored near each other are read together, and each
//! chunk, frame or piece is decoded once.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use super::picked::Run;
use super::pieces::part_bytes;
use super::planner::{self, Aim, Near};
use super::{Reading, claimable, turn};
use crate::checked::{self, index, product};
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::{BlockType, Quantized};
use crate::kernels::widen;
use crate::layouts::elements;
use crate::model::slice::TensorSlice;
use crate::model::{Component, DType, Data, DataRule, Encoding, Label, Span, Tensor, View};
use crate::sources::file::{self, FileSource};
use crate::sources::owned::Owned;
use crate::sources::{Costs, ReadAt, scratch};
use crate::work;

/// Bytes that are read at a time along an axis that is not the first.
const BLOCK: u64 = 16 << 20;
/// Bytes of rows that are not contiguous and are read together.
const NEAR: u64 = 1 << 20;
/// Bytes of rows for which one more thread is worth starting.
const SHARE: usize = 512 << 10;

/// Maximum number of indices whose rows are staged one by one. That takes the JavaScript thread 5 ms.
const STAGED: usize = 1 << 16;

/// The form in which elements are returned.
#[derive(Clone, Copy)]
pub enum Form<'c> {
    /// As stored in a component, little-endian.
    Stored(&'c Component),
    /// Of a component, widened to float32 in the byte order of the host.
    Widened(&'c Component, DType),
    /// Of a quantized tensor, as float32 in the byte order of the host.
    Dequantized,
}

impl<'c> Form<'c> {
    fn component(self) -> Option<&'c Component> {
        match self {
            Self::Stored(component) | Self::Widened(component, _) => Some(component),
            Self::Dequantized => None,
        }
    }

    /// Returns the bits of a returned element.
    fn bits(self) -> u32 {
        match self {
            Self::Stored(component) => bits(component),
            Self::Widened(..) | Self::Dequantized => 32,
        }
    }
}

fn bits(component: &Component) -> u32 {
    component.dtype.map_or(8, DType::bits)
}

/// The wanted indices of an axis, and the shape around it.
struct AxisIndices<'i> {
    axis: usize,
    /// Product of the dimensions before the axis.
    outer: u64,
    dim: u64,
    /// Product of the dimensions after the axis.
    inner: u64,
    indices: &'i [u64],
}

impl<'i> AxisIndices<'i> {
    fn new(shape: &[u64], axis: usize, indices: &'i [u64]) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(Code::InvalidArg, message));
        let Some(&dim) = shape.get(axis) else {
            return refuse(format!(
                "expected an axis below the rank of the tensor, {}, got {axis}",
                shape.len()
            ));
        };
        if let Some(outside) = indices.iter().find(|&&index| index >= dim) {
            return refuse(format!("expected indices below {dim} in dimension {axis}, got {outside}"));
        }
        let (before, rest) = shape.split_at(axis);
        let (outer, inner) =
            product(before).zip(product(rest.get(1..).unwrap_or_default())).ok_or_else(too_large)?;
        Ok(Self { axis, outer, dim, inner, indices })
    }

    /// Returns the bytes of the elements of one index, within one index of the dimensions before the axis.
    fn row(&self, bits: u32) -> Result<u64> {
        let total = self.inner.checked_mul(u64::from(bits)).ok_or_else(too_large)?;
        if !total.is_multiple_of(8) {
            let instead = if bits == 4 { "take them as float32" } else { "load all of them" };
            let message = format!(
                "elements of {bits} bits are packed, and those of an index do not fill whole bytes: {instead}"
            );
            return Err(Error::new(Code::InvalidArg, message));
        }
        Ok(total / 8)
    }
}

/// Where rows are stored one after the other, unencoded.
struct Stored<'c> {
    component: &'c Component,
    /// Offset and length of all rows.
    range: (u64, u64),
    /// Bytes of a row.
    row: u64,
}

impl<'c> Stored<'c> {
    /// Returns `None` if the rows are encoded, or elements of a row are not adjacent.
    fn of(tensor: Tensor<'c>, form: Form<'c>, wanted: &AxisIndices<'_>) -> Result<Option<Self>> {
        let Some(component) = form.component() else {
            if Quantized::new(tensor)?.is_some() {
                return Ok(None);
            }
            let block = BlockType::of_tensor(tensor)?;
            let has_whole_blocks = wanted.outer == 1 && wanted.inner.is_multiple_of(block.elements);
            let data = tensor.component(Label::DATA).filter(|_| has_whole_blocks);
            let row = wanted.inner / block.elements * block.bytes;
            return Ok(data
                .and_then(|component| component.plain_range().map(|range| Self { component, range, row })));
        };
        let Ok(row) = wanted.row(bits(component)) else { return Ok(None) };
        let range = component.plain_range().or(match &component.data {
            // In the other byte order.
            Data::Blob(blob) if component.view == View::Whole && blob.encoding == Encoding::RAW => {
                Some((blob.offset, blob.stored))
            }
            _ => None,
        });
        Ok(range.map(|range| Self { component, range, row }))
    }
}

/// Returns the ranges of a file in the caller's memory that [`Reading::take`] reads: offsets and lengths. Returns `None` if it reads all of
/// a component, for very many indices, or if `take` fails.
pub fn ranges(tensor: Tensor<'_>, form: Form<'_>, axis: usize, indices: &[u64]) -> Option<Vec<(u64, u64)>> {
    let is_few = indices.len() <= STAGED;
    let wanted =
        AxisIndices::new(tensor.shape(), axis, indices).ok().filter(|wanted| is_few && wanted.outer == 1)?;
    let Stored { component, range: (start, length), row } = Stored::of(tensor, form, &wanted).ok()??;
    // Data in other files is rejected when it is read.
    if component.blob()?.file != 0 || wanted.dim.checked_mul(row)? > length {
        return None;
    }
    let mut rows = indices.to_vec();
    rows.sort_unstable();
    rows.dedup();
    // These products are within the length.
    let spans = rows.into_iter().map(|at| Span { file: 0, offset: start + at * row, length: row });
    let reads = planner::reads(spans, |_| Aim::SLICED.on(Costs::LOCAL), |_| true);
    Some(reads.into_iter().map(|read| (read.span.offset, read.span.length)).collect())
}

/// A wanted row: its index along the axis, and its part of the output.
type Row<'o> = (u64, &'o mut [u8]);

/// How the rows are read.
enum Method<'a> {
    /// Directly: rows of `row` bytes, unencoded.
    Direct { source: &'a dyn ReadAt, offset: u64, row: u64 },
    /// As slices. The function returns the number of the part (chunk, frame or piece) that contains the first element of a row.
    Slices(Box<dyn Fn(u64) -> u64 + Sync + 'a>),
    /// From all decoded elements.
    Whole,
}

impl Reading<'_> {
    /// Returns the elements at `indices` of dimension `axis`, in that order, row-major: the shape has the number of indices in place of the
    /// dimension. Indices may repeat. As for slices, a digest over data that is not read as a whole cannot be verified.
    ///
    /// Fails with `InvalidArg` for an axis or index out of bounds and for packed elements that do not fill whole bytes, otherwise like
    /// [`Reading::slice`], [`Reading::float32`] and [`Reading::dequantize`].
    pub fn take(&self, tensor: Tensor<'_>, form: Form<'_>, axis: usize, indices: &[u64]) -> Result<Owned> {
        let taken = AxisIndices::new(tensor.shape(), axis, indices)
            .and_then(|wanted| self.taken(tensor, form, &wanted));
        taken.map_err(|error| match form.component() {
            Some(component) => self.name(error, tensor, component),
            None => error.tensor(tensor.name()),
        })
    }

    fn taken(&self, tensor: Tensor<'_>, form: Form<'_>, wanted: &AxisIndices<'_>) -> Result<Owned> {
        let row = wanted.row(form.bits())?;
        let rows = wanted.outer.checked_mul(wanted.indices.len() as u64);
        let length = rows.and_then(|rows| rows.checked_mul(row)).ok_or_else(too_large)?;
        if let Form::Widened(_, dtype) = form {
            // The type is checked even if there are no elements.
            widen::to_float32(dtype, &[], &mut [])?;
        }
        let method = self.method(tensor, form, wanted)?;
        let mut output = Owned::to_fill(length)?;
        if length == 0 {
            return Ok(output);
        }
        let row = index(row, "a row")?;
        match method {
            Method::Whole if self.take_picked(tensor, form, wanted, &mut output)? => {}
            Method::Whole => {
                let whole = match form {
                    Form::Stored(component) => self.component(tensor, component)?,
                    Form::Widened(component, dtype) => {
                        let elements = product(tensor.shape()).ok_or_else(too_large)?;
                        self.float32(tensor, component, None, dtype, elements)?
                    }
                    Form::Dequantized => self.dequantize(tensor, None)?,
                };
                gather(&whole, row, (0, wanted.dim), wanted.indices, &mut output)?;
            }
            method if wanted.outer == 1 => {
                let rows = wanted.indices.iter().copied().zip(output.chunks_exact_mut(row));
                let mut rows: Vec<Row<'_>> = rows.collect();
                rows.sort_unstable_by_key(|&(index, _)| index);
                self.take_rows(tensor, form, wanted, &method, &mut rows)?;
            }
            _ => self.take_columns(tensor, form, wanted, row, &mut output)?,
        }
        Ok(output)
    }

    /// Takes the elements out of large encoded data as it is decoded. Returns whether it did.
    fn take_picked(
        &self,
        tensor: Tensor<'_>,
        form: Form<'_>,
        wanted: &AxisIndices<'_>,
        output: &mut [u8],
    ) -> Result<bool> {
        let (component, row, block) = match form.component() {
            Some(component) => {
                let Ok(row) = wanted.row(bits(component)) else { return Ok(false) };
                (component, row, None)
            }
            None => match self.block_rows(tensor, wanted.inner)? {
                Some((component, row, block)) => (component, row, Some(block)),
                None => return Ok(false),
            },
        };
        if !Self::is_picked(component) {
            return Ok(false);
        }
        let count = wanted.indices.len() as u64;
        let mut order: Vec<(u64, u64)> = wanted.indices.iter().copied().zip(0..).collect();
        order.sort_unstable();
        // The products are within the data and the output.
        let runs = (0..wanted.outer).flat_map(|plane| {
            let run = move |&(at, nth): &(u64, u64)| Run {
                start: (plane * wanted.dim + at) * row,
                bytes: row,
                target: (plane * count + nth) * row,
            };
            order.iter().map(run)
        });
        if wanted.outer.checked_mul(wanted.dim).and_then(|rows| rows.checked_mul(row))
            != component.byte_length()
        {
            return Ok(false);
        }
        if let Form::Stored(_) = form {
            return self.pick(tensor, component, runs, output).map(|()| true);
        }
        let stored = wanted.outer.checked_mul(count).and_then(|rows| rows.checked_mul(row));
        let mut rows = Owned::to_fill(stored.ok_or_else(too_large)?)?;
        self.pick(tensor, component, runs, &mut rows)?;
        match (form, block) {
            (Form::Widened(_, dtype), _) => {
                widen::to_float32_divided(dtype, &rows, output, &self.watch.stop)?;
            }
            (_, Some(block)) => self.fill_blocks(block, &rows, output)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn method<'m>(
        &'m self,
        tensor: Tensor<'m>,
        form: Form<'m>,
        wanted: &AxisIndices<'_>,
    ) -> Result<Method<'m>> {
        let is_first = wanted.outer == 1;
        if let Some(component) = form.component()
            && let Ok(row) = wanted.row(bits(component))
        {
            self.not_spread(component, row)?;
        }
        if let Some(Stored { component, range, row }) = Stored::of(tensor, form, wanted)? {
            return self.direct(component, range, wanted, row);
        }
        let Some(component) = form.component() else {
            // Compressed blocks.
            if is_first
                && let Some((component, row, _)) = self.block_rows(tensor, wanted.inner)?
                && let Data::Blob(blob) = &component.data
                && let Some(frames) = self.frames_of(blob)?
            {
                return Ok(Method::Slices(Box::new(move |at| frames.at(at.saturating_mul(row)) as u64)));
            }
            if self.are_blocks_sliced(tensor)? {
                return Ok(Method::Slices(near(wanted.inner.saturating_mul(4))));
            }
            return Ok(Method::Whole);
        };
        if let (View::Strided(strided), Data::Blob(blob)) = (&component.view, &component.data)
            && let Ok(row) = wanted.row(bits(component))
            && blob.encoding == Encoding::RAW
            && !self.source(component)?.is_remote()
            && strided.fits(tensor.shape())
        {
            return Ok(Method::Slices(near(row)));
        }
        if component.view != View::Whole {
            return Ok(Method::Whole);
        }
        let Ok(row) = wanted.row(bits(component)) else { return Ok(Method::Whole) };
        Ok(match &component.data {
            Data::Grid(blob, grid) => {
                let chunk = grid.chunk.get(wanted.axis).copied().unwrap_or(1).max(1);
                // Rows that are far from each other are not read together, unless a chunk is as large.
                let chunk = match part_bytes(blob, grid) {
                    Some(bytes) if is_first => chunk.min((bytes / row.max(1)).max(1)),
                    _ => chunk,
                };
                Method::Slices(Box::new(move |at| at / chunk))
            }
            Data::Blob(blob) if is_first => match self.frames_of(blob)? {
                Some(frames) => Method::Slices(Box::new(move |at| frames.at(at.saturating_mul(row)) as u64)),
                None => Method::Whole,
            },
            Data::Pieces(pieces) if is_first && pieces.rows() == 1 => {
                let end = |end: &mut u64, run: u64| {
                    *end = end.saturating_add(run);
                    Some(*end)
                };
                let ends: Vec<_> = pieces.all().iter().map(|piece| piece.run).scan(0, end).collect();
                Method::Slices(Box::new(move |at| {
                    ends.partition_point(|&end| end <= at.saturating_mul(row)) as u64
                }))
            }
            _ => Method::Whole,
        })
    }

    /// Returns whether slices of quantized blocks are read without decoding the others.
    fn are_blocks_sliced(&self, tensor: Tensor<'_>) -> Result<bool> {
        if Quantized::new(tensor)?.is_some() {
            return Ok(false);
        }
        Ok(match tensor.component(Label::DATA) {
            Some(component) if component.plain_range().is_some() => true,
            Some(Component { data: Data::Blob(blob), view: View::Whole, .. }) => {
                self.frames_of(blob)?.is_some()
            }
            _ => false,
        })
    }

    fn direct<'m>(
        &'m self,
        component: &Component,
        (offset, length): (u64, u64),
        wanted: &AxisIndices<'_>,
        row: u64,
    ) -> Result<Method<'m>> {
        let source = self.source(component)?;
        claimable(source, offset, length)?;
        let rows = wanted.outer.checked_mul(wanted.dim).and_then(|rows| rows.checked_mul(row));
        if rows.is_none_or(|bytes| bytes > length) {
            return Err(Error::new(Code::OutOfBounds, "the shape has more elements than the data").at(offset));
        }
        Ok(Method::Direct { source, offset, row })
    }

    /// Reads rows, sorted by index, each of which is contiguous in the tensor. Those that are near each other are read together.
    fn take_rows(
        &self,
        tensor: Tensor<'_>,
        form: Form<'_>,
        wanted: &AxisIndices<'_>,
        method: &Method<'_>,
        rows: &mut [Row<'_>],
    ) -> Result<()> {
        let threads = match method {
            Method::Direct { source, offset, row } => {
                let bytes = rows.iter().map(|(_, out)| out.len()).sum::<usize>();
                if source.is_cached(*offset, wanted.dim.saturating_mul(*row)) {
                    work::cores().min(bytes.div_ceil(SHARE))
                } else {
                    source.costs().in_flight
                }
            }
            Method::Slices(_) | Method::Whole => work::cores(),
        };
        // One of many files stays open meanwhile.
        let local = match method {
            Method::Direct { source, .. } => source.local().map(FileSource::file).transpose()?,
            Method::Slices(_) | Method::Whole => None,
        };
        let convert = converter(tensor, form)?;
        let bands: Vec<_> = bands(rows, method).into_iter().map(Mutex::new).collect();
        let read = work::try_each_on(threads, bands.len(), |at| {
            self.watch.stop.check()?;
            let Some(band) = bands.get(at) else { return Ok(()) };
            let mut rows = band.lock().unwrap_or_else(PoisonError::into_inner);
            let (Some(&(first, _)), Some(&(last, _))) = (rows.first(), rows.last()) else { return Ok(()) };
            let Method::Direct { source, offset, row } = method else {
                let read = self.elements_between(tensor, form, wanted, (first, last + 1), None)?;
                let row = index(read.len() as u64 / (last + 1 - first), "a row")?;
                return each_row(&read, first, row, &mut rows, copy);
            };
            let start = offset.saturating_add(first.saturating_mul(*row));
            // The length of a local file is checked once, after all reads: for a short row it costs as much as the read.
            let read_at = |buffer: &mut [u8]| match &local {
                Some(file) => file::read_at(file, start, buffer),
                None => source.read_at(start, buffer, &self.watch.stop),
            };
            if let (Form::Stored(component), [(_, out)]) = (form, &mut **rows) {
                read_at(out)?;
                self.watch.did_bytes(*row);
                return finish(component, out);
            }
            let length = (last + 1 - first).saturating_mul(*row);
            scratch::with(length, |read| {
                read_at(read)?;
                self.watch.did_bytes(length);
                each_row(read, first, index(*row, "a row")?, &mut rows, &convert)
            })
        });
        // After a failure as well: a shorter file is then the reason.
        checked_length(method)?;
        read
    }

    /// Returns the elements in a range of the axis, and in a range of another dimension.
    fn elements_between(
        &self,
        tensor: Tensor<'_>,
        form: Form<'_>,
        wanted: &AxisIndices<'_>,
        range: (u64, u64),
        other: Option<(usize, (u64, u64))>,
    ) -> Result<Owned> {
        let mut ranges: Vec<_> = tensor.shape().iter().map(|&dim| (0, dim)).collect();
        for (dim, range) in [Some((wanted.axis, range)), other].into_iter().flatten() {
            if let Some(of) = ranges.get_mut(dim) {
                *of = range;
            }
        }
        let slice = |component| TensorSlice::new(tensor.shape(), &ranges, bits(component));
        match form {
            Form::Stored(component) => self.slice(tensor, component, &slice(component)?),
            Form::Widened(component, dtype) => {
                let slice = slice(component)?;
                let elements = product(&slice.shape()).ok_or_else(too_large)?;
                self.float32(tensor, component, Some(&slice), dtype, elements)
            }
            Form::Dequantized => {
                let ranges: Vec<_> = ranges.into_iter().map(Into::into).collect();
                self.dequantize(tensor, Some(&ranges))
            }
        }
    }

    /// Reads elements along an axis that is not the first, part by part of an earlier dimension, so that little is in memory at once.
    fn take_columns(
        &self,
        tensor: Tensor<'_>,
        form: Form<'_>,
        wanted: &AxisIndices<'_>,
        row: usize,
        output: &mut [u8],
    ) -> Result<()> {
        let (first, last) =
            wanted.indices.iter().fold((u64::MAX, 0), |(first, last), &at| (first.min(at), last.max(at)));
        let (first, end) = (first, last.saturating_add(1));
        let before = tensor.shape().get(..wanted.axis).unwrap_or_default();
        let divided = before.iter().position(|&dim| dim > 1).unwrap_or(0);
        let dim = before.get(divided).copied().unwrap_or(1);
        let planes = wanted.outer / dim.max(1);
        let mut bytes = planes.saturating_mul(end - first).saturating_mul(row as u64);
        if let Form::Dequantized = form {
            // The blocks that contain the first and the last element are decoded whole.
            let ends = BlockType::of_tensor(tensor)?.elements.saturating_mul(2 * 4);
            bytes = bytes.saturating_add(planes.saturating_mul(ends));
        }
        let mut step = (BLOCK / bytes.max(1)).max(1);
        if let Some(Data::Grid(_, grid)) = form.component().map(|component| &component.data) {
            // Whole chunks, so that none is decoded twice.
            step = step.next_multiple_of(grid.chunk.get(divided).copied().unwrap_or(1).max(1));
        }
        let out_bytes = index(planes, "a dimension")?.checked_mul(wanted.indices.len());
        let out_bytes = out_bytes.and_then(|rows| rows.checked_mul(row)).ok_or_else(too_large)?;
        let mut output = output;
        for start in (0..dim).step_by(index(step, "a part")?) {
            self.watch.stop.check()?;
            let last = start.saturating_add(step).min(dim);
            let read =
                self.elements_between(tensor, form, wanted, (first, end), Some((divided, (start, last))))?;
            let length = index(last - start, "a part")?.checked_mul(out_bytes).ok_or_else(too_large)?;
            let (part, rest) =
                std::mem::take(&mut output).split_at_mut_checked(length).ok_or_else(too_large)?;
            gather(&read, row, (first, end), wanted.indices, part)?;
            output = rest;
        }
        Ok(())
    }
}

/// Returns the part of each row, of so many rows that they have about [`NEAR`] bytes.
fn near<'n>(row: u64) -> Box<dyn Fn(u64) -> u64 + Sync + 'n> {
    let rows = (NEAR / row.max(1)).max(1);
    Box::new(move |at| at / rows)
}

/// A function from the stored bytes of a row to its elements.
type Convert<'c> = Box<dyn Fn(&[u8], &mut [u8]) -> Result<()> + Sync + 'c>;

fn converter<'c>(tensor: Tensor<'_>, form: Form<'c>) -> Result<Convert<'c>> {
    Ok(match form {
        Form::Stored(component) => Box::new(move |row, out| {
            copy(row, out)?;
            finish(component, out)
        }),
        Form::Widened(component, dtype) if component.plain_range().is_some() => Box::new(move |row, out| {
            elements::check(bool_rule(component), row)?;
            widen::to_float32(dtype, row, out)
        }),
        Form::Widened(component, dtype) => Box::new(move |row, out| {
            let mut row = row.to_vec();
            finish(component, &mut row)?;
            widen::to_float32(dtype, &row, out)
        }),
        Form::Dequantized => {
            let block = BlockType::of_tensor(tensor)?;
            Box::new(move |row, out| block.fill(row, out))
        }
    })
}

/// Fails with `ZT_TRUNCATED` if the file became shorter: its data was then read as zeros, or not at all.
fn checked_length(method: &Method<'_>) -> Result<()> {
    match method {
        Method::Direct { source, .. } => source.check_length(),
        Method::Slices(_) | Method::Whole => Ok(()),
    }
}

/// Divides sorted rows into those that are read together.
fn bands<'r, 'o>(mut rows: &'r mut [Row<'o>], method: &Method<'_>) -> Vec<&'r mut [Row<'o>]> {
    let joins = |near: Near, row: u64, (first, last, next): (u64, u64, u64)| {
        let start = |at: u64| at.saturating_mul(row);
        near.joins(&(start(first)..start(last + 1)), &(start(next)..start(next.saturating_add(1))))
    };
    let mut bands = Vec::new();
    while let Some(&(first, _)) = rows.first() {
        let mut last = first;
        let together = rows.iter().take_while(|&&(next, _)| {
            let joined = next == last
                || match method {
                    Method::Direct { source, row, .. } => {
                        joins(Aim::SLICED.on(source.costs()), *row, (first, last, next))
                    }
                    Method::Slices(part) => part(first) == part(next),
                    Method::Whole => true,
                };
            last = if joined { next } else { last };
            joined
        });
        let (band, rest) = rows.split_at_mut(together.count());
        bands.push(band);
        rows = rest;
    }
    bands
}

/// Calls `convert` with the bytes of each row, which begin with those of the row `first`, and its output.
fn each_row(
    read: &[u8],
    first: u64,
    row: usize,
    rows: &mut [Row<'_>],
    convert: impl Fn(&[u8], &mut [u8]) -> Result<()>,
) -> Result<()> {
    rows.iter_mut().try_for_each(|(index, out)| {
        let start = (*index - first).checked_mul(row as u64);
        let row = start.and_then(|start| checked::slice(read, start, row as u64));
        convert(row.ok_or_else(too_large)?, out)
    })
}

/// Copies rows of `row` bytes, which contain the indices from `first` up to `end` of the axis, for each index of the dimensions before it.
fn gather(
    read: &[u8],
    row: usize,
    (first, end): (u64, u64),
    indices: &[u64],
    output: &mut [u8],
) -> Result<()> {
    let plane = index(end - first, "a dimension")?.checked_mul(row).filter(|&bytes| bytes > 0);
    let planes = read.chunks_exact(plane.ok_or_else(too_large)?);
    let outputs = output.chunks_exact_mut(row * indices.len());
    if planes.len() != outputs.len() {
        return Err(too_large());
    }
    for (plane, output) in planes.zip(outputs) {
        for (&at, out) in indices.iter().zip(output.chunks_exact_mut(row)) {
            let start = (at - first).checked_mul(row as u64);
            copy(
                start.and_then(|start| checked::slice(plane, start, row as u64)).ok_or_else(too_large)?,
                out,
            )?;
        }
    }
    Ok(())
}

fn copy(from: &[u8], to: &mut [u8]) -> Result<()> {
    if from.len() != to.len() {
        return Err(too_large());
    }
    to.copy_from_slice(from);
    Ok(())
}

/// Brings stored elements into little-endian order, and checks them.
fn finish(component: &Component, bytes: &mut [u8]) -> Result<()> {
    turn(component, bytes);
    elements::check(bool_rule(component), bytes)
}

/// The end of a packed tensor may not be among the rows.
fn bool_rule(component: &Component) -> Option<DataRule> {
    component.rule.filter(|&rule| rule == DataRule::Bool)
}

fn too_large() -> Error {
    Error::new(Code::Limit, "the elements do not match the shape, or exceed the memory")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot set itself up has failed
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::model::{Blob, Builder, Catalog, Container, Layout, NewTensor};

    /// A tensor of 100,000 rows of 8 bytes at offset 64, raw or encoded.
    fn table(encoding: Encoding) -> Catalog {
        let mut builder = Builder::new(Container::named("zt"), &Limits::default());
        let blob =
            Blob { file: 0, encoding, offset: 64, stored: 800_000, decoded: Some(800_000), digest: None };
        let components = vec![Component::new(Label::DATA, Some(DType::Float32), Data::Blob(blob))];
        let (layout, dtype) = (Layout::Dense, Some(DType::Float32));
        let tensor =
            NewTensor { name: "t", shape: &[100_000, 2], layout, dtype, components, attributes: None };
        builder.add_tensor(tensor).unwrap();
        builder.finish()
    }

    #[test]
    fn only_the_rows_and_small_gaps_between_them_are_staged() {
        let catalog = table(Encoding::RAW);
        let tensor = catalog.tensor(0).unwrap();
        let form = Form::Stored(tensor.data().unwrap());
        let of = |axis, indices: &[u64]| ranges(tensor, form, axis, indices);
        assert_eq!(of(0, &[]), Some(vec![]));
        assert_eq!(of(0, &[5, 0, 5]), Some(vec![(64, 48)]));
        let far = 50_000;
        assert_eq!(of(0, &[far, 99_999, 7]), Some(vec![(64 + 56, 8), (64 + 8 * far, 8), (64 + 799_992, 8)]));
        assert_eq!(of(0, &vec![0; STAGED]), Some(vec![(64, 8)]));
        assert_eq!(of(0, &vec![0; STAGED + 1]), None);
        // Columns, indices that are refused, and encoded data: all of the component is needed.
        assert_eq!(of(1, &[0]), None);
        assert_eq!(of(0, &[100_000]), None);
        let encoded = table(Encoding::ZSTD);
        let tensor = encoded.tensor(0).unwrap();
        assert_eq!(ranges(tensor, Form::Stored(tensor.data().unwrap()), 0, &[1]), None);
    }
}
