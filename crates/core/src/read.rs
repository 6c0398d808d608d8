//! Loads components: positional reads into owned memory, hashed as they arrive, decoded and rearranged. The result is little-endian and
//! exactly what was hashed. Uses sources, codecs and kernels, and knows no format.
#![forbid(unsafe_code)]

pub mod batch;
pub(crate) mod blocks;
mod decoded;
pub mod deferred;
mod dequantize;
mod filters;
mod grid;
mod inflate;
mod joined;
pub(crate) mod parallel;
mod picked;
mod pieces;
pub mod plan;
pub(crate) mod planner;
pub mod prefetch;
mod seekable;
#[cfg(not(target_family = "wasm"))]
pub mod sequence;
#[cfg(target_family = "wasm")]
#[path = "read/sequence_whole.rs"]
pub mod sequence;
mod spans;
mod sparse;
pub mod staging;
pub mod take;
pub mod total;
pub(crate) mod widened;

pub use pieces::Stored;

use std::collections::BTreeSet;

use crate::checked::{self, index};
use crate::codecs::digest::{Digest, Hasher, Over};
use crate::codecs::frames::Size;
use crate::codecs::zstd;
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::kernels::swap::{change_signs, swap_bytes};
use crate::layouts::coo::Coo;
use crate::layouts::csr::Csr;
use crate::layouts::elements;
use crate::layouts::indices::Indices;
use crate::limits::{Limits, TIMES_THE_FILES};
use crate::model::slice::{Range, TensorSlice};
use crate::model::{Blob, Catalog, Component, DType, Data, DataRule, Encoding, Layout, Tensor, View};
use crate::sources::owned::Owned;
use crate::sources::{MappedWindows, ReadAt, Sources};
use crate::work::{PIECE, Watch};
use planner::Aim;

/// What loading needs in addition to the component.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    pub sources: &'a dyn Sources,
    pub catalog: &'a Catalog,
    pub limits: &'a Limits,
    pub watch: &'a Watch,
}

impl<'a> Reading<'a> {
    /// Returns the decoded bytes of a component, after verifying its digest.
    pub fn component(&self, tensor: Tensor<'_>, component: &Component) -> Result<Owned> {
        self.decode(component).map_err(|error| self.name(error, tensor, component))
    }

    /// Returns the bytes of a slice of a dense tensor, row-major. Only the blob, frames or chunks that it overlaps are read and decoded;
    /// for raw data only the slice itself, so a digest over the whole cannot be verified.
    pub fn slice(&self, tensor: Tensor<'_>, component: &Component, slice: &TensorSlice) -> Result<Owned> {
        let result = self.slice_unjudged(tensor, component, slice);
        // The end of a packed tensor may not be in the slice.
        let rule = component.rule.filter(|&rule| rule == DataRule::Bool);
        let checked = result.and_then(|bytes| elements::check(rule, &bytes).map(|()| bytes));
        checked.map_err(|error| self.name(error, tensor, component))
    }

    fn slice_unjudged(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        slice: &TensorSlice,
    ) -> Result<Owned> {
        self.not_spread(component, slice.byte_length())?;
        let placed = match &component.view {
            View::Whole | View::Counted(_) => None,
            View::Strided(strided) => strided.slice(tensor.shape(), slice.ranges()).transpose()?,
        };
        let direct = component.view == View::Whole || placed.is_some();
        let mut bytes = match &component.data {
            Data::Grid(blob, grid) if component.view == View::Whole => {
                self.grid(blob, grid, slice.ranges())?
            }
            Data::Blob(blob) if direct && blob.encoding == Encoding::RAW => {
                let source = self.sources.source(blob.file)?;
                self.read_slice(source, blob.offset, blob.stored, placed.as_ref().unwrap_or(slice))?
            }
            Data::Blob(blob) if direct && component.plain_range().is_none() => {
                match self.frames_once(blob)? {
                    Some(frames) => self.slice_seekable(blob, &frames, placed.as_ref().unwrap_or(slice))?,
                    None => return self.slice_decoded(tensor, component, slice, placed.as_ref()),
                }
            }
            Data::Pieces(pieces) if direct => self.slice_pieces(pieces, placed.as_ref().unwrap_or(slice))?,
            Data::Blob(_) => match component.plain_range() {
                Some((offset, length)) => self.read_slice(self.source(component)?, offset, length, slice)?,
                None => return self.slice_decoded(tensor, component, slice, placed.as_ref()),
            },
            _ => return self.slice_decoded(tensor, component, slice, placed.as_ref()),
        };
        turn(component, &mut bytes);
        Ok(bytes)
    }

