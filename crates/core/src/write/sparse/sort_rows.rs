//! Checks that the columns within each row of a large matrix rise, as version 2 requires, and sorts rows that do not, a
//! limited number of elements at a time.
#![forbid(unsafe_code)]

use super::array::{BLOCK, Spooled, blocks, decode, numbers};
use super::{Array, OwnedArray, rows};
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::layouts::exact::CSR;
use crate::layouts::indices::Indices;
use crate::model::DType;
use crate::sinks::Spool;
use crate::sources::owned;
use crate::work::Stop;

/// Creates an unnamed file for data that is too large for memory and has to be reordered.
pub type NewSpool<'a> = &'a dyn Fn() -> Result<Spool>;

/// The number of elements sorted at a time.
const CHUNK: u64 = 1 << 20;

/// Iterates over the ends of a matrix's rows. The pointers were checked before.
struct Rows<'a> {
    indptr: &'a dyn Array,
    ends: std::vec::IntoIter<u64>,
    /// The number of rows already returned.
    given: u64,
}

impl<'a> Rows<'a> {
    fn new(indptr: &'a dyn Array) -> Self {
        Self { indptr, ends: Vec::new().into_iter(), given: 0 }
    }

    fn next(&mut self) -> Result<Option<u64>> {
        if self.ends.len() == 0 {
            let left = self.indptr.elements().saturating_sub(self.given + 1);
            self.ends = numbers(self.indptr, self.given + 1, left.min(BLOCK))?.into_iter();
        }
        let end = self.ends.next();
        self.given += u64::from(end.is_some());
        Ok(end)
    }
}

/// A position where columns do not rise: row, position, the column there, and the column before it.
pub struct Fall([u64; 4]);

impl Fall {
    pub fn error(&self) -> Error {
        let [row, at, column, last] = self.0;
        let message = format!("column {column} at position {at} follows {last} in row {row}");
        Error::new(Code::BadSparse, message).component("indices").rule(CSR)
    }
}

/// Returns the first position where the columns of a row do not rise.
pub fn first_fall(indices: &dyn Array, indptr: &dyn Array, stop: &Stop) -> Result<Option<Fall>> {
    let mut rows = Rows::new(indptr);
    let (mut end, mut last, mut fall) = (0, None, None);
    blocks(indices, 0..indices.elements(), stop, |first, bytes| {
        for (at, column) in (first..).zip(decode(indices.dtype(), bytes)?) {
            while at >= end {
                let Some(next) = rows.next()? else { return Ok(()) };
                (end, last) = (next, None);
            }
            if let Some(before) = last.filter(|&before| before >= column && fall.is_none()) {
                fall = Some(Fall([rows.given - 1, at, column, before]));
            }
            last = Some(column);
        }
        Ok(())
    })?;
    Ok(fall)
}

/// Returns values and columns of a checked matrix, with the columns of each row in rising order. The result is in
/// memory if all arrays are, and otherwise in unnamed files. Fails with `ZT_BAD_SPARSE` if a column occurs twice in a
/// row.
pub fn sorted(
    [values, indices, indptr]: [&dyn Array; 3],
    new_spool: NewSpool<'_>,
    stop: &Stop,
) -> Result<[Box<dyn Array>; 2]> {
    let (value, index) = (values.dtype(), indices.dtype());
    if let (Some(held), Some(columns), Some(pointers)) = (values.held(), indices.held(), indptr.held()) {
        let columns = Indices::new(index, columns)?;
        let pointers = Indices::new(indptr.dtype(), pointers)?;
        let width = checked::index(values.width(), "a value")?;
        let (held, columns) = rows::sorted(columns, pointers, held, width, 0, stop)?;
        return Ok([Box::new(OwnedArray::new(value, held)), Box::new(OwnedArray::new(index, columns))]);
    }
    let (mut new_values, mut new_indices) = (new_spool()?, new_spool()?);
    sort([values, indices, indptr], [&mut new_values, &mut new_indices], stop)?;
    Ok([
        Box::new(Spooled::new(value, new_values, values.length())),
        Box::new(Spooled::new(index, new_indices, indices.length())),
    ])
}

