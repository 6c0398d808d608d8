//! Writes sparse tensors: checks them against the rules of their layout, reorders them as the format requires, and
//! pushes them into the writer block by block. The arrays are in memory or in unnamed files; of those in files, little
//! more than one block is in memory at a time.
#![forbid(unsafe_code)]

mod arranged;
mod array;
mod cells;
mod pack;
mod rows;
mod sort_rows;

use super::WriteFormat;
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::layouts::exact::{COO, CSR};
use crate::layouts::indices::Indices;
use crate::layouts::{coo, csr};
use crate::model::{DType, DataRule, Layout};
use crate::work::Stop;
pub use arranged::Arranged;
pub use array::{Array, OwnedArray, blocks};
use cells::Cells;
pub use sort_rows::NewSpool;

/// The positions of the values of a sparse tensor.
enum IndexArrays {
    Csr { indices: Box<dyn Array>, indptr: Box<dyn Array> },
    Coo { coords: Box<dyn Array> },
}

/// A sparse tensor that satisfies the rules of its layout.
pub struct Sparse {
    shape: Vec<u64>,
    values: Box<dyn Array>,
    index_arrays: IndexArrays,
}

/// The dtypes of a tensor's index arrays in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexTypes {
    /// uint64, which every reader accepts; in version 2 uint32 if all arrays have that dtype.
    Default,
    /// No wider than in the source, if the format allows it: indices should not grow when a tensor is copied to another
    /// file.
    Source,
}

impl IndexTypes {
    /// Returns the dtype of an index array in the file. `all` are the dtypes of all index arrays of the tensor, and
    /// `own` is that of this one. Versions 1.1 and 1.2 allow any integer dtype (1.1 §III.2). Version 2 has uint32 or
    /// uint64, the same for all arrays (`zt.sparse_csr/1`). Other formats have uint64.
    pub fn dtype(self, format: &'static WriteFormat, all: &[DType], own: DType) -> DType {
        let fit = |dtype: &DType| dtype.bits() <= 32;
        let writing = format;
        match self {
            Self::Source if writing.any_indices => own,
            Self::Source if writing.profiles && all.iter().all(fit) => DType::Uint32,
            Self::Default if writing.profiles && all.iter().all(|dtype| *dtype == DType::Uint32) => {
                DType::Uint32
            }
            _ => DType::Uint64,
        }
    }
}

impl Sparse {
    /// Checks the arrays of a tensor, in the order values, indices, indptr or values, coords. Fails with
    /// `ZT_BAD_SPARSE` if a length is wrong, the row pointers do not rise from 0 to the number of values, or an index
    /// is out of range. Fails with `ZT_BAD_LAYOUT` if `layout` does not have these arrays or this shape. If `strictly`,
    /// errors name the profile of version 2.
    pub fn checked(
        layout: Layout,
        shape: &[u64],
        arrays: Vec<Box<dyn Array>>,
        strictly: bool,
        stop: &Stop,
    ) -> Result<Self> {
        let mut arrays = arrays.into_iter();
        let (values, first, second) = (arrays.next(), arrays.next(), arrays.next());
        let (values, index_arrays) = match (layout, values, first, second) {
            (Layout::SparseCsr, Some(values), Some(indices), Some(indptr)) => {
                (values, IndexArrays::Csr { indices, indptr })
            }
            (Layout::SparseCoo, Some(values), Some(coords), None) => (values, IndexArrays::Coo { coords }),
            _ => return Err(Error::new(Code::BadLayout, "a component is missing")),
        };
        let sparse = Self { shape: shape.to_vec(), values, index_arrays };
        let checked = sparse.check(stop).map_err(|error| match &sparse.index_arrays {
            IndexArrays::Csr { .. } if strictly => error.rule(CSR),
            IndexArrays::Coo { .. } if strictly => error.rule(COO),
            _ => error,
        });
        checked.map(|()| sparse)
    }