    /// Returns a slice of what is decoded from its beginning. `placed` is the slice in the decoded bytes, if it is known.
    fn slice_decoded(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        slice: &TensorSlice,
        placed: Option<&TensorSlice>,
    ) -> Result<Owned> {
        if let Some(bytes) = self.slice_decoded_once(component, slice, placed)? {
            return Ok(bytes);
        }
        if let Some(picked) = self.picked_slice(tensor, component, slice)? {
            return Ok(picked);
        }
        let whole = self.decode(component)?;
        let mut output = Owned::to_fill(slice.byte_length())?;
        slice.pack_divided(&whole, &mut output)?;
        Ok(output)
    }

    /// Returns the arrays of a sparse tensor in the order of their roles (values, indices, indptr; values, coords), after checking the
    /// rules of its layout.
    pub fn sparse(&self, tensor: Tensor<'_>) -> Result<Vec<Owned>> {
        let parts = sparse_parts(tensor)?;
        let arrays = parts.iter().map(|part| self.component(tensor, part)).collect::<Result<Vec<_>>>()?;
        let views: Vec<&[u8]> = arrays.iter().map(|array| &**array).collect();
        check_sparse(tensor, &parts, &views)?;
        Ok(arrays)
    }

    /// Returns the source of a component's bytes.
    pub fn source(&self, component: &Component) -> Result<&'a dyn ReadAt> {
        self.sources.source(component.file())
    }

    pub(crate) fn name(&self, error: Error, tensor: Tensor<'_>, component: &Component) -> Error {
        error.tensor(tensor.name()).component(self.catalog.label(component.role))
    }

    /// Decodes a component like [`Reading::component`], without a tensor name.
    pub(crate) fn decode(&self, component: &Component) -> Result<Owned> {
        inject::panic_at("decode");
        let bytes = self.decode_unjudged(component)?;
        elements::check(component.rule, &bytes)?;
        Ok(bytes)
    }

    /// Rejects repeated elements (stride 0) that expand to far more than the file holds.
    fn not_spread(&self, component: &Component, bytes: u64) -> Result<()> {
        let View::Strided(strided) = &component.view else { return Ok(()) };
        if strided.loops.iter().all(|&(count, stride)| stride > 0 || count <= 1) {
            return Ok(());
        }
        // Each file once.
        let files: BTreeSet<_> = component.spans().map(|span| span.file).collect();
        let held = files.into_iter().try_fold(0_u64, |held, file| {
            self.sources.source(file).map(|source| held.saturating_add(source.length()))
        })?;
        if bytes <= held.saturating_mul(TIMES_THE_FILES).max(self.limits.max_repeated_bytes) {
            return Ok(());
        }
        let message = format!(
            "its elements are repeated (stride 0) and expand to {bytes} bytes, more than {TIMES_THE_FILES} times the file; \
             take slices of it"
        );
        Err(Error::new(Code::Limit, message).hint("maxDecodedBytes", ", or set the option maxDecodedBytes"))
    }

    /// Fails like a load of the component if it would be too large.
    pub(crate) fn check_decoded(&self, component: &Component, length: u64) -> Result<()> {
        self.not_spread(component, length)?;
        within(length, self.limits)
    }

    fn decode_unjudged(&self, component: &Component) -> Result<Owned> {
        self.not_spread(component, component.byte_length().unwrap_or_default())?;
        let blob = match &component.data {
            Data::Inline(bytes) => Owned::from(bytes.to_vec()),
            Data::Unread { file } => return Err(unread(self.sources.source(*file).err())),
            Data::Grid(blob, grid) => {
                let all: Vec<_> = grid.shape.iter().map(|&dim| Range::from((0, dim))).collect();
                self.grid(blob, grid, &all)?
            }
            Data::Pieces(pieces) => self.joined(pieces)?,
            Data::Blob(blob) => match component.plain_range() {
                Some(range) => return self.raw(blob, range),
                None => match self.inflated(blob, &component.view)? {
                    Some(mut bytes) => {
                        turn(component, &mut bytes);
                        return Ok(bytes);
                    }
                    None => self.blob(blob)?,
                },
            },
        };
        let mut bytes = self.arranged(&component.view, blob)?;
        turn(component, &mut bytes);
        Ok(bytes)
    }

    /// Returns the elements of a view of its decoded bytes.
    fn arranged(&self, view: &View, bytes: Owned) -> Result<Owned> {
        let strided = match view {
            View::Whole => return Ok(bytes),
            View::Counted(counted) => return self.arranged(&counted.view(bytes.len() as u64)?, bytes),
            View::Strided(strided) => strided,
        };
        let slice = TensorSlice::strided(strided)?;
        within(slice.byte_length(), self.limits)?;
        let mut output = Owned::to_fill(slice.byte_length())?;
        slice.pack_divided(&bytes, &mut output).map_err(outside)?;
        Ok(output)
    }

    /// Returns the stored bytes of a blob, after verifying its digest.
    fn stored(&self, blob: &Blob) -> Result<Owned> {
        let mut hasher = stored_hasher(blob);
        let source = self.sources.source(blob.file)?;
        let stored = self.read(source, blob.offset, blob.stored, hasher.as_mut())?;
        compare(blob, hasher)?;
        Ok(stored)
    }

    /// Returns a range of an unencoded blob, after verifying the digest of the whole.
    fn raw(&self, blob: &Blob, (offset, length): (u64, u64)) -> Result<Owned> {
        let source = self.sources.source(blob.file)?;
        let mut hasher = stored_hasher(blob);
        if let Some(hasher) = &mut hasher {
            claimable(source, blob.offset, blob.stored)?;
            self.hash(source, blob.offset, offset.saturating_sub(blob.offset), hasher)?;
        }
        let bytes = self.read(source, offset, length, hasher.as_mut())?;
        if let Some(hasher) = &mut hasher {
            let end = offset.saturating_add(length);
            self.hash(source, end, blob.span().end().saturating_sub(end), hasher)?;
        }
        compare(blob, hasher)?;
        Ok(bytes)
    }

    /// Hashes possibly many bytes without retaining them.
    fn hash(&self, source: &dyn ReadAt, offset: u64, length: u64, hasher: &mut Hasher) -> Result<()> {
        let (mut at, end, windows) = (offset, offset.saturating_add(length), MappedWindows::default());
        while at < end {
            self.watch.stop.check()?;
            let step = (end - at).min(PIECE as u64);
            source.hash(&windows, at, step, hasher, &self.watch.stop)?;
            self.watch.did_bytes(step);
            at += step;
        }
        Ok(())
    }

    /// Returns the decoded bytes of a blob, after verifying its digest.
    fn blob(&self, blob: &Blob) -> Result<Owned> {
        if let Some(frames) = self.frames_of(blob)? {
            return self.seekable(blob, &frames);
        }
        let stored = self.stored(blob)?;
        let size = || self.decoded_size(blob);
        let bytes = self.decompress(blob.encoding, stored, size)?;
        if let Some(digest) = blob.digest.as_ref().filter(|digest| is_over_decoded(digest, blob)) {
            digest.check_bytes(&bytes).map_err(|error| error.at(blob.offset))?;
        }
        Ok(bytes)
    }

    /// Reverses a list of filters; `size` is the expected size of the result.
    fn decompress(
        &self,
        encoding: Encoding,
        stored: Owned,
        size: impl FnOnce() -> Result<Size>,
    ) -> Result<Owned> {
        if encoding == Encoding::RAW {
            return Ok(stored);
        }
        if encoding == Encoding::ZSTD {
            return match size()? {
                Size::Exactly(length) => {
                    let mut output = Owned::to_fill(length)?;
                    zstd::decode_into(&stored, &mut output, &self.watch.stop)?;
                    Ok(output)
                }
                Size::UpTo(limit) => zstd::decode_unsized(&stored, limit, &self.watch.stop).map(Owned::from),
            };
        }
        self.unfiltered(encoding, stored, size()?)
    }

    /// Returns the expected decoded size of a blob.
    fn decoded_size(&self, blob: &Blob) -> Result<Size> {
        match blob.decoded {
            Some(length) => within(length, self.limits).map(|()| Size::Exactly(length)),
            None => Ok(Size::UpTo(self.limits.max_decoded_bytes)),
        }
    }

    /// Reads into memory that is allocated only once the bytes are known to exist.
    fn read(
        &self,
        source: &dyn ReadAt,
        offset: u64,
        length: u64,
        hasher: Option<&mut Hasher>,
    ) -> Result<Owned> {
        let mut output = claim(source, offset, length)?;
        self.read_into(source, offset, &mut output, hasher)?;
        Ok(output)
    }

    /// Reads in pieces, hashing each as it arrives.
    fn read_into(
        &self,
        source: &dyn ReadAt,
        offset: u64,
        output: &mut [u8],
        mut hasher: Option<&mut Hasher>,
    ) -> Result<()> {
        let length = output.len() as u64;
        if length >= parallel::FROM && hasher.as_deref().is_none_or(Hasher::combines) {
            let checksum = hasher.as_deref().and_then(Hasher::checksum);
            let sum = parallel::fill(source, offset, output, checksum, self.watch)?;
            if let Some(hasher) = hasher {
                hasher.combine(sum, length);
            }
            return Ok(());
        }
        let mut at = offset;
        // Hash while the bytes are in the core's cache, unless the storage needs longer reads.
        let in_cache = hasher.is_some() && source.is_cached(offset, length);
        for piece in output.chunks_mut(if in_cache { parallel::HASHED } else { PIECE }) {
            self.watch.stop.check()?;
            source.read_at(at, piece, &self.watch.stop)?;
            if let Some(hasher) = hasher.as_deref_mut() {
                hasher.update(piece);
            }
            at += piece.len() as u64;
            self.watch.did_bytes(piece.len() as u64);
        }
        Ok(())
    }

    pub(crate) fn read_slice(
        &self,
        source: &dyn ReadAt,
        offset: u64,
        length: u64,
        slice: &TensorSlice,
    ) -> Result<Owned> {
        if let Some((start, bytes)) = slice.contiguous() {
            return self.read(source, offset.saturating_add(start), bytes, None);
        }
        contains(source, (offset, length), slice)?;
        let mut output = Owned::to_fill(slice.byte_length())?;
        if slice.is_rising() || !is_divisible(source, slice) {
            self.read_part(source, (offset, length), slice, &mut output)?;
            return Ok(output);
        }
        let mut rest = &mut *output;
        slice.for_each_part(arranged_at_once(slice), u64::MAX, &mut |part| {
            let bytes = index(part.byte_length(), "a part of a slice")?;
            let (out, later) = std::mem::take(&mut rest).split_at_mut_checked(bytes).ok_or_else(too_many)?;
            rest = later;
            self.read_part(source, (offset, length), part, out)
        })?;
        Ok(output)
    }

    /// Reads part of a slice. The range is that of all data, which contains the part.
    pub(crate) fn read_part(
        &self,
        source: &dyn ReadAt,
        (offset, length): (u64, u64),
        part: &TensorSlice,
        output: &mut [u8],
    ) -> Result<()> {
        self.watch.stop.check()?;
        if part.is_rising() {
            return self.read_rising(source, (offset, length), part, output);
        }
        // Then each byte is read once, and gets its place in memory.
        if let Some((rising, arranged)) = part.in_file_order().filter(|_| !source.is_remote()) {
            let mut bytes = Owned::to_fill(part.byte_length())?;
            self.read_rising(source, (offset, length), &rising, &mut bytes)?;
            return arranged.pack_divided(&bytes, output);
        }
        let (start, span) = part.span();
        let bytes = self.read(source, offset.saturating_add(start), span, None)?;
        part.rebased().pack_divided(&bytes, output)
    }

    /// Reads a slice whose runs are sorted by offset.
    fn read_rising(
        &self,
        source: &dyn ReadAt,
        (offset, length): (u64, u64),
        slice: &TensorSlice,
        output: &mut [u8],
    ) -> Result<()> {
        let threads = parallel::threads(source, offset, length);
        let near = Aim::SLICED.on(source.costs());
        slice.each_part(threads, output, |part, out| {
            let (mut out, mut block) = (out, Vec::new());
            part.for_each_span(near, &mut |part| {
                self.watch.stop.check()?;
                let bytes = index(part.byte_length(), "a part of a slice")?;
                let (filled, rest) =
                    std::mem::take(&mut out).split_at_mut_checked(bytes).ok_or_else(too_many)?;
                out = rest;
                self.read_span(source, offset, part, filled, &mut block)?;
                self.watch.did_bytes(bytes as u64);
                Ok(())
            })
        })
    }

    /// Reads part of a slice: directly into place if it is contiguous, or via a `block` that covers all of it.
    fn read_span(
        &self,
        source: &dyn ReadAt,
        offset: u64,
        part: &TensorSlice,
        out: &mut [u8],
        block: &mut Vec<u8>,
    ) -> Result<()> {
        let (start, length) = part.span();
        let at = offset.checked_add(start).ok_or_else(too_many)?;
        if part.contiguous().is_some() {
            for (piece, from) in out.chunks_mut(PIECE).zip((at..).step_by(PIECE)) {
                self.watch.stop.check()?;
                source.read_bulk(from, piece, &self.watch.stop)?;
            }
            return Ok(());
        }
        block.resize(index(length, "a span")?, 0);
        source.read_at(at, block, &self.watch.stop)?;
        part.rebased().pack(block, out)
    }
}

