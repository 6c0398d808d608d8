//! Sequential access to the elements of a tensor, in pieces of any size, regardless of layout and encoding.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use crate::analysis::csr_rows::CsrRows;
use crate::checked::{bytes_of, index, product, slice};
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::{BlockType, PIECE, Quantized};
use crate::kernels::swap::swap_bytes;
use crate::layouts::coo::Coo;
use crate::layouts::csr::{self, Csr};
use crate::layouts::indices::Indices;
use crate::limits::DENSE_BYTES;
use crate::model::{Component, DType, Data, Label, Layout, Tensor};
use crate::read::blocks::StoredBlocks;
use crate::read::sequence::Next;
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
    /// Large and encoded: decoded in order, a group of chunks at a time.
    Encoded(Reading<'a>, Tensor<'a>, &'a Component),
    /// Codes and scales of a quantized tensor: decoded in order, a group of chunks at a time.
    Codes(Reading<'a>, Quantized, Vec<Owned>),
    /// Like `Encoded`, of quantized blocks.
    EncodedBlocks(Reading<'a>, Tensor<'a>, &'a Component, BlockType),
    /// A large matrix of compressed rows: its rows in order.
    Rows(Box<CsrRows<'a>>),
    /// Decoded.
    Owned(Owned),
}

/// Encoded components from this decoded size on are never decoded as a whole.
const WHOLE: u64 = 16 << 20;
/// Decoded bytes that are in memory at a time, or one chunk.
const GROUP: u64 = 8 << 20;

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
        } else if let Some(length) = component
            .byte_length()
            .filter(|&length| length > WHOLE && !matches!(component.data, Data::Inline(_)))
        {
            reading.check_decoded(component, length)?;
            (length, Bytes::Encoded(*reading, tensor, component))
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
        if let Some(quantized) = Quantized::new(tensor)?.filter(|quantized| quantized.elements > WHOLE / 4) {
            let parts = reading.quantized_parts(tensor, &quantized)?;
            let bytes = Bytes::Codes(*reading, quantized, parts);
            return Ok(Self { dtype: DType::Float32, count: quantized.elements, bytes });
        }
        if let Some((component, block)) = reading.encoded_blocks(tensor)?
            && let Some(count) = product(tensor.shape()).filter(|&count| count > WHOLE / 4)
        {
            reading.check_decoded(component, component.byte_length().unwrap_or_default())?;
            let bytes = Bytes::EncodedBlocks(*reading, tensor, component, block);
            return Ok(Self { dtype: DType::Float32, count, bytes });
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
        if let (Layout::SparseCsr, &[values, indices, indptr], &[rows, columns]) =
            (tensor.layout(), &*parts, shape)
            && bytes > WHOLE
            && csr::has_addition(dtype)
        {
            reading.judge_sparse(tensor)?;
            let rows = CsrRows::new(reading, tensor, [values, indices, indptr], [rows, columns])?;
            return Ok(Self { dtype, count, bytes: Bytes::Rows(Box::new(rows)) });
        }
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

    /// Calls `work` with the elements, which it must [`advance`](Feed::advance) through in order.
    pub fn feed<T>(&self, work: impl FnOnce(&mut dyn Feed) -> Result<T>) -> Result<T> {
        match &self.bytes {
            Bytes::Encoded(reading, tensor, component) => reading.sequence(*tensor, component, |next| {
                work(&mut Decoding { elements: self, next, blocks: None, window: Vec::new(), first: 0 })
            }),
            Bytes::Rows(rows) => rows.sequence(|next| {
                work(&mut Decoding { elements: self, next, blocks: None, window: Vec::new(), first: 0 })
            }),
            Bytes::Codes(reading, quantized, parts) => {
                work(&mut Decoded { elements: self, reading, quantized, parts, window: Vec::new(), first: 0 })
            }
            Bytes::EncodedBlocks(reading, tensor, component, block) => {
                reading.sequence(*tensor, component, |next| {
                    let blocks = Some((reading, *block, Vec::new()));
                    work(&mut Decoding { elements: self, next, blocks, window: Vec::new(), first: 0 })
                })
            }
            _ => work(&mut &*self),
        }
    }

    /// Returns all elements.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        self.feed(|feed| {
            feed.advance(0, self.count)?;
            let (view, mut buffer) = (feed.view(), Vec::new());
            view.read(0, self.count, &mut buffer).map(<[u8]>::to_vec)
        })
    }

    /// Returns the number of bytes of all elements.
    pub fn byte_length(&self) -> u64 {
        bytes_of(self.count, self.dtype.bits()).unwrap_or(self.count)
    }
}

