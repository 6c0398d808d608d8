//! A named array of a tensor: its type, where its bytes are and how its elements stand in them.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{Blob, DType, Data, Encoding, Label, Pieces, Span, View};
use crate::codecs::digest::{Digest, Expected, Over};

/// The byte order of multi-byte elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    Little,
    Big,
}

/// A rule on the decoded elements of a component, which `load()` and `verify()` check and an alias does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DataRule {
    /// Each byte is 0 or 1 (2, Appendix A).
    Bool,
    /// The half of the last byte that no element of 4 bits takes is 0 (2, Appendix A).
    LastNibble,
    /// Columns rise strictly within each row (`zt.sparse_csr/1`).
    RisingColumns,
    /// No two elements have the same coordinates (`zt.sparse_coo/1`).
    UniqueCells,
}

/// Which signs the elements have the other way round than the bytes that are stored: PyTorch negates and conjugates no sooner
/// than elements are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signs {
    /// Of real numbers, and of the real parts of complex ones.
    pub real: bool,
    pub imaginary: bool,
}

impl Signs {
    pub fn are_changed(self) -> bool {
        self.real || self.imaginary
    }
}

/// Why elements do not stand in the file as they are in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyReason {
    Inline,
    Encoded,
    /// In another order, or apart.
    Reordered,
    ByteOrder,
    /// They do; what else keeps them from being aliased is their place.
    Misaligned,
}

/// Where stored bytes are, how they are read (of a grid by which index), what they must hash to and which rule they keep.
pub type Key<'a> =
    (Span, Encoding, Option<u64>, Option<usize>, Option<&'a Digest>, Option<&'a Pieces>, Option<DataRule>);

/// A named array of a tensor.
#[derive(Clone, Debug)]
pub struct Component {
    pub role: Label,
    /// `None`: bytes whose meaning only the layout knows.
    pub dtype: Option<DType>,
    pub byte_order: ByteOrder,
    pub rule: Option<DataRule>,
    pub data: Data,
    /// Where signs are changed, never all of the data ([`View::Whole`]).
    pub view: View,
    pub signs: Signs,
}

impl Component {
    /// Little-endian elements that are all of `data`.
    pub fn new(role: Label, dtype: Option<DType>, data: Data) -> Self {
        Self {
            role,
            dtype,
            byte_order: ByteOrder::Little,
            rule: None,
            data,
            view: View::Whole,
            signs: Signs::default(),
        }
    }

    /// A component that is a whole raw blob.
    pub fn raw(role: Label, dtype: Option<DType>, offset: u64, length: u64) -> Self {
        Self::new(role, dtype, Data::Blob(Blob::raw(offset, length)))
    }

    /// A component whose elements stand in the index, little-endian.
    pub fn inline(role: Label, dtype: Option<DType>, bytes: Vec<u8>) -> Self {
        Self::new(role, dtype, Data::Inline(bytes.into()))
    }

    /// The one run of stored bytes that it is, or is a part of.
    pub fn blob(&self) -> Option<&Blob> {
        match &self.data {
            Data::Blob(blob) => Some(blob),
            _ => None,
        }
    }

    pub fn blob_mut(&mut self) -> Option<&mut Blob> {
        match &mut self.data {
            Data::Blob(blob) => Some(blob),
            _ => None,
        }
    }

    /// The blobs that it is in pieces of.
    fn pieces(&self) -> Option<&Pieces> {
        match &self.data {
            Data::Pieces(pieces) => Some(pieces),
            _ => None,
        }
    }

    /// Which file of the name space holds the bytes, or the first of them.
    pub fn file(&self) -> u32 {
        match &self.data {
            Data::Unread { file } => *file,
            _ => self.stored().map_or(0, |blob| blob.file),
        }
    }

    /// Where the bytes begin in their file, 0 where there are none.
    pub fn offset(&self) -> u64 {
        self.stored().map_or(0, |blob| blob.offset)
    }

    /// Bytes in the files, the index of a grid included; 0 where there are none.
    pub fn stored_length(&self) -> u64 {
        self.pieces().map_or_else(|| self.stored().map_or(0, |blob| blob.stored), Pieces::stored)
    }

    /// The blob, or the first one.
    fn stored(&self) -> Option<&Blob> {
        match &self.data {
            Data::Blob(blob) | Data::Grid(blob, _) => Some(blob),
            Data::Pieces(pieces) => pieces.blobs().next(),
            Data::Inline(_) | Data::Unread { .. } => None,
        }
    }

    /// Bytes of the elements once they are decoded and in order; `None` where only decoding can tell.
    pub fn byte_length(&self) -> Option<u64> {
        match (&self.view, &self.data) {
            (View::Strided(strided), _) => strided.byte_length(),
            (View::Counted(_), _) | (View::Whole, Data::Unread { .. }) => None,
            (View::Whole, Data::Inline(bytes)) => Some(bytes.len() as u64),
            (View::Whole, Data::Blob(blob)) => blob.decoded,
            (View::Whole, Data::Pieces(pieces)) => Some(pieces.byte_length()),
            (View::Whole, Data::Grid(_, grid)) => {
                grid.shape.iter().try_fold(grid.width, |bytes, &dim| bytes.checked_mul(dim))
            }
        }
    }

    /// Notes what a whole blob decodes to, where its format does not say.
    pub fn decodes_to(&mut self, bytes: u64) {
        if let (View::Whole, Data::Blob(blob)) = (&self.view, &mut self.data) {
            blob.decoded = Some(bytes);
        }
    }

    pub fn digest(&self) -> Option<&Digest> {
        self.blob()?.digest.as_ref()
    }

