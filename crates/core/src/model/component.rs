//! A named array of a tensor: its type, the location of its bytes and the arrangement of its elements.
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

/// A rule on the decoded elements of a component, which `load()` and `verify()` check but an alias does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DataRule {
    /// Each byte is 0 or 1 (2, Appendix A).
    Bool,
    /// The unused half of the last byte of 4-bit elements is 0 (2, Appendix A).
    LastNibble,
    /// Columns strictly ascend within each row (`zt.sparse_csr/1`).
    RisingColumns,
    /// No two elements have the same coordinates (`zt.sparse_coo/1`).
    UniqueCells,
}

/// Sign changes between stored bytes and elements: PyTorch negates and conjugates lazily.
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

/// Why elements in the file do not have the in-memory representation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyReason {
    Inline,
    Encoded,
    /// Their order or spacing differs.
    Reordered,
    ByteOrder,
    /// They do; only their address prevents aliasing.
    Misaligned,
}

/// Location of stored bytes, encoding (for a grid its index), expected digest and rule.
pub type Key<'a> =
    (Span, Encoding, Option<u64>, Option<usize>, Option<&'a Digest>, Option<&'a Pieces>, Option<DataRule>);

/// A named array of a tensor.
#[derive(Clone, Debug)]
pub struct Component {
    pub role: Label,
    /// `None`: bytes whose meaning only the layout defines.
    pub dtype: Option<DType>,
    pub byte_order: ByteOrder,
    pub rule: Option<DataRule>,
    pub data: Data,
    /// If signs are changed, it covers less than all of the data (not [`View::Whole`]).
    pub view: View,
    pub signs: Signs,
}

impl Component {
    /// Creates a component of little-endian elements that cover all of `data`.
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

    /// Creates a component that is a whole raw blob.
    pub fn raw(role: Label, dtype: Option<DType>, offset: u64, length: u64) -> Self {
        Self::new(role, dtype, Data::Blob(Blob::raw(offset, length)))
    }

    /// Creates a component whose elements are in the index, little-endian.
    pub fn inline(role: Label, dtype: Option<DType>, bytes: Vec<u8>) -> Self {
        Self::new(role, dtype, Data::Inline(bytes.into()))
    }

    /// Returns the blob that contains it, if there is a single one.
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

    /// Returns the blobs of a component in pieces.
    fn pieces(&self) -> Option<&Pieces> {
        match &self.data {
            Data::Pieces(pieces) => Some(pieces),
            _ => None,
        }
    }

    /// Returns the number of the file that holds the bytes, or the first of them.
    pub fn file(&self) -> u32 {
        match &self.data {
            Data::Unread { file } => *file,
            _ => self.stored().map_or(0, |blob| blob.file),
        }
    }

    /// Returns the offset of the bytes in their file, 0 if there are none.
    pub fn offset(&self) -> u64 {
        self.stored().map_or(0, |blob| blob.offset)
    }

    /// Returns the bytes in the files, including the index of a grid; 0 if there are none.
    pub fn stored_length(&self) -> u64 {
        self.pieces().map_or_else(|| self.stored().map_or(0, |blob| blob.stored), Pieces::stored)
    }

    /// Returns the blob, or the first one.
    fn stored(&self) -> Option<&Blob> {
        match &self.data {
            Data::Blob(blob) | Data::Grid(blob, _) => Some(blob),
            Data::Pieces(pieces) => pieces.blobs().next(),
            Data::Inline(_) | Data::Unread { .. } => None,
        }
    }

    /// Returns the bytes of the decoded and arranged elements; `None` if the size is unknown without decoding.
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

    /// Sets the decoded size of a whole blob, if its format does not state it.
    pub fn decodes_to(&mut self, bytes: u64) {
        if let (View::Whole, Data::Blob(blob)) = (&self.view, &mut self.data) {
            blob.decoded = Some(bytes);
        }
    }

    pub fn digest(&self) -> Option<&Digest> {
        self.blob()?.digest.as_ref()
    }

    /// Returns the encoding of the stored bytes; [`Encoding::RAW`] if it is not a blob.
    pub fn encoding(&self) -> Encoding {
        let of_blob = || self.stored().map_or(Encoding::RAW, |blob| blob.encoding);
        self.pieces().map_or_else(of_blob, Pieces::encoding)
    }

    /// Returns whether its encoding is supported.
    pub fn is_decodable(&self) -> bool {
        self.pieces().map_or_else(
            || self.encoding().is_known(),
            |pieces| pieces.blobs().all(|blob| blob.encoding.is_known()),
        )
    }

    /// Returns whether its bytes must be decoded or assembled from chunks or pieces, and can be.
    pub fn is_decoded(&self) -> bool {
        match &self.data {
            Data::Blob(blob) => blob.encoding.is_encoded() && blob.encoding.is_known(),
            Data::Grid(..) | Data::Pieces(_) => self.is_decodable(),
            Data::Inline(_) | Data::Unread { .. } => false,
        }
    }

    /// Returns a key that is equal for components whose stored bytes need to be checked only once.
    pub fn key(&self) -> Key<'_> {
        let decoded = self.blob().map_or_else(|| self.byte_length(), |blob| blob.decoded);
        let grid = match &self.data {
            Data::Grid(_, grid) => Some(Arc::as_ptr(grid).addr()),
            _ => None,
        };
        (self.span(), self.encoding(), decoded, grid, self.digest(), self.pieces(), self.rule)
    }

    /// Returns whether it is all of one blob, decoded.
    pub fn is_whole_blob(&self) -> bool {
        matches!((&self.view, &self.data), (View::Whole, Data::Blob(_)))
    }

    /// Returns whether it is all of one raw blob.
    pub fn is_raw_blob(&self) -> bool {
        self.is_whole_blob() && self.encoding() == Encoding::RAW
    }

    /// Returns whether its digest can be verified: the algorithm and the bytes it covers are known.
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

    /// Returns the file range of the blob, or of the first one.
    pub fn span(&self) -> Span {
        self.stored().map_or(Span { file: self.file(), offset: 0, length: 0 }, Blob::span)
    }

    /// Returns the file ranges of all blobs.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let first = self.pieces().is_none().then(|| self.span());
        first.into_iter().chain(self.pieces().into_iter().flat_map(Pieces::spans))
    }

    /// Returns whether the bytes of its elements must be swapped to be little-endian.
    pub fn is_swapped(&self) -> bool {
        self.byte_order == ByteOrder::Big && self.dtype.is_some_and(|dtype| dtype.element_bytes() > 1)
    }

    /// Returns a description of the problem if the bytes are known not to be whole elements of the dtype. Elements of less than a byte
    /// may end with padding.
    pub fn partial_element(&self) -> Option<String> {
        let dtype = self.dtype.filter(|dtype| dtype.bits() > 8)?;
        let bytes = self.byte_length().filter(|bytes| !bytes.is_multiple_of(dtype.element_bytes() as u64))?;
        Some(format!("{bytes} bytes are not a whole number of {} elements", dtype.name()))
    }

    /// Returns the location of the component's elements in the file, if they are little-endian and in order: `(absolute offset, bytes)`.
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

    /// Big-endian bytes without a dtype cannot be swapped.
    fn is_swapped_or_bytes(&self) -> bool {
        self.byte_order == ByteOrder::Big && self.dtype.is_none_or(|dtype| dtype.element_bytes() > 1)
    }

    /// Returns whether a slice of a tensor of this shape reads and decodes only the bytes, frames or chunks that it overlaps.
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

    /// Returns why the elements are not [`plain_range`](Self::plain_range), on a host of the given byte order.
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