    fn check(&self, stop: &Stop) -> Result<()> {
        for (_, array) in self.index_arrays() {
            Indices::new(array.dtype(), &[])?;
            if !array.length().is_multiple_of(array.width()) {
                let message =
                    format!("{} bytes are not whole indices of {}", array.length(), array.dtype().name());
                return Err(Error::new(Code::BadSparse, message));
            }
        }
        let (dtype, length, nnz) = (self.values.dtype(), self.values.length(), self.nnz());
        match &self.index_arrays {
            IndexArrays::Csr { indices, indptr } => {
                let &[rows, cols] = &self.shape[..] else {
                    let (shape, rank) = (&self.shape, self.shape.len());
                    let message = format!("CSR has 2 dimensions, the shape {shape:?} has {rank}");
                    return Err(Error::new(Code::BadLayout, message));
                };
                csr::check_lengths(rows, dtype, [length, nnz, indptr.elements()])?;
                let mut pointers = csr::Pointers::default();
                blocks(&**indptr, 0..indptr.elements(), stop, |_, bytes| {
                    pointers.next(&Indices::new(indptr.dtype(), bytes)?)
                })?;
                pointers.end(nnz)?;
                blocks(&**indices, 0..nnz, stop, |first, bytes| {
                    let first = checked::index(first, "a column")?;
                    csr::check_columns(&Indices::new(indices.dtype(), bytes)?, cols, first)
                })
            }
            IndexArrays::Coo { coords } => {
                coo::check_lengths(self.shape.len(), dtype, [length, nnz, coords.elements()])?;
                self.shape.iter().enumerate().try_for_each(|(d, &dim)| {
                    let begin = d as u64 * nnz;
                    blocks(&**coords, begin..begin + nnz, stop, |first, bytes| {
                        coo::check_axis(&Indices::new(coords.dtype(), bytes)?, d, dim, nnz, first - begin)
                    })
                })
            }
        }
    }

    /// Enforces the rules of version 2 if the format is version 2 or the source has promised one of them: `sort_rows`
    /// columns within each row, and unique cells. Rows are sorted, except those of a source that promised the order.
    /// Fails with `ZT_BAD_SPARSE` if an index occurs twice.
    pub fn strict(
        mut self,
        format: &'static WriteFormat,
        promised: Option<DataRule>,
        new_spool: NewSpool<'_>,
        stop: &Stop,
    ) -> Result<Self> {
        let (wanted, nnz) = (format.profiles, self.nnz());
        match &mut self.index_arrays {
            IndexArrays::Csr { indices, indptr } if wanted || promised == Some(DataRule::RisingColumns) => {
                if let Some(fall) = sort_rows::first_fall(&**indices, &**indptr, stop)? {
                    // Packed values occur only in version 2.
                    if promised == Some(DataRule::RisingColumns) || self.values.dtype().bits() < 8 {
                        return Err(fall.error());
                    }
                    let sorted = sort_rows::sorted([&*self.values, &**indices, &**indptr], new_spool, stop)?;
                    [self.values, *indices] = sorted;
                }
            }
            IndexArrays::Coo { coords } if wanted || promised == Some(DataRule::UniqueCells) => {
                Cells { coords: &**coords, shape: &self.shape, nnz }.check_unique(stop)?;
            }
            _ => {}
        }
        Ok(self)
    }

    /// Returns the number of stored values.
    fn nnz(&self) -> u64 {
        match &self.index_arrays {
            IndexArrays::Csr { indices, .. } => indices.elements(),
            IndexArrays::Coo { coords } => {
                let nnz = coords.elements().checked_div(self.shape.len() as u64);
                nnz.unwrap_or_else(|| self.values.elements())
            }
        }
    }

    /// Returns the index arrays with their roles.
    fn index_arrays(&self) -> Vec<(&'static str, &dyn Array)> {
        match &self.index_arrays {
            IndexArrays::Csr { indices, indptr } => vec![("indices", &**indices), ("indptr", &**indptr)],
            IndexArrays::Coo { coords } => vec![("coords", &**coords)],
        }
    }

    pub fn values(&self) -> &dyn Array {
        &*self.values
    }

    /// Returns the tensor with its values replaced by as many others.
    #[must_use]
    pub fn map_values(self, map: impl FnOnce(Box<dyn Array>) -> Box<dyn Array>) -> Self {
        Self { values: map(self.values), ..self }
    }
}