/// Elements that are made available in order.
pub trait Feed {
    /// Returns the bits of an element if only some elements are available at a time.
    fn windowed(&self) -> Option<u32>;
    /// Makes the next `count` elements available, from `first` on, in place of those before.
    fn advance(&mut self, first: u64, count: u64) -> Result<()>;
    fn view(&self) -> View<'_>;
}

/// All elements are available at any time.
impl Feed for &Elements<'_> {
    fn windowed(&self) -> Option<u32> {
        None
    }

    fn advance(&mut self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn view(&self) -> View<'_> {
        View { elements: self, window: None }
    }
}

/// Elements that are decoded in order.
struct Decoding<'f> {
    elements: &'f Elements<'f>,
    next: Next<'f>,
    /// What decodes blocks, and their stored bytes.
    blocks: Option<(&'f Reading<'f>, BlockType, Vec<u8>)>,
    /// Decoded bytes, from the element `first` on.
    window: Vec<u8>,
    first: u64,
}

impl Feed for Decoding<'_> {
    fn windowed(&self) -> Option<u32> {
        Some(self.elements.dtype.bits())
    }

    fn advance(&mut self, first: u64, count: u64) -> Result<()> {
        self.first = first;
        let Some((reading, block, stored)) = &mut self.blocks else {
            let length = bytes_of(count, self.elements.dtype.bits()).ok_or_else(too_many)?;
            self.window.resize(index(length, "a piece")?, 0);
            return (self.next)(&mut self.window);
        };
        // Chunks are whole blocks, and so are the rows of a tensor.
        if !first.is_multiple_of(block.elements) || !count.is_multiple_of(block.elements) {
            return Err(Error::new(Code::Internal, "a chunk begins or ends within a block"));
        }
        let blocks = count / block.elements;
        stored.resize(index(blocks.checked_mul(block.bytes).ok_or_else(too_many)?, "a piece")?, 0);
        (self.next)(stored)?;
        self.window.resize(index(count.checked_mul(4).ok_or_else(too_many)?, "a piece")?, 0);
        reading.fill_blocks(*block, stored, &mut self.window)?;
        if cfg!(target_endian = "big") {
            swap_bytes(&mut self.window, 4);
        }
        Ok(())
    }

    fn view(&self) -> View<'_> {
        View { elements: self.elements, window: Some((&self.window, self.first)) }
    }
}

/// Elements that are decoded from codes and scales.
struct Decoded<'f> {
    elements: &'f Elements<'f>,
    reading: &'f Reading<'f>,
    quantized: &'f Quantized,
    parts: &'f [Owned],
    /// Decoded bytes, from the element `first` on.
    window: Vec<u8>,
    first: u64,
}

impl Feed for Decoded<'_> {
    fn windowed(&self) -> Option<u32> {
        Some(self.elements.dtype.bits())
    }

    fn advance(&mut self, first: u64, count: u64) -> Result<()> {
        // Chunks are whole pieces.
        if !first.is_multiple_of(PIECE as u64) {
            return Err(Error::new(Code::Internal, "a chunk begins within a piece"));
        }
        self.first = first;
        self.window.resize(index(count.checked_mul(4).ok_or_else(too_many)?, "a piece")?, 0);
        let pieces: Vec<_> = self.window.as_chunks_mut::<4>().0.chunks_mut(PIECE).map(Mutex::new).collect();
        work::try_each_on(work::cores(), pieces.len(), |at| {
            self.reading.watch.stop.check()?;
            let Some(piece) = pieces.get(at) else { return Ok(()) };
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            self.quantized.decode(self.parts, first + at as u64 * PIECE as u64, &mut piece)
        })?;
        drop(pieces);
        if cfg!(target_endian = "big") {
            swap_bytes(&mut self.window, 4);
        }
        Ok(())
    }

    fn view(&self) -> View<'_> {
        View { elements: self.elements, window: Some((&self.window, self.first)) }
    }
}

