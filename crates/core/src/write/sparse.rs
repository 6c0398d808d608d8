//! Sparse tensors on their way into a file: checked as their layout asks, put in the order that the format asks for, and
//! handed to the writer block by block. The arrays lie in memory or in nameless files; of what lies in files little more than a
//! block stands in memory at once.
#![forbid(unsafe_code)]

mod arranged;
mod array;
mod cells;
mod pack;
mod rising;
mod rows;

use super::WriteFormat;
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::layouts::exact::{COO, CSR};
use crate::layouts::indices::Indices;
use crate::layouts::{coo, csr};
use crate::model::{DType, DataRule, Layout};
use crate::sinks::Spool;
use crate::work::Stop;

pub use arranged::Arranged;
pub use array::{Array, Held, blocks};
use cells::Cells;

/// Makes a nameless file for what is too large for memory and has to be put in another order.
pub type NewSpool<'a> = &'a dyn Fn() -> Result<Spool>;

/// Where the values of a sparse tensor belong.
enum IndexArrays {
    Csr { indices: Box<dyn Array>, indptr: Box<dyn Array> },
    Coo { coords: Box<dyn Array> },
}

/// A sparse tensor whose data keeps the rules of its layout.
pub struct Sparse {
    shape: Vec<u64>,
    values: Box<dyn Array>,
    index_arrays: IndexArrays,
}

/// Which types the index arrays of a tensor have in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexTypes {
    /// uint64, which every reader takes; in version 2 uint32 where all arrays are that.
    Usual,
    /// No wider than they are, as far as the format allows: what a file has is not to grow on its way into another.
    Kept,
}

impl IndexTypes {
    /// The type of an array, given those of all index arrays of the tensor and its own. 1.1 and 1.2 allow any integers (1.1 §III.2);
    /// version 2 has uint32 or uint64, the same for all (`zt.sparse_csr/1`); others have uint64.
    pub fn dtype(self, format: &'static WriteFormat, all: &[DType], own: DType) -> DType {
        let fit = |dtype: &DType| dtype.bits() <= 32;
        let writing = format;
        match self {
            Self::Kept if writing.any_indices => own,
            Self::Kept if writing.profiles && all.iter().all(fit) => DType::Uint32,
            Self::Usual if writing.profiles && all.iter().all(|dtype| *dtype == DType::Uint32) => {
                DType::Uint32
            }
            _ => DType::Uint64,
        }
    }
}

impl Sparse {
    /// Checks the arrays of a tensor, which come in the order values, indices, indptr, or values, coords: their lengths, that row
    /// pointers rise from 0 to the number of values, and that each index exists (`BadSparse`). `BadLayout` where `layout` does not
    /// have these arrays, or not this shape. `strictly`: what is refused names the profile of version 2.
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

    /// Has the data keep the rules of version 2 where the format is that, or a source has promised one of them: columns that rise
    /// within their row, and cells that stand once. Rows are sorted, except those of a source that promised it; what stands twice
    /// is `BadSparse`.
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
                if let Some(fall) = rising::first_fall(&**indices, &**indptr, stop)? {
                    // Packed values come from version 2 alone.
                    if promised == Some(DataRule::RisingColumns) || self.values.dtype().bits() < 8 {
                        return Err(fall.error());
                    }
                    let sorted = rising::sorted([&*self.values, &**indices, &**indptr], new_spool, stop)?;
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

    /// Stored values.
    fn nnz(&self) -> u64 {
        match &self.index_arrays {
            IndexArrays::Csr { indices, .. } => indices.elements(),
            IndexArrays::Coo { coords } => {
                let nnz = coords.elements().checked_div(self.shape.len() as u64);
                nnz.unwrap_or_else(|| self.values.elements())
            }
        }
    }

    /// The index arrays by their roles.
    fn index_arrays(&self) -> Vec<(&'static str, &dyn Array)> {
        match &self.index_arrays {
            IndexArrays::Csr { indices, indptr } => vec![("indices", &**indices), ("indptr", &**indptr)],
            IndexArrays::Coo { coords } => vec![("coords", &**coords)],
        }
    }

    pub fn values(&self) -> &dyn Array {
        &*self.values
    }

    /// The same tensor with as many other values.
    #[must_use]
    pub fn map_values(self, map: impl FnOnce(Box<dyn Array>) -> Box<dyn Array>) -> Self {
        Self { values: map(self.values), ..self }
    }
}
