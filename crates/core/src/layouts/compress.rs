//! Compresses coordinates to rows.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::layouts::accumulate::zeros;
use crate::layouts::coo::Coo;
use crate::layouts::indices::{self, DECODE_BLOCK as BLOCK};
use crate::layouts::packed;
use crate::model::DType;

impl Coo<'_> {
    /// Returns the type of the row pointers that [`to_csr`](Self::to_csr) writes: that of the coordinates if it can represent `nnz`,
    /// otherwise uint64.
    pub fn indptr_dtype(&self) -> DType {
        let dtype = self.coords.dtype();
        if indices::fits(dtype, self.nnz() as u64) { dtype } else { DType::Uint64 }
    }

    /// Writes the compressed rows of a two-dimensional tensor: values and columns, sorted stably by row and column.
    /// Columns have the type of the coordinates, row pointers that of [`indptr_dtype`](Self::indptr_dtype). Checks the
    /// data rules again. Fails with `ZT_BAD_LAYOUT` for any other rank, and with `ZT_INVALID_ARG` unless each
    /// destination has exactly the right size.
    pub fn to_csr(&self, values_out: &mut [u8], indices_out: &mut [u8], indptr_out: &mut [u8]) -> Result<()> {
        let &[row_count, _] = self.shape else {
            return Err(Error::new(
                Code::BadLayout,
                format!(
                    "only a tensor of 2 dimensions has compressed rows, this one has {}",
                    self.shape.len()
                ),
            ));
        };
        self.check_lengths()?;
        let nnz = self.nnz();
        let width = self.coords.dtype().element_bytes();
        let pointer_count = row_count.checked_add(1);
        let pointer_bytes =
            pointer_count.and_then(|n| n.checked_mul(self.indptr_dtype().element_bytes() as u64));
        for (name, out, needed) in [
            ("values", values_out.len(), Some(self.values.len() as u64)),
            ("indices", indices_out.len(), Some(nnz as u64 * width as u64)),
            ("indptr", indptr_out.len(), pointer_bytes),
        ] {
            if needed != Some(out as u64) {
                return Err(Error::new(
                    Code::InvalidArg,
                    format!("{name} of {nnz} values in {row_count} rows are not the {out} bytes given"),
                ));
            }
        }

        // First pass: counts the values of row r in the pointer of row r + 1, and writes the columns as if they were in
        // order, which most are.
        let mut pointers: Vec<u64> = zeros(pointer_count.unwrap_or(row_count))?;
        let mut in_order = true;
        let mut previous = (0, 0);
        self.walk(|first, rows, cols| {
            for (&row, &col) in rows.iter().zip(cols) {
                if let Some(count) = usize::try_from(row + 1).ok().and_then(|next| pointers.get_mut(next)) {
                    *count += 1;
                }
                in_order &= previous <= (row, col);
                previous = (row, col);
            }
            indices::encode(
                self.coords.dtype(),
                cols,
                indices_out.get_mut(first * width..).unwrap_or_default(),
            );
            Ok(())
        })?;
        let mut total = 0;
        for pointer in &mut pointers {
            total += *pointer;
            *pointer = total;
        }
        indices::encode(self.indptr_dtype(), &pointers, indptr_out);
        if in_order {
            values_out.copy_from_slice(self.values);
            return Ok(());
        }

        let order = self.sorted(pointers)?;
        for (block, out) in order.chunks(BLOCK).zip(indices_out.chunks_mut(BLOCK * width)) {
            let mut cols = [0; BLOCK];
            for (out, &(col, _)) in cols.iter_mut().zip(block) {
                *out = col;
            }
            indices::encode(self.coords.dtype(), &cols, out);
        }
        self.permute(&order, values_out).ok_or_else(|| self.changed())
    }

    /// Returns column and position of each value, sorted by row and column: a counting sort by row, then a sort within each row. `next` is
    /// the start of each row and one more entry.
    fn sorted(&self, mut next: Vec<u64>) -> Result<Vec<(u64, u64)>> {
        let mut order: Vec<(u64, u64)> = zeros(self.nnz() as u64)?;
        self.walk(|first, rows, cols| {
            for ((&row, &col), position) in rows.iter().zip(cols).zip(first as u64..) {
                let offset = usize::try_from(row).ok().and_then(|row| next.get_mut(row));
                let slot = offset.and_then(|offset| {
                    let slot = usize::try_from(*offset).ok().and_then(|offset| order.get_mut(offset));
                    *offset += 1;
                    slot
                });
                *slot.ok_or_else(|| self.changed())? = (col, position);
            }
            Ok(())
        })?;
        // Each start is now the end of its row.
        let mut start = 0;
        for &end in &next {
            let end = usize::try_from(end).unwrap_or(usize::MAX);
            // The position breaks ties between equal columns, so an in-place sort is stable.
            order.get_mut(start..end).ok_or_else(|| self.changed())?.sort_unstable();
            start = end;
        }
        Ok(order)
    }

    /// Writes the values in the given order. `None` if a position does not exist.
    fn permute(&self, order: &[(u64, u64)], out: &mut [u8]) -> Option<()> {
        match self.dtype.bits() {
            8 => permute::<1>(self.values, order, out),
            16 => permute::<2>(self.values, order, out),
            32 => permute::<4>(self.values, order, out),
            64 => permute::<8>(self.values, order, out),
            128 => permute::<16>(self.values, order, out),
            bits => {
                out.fill(0);
                let mut entries = (0..).zip(order);
                entries.try_for_each(|(to, &(_, from))| {
                    packed::set(out, to, bits, packed::get(self.values, from, bits)?)
                })
            }
        }
    }
}

