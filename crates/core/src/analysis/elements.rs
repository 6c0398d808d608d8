//! Sequential access to the elements of a tensor, in pieces of any size, regardless of layout and encoding.
#![forbid(unsafe_code)]

use crate::checked::{bytes_of, index, product, slice};
use crate::error::{Code, Error, Result};
use crate::kernels::swap::swap_bytes;
use crate::layouts::coo::Coo;
use crate::layouts::csr::Csr;
use crate::layouts::indices::Indices;
use crate::limits::DENSE_BYTES;
use crate::model::{Component, DType, Label, Layout, Tensor};
use crate::read::blocks::StoredBlocks;
use crate::read::{Reading, sparse_parts};
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::work::Stop;
use crate::work::{self, Watch};

/// Elements per work item and between two checks of the stop flag. Results are combined in the order of items, so they do not depend on the
/// number of threads.
pub const CHUNK: u64 = 1 << 22;
/// Elements read at once: at 4 bytes each they stay in a core's own cache.
pub const STEP: u64 = 1 << 16;

/// Little-endian elements of one dtype.
pub struct Elements<'a> {
    pub dtype: DType,
    pub count: u64,
    bytes: Bytes<'a>,
}

enum Bytes<'a> {
    /// As stored in the file, read on request.
    Stored { source: &'a dyn ReadAt, offset: u64, stop: &'a Stop },
    /// Quantized, decoded on request.
    Blocks(StoredBlocks<'a>),
    /// Decoded.
    Owned(Owned),
}

impl<'a> Elements<'a> {
    /// Returns the elements of a tensor: all of a dense one, all of a sparse one (including zeros, up to [`DENSE_BYTES`]), float32 of a
    /// quantized one. Digests of data read directly from the file are not verified.
    pub fn of_tensor(reading: &Reading<'a>, tensor: Tensor<'a>) -> Result<Self> {
        let opened = match tensor.layout() {
            Layout::Dense => match tensor.data() {
                Some(data) => Self::known(reading, tensor, data),
                None => Err(Error::new(Code::BadLayout, "a dense tensor has data")),
            },
            Layout::SparseCsr | Layout::SparseCoo => Self::densified(reading, tensor),
            Layout::Other(_) => Self::dequantized(reading, tensor),
        };
        opened.map_err(|error| error.tensor(tensor.name()))
    }

    /// Returns the stored elements of a tensor: for a sparse one only its values.
    pub fn stored_of_tensor(reading: &Reading<'a>, tensor: Tensor<'a>) -> Result<Self> {
        match (tensor.layout(), tensor.component(Label::VALUES)) {
            (Layout::SparseCsr | Layout::SparseCoo, Some(values)) => {
                Self::known(reading, tensor, values).map_err(|error| error.tensor(tensor.name()))
            }
            _ => Self::of_tensor(reading, tensor),
        }
    }

    /// Returns the elements of one component, or its bytes if its dtype is unknown.
    pub fn of_component(reading: &Reading<'a>, tensor: Tensor<'a>, component: &'a Component) -> Result<Self> {
        Self::open(reading, tensor, component).map_err(|error| error.tensor(tensor.name()))
    }

    /// Returns the elements of a component, whose dtype must be known.
    fn known(reading: &Reading<'a>, tensor: Tensor<'a>, component: &'a Component) -> Result<Self> {
        if component.dtype.is_none() {
            return Err(Error::new(Code::BadDtype, "the element type is unknown"));
        }
        Self::open(reading, tensor, component)
    }

    fn open(reading: &Reading<'a>, tensor: Tensor<'a>, component: &'a Component) -> Result<Self> {
        let dtype = component.dtype.unwrap_or(DType::Uint8);
        let (length, bytes) = if let Some((offset, length)) = component.plain_range() {
            (
                length,
                Bytes::Stored {
                    source: reading.sources.source(component.file())?,
                    offset,
                    stop: &reading.watch.stop,
                },
            )
        } else {
            let decoded = reading.component(tensor, component)?;
            (decoded.len() as u64, Bytes::Owned(decoded))
        };
        // Packed types may have padding after the last element.
        let declared = component.dtype.and_then(|_| declared(tensor, component));
        let fitting = length.checked_mul(8).map(|bits| bits / u64::from(dtype.bits()));
        let fitting = fitting.ok_or_else(too_many)?;
        let count = declared.map_or(fitting, |declared| declared.min(fitting));
        Ok(Self { dtype, count, bytes })
    }

    fn dequantized(reading: &Reading<'a>, tensor: Tensor<'a>) -> Result<Self> {
        if let Some(blocks) = reading.stored_blocks(tensor)? {
            let count = product(tensor.shape()).ok_or_else(too_many)?;
            return Ok(Self { dtype: DType::Float32, count, bytes: Bytes::Blocks(blocks) });
        }
        let mut bytes = reading.dequantize(tensor, None)?;
        if cfg!(target_endian = "big") {
            swap_bytes(&mut bytes, 4);
        }
        Ok(Self { dtype: DType::Float32, count: bytes.len() as u64 / 4, bytes: Bytes::Owned(bytes) })
    }