/// Bytes of elements in another order than that of the file that are read at once.
const ARRANGED: u64 = 8 << 20;
/// Maximum parts that such elements are divided into: each may have to read most pages of the file.
const ARRANGED_PARTS: u64 = 64;

/// Returns whether parts of a slice are read without the bytes between their runs.
fn is_divisible(source: &dyn ReadAt, slice: &TensorSlice) -> bool {
    !source.is_remote() && slice.in_file_order().is_some()
}

fn arranged_at_once(slice: &TensorSlice) -> u64 {
    ARRANGED.max(slice.byte_length() / ARRANGED_PARTS)
}

/// Fails unless a range of a source contains a slice, and the source the range.
fn contains(source: &dyn ReadAt, (offset, length): (u64, u64), slice: &TensorSlice) -> Result<()> {
    let (start, span) = slice.span();
    if checked::end_within(start, span, length).is_none() {
        return Err(Error::new(Code::OutOfBounds, "the slice extends past the data").at(offset));
    }
    claimable(source, offset.saturating_add(start), span)
}

/// Allocates memory for bytes of a file, after checking that they exist.
fn claim(source: &dyn ReadAt, offset: u64, length: u64) -> Result<Owned> {
    claimable(source, offset, length)?;
    Owned::to_fill(length)
}

