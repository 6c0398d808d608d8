//! Sparse tensors as the Rust crate of zTensor 0.1 (0.1.4) writes them: all arrays in one blob. CSR is `indptr` (u64,
//! rows + 1), `indices` (u64, nnz), values. COO is nnz entries, each with one u64 per dimension and a value.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::model::{ArrayLocation, Counted};

/// Bytes per index.
const INDEX: u64 = 8;

/// Returns the locations of values, indices and indptr in a CSR blob whose values have `width` bytes each. Fails with
/// `ZT_BAD_SPARSE` if the size of the row pointers exceeds a u64.
pub fn csr(rows: u64, width: u64) -> Result<[Counted; 3]> {
    let pointers = rows.checked_add(1).and_then(|count| count.checked_mul(INDEX)).ok_or_else(|| {
        Error::new(Code::BadSparse, format!("no blob can hold the row pointers of {rows} rows"))
    })?;
    let array = |location| Counted { fixed: pointers, entry: INDEX + width, location };
    let run = |start, start_each, length, length_each| {
        array(ArrayLocation::Run { start, start_each, length, length_each })
    };
    Ok([run(pointers, INDEX, 0, width), run(pointers, 0, 0, INDEX), run(0, 0, pointers, 0)])
}

/// Returns the locations of values and coords in a COO blob.
pub fn coo(rank: u64, width: u64) -> [Counted; 2] {
    let array = |start, fields, width_of| Counted {
        fixed: 0,
        entry: rank * INDEX + width,
        location: ArrayLocation::Fields { start, fields, width: width_of },
    };
    [array(rank * INDEX, 1, width), array(0, rank, INDEX)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::View;

    #[test]
    fn arrays_are_located_in_the_blob() {
        // 2 rows, 3 float32 values: 24 + 24 + 12 bytes.
        let views = csr(2, 4).unwrap().map(|array| array.view(60).unwrap());
        assert_eq!(views, [View::range(48, 12), View::range(24, 24), View::range(0, 24)]);
        let views = coo(2, 4).map(|array| array.view(40).unwrap());
        assert_eq!(views, [View::records(16, 20, 1, 4, 2), View::records(0, 20, 2, 8, 2)]);
    }

    #[test]
    fn sizes_without_whole_entries_are_rejected() {
        assert!(csr(2, 4).unwrap().iter().all(|array| array.view(61).is_err() && array.view(23).is_err()));
        assert!(csr(u64::MAX, 4).is_err());
        assert!(csr(9, 4).unwrap().iter().all(|array| array.view(60).is_err()));
        assert!(coo(2, 4).iter().all(|array| array.view(39).is_err()));
    }
}
