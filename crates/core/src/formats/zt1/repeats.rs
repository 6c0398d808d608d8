//! Reads dense tensors that are spelled like an earlier one: nearly all of a large index.
#![forbid(unsafe_code)]

use super::{ALIGNMENT, Fields, Parser};
use crate::checked::exact;
use crate::codecs::digest::Digest;
use crate::formats::zt_trailer::placed;
use crate::model::{DType, Encoding, Label, Layout};
use crate::syntax::cbor::Reader;
use crate::syntax::repeats::{Filling, Spelled, Spelling};

/// A dense tensor without attributes that was read before.
pub(super) struct Known {
    shape: Vec<u64>,
    dtype: Option<DType>,
    /// The dtype of its component.
    stored: Option<DType>,
    encoding: Encoding,
}

/// A tensor like one that was read before.
pub(super) struct Again {
    pub dtype: Option<DType>,
}

impl<'b> Parser<'_, 'b> {
    /// Reads an entry that is spelled like an earlier one and needs no error or warning; any other is left to be read
    /// key by key. Sets the shape and the component to those of the entry.
    pub(super) fn repeated(&mut self, reader: &mut Reader<'b>) -> Option<Again> {
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

    /// Returns the spelling of the entry just read, if other entries may share it: a dense tensor that differs from
    /// others only in its numbers.
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