    /// What the stored bytes went through; [`Encoding::RAW`] of what is no blob.
    pub fn encoding(&self) -> Encoding {
        let of_blob = || self.stored().map_or(Encoding::RAW, |blob| blob.encoding);
        self.pieces().map_or_else(of_blob, Pieces::encoding)
    }

    /// Whether its bytes can be decoded here, as far as its encoding tells.
    pub fn is_decodable(&self) -> bool {
        self.pieces().map_or_else(
            || self.encoding().is_known(),
            |pieces| pieces.blobs().all(|blob| blob.encoding.is_known()),
        )
    }

    /// Whether its bytes have to be decoded, or put together from chunks or pieces, and can be.
    pub fn is_decoded(&self) -> bool {
        match &self.data {
            Data::Blob(blob) => blob.encoding.is_encoded() && blob.encoding.is_known(),
            Data::Grid(..) | Data::Pieces(_) => self.is_decodable(),
            Data::Inline(_) | Data::Unread { .. } => false,
        }
    }

    /// What is the same of components whose stored bytes have to be looked at once.
    pub fn key(&self) -> Key<'_> {
        let decoded = self.blob().map_or_else(|| self.byte_length(), |blob| blob.decoded);
        let grid = match &self.data {
            Data::Grid(_, grid) => Some(Arc::as_ptr(grid).addr()),
            _ => None,
        };
        (self.span(), self.encoding(), decoded, grid, self.digest(), self.pieces(), self.rule)
    }

    /// Whether it is all of one blob, as it decodes.
    pub fn is_whole_blob(&self) -> bool {
        matches!((&self.view, &self.data), (View::Whole, Data::Blob(_)))
    }

    /// Whether it is all of one blob of raw bytes.
    pub fn is_raw_blob(&self) -> bool {
        self.is_whole_blob() && self.encoding() == Encoding::RAW
    }

    /// Whether a digest can be compared: its algorithm is known, and so are the bytes that it is over.
    pub fn has_checked_digest(&self) -> bool {
        let is_checked = |digest: Option<&Digest>| {
            digest.is_some_and(|digest| {
                digest.expected != Expected::Unknown && (digest.over == Over::Stored || self.is_decodable())
            })
        };
        match self.pieces() {
            Some(pieces) => pieces.blobs().all(|blob| is_checked(blob.digest.as_ref())),
            None => is_checked(self.digest()),
        }
    }

    /// The blob in its file, the first one of several.
    pub fn span(&self) -> Span {
        self.stored().map_or(Span { file: self.file(), offset: 0, length: 0 }, Blob::span)
    }

    /// The stored bytes, of each blob.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let first = self.pieces().is_none().then(|| self.span());
        first.into_iter().chain(self.pieces().into_iter().flat_map(Pieces::spans))
    }

    /// Whether the bytes of its elements have to be turned around to be little-endian.
    pub fn is_swapped(&self) -> bool {
        self.byte_order == ByteOrder::Big && self.dtype.is_some_and(|dtype| dtype.element_bytes() > 1)
    }

    /// Where the component's elements stand in the file, little-endian and in order, if they do:
    /// `(absolute offset, bytes)`.
    pub fn plain_range(&self) -> Option<(u64, u64)> {
        if self.signs.are_changed() {
            return None;
        }
        let blob =
            self.blob().filter(|blob| blob.encoding == Encoding::RAW && !self.is_swapped_or_bytes())?;
        match &self.view {
            View::Whole => Some((blob.offset, blob.stored)),
            View::Strided(strided) => {
                let (start, length) = strided.run()?;
                Some((blob.offset.checked_add(start)?, length))
            }
            View::Counted(_) => None,
        }
    }

    /// Of big-endian bytes without a type nobody knows how to turn them.
    fn is_swapped_or_bytes(&self) -> bool {
        self.byte_order == ByteOrder::Big && self.dtype.is_none_or(|dtype| dtype.element_bytes() > 1)
    }

    /// Whether a slice of a tensor of this shape reads and decodes only the bytes, frames or chunks that it touches.
    pub fn is_sliceable(&self, shape: &[u64]) -> bool {
        let placed = match &self.view {
            View::Whole => true,
            View::Strided(strided) => strided.fits(shape),
            View::Counted(_) => false,
        };
        match &self.data {
            Data::Blob(blob) if blob.encoding == Encoding::RAW => placed || self.plain_range().is_some(),
            Data::Blob(blob) => placed && blob.encoding == Encoding::ZSTD_SEEKABLE,
            Data::Grid(..) => self.view == View::Whole,
            Data::Pieces(_) => placed,
            Data::Inline(_) | Data::Unread { .. } => false,
        }
    }

    /// Why the elements are not [`plain_range`](Self::plain_range), on a host of the given byte order.
    pub fn copy_reason(&self, little_endian: bool) -> CopyReason {
        if matches!(self.data, Data::Inline(_)) {
            return CopyReason::Inline;
        }
        if self.encoding() != Encoding::RAW || !matches!(self.data, Data::Blob(_) | Data::Pieces(_)) {
            return CopyReason::Encoded;
        }
        match &self.view {
            _ if self.pieces().is_some() => CopyReason::Reordered,
            View::Counted(_) => CopyReason::Reordered,
            _ if self.signs.are_changed() => CopyReason::Reordered,
            View::Strided(strided) if strided.run().is_none() => CopyReason::Reordered,
            _ if self.byte_order == ByteOrder::Big || !little_endian => CopyReason::ByteOrder,
            _ => CopyReason::Misaligned,
        }
    }
}
