//! The additional requirements of zTensor 2's sparse profiles on data: columns that ascend within each row, and unique cells.
#![forbid(unsafe_code)]

use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::layouts::accumulate::zeros;
use crate::layouts::coo::Coo;
use crate::layouts::csr::Csr;
use crate::layouts::exact::{COO, CSR};
use crate::layouts::indices::Indices;

fn fault(component: &str, message: String) -> Error {
    Error::new(Code::BadSparse, message).component(component)
}

impl Csr<'_> {
    /// Checks all data rules of `zt.sparse_csr/1`, including those of [`check`](Self::check).
    pub fn check_strictly(&self) -> Result<()> {
        self.check().and_then(|()| self.check_columns()).map_err(|error| error.rule(CSR))
    }

    fn check_columns(&self) -> Result<()> {
        let mut before: Option<(u64, u64)> = None;
        self.walk(|first, rows, cols| {
            for (nth, (&row, &col)) in rows.iter().zip(cols).enumerate() {
                if let Some((_, last)) = before.filter(|&(same, last)| same == row && last >= col) {
                    let at = first + nth;
                    let message = format!("column {col} at position {at} follows {last} in row {row}");
                    return Err(fault("indices", message));
                }
                before = Some((row, col));
            }
            Ok(())
        })
    }
}

impl Coo<'_> {
    /// Checks all data rules of `zt.sparse_coo/1`, including those of [`check`](Self::check).
    pub fn check_strictly(&self) -> Result<()> {
        self.check().and_then(|()| self.check_cells()).map_err(|error| error.rule(COO))
    }

    /// Checks that no two elements have the same cell. Most writers sort, so that comparing adjacent elements suffices; otherwise they are
    /// sorted here.
    fn check_cells(&self) -> Result<()> {
        let (nnz, elements) = (self.nnz(), product(self.shape).unwrap_or(u64::MAX));
        let mut cells: Vec<u64> = zeros(nnz as u64)?;
        for (d, &dim) in self.shape.iter().enumerate() {
            let axis = self.axis(d)?;
            for (cell, index) in cells.iter_mut().zip(axis.iter()) {
                // Each index was checked to be inside its dimension, so the cell is inside the product.
                *cell = cell.wrapping_mul(dim).wrapping_add(index.unwrap_or_default());
            }
        }
        if !cells.is_sorted() {
            cells.sort_unstable();
        }
        match cells.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let message = format!("cell {} of {elements} has two elements", pair[0]);
                Err(fault("coords", message))
            }
            None => Ok(()),
        }
    }
}

/// A set of positions of values, one bit each.
struct Positions(Vec<u64>);

impl Positions {
    fn new(count: u64) -> Result<Self> {
        zeros(count.div_ceil(64)).map(Self)
    }

    fn set(&mut self, at: u64, is_in: bool) {
        let word = usize::try_from(at / 64).ok().and_then(|word| self.0.get_mut(word));
        if let Some(word) = word {
            *word = *word & !(1 << (at % 64)) | u64::from(is_in) << (at % 64);
        }
    }

