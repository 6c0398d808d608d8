//! Loads components: positional reads into memory of our own, hashed as they arrive, decoded, put in order. What is
//! returned is little-endian and is exactly what was hashed. Uses sources, codecs and kernels, and knows no format.
#![forbid(unsafe_code)]

pub mod batch;
pub(crate) mod parallel;
pub mod plan;
pub mod prefetch;
mod seekable;
pub mod total;
mod widened;

use std::fs::File;

use crate::checked::{self, index};
use crate::codecs::digest::{Hasher, Over};
use crate::codecs::frames::Size;
use crate::codecs::zstd;
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::kernels::swap::swap_bytes;
use crate::layouts::coo::Coo;
use crate::layouts::csr::Csr;
use crate::layouts::elements::{self, Elements};
use crate::layouts::indices::Indices;
use crate::layouts::records;
use crate::limits::Limits;
use crate::model::cut::Cut;
use crate::model::{ByteOrder, Catalog, Component, DType, DataRule, Encoding, Layout, Part, Tensor};
use crate::sources::owned::Owned;
use crate::sources::{ReadAt, Sources};
use crate::work::{PIECE, Watch};

/// What loading needs besides the component.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    pub sources: &'a dyn Sources,
    pub catalog: &'a Catalog,
    pub limits: &'a Limits,
    pub watch: &'a Watch,
}

impl<'a> Reading<'a> {
    /// The decoded bytes of a component, after its digest was checked.
    pub fn component(&self, tensor: Tensor<'_>, component: &Component) -> Result<Owned> {
        self.decode(component).map_err(|error| self.name(error, tensor, component))
    }

    /// The bytes of a cut through a dense tensor. Where the data is stored raw only the cut is read, so that
    /// a digest over the whole cannot be checked.
    pub fn cut(&self, tensor: Tensor<'_>, component: &Component, cut: &Cut) -> Result<Owned> {
        let result = match component.plain_range() {
            Some((offset, length)) => {
                self.source(component).and_then(|source| self.read_cut(source, offset, length, cut))
            }
            None if component.encoding == Encoding::ZstdSeekable => self.seekable_cut(component, cut),
            None => self.decode(component).and_then(|whole| {
                let mut output = Owned::to_fill(cut.byte_length())?;
                cut.pack_divided(&whole, &mut output)?;
                Ok(output)
            }),
        };
        // The end of a packed tensor may not be in the cut.
        let rule = component.data_rule.filter(|&rule| rule == DataRule::Bool);
        let checked = result.and_then(|bytes| elements::check(rule, &bytes).map(|()| bytes));
        checked.map_err(|error| self.name(error, tensor, component))
    }

    /// The arrays of a sparse tensor, in the order of their roles (values, indices, indptr; values, coords),
    /// after the rules of its layout were checked on them.
    pub fn sparse(&self, tensor: Tensor<'_>) -> Result<Vec<Owned>> {
        let parts = sparse_parts(tensor)?;
        let arrays = parts.iter().map(|part| self.component(tensor, part)).collect::<Result<Vec<_>>>()?;
        let views: Vec<&[u8]> = arrays.iter().map(|array| &**array).collect();
        check_sparse(tensor, &parts, &views)?;
        Ok(arrays)
    }