/// Fails if the file does not have the bytes.
fn claimable(source: &dyn ReadAt, offset: u64, length: u64) -> Result<()> {
    if checked::end_within(offset, length, source.length()).is_none() {
        return Err(Error::new(Code::Truncated, "the file ends before the data does").at(offset));
    }
    Ok(())
}

fn too_many() -> Error {
    Error::new(Code::Limit, "more bytes than this platform can address")
}

pub(crate) fn within(length: u64, limits: &Limits) -> Result<()> {
    if length <= limits.max_decoded_bytes {
        return Ok(());
    }
    let message = format!("decodes to {length} bytes, more than {}", limits.max_decoded_bytes);
    Err(Error::new(Code::Limit, message).option("maxDecodedBytes"))
}

/// Returns a hasher of the stored bytes, if the digest covers them or they equal the decoded ones.
pub(crate) fn stored_hasher(blob: &Blob) -> Option<Hasher> {
    let digest = blob.digest.as_ref();
    digest.filter(|digest| !is_over_decoded(digest, blob))?.hasher()
}

/// Returns whether a digest covers decoded bytes.
fn is_over_decoded(digest: &Digest, blob: &Blob) -> bool {
    digest.over == Over::Decoded && blob.encoding != Encoding::RAW
}

/// Verifies the blob's digest.
pub(crate) fn compare(blob: &Blob, hasher: Option<Hasher>) -> Result<()> {
    match (&blob.digest, hasher) {
        (Some(digest), Some(hasher)) => digest.check(hasher).map_err(|error| error.at(blob.offset)),
        _ => Ok(()),
    }
}

