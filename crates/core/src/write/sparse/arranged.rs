//! The blobs of a sparse tensor in the order of a format, pushed into the writer block by block.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::array::BLOCK;
use super::{Array, IndexTypes, Sparse, pack};
use crate::error::Result;
use crate::formats::SparseForm;
use crate::model::DType;
use crate::work::Stop;
use crate::write::{WriteFormat, Writer};

/// A section of the output.
enum Section {
    /// BTF's number of values and, before the coordinates, the rank.
    Counts(Vec<u8>),
    Values,
    /// An index array, by its position among them.
    Indices(usize),
    /// All coordinates of one value after another.
    Tuples,
    /// Like `Tuples`, with each value after its coordinates.
    Entries,
}

/// A sparse tensor in the order of writing.
pub struct Arranged {
    tensor: Sparse,
    format: &'static WriteFormat,
    /// The dtypes of the index arrays in the file.
    index: Vec<DType>,
    sections: Vec<Section>,
    /// The current section, and the number of its elements already written.
    at: (usize, u64),
}

impl Sparse {
    pub fn arranged(self, format: &'static WriteFormat, widths: IndexTypes) -> Arranged {
        use Section::{Counts, Entries, Indices, Tuples, Values};
        let arrays = self.index_arrays();
        let own: Vec<DType> = arrays.iter().map(|(_, array)| array.dtype()).collect();
        let index = own.iter().map(|dtype| widths.dtype(format, &own, *dtype)).collect();
        let (nnz, rank) = (self.nnz().to_le_bytes(), (self.shape.len() as u64).to_le_bytes());
        let sections = match (arrays.len(), format.sparse) {
            (1, SparseForm::Entries) => vec![Entries],
            (1, SparseForm::Tuples) => {
                vec![Counts([nnz, rank].concat()), Tuples, Counts(nnz.to_vec()), Values]
            }
            (_, SparseForm::Entries) => vec![Indices(1), Indices(0), Values],
            (count, SparseForm::ByName) => (0..count).map(Indices).chain([Values]).collect(),
            (count, _) => [Values].into_iter().chain((0..count).map(Indices)).collect(),
        };
        Arranged { tensor: self, format, index, sections, at: (0, 0) }
    }
}

impl Arranged {
    /// Returns role, dtype and length in bytes of each component, for [`Writer::begin`].
    pub fn components(&self) -> Vec<(&'static str, Option<DType>, u64)> {
        let values = self.tensor.values();
        let mut components = vec![("values", Some(values.dtype()), values.length())];
        let indices = self.tensor.index_arrays().into_iter().zip(&self.index);
        components.extend(indices.map(|((role, array), dtype)| {
            (role, Some(*dtype), array.elements().saturating_mul(dtype.element_bytes() as u64))
        }));
        if self.format.sparse == SparseForm::ByName {
            components.rotate_left(1);
        }
        components
    }

    /// Pushes the whole tensor into the writer, where it was begun.
    pub fn push_all(mut self, writer: &mut Writer, stop: &Stop) -> Result<()> {
        while self.push_block(writer, stop)? {}
        Ok(())
    }

    /// Pushes the next block into the writer, where the tensor was begun. Returns false if nothing is left.
    pub fn push_block(&mut self, writer: &mut Writer, stop: &Stop) -> Result<bool> {
        let (nth, at) = self.at;
        let Some(section) = self.sections.get(nth) else { return Ok(false) };
        stop.check()?;
        let count = self.block(section).min(self.elements(section) - at);
        writer.push(&self.read(section, at, count)?)?;
        writer.flush_if_full()?;
        self.at = if at + count < self.elements(section) { (nth, at + count) } else { (nth + 1, 0) };
        Ok(true)
    }

    fn elements(&self, section: &Section) -> u64 {
        match section {
            Section::Counts(_) => 1,
            Section::Values => self.tensor.values().elements(),
            Section::Indices(array) => self.indices(*array).map_or(0, Array::elements),
            Section::Tuples | Section::Entries => self.tensor.nnz(),
        }
    }

    /// Returns the number of elements written at a time.
    fn block(&self, section: &Section) -> u64 {
        match section {
            Section::Tuples | Section::Entries => (BLOCK / (self.tensor.shape.len() as u64).max(1)).max(1),
            _ => BLOCK,
        }
    }

    fn indices(&self, at: usize) -> Option<&dyn Array> {
        self.tensor.index_arrays().get(at).map(|&(_, array)| array)
    }

    fn read<'a>(&'a self, section: &'a Section, first: u64, count: u64) -> Result<Cow<'a, [u8]>> {
        let values = self.tensor.values();
        let rank = self.tensor.shape.len();
        match section {
            Section::Counts(bytes) => Ok(Cow::Borrowed(bytes)),
            Section::Values => values.read(first, count),
            Section::Indices(at) => match (self.indices(*at), self.index.get(*at)) {
                (Some(array), Some(dtype)) => pack::indices(array.dtype(), array.read(first, count)?, *dtype),
                _ => Ok(Cow::default()),
            },
            Section::Tuples => Ok(Cow::Owned(pack::entries(&self.axes(first, count)?, rank, &[], 0))),
            Section::Entries => {
                let width = usize::try_from(values.width()).unwrap_or(1);
                let values = values.read(first, count)?;
                Ok(Cow::Owned(pack::entries(&self.axes(first, count)?, rank, &values, width)))
            }
        }
    }

    /// Returns the uint64 coordinates of `count` values, in dimension-major order.
    fn axes(&self, first: u64, count: u64) -> Result<Vec<u8>> {
        let (nnz, mut axes) = (self.tensor.nnz(), Vec::new());
        let Some(coords) = self.indices(0) else { return Ok(axes) };
        for d in 0..self.tensor.shape.len() as u64 {
            let dimension = coords.read(d * nnz + first, count)?;
            axes.extend_from_slice(&pack::indices(coords.dtype(), dimension, DType::Uint64)?);
        }
        Ok(axes)
    }
}
