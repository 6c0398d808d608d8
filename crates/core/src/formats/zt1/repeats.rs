//! Dense tensors that are spelled like one before them: nearly all of a large index.
#![forbid(unsafe_code)]

use super::{ALIGNMENT, Fields, Parser};
use crate::checked::exact;
use crate::codecs::digest::Digest;
use crate::formats::zt_trailer::placed;
use crate::model::{DType, Encoding, Label, Layout};
use crate::syntax::cbor::Reader;
use crate::syntax::repeats::{Filling, Spelled, Spelling};

/// A dense tensor without attributes that was read.
pub(super) struct Known {
    shape: Vec<u64>,
    dtype: Option<DType>,
    /// That of its component.
    stored: Option<DType>,
    encoding: Encoding,
}

/// A tensor that is like one that was read before.
pub(super) struct Again {
    pub dtype: Option<DType>,
}

impl<'b> Parser<'_, 'b> {
    /// Reads an entry that is spelled like one that was read before, and of whose numbers nothing is to be said: all else
    /// is left to be read key by key. Leaves shape and component as the entry's.
    pub(super) fn alike(&mut self, reader: &mut Reader<'b>) -> Option<Again> {
        let start = reader.mark();
        let (known, filling) = self.known.read(reader)?;
        let Some(fields) = self.filled(known, &filling) else {
            reader.go_to(start);
            return None;
        };
        let dtype = known.dtype;
        self.shape.clone_from(&known.shape);
        self.fields.clear();
        self.fields.push(fields);
        Some(Again { dtype })
    }

    fn filled(&self, known: &Known, filling: &Filling<'_>) -> Option<Fields> {
        let [offset, length, uncompressed] = filling.numbers;
        let (offset, length) = (offset?, exact(length?, "length").ok()?);
        let uncompressed =
            uncompressed.map(|length| exact(length, "uncompressed_length")).transpose().ok()?;
        placed(offset, length, self.index, self.total, self.generation.bounds_rule).ok()?;
        let digest = match filling.text {
            Some(text) => Some(Digest::plain(text)?),
            None => None,
        };
        offset.is_multiple_of(ALIGNMENT).then_some(Fields {
            role: Label::DATA,
            dtype: known.stored,
            unknown_type: None,
            offset,
            length,
            uncompressed,
            encoding: known.encoding,
            digest,
        })
    }

    /// How the entry that was just read is spelled, where others may be spelled so: a dense tensor of which nothing is
    /// to be said but its numbers.
    pub(super) fn known(
        &self,
        reader: &Reader<'b>,
        layout: Layout,
        dtype: Option<DType>,
    ) -> Option<(Spelling<'b>, Known)> {
        let [fields] = self.fields.as_slice() else { return None };
        let plain = layout == Layout::Dense
            && fields.role == Label::DATA
            && fields.unknown_type.is_none()
            && fields.encoding.is_known();
        let spelling = self.draft.spelling(reader).filter(|_| plain)?;
        let (stored, encoding) = (fields.dtype, fields.encoding);
        Some((spelling, Known { shape: self.shape.clone(), dtype, stored, encoding }))
    }
}
