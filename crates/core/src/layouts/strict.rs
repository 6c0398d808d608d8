//! The additional requirements of zTensor 2's sparse profiles on data: columns that ascend within each row, and unique cells.
#![forbid(unsafe_code)]

use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::layouts::accumulate::zeros;
use crate::layouts::coo::Coo;
use crate::layouts::csr::Csr;
use crate::layouts::exact::{COO, CSR};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::indices::Indices;
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
