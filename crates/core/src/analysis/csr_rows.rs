//! The elements of a large CSR matrix in order, some rows at a time.
#![forbid(unsafe_code)]

use crate::checked::{index, product};
use crate::error::{Code, Error, Result};
use crate::layouts::csr::Csr;
use crate::layouts::indices::Indices;
use crate::model::slice::TensorSlice;
use crate::model::{Component, DType, Tensor};
use crate::read::Reading;
use crate::read::sequence::Next;
use crate::sources::owned::Owned;

/// Bytes of the rows that are in memory at a time, or one row.
const ROWS: u64 = 4 << 20;

/// An array of a matrix, which is read part by part if it can be.
struct Array<'a> {
    component: &'a Component,
    dtype: DType,
    length: u64,
    /// All of it, if it cannot be read in parts.
    held: Option<Owned>,
}

impl<'a> Array<'a> {
    fn of(reading: &Reading<'a>, tensor: Tensor<'a>, component: &'a Component) -> Result<Self> {
        let dtype =
            component.dtype.ok_or_else(|| Error::new(Code::BadDtype, "the type of an array is unknown"))?;
        let is_held = !reading.is_read_in_parts(component)?;
        let held = is_held.then(|| reading.component(tensor, component)).transpose()?;
        let length =
            held.as_ref().map_or(component.byte_length().unwrap_or_default(), |held| held.len() as u64);
        Ok(Self { component, dtype, length, held })
    }

    fn read(&self, reading: &Reading<'_>, tensor: Tensor<'_>, start: u64, end: u64) -> Result<Owned> {
        let elements = self.length / self.dtype.element_bytes() as u64;
        let slice = TensorSlice::new(&[elements], &[(start, end)], self.dtype.bits())?;
        let Some(held) = &self.held else { return reading.slice(tensor, self.component, &slice) };
        let mut part = Owned::to_fill(slice.byte_length())?;
        slice.pack(held, &mut part)?;
        Ok(part)
    }
}

/// A CSR matrix that satisfies the rules of its layout.
pub struct CsrRows<'a> {
    reading: Reading<'a>,
    tensor: Tensor<'a>,
    shape: [u64; 2],
    values: Array<'a>,
    indices: Array<'a>,
    indptr: Array<'a>,
}

impl<'a> CsrRows<'a> {
    /// `parts` are values, indices and indptr, which were checked.
    pub fn new(
        reading: &Reading<'a>,
        tensor: Tensor<'a>,
        parts: [&'a Component; 3],
        shape: [u64; 2],
    ) -> Result<Self> {
        let [values, indices, indptr] = parts;
        let array = |component| Array::of(reading, tensor, component);
        let (values, indices, indptr) = (array(values)?, array(indices)?, array(indptr)?);
        Ok(Self { reading: *reading, tensor, shape, values, indices, indptr })
    }

    /// Calls `work` with a function that returns the elements of the dense matrix from the first to the last.
    pub fn sequence<T>(&self, work: impl FnOnce(Next<'_>) -> Result<T>) -> Result<T> {
        let [rows, columns] = self.shape;
        let width = self.values.dtype.element_bytes() as u64;
        let step = (ROWS / columns.saturating_mul(width).max(1)).max(1);
        let (mut row, mut dense, mut at) = (0_u64, Owned::to_fill(0)?, 0);
        work(&mut |mut out| {
            while !out.is_empty() {
                if at == dense.len() {
                    self.reading.watch.stop.check()?;
                    let end = row.saturating_add(step).min(rows);
                    (dense, row, at) = (self.dense(row, end)?, end, 0);
                }
                let rest = dense.get(at..).unwrap_or_default();
                let count = rest.len().min(out.len());
                if count == 0 {
                    return Err(Error::new(
                        Code::Internal,
                        "more elements are requested than the matrix has",
                    ));
                }
                let (now, later) = out.split_at_mut(count);
                now.copy_from_slice(rest.get(..count).unwrap_or_default());
                (out, at) = (later, at + count);
            }
            Ok(())
        })
    }

    /// Returns all elements of some rows.
    fn dense(&self, start: u64, end: u64) -> Result<Owned> {
        let read = |array: &Array<'_>, start, end| array.read(&self.reading, self.tensor, start, end);
        let pointers = read(&self.indptr, start, end.saturating_add(u64::from(end > start)))?;
        let mut numbers = vec![0; index(end - start, "rows")? + usize::from(end > start)];
        Indices::new(self.indptr.dtype, &pointers)?.decode(0, &mut numbers);
        let (first, last) =
            numbers.first().zip(numbers.last()).map_or((0, 0), |(&first, &last)| (first, last));
        let (values, indices) = (read(&self.values, first, last)?, read(&self.indices, first, last)?);
        let indptr: Vec<u8> =
            numbers.iter().flat_map(|pointer| pointer.wrapping_sub(first).to_le_bytes()).collect();
        let shape = [end - start, self.shape[1]];
        let bytes =
            product(&shape).and_then(|count| count.checked_mul(self.values.dtype.element_bytes() as u64));
        let mut output = Owned::to_fill(
            bytes.ok_or_else(|| Error::new(Code::Limit, "more elements than this platform can address"))?,
        )?;
        Csr {
            shape,
            dtype: self.values.dtype,
            values: &values,
            indices: Indices::new(self.indices.dtype, &indices)?,
            indptr: Indices::new(DType::Uint64, &indptr)?,
        }
        .to_dense(&mut output)?;
        Ok(output)
    }
}