    fn densified(reading: &Reading<'a>, tensor: Tensor<'a>) -> Result<Self> {
        let parts = sparse_parts(tensor)?;
        let unknown = || Error::new(Code::BadDtype, "the type of the values is unknown");
        let dtype = tensor.dtype().ok_or_else(unknown)?;
        let shape = tensor.shape();
        let count = product(shape).ok_or_else(too_many)?;
        let bytes = bytes_of(count, dtype.bits()).filter(|&bytes| bytes <= DENSE_BYTES).ok_or_else(|| {
            let message = format!("all elements of shape {shape:?} are more than {DENSE_BYTES} bytes");
            Error::new(Code::Limit, message)
        })?;
        let arrays = reading.sparse(tensor)?;
        let array = |at: usize| arrays.get(at).map_or(&[][..], |array| array);
        let indices = |at: usize| {
            let dtype = parts.get(at).and_then(|part| part.dtype).unwrap_or(DType::Uint64);
            Indices::new(dtype, array(at))
        };
        let mut output = Owned::zeroed(bytes)?;
        match (tensor.layout(), shape) {
            (Layout::SparseCsr, &[rows, columns]) => {
                let (indices, indptr) = (indices(1)?, indices(2)?);
                let csr = Csr { shape: [rows, columns], dtype, values: array(0), indices, indptr };
                csr.to_dense(&mut output)?;
            }
            _ => Coo { shape, dtype, values: array(0), coords: indices(1)? }.to_dense(&mut output)?,
        }
        Ok(Self { dtype, count, bytes: Bytes::Owned(output) })
    }

    /// Returns the bytes of `count` elements from `first` on, which must begin at a whole byte for packed types. `buffer` holds them if
    /// they must be read.
    pub fn read<'b>(&'b self, first: u64, count: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let bits = u64::from(self.dtype.bits());
        let start = first.checked_mul(bits).ok_or_else(too_many)? / 8;
        let length = count.checked_mul(bits).ok_or_else(too_many)?.div_ceil(8);
        match &self.bytes {
            Bytes::Owned(bytes) => slice(bytes, start, length)
                .ok_or_else(|| Error::new(Code::Decode, "the decoded data ends before its elements do")),
            Bytes::Blocks(blocks) => {
                blocks.read(first, count, buffer)?;
                Ok(buffer)
            }
            Bytes::Stored { source, offset, stop } => {
                buffer.resize(index(length, "a piece")?, 0);
                source.read_at(offset.checked_add(start).ok_or_else(too_many)?, buffer, stop)?;
                Ok(buffer)
            }
        }
    }

    /// Returns the bytes of all elements.
    pub fn byte_length(&self) -> u64 {
        bytes_of(self.count, self.dtype.bits()).unwrap_or(self.count)
    }
}

/// Returns the number of elements of a component according to the index, if stated: for the data of a dense tensor by its shape, for the
/// values of a sparse tensor by its index arrays.
fn declared(tensor: Tensor<'_>, component: &Component) -> Option<u64> {
    let indices = |role: Label, of_each: u64| {
        let indices = tensor.component(role)?;
        let width = indices.dtype?.element_bytes() as u64;
        (indices.byte_length()? / width).checked_div(of_each)
    };
    match (tensor.layout(), component.role) {
        (Layout::Dense, Label::DATA) => product(tensor.shape()),
        (Layout::SparseCsr, Label::VALUES) => indices(Label::INDICES, 1),
        (Layout::SparseCoo, Label::VALUES) => indices(Label::COORDS, tensor.shape().len() as u64),
        _ => None,
    }
}

fn too_many() -> Error {
    Error::new(Code::Limit, "more elements than this platform can address")
}

/// Calls `work` for each [`CHUNK`] of `count` elements, several at once, with its first element and its length. Returns the results in
/// order, or the error of the first chunk that fails.
pub fn chunks<T: Send>(
    count: u64,
    watch: &Watch,
    work: impl Fn(u64, u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    chunks_of(CHUNK, count, watch, work)
}

/// Calls `work` for each chunk of a given length, like [`chunks`].
pub fn chunks_of<T: Send>(
    chunk: u64,
    count: u64,
    watch: &Watch,
    work: impl Fn(u64, u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let chunks = index(count.div_ceil(chunk), "the number of elements")?;
    let results = std::sync::Mutex::new(std::collections::BTreeMap::new());
    let lock = || results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    work::for_each(chunks, |at| {
        let first = at as u64 * chunk;
        let stopped = watch.stop.check().and_then(|()| work(first, chunk.min(count - first)));
        lock().insert(at, stopped);
    });
    results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
}