/// Returns the error of a slice of decoded bytes: one outside of them is the fault of the file.
fn outside(error: Error) -> Error {
    if error.code() == Code::OutOfBounds { short() } else { error }
}

fn short() -> Error {
    Error::new(Code::Decode, "the decoded blob is shorter than its parts")
}

/// Converts the elements of a component to little-endian and applies their signs.
fn turn(component: &Component, bytes: &mut [u8]) {
    let Some(dtype) = component.dtype else { return };
    if component.is_swapped() {
        swap_bytes(bytes, dtype.element_bytes());
    }
    if component.signs.are_changed() {
        let is_complex = matches!(dtype, DType::Complex64 | DType::Complex128);
        change_signs(bytes, dtype.element_bytes(), is_complex, component.signs);
    }
}

/// Returns the error of a source that was not read.
fn unread(error: Option<Error>) -> Error {
    error.unwrap_or_else(|| Error::new(Code::Io, "the file that holds the data was not read"))
}

/// Returns the components of a sparse tensor in the order of [`Reading::sparse`].
pub fn sparse_parts(tensor: Tensor<'_>) -> Result<Vec<&Component>> {
    let sparse = |layout: &Layout| matches!(layout, Layout::SparseCsr | Layout::SparseCoo);
    let Some(roles) = Some(tensor.layout()).filter(sparse).and_then(Layout::roles) else {
        let message = format!("the layout is {:?}, not a sparse one", tensor.layout_name());
        return Err(Error::new(Code::BadLayout, message).tensor(tensor.name()));
    };
    let found = roles.iter().map(|&role| tensor.component(role)).collect::<Option<Vec<_>>>();
    found.ok_or_else(|| Error::new(Code::BadLayout, "a component is missing").tensor(tensor.name()))
}

