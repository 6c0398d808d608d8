//! Slices of compressed data: what one of them decoded is there for the next.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{Reading, outside, short, turn};
use crate::checked;
use crate::codecs::seekable::Frames;
use crate::error::Result;
use crate::model::slice::TensorSlice;
use crate::model::{Blob, Component, Data, DataRule, Encoding, View};
use crate::sources::decoded::{DecodedPieces, Place};
use crate::sources::owned::Owned;

impl Reading<'_> {
    /// Returns the decoded bytes of a place: those that an earlier slice decoded, or else what `decode` returns, which later slices get.
    pub(super) fn decoded_once(
        &self,
        place: Place,
        decode: impl FnOnce() -> Result<Owned>,
    ) -> Result<Arc<Owned>> {
        let pieces = self.sources.decoded();
        if let Some(bytes) = pieces.and_then(|pieces| pieces.decoded(&place)) {
            return Ok(bytes);
        }
        let bytes = Arc::new(decode()?);
        if let Some(pieces) = pieces {
            pieces.add_decoded(place, &bytes);
        }
        Ok(bytes)
    }

    /// Returns all decoded bytes of a blob, like [`Reading::blob`], for slices of it. `length` is their expected number.
    pub(super) fn blob_once(&self, blob: &Blob, length: u64) -> Result<Arc<Owned>> {
        self.decoded_once(Place::of(blob, length), || self.blob(blob))
    }

    /// Returns a slice of a small blob whose elements are contiguous or can be located. `placed` is the slice in the decoded bytes. `None`
    /// if it is decoded each time: because rules hold for all elements, or because nothing is kept.
    pub(super) fn slice_decoded_once(
        &self,
        component: &Component,
        slice: &TensorSlice,
        placed: Option<&TensorSlice>,
    ) -> Result<Option<Owned>> {
        let Data::Blob(blob) = &component.data else { return Ok(None) };
        let run = match &component.view {
            View::Strided(strided) if placed.is_none() => strided.run(),
            View::Strided(_) | View::Whole => blob.decoded.map(|length| (0, length)),
            View::Counted(_) => None,
        };
        let (Some((start, length)), Some(total)) = (run, blob.decoded) else { return Ok(None) };
        let is_kept = blob.encoding.is_encoded() && self.is_decoded_once(1, total);
        if component.rule.is_some() || !is_kept {
            return Ok(None);
        }
        let whole = self.blob_once(blob, total)?;
        let elements = checked::slice(&whole, start, length).ok_or_else(short)?;
        let mut output = Owned::to_fill(slice.byte_length())?;
        placed.unwrap_or(slice).pack_divided(elements, &mut output).map_err(outside)?;
        turn(component, &mut output);
        Ok(Some(output))
    }

    /// Returns the frames of a blob, like [`Reading::frames_of`], for slices of it.
    pub(super) fn frames_once(&self, blob: &Blob) -> Result<Option<Arc<Frames>>> {
        let place = blob.decoded.map(|length| Place::of(blob, length));
        let kept = self.sources.decoded().zip(place);
        if let Some(frames) = kept.and_then(|(pieces, place)| pieces.frames(&place)) {
            return Ok(Some(frames));
        }
        let frames = self.frames_of(blob)?.map(Arc::new);
        if let (Some((pieces, place)), Some(frames)) = (kept, &frames) {
            pieces.add_frames(place, frames);
        }
        Ok(frames)
    }

    /// Returns whether ranges of a component are read without decoding what is before them.
    pub(crate) fn is_read_in_parts(&self, component: &Component) -> Result<bool> {
        let Data::Blob(blob) = &component.data else { return Ok(false) };
        if component.view != View::Whole || component.rule.is_some_and(|rule| rule == DataRule::Bool) {
            return Ok(false);
        }
        Ok(blob.encoding == Encoding::RAW || self.frames_once(blob)?.is_some())
    }

    /// Returns whether later slices get what this one decodes: so many pieces of `bytes` in total.
    pub(super) fn is_decoded_once(&self, pieces: u64, bytes: u64) -> bool {
        self.sources.decoded().is_some() && DecodedPieces::fits(pieces, bytes)
    }
}
