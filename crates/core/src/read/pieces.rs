//! Reads components piece by piece: little of a component is in memory at once, regardless of its size and storage.
#![forbid(unsafe_code)]

use std::fs::File;

use super::{
    ARRANGED, Reading, arranged_at_once, compare, contains, is_divisible, stored_hasher, turn, within,
};
use crate::codecs::digest::Hasher;
use crate::codecs::frames::Size;
use crate::codecs::{prefixed, zstd_pieces};
use crate::error::{Code, Error, Result};
use crate::layouts::elements::RuleCheck;
use crate::limits::{GRID_BYTES, TIMES_A_GRID};
use crate::model::slice::{Range, TensorSlice};
use crate::model::{Blob, Component, Data, DataRule, Encoding, Grid, Pieces, Tensor, View};
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::work::PIECE;

/// Maximum stored and decoded size of blobs that are decoded whole, as in a load.
const WHOLE: u64 = 16 << 20;
/// How many times as long as its bytes the span of a part may be, if all of the span is read.
const SPREAD: u64 = 4;
/// Bytes of a row of chunks that are decoded at once.
const BAND: u64 = 24 << 20;
/// How many times a chunk is decoded, if it has elements of many parts.
const BANDS: u64 = 8;
/// Bytes that are decoded at once if they are only checked: faster than in pieces.
const JUDGED: u64 = 8 << 20;
/// The size of every element type divides it.
const ELEMENT: u64 = 16;

