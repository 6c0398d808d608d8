//! Checks the arrays of a large sparse tensor piece by piece.
#![forbid(unsafe_code)]

use super::{Reading, sparse_parts};
use crate::checked::index;
use crate::error::{Error, Result};
use crate::layouts::exact::{COO, CSR};
use crate::layouts::indices::Indices;
use crate::layouts::strict::{CellOrder, RowOrder};
use crate::layouts::{coo, csr};
use crate::model::{Component, DType, DataRule, Layout, Tensor};

/// Arrays of at most so many bytes are checked in memory, which takes less time.
const HELD: u64 = 8 << 20;

/// An array of known type and length.
struct Array<'a> {
    component: &'a Component,
    dtype: DType,
    length: u64,
}

impl<'a> Array<'a> {
    fn of(component: &'a Component) -> Option<Self> {
        Some(Self { component, dtype: component.dtype?, length: component.byte_length()? })
    }

    /// Returns the number of its elements; only for types of whole bytes.
    fn elements(&self) -> u64 {
        self.length / self.dtype.element_bytes() as u64
    }
}

impl Reading<'_> {
    /// Checks digests and data rules of a sparse tensor. Fails like [`Reading::sparse`]. Of a large one, it has a bit for each value and
    /// little more in memory, unless it breaks a rule of zTensor 2 or its cells are not sorted.
    pub(crate) fn judge_sparse(&self, tensor: Tensor<'_>) -> Result<()> {
        let parts = sparse_parts(tensor)?;
        let arrays: Vec<_> = parts.iter().filter_map(|part| Array::of(part)).collect();
        let length = arrays.iter().map(|array| array.length).fold(0, u64::saturating_add);
        let is_proven = match (tensor.layout(), &*arrays, tensor.shape()) {
            _ if length <= HELD => false,
            (Layout::SparseCsr, [values, indices, indptr], &[rows, columns]) => {
                self.judge_csr(tensor, [values, indices, indptr], [rows, columns])?
            }
            (Layout::SparseCoo, [values, coords], shape) if !shape.is_empty() => {
                self.judge_coo(tensor, values, coords, shape)?
            }
            _ => false,
        };
        if is_proven { Ok(()) } else { self.sparse(tensor).map(drop) }
    }

    /// Returns whether the tensor satisfies all rules, or `false` if that remains open.
    fn judge_csr(
        &self,
        tensor: Tensor<'_>,
        [values, indices, indptr]: [&Array<'_>; 3],
        [rows, columns]: [u64; 2],
    ) -> Result<bool> {
        let nnz = indices.elements();
        let strict = indices.component.rule == Some(DataRule::RisingColumns);
        let mut order = strict.then(|| RowOrder::new(nnz)).transpose()?;
        let mut first = 0;
        // Damaged data is the better error: what breaks a rule is reported after all arrays were read.
        let (mut outside, mut pointers_fall) = (Ok(()), Ok(()));
        self.pieces(tensor, values.component, |_| Ok(()))?;
        self.each_indices(tensor, indices, &mut |piece| {
            if outside.is_ok() {
                outside =
                    index(first, "a column").and_then(|first| csr::check_columns(piece, columns, first));
            }
            if let Some(order) = &mut order {
                order.columns(piece);
            }
            first += piece.len() as u64;
            Ok(())
        })?;
        let mut pointers = csr::Pointers::default();
        self.each_indices(tensor, indptr, &mut |piece| {
            if pointers_fall.is_ok() {
                pointers_fall = pointers.next(piece);
            }
            if let Some(order) = &mut order {
                order.pointers(piece);
            }
            Ok(())
        })?;
        let lengths = [values.length, nnz, indptr.elements()];
        let checked = csr::check_lengths(rows, values.dtype, lengths)
            .and(pointers_fall)
            .and_then(|()| pointers.end(nnz))
            .and(outside);
        let named = |error: Error| if strict { error.rule(CSR) } else { error }.tensor(tensor.name());
        checked.map_err(named)?;
        Ok(order.is_none_or(|order| order.is_rising()))
    }

    /// Like [`Reading::judge_csr`], for coordinates.
    fn judge_coo(
        &self,
        tensor: Tensor<'_>,
        values: &Array<'_>,
        coords: &Array<'_>,
        shape: &[u64],
    ) -> Result<bool> {
        let nnz = coords.elements() / shape.len() as u64;
        let strict = coords.component.rule == Some(DataRule::UniqueCells);
        let mut order = strict.then(|| CellOrder::new(nnz)).transpose()?;
        let mut outside = Ok(());
        self.pieces(tensor, values.component, |_| Ok(()))?;
        // The dimension of the next coordinate, and its position there.
        let (mut d, mut first) = (0, 0);
        self.each_indices(tensor, coords, &mut |piece| {
            let mut at = 0;
            while let Some(&dim) = shape.get(d).filter(|_| at < piece.len()) {
                let end =
                    piece.len().min(at.saturating_add(usize::try_from(nnz - first).unwrap_or(usize::MAX)));
                let Some(part) = piece.slice(at, end) else { break };
                if outside.is_ok() {
                    outside = coo::check_axis(&part, d, dim, nnz, first);
                }
                if let Some(order) = &mut order {
                    order.coordinates(&part);
                }
                (at, first) = (end, first + part.len() as u64);
                if first == nnz {
                    (d, first) = (d + 1, 0);
                    order.iter_mut().for_each(CellOrder::next_dimension);
                }
            }
            Ok(())
        })?;
        let lengths = [values.length, nnz, coords.elements()];
        let checked = coo::check_lengths(shape.len(), values.dtype, lengths).and(outside);
        let named = |error: Error| if strict { error.rule(COO) } else { error }.tensor(tensor.name());
        checked.map_err(named)?;
        Ok(order.is_none_or(|order| order.is_rising()))
    }

    /// Calls `each` with whole elements of an array, in order.
    fn each_indices(
        &self,
        tensor: Tensor<'_>,
        array: &Array<'_>,
        each: &mut dyn FnMut(&Indices<'_>) -> Result<()>,
    ) -> Result<()> {
        Indices::new(array.dtype, &[])?;
        let width = array.dtype.element_bytes();
        // The beginning of an element that the next piece continues: frames may end within one.
        let mut begun: Vec<u8> = Vec::new();
        self.pieces(tensor, array.component, |piece| {
            let mut piece = &*piece;
            if !begun.is_empty() {
                let (rest, further) = piece.split_at_checked(width - begun.len()).unwrap_or((piece, &[]));
                begun.extend_from_slice(rest);
                piece = further;
                if begun.len() < width {
                    return Ok(());
                }
                each(&Indices::new(array.dtype, &begun)?)?;
                begun.clear();
            }
            let (whole, rest) = piece.split_at(piece.len() / width * width);
            begun.extend_from_slice(rest);
            each(&Indices::new(array.dtype, whole)?)
        })?;
        // Fails if there is a part of an element left.
        Indices::new(array.dtype, &begun).map(drop)
    }
}