/// Elements that any thread may read.
#[derive(Clone, Copy)]
pub struct View<'f> {
    elements: &'f Elements<'f>,
    window: Option<(&'f [u8], u64)>,
}

impl View<'_> {
    /// Returns the bytes of `count` elements from `first` on, which must begin at a whole byte for packed types. `buffer` holds them if
    /// they must be read.
    pub fn read<'b>(&'b self, first: u64, count: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let bits = u64::from(self.elements.dtype.bits());
        let length = count.checked_mul(bits).ok_or_else(too_many)?.div_ceil(8);
        let ended = || Error::new(Code::Decode, "the decoded data ends before its elements do");
        let first_held = self.window.map_or(0, |(_, first)| first);
        let start = first.checked_sub(first_held).and_then(|first| first.checked_mul(bits));
        let start = start.ok_or_else(too_many)? / 8;
        if let Some((window, _)) = self.window {
            return slice(window, start, length).ok_or_else(ended);
        }
        match &self.elements.bytes {
            Bytes::Owned(bytes) => slice(bytes, start, length).ok_or_else(ended),
            Bytes::Blocks(blocks) => {
                blocks.read(first, count, buffer)?;
                Ok(buffer)
            }
            Bytes::Stored { source, offset, stop } => {
                buffer.resize(index(length, "a piece")?, 0);
                source.read_at(offset.checked_add(start).ok_or_else(too_many)?, buffer, stop)?;
                Ok(buffer)
            }
            Bytes::Encoded(..) | Bytes::EncodedBlocks(..) | Bytes::Codes(..) | Bytes::Rows(_) => {
                Err(Error::new(Code::Internal, "encoded elements are read in order"))
            }
        }
    }

    /// Calls `each` with bytes and number of elements, for consecutive pieces of at most [`STEP`] elements.
    pub fn pieces(
        &self,
        first: u64,
        count: u64,
        watch: &Watch,
        mut each: impl FnMut(&[u8], usize) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        for at in (first..first + count).step_by(usize::try_from(STEP).unwrap_or(1)) {
            let count = STEP.min(first + count - at);
            let bytes = self.read(at, count, &mut buffer)?;
            each(bytes, usize::try_from(count).unwrap_or_default())?;
            watch.did_bytes(bytes.len() as u64);
        }
        Ok(())
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

/// Calls `work` for each [`CHUNK`] of elements, several at once, with its first element and its length. Returns the results in order, or
/// the error of the first chunk that fails.
pub fn chunks<T: Send>(
    elements: &Elements<'_>,
    watch: &Watch,
    work: impl Fn(View<'_>, u64, u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    elements.feed(|feed| {
        chunks_of(CHUNK, elements.count, watch, &mut [feed], |views, first, count| {
            views.first().map_or_else(|| Err(too_many()), |&view| work(view, first, count))
        })
    })
}

/// Calls `work` for each chunk of a given length of several sequences of `count` elements, like [`chunks`].
pub fn chunks_of<T: Send>(
    chunk: u64,
    count: u64,
    watch: &Watch,
    feeds: &mut [&mut dyn Feed],
    work: impl Fn(&[View<'_>], u64, u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let bits = feeds.iter().filter_map(|feed| feed.windowed()).map(u64::from).max();
    // Packed types: a chunk ends with a whole byte.
    let group = bits.map_or(count, |bits| (GROUP / (chunk * bits).div_ceil(8).max(1)).max(1) * chunk);
    let mut all = Vec::new();
    let mut start = 0;
    while start < count {
        let length = group.min(count - start);
        for feed in &mut *feeds {
            feed.advance(start, length)?;
        }
        let views: Vec<View<'_>> = feeds.iter().map(|feed| feed.view()).collect();
        let chunks = index(length.div_ceil(chunk), "the number of elements")?;
        let results = Mutex::new(std::collections::BTreeMap::new());
        let lock = || results.lock().unwrap_or_else(PoisonError::into_inner);
        work::for_each(chunks, |at| {
            let first = at as u64 * chunk;
            let stopped = watch.stop.check();
            let done = stopped.and_then(|()| work(&views, start + first, chunk.min(length - first)));
            lock().insert(at, done);
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        for result in results.into_values() {
            all.push(result?);
        }
        start += length;
    }
    Ok(all)
}
