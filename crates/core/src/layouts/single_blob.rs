//! zTensor 0.1 as its own Rust crate (0.1.4) writes sparse tensors: all arrays in one blob. CSR is `indptr`
//! (u64, rows + 1), `indices` (u64, nnz), values; COO is nnz entries of one u64 a dimension and a value.
#![forbid(unsafe_code)]

use super::records::Records;
use crate::error::{Code, Error, Result};
use crate::model::Part;

const INDEX: u64 = 8;

/// One array of such a blob; where it lies follows from the decoded size of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InBlob {
    CsrIndptr { rows: u64, width: u64 },
    CsrIndices { rows: u64, width: u64 },
    CsrValues { rows: u64, width: u64 },
    CooCoords { rank: u64, width: u64 },
    CooValues { rank: u64, width: u64 },
}

impl InBlob {
    /// The place of the array in a blob of `total` decoded bytes, and its length in bytes. `width` is the
    /// bytes of a value.
    pub fn place(self, total: u64) -> Result<(Part, u64)> {
        match self {
            Self::CsrIndptr { rows, width }
            | Self::CsrIndices { rows, width }
            | Self::CsrValues { rows, width } => {
                let pointers = rows.checked_add(1).and_then(|count| count.checked_mul(INDEX));
                let rest = pointers.and_then(|pointers| total.checked_sub(pointers));
                let (Some(pointers), Some(rest)) = (pointers, rest) else {
                    return Err(bad(format!("{total} bytes cannot hold the row pointers of {rows} rows")));
                };
                let nnz = whole(rest, INDEX + width)?;
                let (start, length) = match self {
                    Self::CsrIndptr { .. } => (0, pointers),
                    Self::CsrIndices { .. } => (pointers, nnz * INDEX),
                    _ => (pointers + nnz * INDEX, nnz * width),
                };
                Ok((Part::Range { start, length }, length))
            }
            Self::CooCoords { rank, width } | Self::CooValues { rank, width } => {
                let stride = rank * INDEX + width;
                let count = whole(total, stride)?;
                let records = match self {
                    Self::CooCoords { .. } => Records { start: 0, stride, fields: rank, width: INDEX, count },
                    _ => Records { start: rank * INDEX, stride, fields: 1, width, count },
                };
                Ok((Part::Records(records), count * records.fields * records.width))
            }
        }
    }
}

fn whole(bytes: u64, entry: u64) -> Result<u64> {
    if !bytes.is_multiple_of(entry) {
        return Err(bad(format!("{bytes} bytes are no whole number of entries of {entry} bytes")));
    }
    Ok(bytes / entry)
}

fn bad(message: String) -> Error {
    Error::new(Code::BadSparse, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_arrays() {
        // 2 rows, 3 float32 values: 24 + 24 + 12 bytes.
        let csr = |array: InBlob| array.place(60).unwrap().0;
        assert_eq!(csr(InBlob::CsrIndptr { rows: 2, width: 4 }), Part::Range { start: 0, length: 24 });
        assert_eq!(csr(InBlob::CsrIndices { rows: 2, width: 4 }), Part::Range { start: 24, length: 24 });
        assert_eq!(csr(InBlob::CsrValues { rows: 2, width: 4 }), Part::Range { start: 48, length: 12 });
        let (coords, length) = InBlob::CooCoords { rank: 2, width: 4 }.place(40).unwrap();
        assert_eq!(coords, Part::Records(Records { start: 0, stride: 20, fields: 2, width: 8, count: 2 }));
        assert_eq!(length, 32);
    }

    #[test]
    fn sizes_that_fit_no_entry() {
        assert!(InBlob::CsrIndptr { rows: 2, width: 4 }.place(61).is_err());
        assert!(InBlob::CsrIndptr { rows: u64::MAX, width: 4 }.place(60).is_err());
        assert!(InBlob::CsrValues { rows: 9, width: 4 }.place(60).is_err());
        assert!(InBlob::CooValues { rank: 2, width: 4 }.place(39).is_err());
    }
}