    /// Where a component's bytes are.
    pub fn source(&self, component: &Component) -> Result<&'a dyn ReadAt> {
        self.sources.source(component.file)
    }

    fn name(&self, error: Error, tensor: Tensor<'_>, component: &Component) -> Error {
        error.tensor(tensor.name()).component(self.catalog.label(component.role))
    }

    /// As [`Reading::component`], of a tensor that has no name.
    pub(crate) fn decode(&self, component: &Component) -> Result<Owned> {
        inject::panic_at("decode");
        let bytes = self.decode_unjudged(component)?;
        elements::check(component.data_rule, &bytes)?;
        Ok(bytes)
    }

    fn decode_unjudged(&self, component: &Component) -> Result<Owned> {
        if let Some(inline) = &component.inline {
            return Ok(Owned::from(inline.to_vec()));
        }
        if let (Some((offset, length)), None) = (component.plain_range(), &component.digest) {
            return self.read(self.source(component)?, offset, length, None);
        }
        if component.encoding == Encoding::ZstdSeekable {
            return self.seekable(component);
        }
        let stored = self.stored(component)?;
        let mut bytes = self.decompress(component, stored)?;
        bytes = extract(component.part.as_deref(), bytes)?;
        if component.byte_order == ByteOrder::Big
            && let Some(dtype) = component.dtype
        {
            swap_bytes(&mut bytes, dtype.element_bytes());
        }
        Ok(bytes)
    }

    /// The stored bytes of a component, after its digest was checked.
    pub fn stored(&self, component: &Component) -> Result<Owned> {
        let mut hasher = stored_hasher(component);
        let stored =
            self.read(self.source(component)?, component.offset, component.stored_length, hasher.as_mut())?;
        compare(component, hasher)?;
        Ok(stored)
    }

    /// Calls `each` with the stored bytes of a component, piece by piece, or with the decoded frames of a seekable
    /// one. Checks its digest and the rules on its elements on the way.
    pub fn pieces(&self, component: &Component, mut each: impl FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        if component.encoding == Encoding::ZstdSeekable {
            return self.decoded_pieces(component, each);
        }
        let mut stored = Stored::new(*self, component)?;
        let mut piece = Vec::new();
        while stored.left() > 0 {
            piece.resize(usize::try_from(stored.left()).unwrap_or(PIECE).min(PIECE), 0);
            stored.read(&mut piece)?;
            each(&mut piece)?;
        }
        stored.finish()
    }

    fn decompress(&self, component: &Component, stored: Owned) -> Result<Owned> {
        match component.encoding {
            Encoding::Raw | Encoding::Inline | Encoding::ZstdSeekable => Ok(stored),
            Encoding::Unknown(label) => {
                let message = format!("the encoding {:?} cannot be decoded here", self.catalog.label(label));
                Err(Error::new(Code::UnsupportedEncoding, message))
            }
            Encoding::Zstd => match self.decoded_size(component)? {
                Size::Exactly(length) => {
                    let mut output = Owned::to_fill(length)?;
                    zstd::decode_into(&stored, &mut output, &self.watch.stop)?;
                    Ok(output)
                }
                Size::UpTo(limit) => zstd::decode_unsized(&stored, limit, &self.watch.stop).map(Owned::from),
            },
        }
    }

    /// What the frames of a component have to decode to.
    pub(crate) fn decoded_size(&self, component: &Component) -> Result<Size> {
        match component.decoded_length.filter(|_| component.part.is_none()) {
            Some(length) => within(length, self.limits).map(|()| Size::Exactly(length)),
            None => Ok(Size::UpTo(self.limits.max_decoded_bytes)),
        }
    }

    /// Reads in pieces, hashing each as it arrives.
    fn read(
        &self,
        source: &dyn ReadAt,
        offset: u64,
        length: u64,
        mut hasher: Option<&mut Hasher>,
    ) -> Result<Owned> {
        let mut output = claim(source, offset, length)?;
        if length >= parallel::FROM && hasher.as_deref().is_none_or(Hasher::combines) {
            let crc = parallel::fill(source, offset, &mut output, hasher.is_some(), self.watch)?;
            if let Some(hasher) = hasher {
                hasher.combine(crc, length);
            }
            return Ok(output);
        }
        let mut at = offset;
        // Hashed while they are in the core's cache, unless longer reads are what storage needs.
        let in_cache = hasher.is_some() && source.is_cached(offset, length);
        for piece in output.chunks_mut(if in_cache { parallel::HASHED } else { PIECE }) {
            self.watch.stop.check()?;
            source.read_at(at, piece)?;
            if let Some(hasher) = hasher.as_deref_mut() {
                hasher.update(piece);
            }
            at += piece.len() as u64;
            self.watch.did_bytes(piece.len() as u64);
        }
        Ok(output)
    }

    fn read_cut(&self, source: &dyn ReadAt, offset: u64, length: u64, cut: &Cut) -> Result<Owned> {
        if let Some((start, bytes)) = cut.contiguous() {
            return self.read(source, offset.saturating_add(start), bytes, None);
        }
        let (start, span) = cut.span();
        if checked::end_within(start, span, length).is_none() {
            return Err(Error::new(Code::OutOfBounds, "the cut ends beyond the data").at(offset));
        }
        claimable(source, offset.saturating_add(start), span)?;
        let mut output = Owned::to_fill(cut.byte_length())?;
        let threads = parallel::threads(source, offset, length);
        cut.each_part(threads, &mut output, |part, out| {
            let (mut out, mut block) = (out, Vec::new());
            part.for_each_span(&mut |part| {
                self.watch.stop.check()?;
                let bytes = index(part.byte_length(), "a part of a cut")?;
                let (filled, rest) =
                    std::mem::take(&mut out).split_at_mut_checked(bytes).ok_or_else(too_many)?;
                out = rest;
                self.read_span(source, offset, part, filled, &mut block)?;
                self.watch.did_bytes(bytes as u64);
                Ok(())
            })
        })?;
        Ok(output)
    }

    /// Reads the part of a cut that is one run into its place, or one that is several out of a `block` of all between them.
    fn read_span(
        &self,
        source: &dyn ReadAt,
        offset: u64,
        part: &Cut,
        out: &mut [u8],
        block: &mut Vec<u8>,
    ) -> Result<()> {
        let (start, length) = part.span();
        let at = offset.checked_add(start).ok_or_else(too_many)?;
        if part.contiguous().is_some() {
            for (piece, from) in out.chunks_mut(PIECE).zip((at..).step_by(PIECE)) {
                self.watch.stop.check()?;
                source.read_bulk(from, piece)?;
            }
            return Ok(());
        }
        block.resize(index(length, "a span")?, 0);
        source.read_at(at, block)?;
        part.rebased().pack(block, out)
    }
}

/// Memory for bytes of a file, after looking that the file has them.
fn claim(source: &dyn ReadAt, offset: u64, length: u64) -> Result<Owned> {
    claimable(source, offset, length)?;
    Owned::to_fill(length)
}