impl Reading<'_> {
    /// Calls `each` with the elements of a component, little-endian and in order: frame by frame for `zt.zstd-seekable/1`, otherwise in
    /// pieces of whole elements. Digest and rules are checked on the way.
    pub fn pieces(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        mut each: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.each_piece(tensor, component, &mut each)
    }

    /// Performs [`pieces`](Self::pieces). It exists once in the machine code.
    fn each_piece(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let is_deflated = component.blob().is_some_and(|blob| blob.encoding == Encoding::DEFLATE);
        if (component.is_whole_blob() && !is_deflated) || in_order(component).is_some() {
            return self
                .each_blob_piece(component, &mut |piece| {
                    turn(component, piece);
                    each(piece)
                })
                .map_err(|error| self.name(error, tensor, component));
        }
        let mut turned = |piece: &mut [u8]| {
            turn(component, piece);
            each(piece)
        };
        let streamed = self
            .inflated_pieces(component, &mut turned)
            .and_then(|done| if done { Ok(true) } else { self.chunk_rows(component, &mut turned) })
            .map_err(|error| self.name(error, tensor, component))?;
        if streamed {
            return Ok(());
        }
        if let Some(slice) = self.divisible(component)? {
            return self
                .arranged_pieces(component, &slice, &mut |piece| {
                    turn(component, piece);
                    each(piece)
                })
                .map_err(|error| self.name(error, tensor, component));
        }
        self.component(tensor, component)?.chunks_mut(PIECE).try_for_each(|piece| {
            self.watch.stop.check()?;
            each(piece)
        })
    }

    /// Returns the runs of a component that can be read in order part by part, without a digest over the whole; `None` for others, which are
    /// read whole.
    fn divisible(&self, component: &Component) -> Result<Option<TensorSlice>> {
        let View::Strided(strided) = &component.view else { return Ok(None) };
        let is_plain = |blob: &Blob| blob.encoding == Encoding::RAW && stored_hasher(blob).is_none();
        let is_readable = match &component.data {
            Data::Blob(blob) => is_plain(blob),
            Data::Pieces(pieces) => pieces.blobs().all(is_plain),
            _ => false,
        };
        let width = component.dtype.map_or(1, |dtype| dtype.element_bytes().max(1)) as u64;
        if !is_readable || component.rule.is_some() || !strided.run.is_multiple_of(width) {
            return Ok(None);
        }
        self.not_spread(component, component.byte_length().unwrap_or_default())?;
        Ok(Some(TensorSlice::strided(strided)?))
    }

    /// Calls `each` with the elements of a large chunked array, some rows of chunks at a time. Returns whether it is one.
    fn chunk_rows(
        &self,
        component: &Component,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let Data::Grid(blob, grid) = &component.data else { return Ok(false) };
        let length = component.byte_length().unwrap_or_default();
        let (Some(&dim), Some(&chunk)) = (grid.shape.first(), grid.chunk.first()) else { return Ok(false) };
        if component.view != View::Whole || component.rule.is_some() || length <= WHOLE || dim == 0 {
            return Ok(false);
        }
        // What exceeds the bound is refused as a whole.
        if length > GRID_BYTES.max(self.source(component)?.length().saturating_mul(TIMES_A_GRID)) {
            return Ok(false);
        }
        let row = (length / dim).max(1).saturating_mul(chunk.max(1));
        let mut step = chunk.max(1).saturating_mul((ARRANGED / row).max(1));
        // Parts of a row of chunks.
        if blob.encoding == Encoding::RAW {
            step = (ARRANGED / (length / dim).max(1)).max(1);
        } else if let Some(bytes) = part_bytes(blob, grid).filter(|&bytes| bytes < row) {
            step = chunk.div_ceil(row.div_ceil(bytes).min(BANDS)).max(1);
        }
        let mut ranges: Vec<_> = grid.shape.iter().map(|&dim| Range::from((0, dim))).collect();
        let mut start = 0;
        while start < dim {
            self.watch.stop.check()?;
            let end = start.saturating_add(step).min(dim);
            if let Some(first) = ranges.first_mut() {
                *first = Range::from((start, end));
            }
            self.grid(blob, grid, &ranges)?.chunks_mut(PIECE).try_for_each(&mut *each)?;
            start = end;
        }
        Ok(true)
    }

    /// Calls `each` with parts of the runs of a component, in order, in pieces of whole elements.
    fn arranged_pieces(
        &self,
        component: &Component,
        slice: &TensorSlice,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if let Data::Pieces(pieces) = &component.data {
            return slice.for_each_part(ARRANGED, SPREAD, &mut |part| {
                self.watch.stop.check()?;
                self.slice_pieces(pieces, part)?.chunks_mut(PIECE).try_for_each(&mut *each)
            });
        }
        let (source, blob) = (self.source(component)?, component.blob().ok_or_else(not_a_blob)?);
        contains(source, (blob.offset, blob.stored), slice)?;
        let is_divisible = is_divisible(source, slice);
        let (max, spread) =
            if is_divisible { (arranged_at_once(slice), u64::MAX) } else { (ARRANGED, SPREAD) };
        slice.for_each_part(max, spread, &mut |part| {
            let mut bytes = Owned::to_fill(part.byte_length())?;
            self.read_part(source, (blob.offset, blob.stored), part, &mut bytes)?;
            bytes.chunks_mut(PIECE).try_for_each(&mut *each)
        })
    }

    /// Calls `each` with the decoded bytes of the blobs that contain a component, unchanged; for several blobs, in pieces of whole
    /// elements.
    pub fn blob_pieces(
        &self,
        component: &Component,
        mut each: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.each_blob_piece(component, &mut each)
    }

    fn each_blob_piece(
        &self,
        component: &Component,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if let Some(pieces) = in_order(component) {
            return pieces.blobs().try_for_each(|blob| {
                let part = Component { data: Data::Blob(blob.clone()), ..component.clone() };
                self.each_blob_piece(&part, each)
            });
        }
        let Some(blob) = component.blob() else {
            let whole = Component { view: View::Whole, ..component.clone() };
            return self.decode(&whole)?.chunks_mut(PIECE).try_for_each(each);
        };
        let framed = if blob.encoding == Encoding::ZSTD { self.frames_of(blob)? } else { None };
        if let Some(frames) = framed.filter(|frames| frames.step().is_multiple_of(ELEMENT)) {
            return self.decoded_pieces(component, blob, &frames, each);
        }
        match blob.encoding {
            Encoding::RAW | Encoding::ZSTD_SEEKABLE => self.stored_pieces(component, each),
            Encoding::ZSTD if blob.stored > WHOLE || blob.decoded.is_none_or(|length| length > WHOLE) => {
                self.frames(component, blob, each).map(drop)
            }
            _ if self.prefixed_pieces(component, each)? => Ok(()),
            _ => self.blob(blob)?.chunks_mut(PIECE).try_for_each(each),
        }
    }

    /// Calls `each` with the decoded bytes of a large buffer that begins with their length, in pieces. Returns whether it is one.
    fn prefixed_pieces(
        &self,
        component: &Component,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let Some(blob) =
            component.blob().filter(|_| component.view == View::Whole && component.rule.is_none())
        else {
            return Ok(false);
        };
        let (Some(codec), Some(length)) = (self.compressed_in_pieces(blob), blob.decoded) else {
            return Ok(false);
        };
        if length <= WHOLE {
            return Ok(false);
        }
        within(length, self.limits)?;
        let mut stored = Stored::new(*self, component)?;
        let sizes = (blob.stored, length);
        prefixed::decode_pieces(codec, sizes, &self.watch.stop, &mut |piece| stored.read(piece), each)?;
        Ok(true)
    }

    /// Returns the bytes of the elements of a component. If the index does not state it, the component is decoded to count them.
    pub fn measured(&self, tensor: Tensor<'_>, component: &Component) -> Result<u64> {
        if let Some(length) = component.byte_length() {
            return Ok(length);
        }
        match component.blob() {
            Some(blob) if component.is_whole_blob() && blob.encoding == Encoding::ZSTD => {
                let silent = self.watch.silent();
                let counting = Reading { watch: &silent, ..*self };
                let counted = counting.frames(component, blob, &mut |_| Ok(()));
                counted.map_err(|error| self.name(error, tensor, component))
            }
            _ => self.component(tensor, component).map(|whole| whole.len() as u64),
        }
    }

    /// Decodes a component only to check it.
    pub(crate) fn judge(&self, component: &Component) -> Result<()> {
        match &component.data {
            Data::Blob(blob)
                if component.is_whole_blob()
                    && matches!(blob.encoding, Encoding::ZSTD | Encoding::ZSTD_SEEKABLE) =>
            {
                if let Some(frames) = self.frames_of(blob)? {
                    return self.decoded_pieces(component, blob, &frames, &mut |_| Ok(()));
                }
                match self.decoded_size(blob)? {
                    // The rules are on decoded elements.
                    _ if component.rule.is_some() => self.decode(component).map(drop),
                    Size::Exactly(length) if length <= JUDGED => self.decode(component).map(drop),
                    _ => self.frames(component, blob, &mut |_| Ok(())).map(drop),
                }
            }
            Data::Pieces(pieces) if component.rule.is_none() => pieces.blobs().try_for_each(|blob| {
                let part = Component { data: Data::Blob(blob.clone()), ..component.clone() };
                match blob.encoding {
                    Encoding::RAW => self.stored_pieces(&part, &mut |_| Ok(())),
                    _ => self.judge(&Component { view: View::Whole, ..part }),
                }
            }),
            _ => {
                let mut unseen = |_: &mut [u8]| Ok(());
                if self.inflated_pieces(component, &mut unseen)?
                    || self.chunk_rows(component, &mut unseen)?
                    || self.prefixed_pieces(component, &mut unseen)?
                {
                    return Ok(());
                }
                self.decode(component).map(drop)
            }
        }
    }

    /// Calls `each` with the stored bytes of a component, piece by piece, or with the decoded frames of a seekable one. Checks its digest
    /// and the rules on its elements on the way.
    pub(crate) fn stored_pieces(
        &self,
        component: &Component,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if let Some(blob) = component.blob().filter(|blob| blob.encoding == Encoding::ZSTD_SEEKABLE) {
            let frames = self.frames_of(blob)?.ok_or_else(not_a_blob)?;
            return self.decoded_pieces(component, blob, &frames, each);
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

    /// Decodes the frames of a component and returns the number of bytes.
    fn frames(
        &self,
        component: &Component,
        blob: &Blob,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<u64> {
        let size = self.decoded_size(blob)?;
        let mut stored = Stored::new(*self, component)?;
        let stop = &self.watch.stop;
        let decoded = zstd_pieces::decode(blob.stored, size, stop, &mut |piece| stored.read(piece), each);
        let refused =
            decoded.as_ref().err().is_some_and(|error| matches!(error.code(), Code::Decode | Code::Limit));
        if refused {
            // For damaged data the digest is the first error, as in a load of everything at once.
            let mut rest = vec![0; PIECE];
            while stored.left() > 0 {
                let count = usize::try_from(stored.left()).unwrap_or(PIECE).min(PIECE);
                stored.read(rest.get_mut(..count).unwrap_or_default())?;
            }
        }
        if refused || decoded.is_ok() {
            stored.finish()?;
        }
        decoded
    }
}

/// Returns the bytes of part of a row of chunks that is read at once; `None` if a chunk takes as much memory.
pub(super) fn part_bytes(blob: &Blob, grid: &Grid) -> Option<u64> {
    if blob.encoding == Encoding::RAW {
        return Some(ARRANGED);
    }
    grid.chunk_bytes().filter(|&bytes| bytes <= ARRANGED).map(|_| BAND)
}

/// Returns the consecutive blobs of a component, if none of them ends within an element.
fn in_order(component: &Component) -> Option<&Pieces> {
    let Data::Pieces(pieces) = &component.data else { return None };
    let width = component.dtype.map_or(1, |dtype| dtype.element_bytes().max(1)) as u64;
    let is_whole = component.view == View::Whole && pieces.rows() == 1;
    (is_whole && pieces.all().iter().all(|piece| piece.run.is_multiple_of(width))).then_some(pieces)
}

fn not_a_blob() -> Error {
    Error::new(Code::Internal, "the data is not a blob")
}

/// The stored bytes of a component that is a blob, read in sequence and hashed on the way.
pub struct Stored<'a> {
    reading: Reading<'a>,
    source: &'a dyn ReadAt,
    blob: &'a Blob,
    rule: Option<DataRule>,
    hasher: Option<Hasher>,
    elements: RuleCheck,
    read: u64,
}

impl<'a> Stored<'a> {
    /// Fails if the component is not one contiguous blob.
    pub fn new(reading: Reading<'a>, component: &'a Component) -> Result<Self> {
        let blob = component.blob().ok_or_else(not_a_blob)?;
        let (hasher, rule) = (stored_hasher(blob), component.rule);
        let source = reading.source(component)?;
        Ok(Self { reading, source, blob, rule, hasher, elements: RuleCheck::new(rule), read: 0 })
    }

    /// Returns the number of bytes not yet read.
    pub fn left(&self) -> u64 {
        self.blob.stored - self.read
    }

    /// Fills `slot`, which must not be longer than the rest, with the next bytes.
    pub fn read(&mut self, slot: &mut [u8]) -> Result<()> {
        self.reading.watch.stop.check()?;
        self.source.read_through(
            self.blob.offset.saturating_add(self.read),
            slot,
            &self.reading.watch.stop,
        )?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(slot);
        }
        self.elements.note(slot);
        self.read += slot.len() as u64;
        self.reading.watch.did_bytes(slot.len() as u64);
        Ok(())
    }

    /// Lets `copy` transfer the next bytes unread (given a file, an offset and a maximum; it returns the number copied), as long as it
    /// transfers any. Bytes that must be hashed or checked are left to [`Stored::read`].
    pub fn hand_over(&mut self, mut copy: impl FnMut(&File, u64, u64) -> Result<u64>) -> Result<()> {
        let judged = self.hasher.is_some() || self.rule.is_some();
        let Some(file) = self.source.local().filter(|_| !judged) else { return Ok(()) };
        let file = file.file()?;
        while self.left() > 0 {
            self.reading.watch.stop.check()?;
            let offset = self.blob.offset.saturating_add(self.read);
            let copied = copy(&file, offset, self.left().min(HANDED))?;
            if copied == 0 {
                break;
            }
            self.source.check_length()?;
            self.read += copied;
            self.reading.watch.did_bytes(copied);
        }
        Ok(())
    }

    /// Verifies the component's digest and the rules on its elements.
    pub fn finish(self) -> Result<()> {
        compare(self.blob, self.hasher)?;
        self.elements.finish()
    }
}

/// Bytes that the kernel copies between two checks of the stop flag.
const HANDED: u64 = 8 << 20;