fn sort(
    [values, indices, indptr]: [&dyn Array; 3],
    [new_values, new_indices]: [&mut Spool; 2],
    stop: &Stop,
) -> Result<()> {
    let mut rows = Rows::new(indptr);
    let (mut start, mut ends) = (0, Vec::new());
    let mut next = rows.next()?;
    while let Some(end) = next {
        stop.check()?;
        let first_row = rows.given - 1 - ends.len() as u64;
        if end - start <= CHUNK {
            ends.push(end);
            next = rows.next()?;
            // Empty rows count too, so that both limits bound the memory.
            let full = next.is_none_or(|next| next - start > CHUNK) || ends.len() as u64 >= CHUNK;
            if full {
                let pointers: Vec<u8> = std::iter::once(start)
                    .chain(ends.drain(..))
                    .flat_map(|pointer| (pointer - start).to_le_bytes())
                    .collect();
                let sorted = [&mut *new_values, &mut *new_indices];
                sort_chunk([values, indices], &pointers, start, first_row, sorted, stop)?;
                start = pointers.last_chunk().map_or(start, |last| start + u64::from_le_bytes(*last));
            }
        } else {
            sort_row([values, indices], start, end, rows.given - 1, [new_values, new_indices], stop)?;
            start = end;
            next = rows.next()?;
        }
    }
    Ok(())
}

fn sort_chunk(
    [values, indices]: [&dyn Array; 2],
    pointers: &[u8],
    start: u64,
    first_row: u64,
    [new_values, new_indices]: [&mut Spool; 2],
    stop: &Stop,
) -> Result<()> {
    let count = pointers.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
    let (old_values, old_indices) = (values.read(start, count)?, indices.read(start, count)?);
    let pointers = Indices::new(DType::Uint64, pointers)?;
    let columns = Indices::new(indices.dtype(), &old_indices)?;
    let width = checked::index(values.width(), "a value")?;
    let sorted = rows::sorted(columns, pointers, &old_values, width, first_row, stop)?;
    new_values.write(&sorted.0)?;
    new_indices.write(&sorted.1)?;
    drop(sorted);
    owned::trim();
    Ok(())
}

/// Sorts one row that is too long for memory. Each pass collects the columns of the next range of values. The width of
/// the range limits the number of distinct columns in it.
fn sort_row(
    [values, indices]: [&dyn Array; 2],
    start: u64,
    end: u64,
    row: u64,
    [new_values, new_indices]: [&mut Spool; 2],
    stop: &Stop,
) -> Result<()> {
    let (value, index) =
        (checked::index(values.width(), "a value")?, checked::index(indices.width(), "an index")?);
    let mut from = Some(0_u64);
    while let Some(low) = from.take() {
        let high = low.saturating_add(CHUNK);
        // The column and its position in the collected items.
        let mut found: Vec<(u64, usize)> = Vec::new();
        let (mut found_values, mut found_indices) = (Vec::new(), Vec::new());
        blocks(indices, start..end, stop, |first, bytes| {
            let columns = decode(indices.dtype(), bytes)?;
            if let Some(&min) = columns.iter().filter(|&&column| column >= high).min() {
                from = Some(from.map_or(min, |known| known.min(min)));
            }
            let here = |&(_, &column): &(usize, &u64)| (low..high).contains(&column);
            if !columns.iter().enumerate().any(|pair| here(&pair)) {
                return Ok(());
            }
            let stored = values.read(first, columns.len() as u64)?;
            for (nth, &column) in columns.iter().enumerate().filter(here) {
                // One more than can be distinct: the check after the sort finds the duplicate.
                if found.len() as u64 > CHUNK {
                    return Ok(());
                }
                found.push((column, found.len()));
                found_values.extend_from_slice(item(&stored, value, nth));
                found_indices.extend_from_slice(item(bytes, index, nth));
            }
            Ok(())
        })?;
        found.sort_unstable();
        if let Some(pair) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(rows::twice(pair[0].0, row));
        }
        for (items, width, spool) in
            [(&found_values, value, &mut *new_values), (&found_indices, index, &mut *new_indices)]
        {
            let mut sorted = Vec::with_capacity(items.len());
            for &(_, index_of) in &found {
                sorted.extend_from_slice(item(items, width, index_of));
            }
            spool.write(&sorted)?;
        }
    }
    Ok(())
}

fn item(bytes: &[u8], width: usize, at: usize) -> &[u8] {
    checked::slice(bytes, (at * width) as u64, width as u64).unwrap_or_default()
}