/// Checks the data rules of a sparse tensor on its arrays, in the order of [`Reading::sparse`].
pub fn check_sparse(tensor: Tensor<'_>, parts: &[&Component], arrays: &[&[u8]]) -> Result<()> {
    let indices = |at: usize| {
        let dtype = parts.get(at).and_then(|part| part.dtype).unwrap_or(DType::Uint64);
        Indices::new(dtype, arrays.get(at).copied().unwrap_or_default())
    };
    let values = arrays.first().copied().unwrap_or_default();
    let strict = |rule: DataRule| parts.get(1).is_some_and(|part| part.rule == Some(rule));
    let checked = match (tensor.layout(), tensor.shape(), parts.first().and_then(|part| part.dtype)) {
        (_, _, None) => {
            Err(Error::new(Code::BadDtype, "the type of the values is unknown").component("values"))
        }
        (Layout::SparseCsr, &[rows, columns], Some(dtype)) => {
            let csr =
                Csr { shape: [rows, columns], dtype, values, indices: indices(1)?, indptr: indices(2)? };
            if strict(DataRule::RisingColumns) { csr.check_strictly() } else { csr.check() }
        }
        (_, shape, Some(dtype)) => {
            let coo = Coo { shape, dtype, values, coords: indices(1)? };
            if strict(DataRule::UniqueCells) { coo.check_strictly() } else { coo.check() }
        }
    };
    checked.map_err(|error| error.tensor(tensor.name()))
}