fn permute<const W: usize>(values: &[u8], order: &[(u64, u64)], out: &mut [u8]) -> Option<()> {
    let values = values.as_chunks::<W>().0;
    let mut entries = out.as_chunks_mut::<W>().0.iter_mut().zip(order);
    entries.try_for_each(|(out, &(_, from))| {
        *out = *values.get(usize::try_from(from).ok()?)?;
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layouts::csr::Csr;
    use crate::layouts::indices::Indices;

    struct Rows {
        values: Vec<u8>,
        indices: Vec<u8>,
        indptr: Vec<u8>,
    }

    fn compress(coo: &Coo) -> Result<Rows> {
        let rows = usize::try_from(coo.shape[0]).unwrap();
        let mut made = Rows {
            values: vec![0xEE; coo.values.len()],
            indices: vec![0xEE; coo.nnz() * coo.coords.dtype().element_bytes()],
            indptr: vec![0xEE; (rows + 1) * coo.indptr_dtype().element_bytes()],
        };
        coo.to_csr(&mut made.values, &mut made.indices, &mut made.indptr)?;
        Ok(made)
    }

    #[test]
    fn values_are_sorted_and_equal_coordinates_keep_their_order() {
        let coords = [2, 0, 2, 2, 0, 1, 3, 0, 1, 3];
        let coords = Indices::new(DType::Uint8, &coords).unwrap();
        let coo = Coo { shape: &[4, 4], dtype: DType::Uint8, values: &[10, 20, 30, 40, 50], coords };
        let rows = compress(&coo).unwrap();
        assert_eq!(rows.values, [20, 50, 30, 10, 40]);
        assert_eq!(rows.indices, [3, 3, 0, 1, 1]);
        assert_eq!(rows.indptr, [0, 2, 2, 5, 5]);
    }

    #[test]
    fn packed_values_are_moved_too() {
        let coords = Indices::new(DType::Uint8, &[1, 0, 0, 2, 2, 0]).unwrap();
        let coo = Coo { shape: &[2, 3], dtype: DType::Float4E2M1Fn, values: &[0x21, 0x03], coords };
        assert_eq!(compress(&coo).unwrap().values, [0x23, 0x01]);
    }

    #[test]
    fn only_matrices_have_rows() {
        for shape in [&[][..], &[3], &[3, 1, 1]] {
            let coords = Indices::new(DType::Uint8, &[]).unwrap();
            let error =
                Coo { shape, dtype: DType::Uint8, values: &[], coords }.to_csr(&mut [], &mut [], &mut [0; 4]);
            assert_eq!(error.unwrap_err().code(), Code::BadLayout, "{shape:?}");
        }
    }

    #[test]
    fn destinations_have_their_exact_length() {
        let coords = Indices::new(DType::Uint16, &[0; 4]).unwrap();
        let matrix = Coo { shape: &[2, 3], dtype: DType::Float32, values: &[0; 4], coords };
        for (values, indices, indptr, name) in
            [(3, 2, 6, "values"), (4, 4, 6, "indices"), (4, 2, 4, "indptr")]
        {
            let error =
                matrix.to_csr(&mut vec![0; values], &mut vec![0; indices], &mut vec![0; indptr]).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArg);
            assert!(error.message().contains(name), "{error}");
        }
        matrix.to_csr(&mut [0; 4], &mut [0; 2], &mut [0; 6]).unwrap();
        for rows in [u64::MAX, u64::MAX - 1, 1 << 62] {
            let shape = [rows, 3];
            let error =
                Coo { shape: &shape, ..matrix }.to_csr(&mut [0; 4], &mut [0; 2], &mut [0; 6]).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArg);
        }
    }

    #[test]
    fn many_values_widen_the_row_pointers() {
        for (nnz, dtype) in [(255, DType::Uint8), (256, DType::Uint64)] {
            let coords = vec![0; nnz * 2];
            let values = vec![1; nnz];
            let coords = Indices::new(DType::Uint8, &coords).unwrap();
            let coo = Coo { shape: &[1, 1], dtype: DType::Uint8, values: &values, coords };
            assert_eq!(coo.indptr_dtype(), dtype);
            let rows = compress(&coo).unwrap();
            assert_eq!(Indices::new(dtype, &rows.indptr).unwrap().get(1), Some(nnz as u64));
        }
    }

    proptest! {
        #[test]
        fn dense_coordinates_and_rows_agree(
            (rows, cols, cells) in (1_u32..30, 1_u32..30).prop_flat_map(|(rows, cols)| {
                (Just(rows), Just(cols), prop::collection::vec((0..rows, 0..cols), 0..1300))
            }),
            dtype in prop::sample::select(vec![DType::Int8, DType::Uint16, DType::Int32, DType::Int64]),
            in_order in any::<bool>(),
        ) {
            let mut cells = cells;
            if in_order {
                cells.sort_unstable();
            }
            let index = |index: u32| u64::from(index).to_le_bytes()[..dtype.element_bytes()].to_vec();
            let axis = |axis: Vec<u32>| axis.into_iter().flat_map(index).collect::<Vec<_>>();
            let coords = [
                axis(cells.iter().map(|cell| cell.0).collect()),
                axis(cells.iter().map(|cell| cell.1).collect()),
            ].concat();
            let numbers: Vec<i32> = (1..).take(cells.len()).collect();
            let values: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let shape = [u64::from(rows), u64::from(cols)];
            let coo = Coo {
                shape: &shape,
                dtype: DType::Int32,
                values: &values,
                coords: Indices::new(dtype, &coords).unwrap(),
            };
            coo.check().unwrap();

            let mut sums = vec![0_i32; (rows * cols) as usize];
            for (&(row, col), number) in cells.iter().zip(&numbers) {
                sums[(row * cols + col) as usize] += number;
            }
            let expected: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            let mut dense = vec![0; expected.len()];
            coo.to_dense(&mut dense).unwrap();
            prop_assert!(dense == expected);

            let made = compress(&coo).unwrap();
            let csr = Csr {
                shape, dtype: DType::Int32, values: &made.values,
                indices: Indices::new(dtype, &made.indices).unwrap(),
                indptr: Indices::new(coo.indptr_dtype(), &made.indptr).unwrap(),
            };
            csr.check().unwrap();
            dense.fill(0xEE);
            csr.to_dense(&mut dense).unwrap();
            prop_assert!(dense == expected);

            // A stable sort of the cells yields the order of the values.
            let mut sorted: Vec<_> = cells.iter().zip(&numbers).collect();
            sorted.sort_by_key(|(cell, _)| **cell);
            let ordered: Vec<u8> = sorted.iter().flat_map(|(_, number)| number.to_le_bytes()).collect();
            prop_assert!(made.values == ordered);

            let mut again = vec![0; coords.len()];
            csr.to_coo_coords(&mut again).unwrap();
            let sorted_coords = [
                axis(sorted.iter().map(|(cell, _)| cell.0).collect()),
                axis(sorted.iter().map(|(cell, _)| cell.1).collect()),
            ].concat();
            prop_assert_eq!(csr.coords_dtype(), dtype);
            prop_assert!(again == sorted_coords);
        }
    }
}
