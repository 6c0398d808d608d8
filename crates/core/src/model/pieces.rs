//! Data in several blobs.
#![forbid(unsafe_code)]

use super::{Blob, Encoding, Span};
use crate::arrange::Arrange;
use crate::error::{Code, Error, Result};

/// One of several blobs, which may be in different files and have different encodings.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Piece {
    /// Decodes to `run` bytes for each row of the [`Pieces`], which is assumed if the blob does not state a size. Its digest covers only
    /// this blob.
    pub blob: Blob,
    /// Bytes per row.
    pub run: u64,
}

/// Data in several blobs: each row consists of the runs of all pieces. An array that is divided along its first dimension, or flat, has one
/// row: its pieces are consecutive. An array that is divided along another dimension has as many rows as the product of the preceding
/// dimensions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pieces {
    rows: u64,
    all: Box<[Piece]>,
    /// Bytes of all rows.
    bytes: u64,
}

impl Pieces {
    /// Joins pieces, in order.
    ///
    /// # Errors
    ///
    /// [`Code::BadIndex`] if the length of a blob does not match its rows, or if two overlap in their file, so that a file cannot claim
    /// more data than it has. [`Code::Limit`] for more than 2^64 bytes.
    pub fn new(rows: u64, mut pieces: Vec<Piece>) -> Result<Self> {
        let too_many =
            || Error::new(Code::Limit, "the pieces of the data come to more than 2^64 bytes").of_item();
        let mut row = 0_u64;
        for Piece { blob, run } in &mut pieces {
            row = row.checked_add(*run).ok_or_else(too_many)?;
            let bytes = rows.checked_mul(*run).ok_or_else(too_many)?;
            let decoded = *blob.decoded.get_or_insert(bytes);
            if decoded != bytes {
                let message = format!("a piece of the data has {decoded} bytes, not {bytes}");
                return Err(Error::new(Code::BadIndex, message).at(blob.offset));
            }
        }
        let bytes = row.checked_mul(rows).ok_or_else(too_many)?;
        let mut spans: Vec<_> =
            pieces.iter().map(|piece| piece.blob.span()).filter(|span| span.length > 0).collect();
        spans.arrange();
        for (one, next) in spans.iter().zip(spans.iter().skip(1)) {
            if one.file == next.file && next.offset < one.end() {
                return Err(Error::new(Code::BadIndex, "two pieces of the data overlap").at(next.offset));
            }
        }
        Ok(Self { rows, all: pieces.into(), bytes })
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the total bytes of a row.
    pub fn row(&self) -> u64 {
        self.bytes.checked_div(self.rows).unwrap_or(0)
    }

    pub fn byte_length(&self) -> u64 {
        self.bytes
    }

    pub fn all(&self) -> &[Piece] {
        &self.all
    }

    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.all.iter().map(|piece| &piece.blob)
    }

    pub(super) fn blobs_mut(&mut self) -> impl Iterator<Item = &mut Blob> {
        self.all.iter_mut().map(|piece| &mut piece.blob)
    }

    /// Returns the encoding of the encoded pieces, which mostly have the same one.
    pub(super) fn encoding(&self) -> Encoding {
        self.blobs().map(|blob| blob.encoding).find(|encoding| encoding.is_encoded()).unwrap_or(Encoding::RAW)
    }

    pub(super) fn stored(&self) -> u64 {
        self.blobs().fold(0, |bytes, blob| bytes.saturating_add(blob.stored))
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = Span> {
        self.blobs().map(Blob::span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Data;

    fn piece(offset: u64, stored: u64, run: u64) -> Piece {
        Piece { blob: Blob::raw(offset, stored), run }
    }

    fn refused(rows: u64, pieces: Vec<Piece>) -> (Code, String) {
        let error = Data::pieces(rows, pieces).unwrap_err();
        (error.code(), error.message().to_owned())
    }

    #[test]
    fn pieces_have_the_length_of_their_rows() {
        let Data::Pieces(pieces) = Data::pieces(3, vec![piece(100, 6, 2), piece(0, 12, 4)]).unwrap() else {
            panic!("two pieces")
        };
        assert_eq!((pieces.rows(), pieces.row(), pieces.byte_length(), pieces.stored()), (3, 6, 18, 18));
        let (code, message) = refused(3, vec![piece(0, 6, 2), piece(6, 11, 4)]);
        assert_eq!((code, &*message), (Code::BadIndex, "a piece of the data has 11 bytes, not 12"));
        let nothing = Data::pieces(0, vec![piece(0, 0, 4), piece(0, 0, 1 << 60)]).unwrap();
        assert!(matches!(nothing, Data::Pieces(pieces) if pieces.byte_length() == 0 && pieces.row() == 0));
        assert!(
            matches!(Data::pieces(1, vec![piece(5, 8, 8)]).unwrap(), Data::Blob(blob) if blob.offset == 5)
        );
        assert_eq!(refused(1 << 40, vec![piece(0, 0, 1 << 40)]).0, Code::Limit);
        let unsized_blob = |run| Piece { blob: Blob { decoded: None, ..Blob::raw(run, 1) }, run };
        assert_eq!(refused(1, vec![unsized_blob(u64::MAX), unsized_blob(1)]).0, Code::Limit);
    }

    #[test]
    fn no_two_pieces_share_bytes() {
        let (code, message) = refused(1, vec![piece(8, 8, 8), piece(0, 9, 9)]);
        assert_eq!((code, &*message), (Code::BadIndex, "two pieces of the data overlap"));
        let mut other = piece(0, 9, 9);
        other.blob.file = 1;
        Data::pieces(1, vec![piece(8, 8, 8), other]).unwrap();
        Data::pieces(1, vec![piece(8, 8, 8), piece(0, 8, 8), piece(8, 0, 0)]).unwrap();
    }
}