    fn has(&self, at: u64) -> bool {
        let word = usize::try_from(at / 64).ok().and_then(|word| self.0.get(word));
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

/// Determines in pieces whether columns rise within each row: from all columns, and then all row pointers.
pub struct RowOrder {
    /// Where a column is not above the one before it.
    falls: Positions,
    at: u64,
    last: Option<u64>,
}

impl RowOrder {
    /// Fails if there is no memory for `nnz` bits.
    pub fn new(nnz: u64) -> Result<Self> {
        Ok(Self { falls: Positions::new(nnz)?, at: 0, last: None })
    }

    pub fn columns(&mut self, piece: &Indices<'_>) {
        for column in piece {
            if column <= self.last {
                self.falls.set(self.at, true);
            }
            (self.at, self.last) = (self.at + 1, column);
        }
    }

    pub fn pointers(&mut self, piece: &Indices<'_>) {
        piece.iter().flatten().for_each(|pointer| self.falls.set(pointer, false));
    }

    pub fn is_rising(&self) -> bool {
        self.falls.is_empty()
    }
}

/// Determines in pieces whether the cells of a tensor rise, in row-major order: from the coordinates of one dimension after the other.
pub struct CellOrder {
    /// Where all coordinates so far equal those before them.
    ties: Positions,
    falls: bool,
    at: u64,
    last: Option<u64>,
}

impl CellOrder {
    /// Fails if there is no memory for `nnz` bits.
    pub fn new(nnz: u64) -> Result<Self> {
        let mut ties = Positions::new(nnz)?;
        (1..nnz).for_each(|at| ties.set(at, true));
        Ok(Self { ties, falls: false, at: 0, last: None })
    }

    /// Begins with the next dimension.
    pub fn next_dimension(&mut self) {
        (self.at, self.last) = (0, None);
    }

    pub fn coordinates(&mut self, piece: &Indices<'_>) {
        for coordinate in piece {
            if coordinate != self.last && self.ties.has(self.at) {
                self.falls |= coordinate < self.last;
                self.ties.set(self.at, false);
            }
            (self.at, self.last) = (self.at + 1, coordinate);
        }
    }

    /// Returns whether each cell is above the one before it, so that they are unique.
    pub fn is_rising(&self) -> bool {
        !self.falls && self.ties.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DType;

    fn bytes(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn columns_rise_within_rows() {
        let check = |columns: &[u32], pointers: &[u32]| {
            let (columns, pointers) = (bytes(columns), bytes(pointers));
            let csr = Csr {
                shape: [3, 4],
                dtype: DType::Uint8,
                values: &vec![1; columns.len() / 4],
                indices: Indices::new(DType::Uint32, &columns).unwrap(),
                indptr: Indices::new(DType::Uint32, &pointers).unwrap(),
            };
            csr.check_strictly()
        };
        assert!(check(&[0, 3, 0, 1], &[0, 2, 2, 4]).is_ok());
        for (columns, pointers) in [([0, 0, 0, 1], [0, 2, 2, 4]), ([3, 0, 0, 1], [0, 2, 2, 4])] {
            let error = check(&columns, &pointers).unwrap_err();
            assert_eq!((error.code(), error.broken_rule()), (Code::BadSparse, Some(CSR)));
        }
        assert!(check(&[0, 4], &[0, 2, 2, 2]).unwrap_err().broken_rule() == Some(CSR));
    }

    #[test]
    fn pieces_of_columns_rise_as_all_of_them_do() {
        for (columns, pointers, rises) in [
            (&[0, 3, 0, 1][..], &[0, 2, 2, 4][..], true),
            (&[0, 3, 3, 1], &[0, 2, 2, 4], false),
            (&[0, 0, 0, 1], &[0, 2, 2, 4], false),
            (&[3, 2, 1, 0], &[0, 1, 2, 3, 4], true),
            (&[], &[0, 0], true),
        ] {
            for step in [1, 3, 10] {
                let mut order = RowOrder::new(columns.len() as u64).unwrap();
                let piece = |numbers: &[u32], each: &mut dyn FnMut(&Indices<'_>)| {
                    for part in numbers.chunks(step) {
                        each(&Indices::new(DType::Uint32, &bytes(part)).unwrap());
                    }
                };
                piece(columns, &mut |part| order.columns(part));
                piece(pointers, &mut |part| order.pointers(part));
                assert_eq!(order.is_rising(), rises, "{columns:?} {pointers:?}");
            }
        }
    }

    #[test]
    fn pieces_of_coordinates_rise_as_all_cells_do() {
        for (dimensions, rises) in [
            (&[[0, 1, 2], [1, 0, 1]], true),
            (&[[0, 0, 2], [0, 1, 1]], true),
            (&[[0, 0, 2], [1, 1, 1]], false),
            (&[[0, 0, 2], [1, 0, 1]], false),
            (&[[0, 2, 1], [1, 2, 3]], false),
        ] {
            for step in [1, 2, 3] {
                let mut order = CellOrder::new(3).unwrap();
                for dimension in dimensions {
                    order.next_dimension();
                    for part in dimension.chunks(step) {
                        order.coordinates(&Indices::new(DType::Uint32, &bytes(part)).unwrap());
                    }
                }
                assert_eq!(order.is_rising(), rises, "{dimensions:?}");
            }
        }
    }

    #[test]
    fn cells_are_unique() {
        let check = |coords: &[u32]| {
            let coords = bytes(coords);
            let values = vec![1; coords.len() / 8];
            let coords = Indices::new(DType::Uint32, &coords).unwrap();
            Coo { shape: &[3, 4], dtype: DType::Uint8, values: &values, coords }.check_strictly()
        };
        assert!(check(&[0, 1, 2, 1, 0, 1]).is_ok());
        assert!(check(&[2, 1, 0, 1, 0, 3]).is_ok());
        let error = check(&[2, 1, 2, 3, 0, 3]).unwrap_err();
        assert_eq!((error.code(), error.broken_rule()), (Code::BadSparse, Some(COO)));
        assert!(error.message().contains("cell 11 of 12"), "{error}");
    }
}