/// Fails where the file does not have the bytes.
fn claimable(source: &dyn ReadAt, offset: u64, length: u64) -> Result<()> {
    if checked::end_within(offset, length, source.length()).is_none() {
        return Err(Error::new(Code::Truncated, "the file ends before the data does").at(offset));
    }
    Ok(())
}

/// The stored bytes of a component, read one after the other and hashed on the way.
pub struct Stored<'a> {
    reading: Reading<'a>,
    source: &'a dyn ReadAt,
    component: &'a Component,
    hasher: Option<Hasher>,
    elements: Elements,
    read: u64,
}

impl<'a> Stored<'a> {
    pub fn new(reading: Reading<'a>, component: &'a Component) -> Result<Self> {
        let (hasher, elements) = (stored_hasher(component), Elements::new(component.data_rule));
        Ok(Self { reading, source: reading.source(component)?, component, hasher, elements, read: 0 })
    }

    /// Bytes not yet read.
    pub fn left(&self) -> u64 {
        self.component.stored_length - self.read
    }

    /// Fills `slot`, which must not be longer than what is left, with the next bytes.
    pub fn read(&mut self, slot: &mut [u8]) -> Result<()> {
        self.reading.watch.stop.check()?;
        self.source.read_at(self.component.offset.saturating_add(self.read), slot)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(slot);
        }
        self.elements.note(slot);
        self.read += slot.len() as u64;
        self.reading.watch.did_bytes(slot.len() as u64);
        Ok(())
    }

    /// Lets `copy` take the next bytes unread (from a file and offset, so many at most; it says how many), as long as it
    /// takes any. Bytes that have to be hashed or judged on the way are left to [`Stored::read`].
    pub fn hand_over(&mut self, mut copy: impl FnMut(&File, u64, u64) -> Result<u64>) -> Result<()> {
        let judged = self.hasher.is_some() || self.component.data_rule.is_some();
        let Some(file) = self.source.as_file().filter(|_| !judged) else { return Ok(()) };
        while self.left() > 0 {
            self.reading.watch.stop.check()?;
            let offset = self.component.offset.saturating_add(self.read);
            let copied = copy(file, offset, self.left().min(HANDED))?;
            if copied == 0 {
                break;
            }
            self.source.check_length()?;
            self.read += copied;
            self.reading.watch.did_bytes(copied);
        }
        Ok(())
    }

    /// Compares what was read with the component's digest and the rules on its elements.
    pub fn finish(self) -> Result<()> {
        compare(self.component, self.hasher)?;
        self.elements.finish()
    }
}

/// Bytes that the kernel copies between two looks at the stop flag.
const HANDED: u64 = 8 << 20;

fn too_many() -> Error {
    Error::new(Code::Limit, "more bytes than this platform can address")
}

pub(crate) fn within(length: u64, limits: &Limits) -> Result<()> {
    if length <= limits.max_decoded_bytes {
        return Ok(());
    }
    let message =
        format!("decodes to {length} bytes, more than {} (option maxDecodedBytes)", limits.max_decoded_bytes);
    Err(Error::new(Code::Limit, message))
}

/// A hasher of the bytes as they are stored, where the digest is over those or over the same ones decoded.
pub(crate) fn stored_hasher(component: &Component) -> Option<Hasher> {
    let digest = component.digest.as_deref();
    digest.filter(|digest| digest.over == Over::Stored || component.encoding == Encoding::Raw)?.hasher()
}

/// Compares what was hashed with the component's digest.
pub(crate) fn compare(component: &Component, hasher: Option<Hasher>) -> Result<()> {
    match (&component.digest, hasher) {
        (Some(digest), Some(hasher)) => digest.check(hasher).map_err(|error| error.at(component.offset)),
        _ => Ok(()),
    }
}

/// Takes a component's part out of its decoded blob.
fn extract(part: Option<&Part>, blob: Owned) -> Result<Owned> {
    let outside = || Error::new(Code::Decode, "the decoded blob is shorter than its parts");
    match part {
        None => Ok(blob),
        Some(Part::InBlob(array)) => {
            let (part, _) = array.place(blob.len() as u64)?;
            extract(Some(&part), blob)
        }
        Some(&Part::Range { start, length }) => {
            let mut output = Owned::to_fill(length)?;
            output.copy_from_slice(checked::slice(&blob, start, length).ok_or_else(outside)?);
            Ok(output)
        }
        Some(&Part::Records(records)) => {
            let length = records.count.checked_mul(records.fields).and_then(|n| n.checked_mul(records.width));
            let mut output = Owned::zeroed(length.ok_or_else(too_many)?)?;
            records::from_records(&blob, records, &mut output)?;
            Ok(output)
        }
    }
}

/// The components of a sparse tensor in the order of [`Reading::sparse`].
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
    let strict = |rule: DataRule| parts.get(1).is_some_and(|part| part.data_rule == Some(rule));
    let checked = match (tensor.layout(), tensor.shape(), parts.first().and_then(|part| part.dtype)) {
        (_, _, None) => {
            Err(Error::new(Code::BadDtype, "the type of the values is not known").component("values"))
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
