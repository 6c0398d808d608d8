//! Reads of `zt.zstd-seekable/1`: whole frames side by side, and for a cut only the frames that it touches.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use super::{Reading, compare, too_many, within};
use crate::catalog::Component;
use crate::checked::{self, index};
use crate::codec::digest::Digest;
use crate::codec::seekable::{self, FOOTER, Frame, Frames};
use crate::cut::Cut;
use crate::error::{Code, Error, Result};
use crate::layout::elements::Elements;
use crate::source::owned::Owned;
use crate::work::{self, PIECE};

/// From this many decoded bytes on several threads decode.
const PARALLEL: usize = 4 << 20;

impl Reading<'_> {
    /// The seek table of a component.
    fn frames(&self, component: &Component) -> Result<Frames> {
        let source = self.source(component)?;
        let (stored, end) =
            (component.stored_length, component.offset.saturating_add(component.stored_length));
        let decoded = component
            .decoded_length
            .ok_or_else(|| Error::new(Code::Decode, "the index does not say how long the data is decoded"))?;
        let footer = source.read_vec(end.saturating_sub(FOOTER.min(stored)), FOOTER.min(stored))?;
        let length = seekable::table_length(&footer, stored)?;
        Frames::parse(&source.read_vec(end - length, length)?, stored, decoded)
    }

    fn decode_frame(&self, component: &Component, frame: &Frame, output: &mut [u8]) -> Result<()> {
        self.watch.stop.check()?;
        let length = frame.stored.end - frame.stored.start;
        let input =
            self.source(component)?.read_vec(component.offset.saturating_add(frame.stored.start), length)?;
        self.watch.did_bytes(length);
        seekable::decode_frame(&input, output, &self.watch.stop)
    }

    /// All decoded bytes, after the digest over them was compared.
    pub(super) fn seekable(&self, component: &Component) -> Result<Owned> {
        let frames = self.frames(component)?;
        let bytes = self.run(component, &frames, 0, component.decoded_length.unwrap_or_default())?;
        let mut hasher = component.digest.as_deref().and_then(Digest::hasher);
        if let Some(hasher) = &mut hasher {
            for piece in bytes.chunks(PIECE) {
                self.watch.stop.check()?;
                hasher.update(piece);
            }
        }
        compare(component, hasher)?;
        Ok(bytes)
    }

    /// `length` decoded bytes from `start` on.
    fn run(&self, component: &Component, frames: &Frames, start: u64, length: u64) -> Result<Owned> {
        within(length, self.limits)?;
        let mut output = Owned::zeroed(length)?;
        let mut targets = Vec::new();
        let (mut rest, mut at) = (&mut *output, start);
        while !rest.is_empty() {
            let frame = frames.frame(frames.at(at)).ok_or_else(too_many)?;
            let taken = index(frame.decoded.end.saturating_sub(at), "a frame")?.min(rest.len());
            if taken == 0 {
                return Err(too_many());
            }
            let (target, further) = rest.split_at_mut(taken);
            rest = further;
            targets.push(Mutex::new((frame, at, target)));
            at += taken as u64;
        }
        let failed = Mutex::new(None);
        let decode = |nth: usize| {
            let Some(target) = targets.get(nth) else { return };
            if failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                return;
            }
            let mut target = target.lock().unwrap_or_else(PoisonError::into_inner);
            let (frame, at, target) = &mut *target;
            if let Err(error) = self.decode_part(component, frame, *at, target) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        };
        if length >= PARALLEL as u64 {
            work::for_each(targets.len(), decode);
        } else {
            (0..targets.len()).for_each(decode);
        }
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(output),
        }
    }

    /// The decoded bytes of a frame from `at` on.
    fn decode_part(&self, component: &Component, frame: &Frame, at: u64, target: &mut [u8]) -> Result<()> {
        let bytes = frame.decoded.end - frame.decoded.start;
        if bytes == target.len() as u64 {
            return self.decode_frame(component, frame, target);
        }
        let mut whole = Owned::zeroed(bytes)?;
        self.decode_frame(component, frame, &mut whole)?;
        let part = checked::slice(&whole, at - frame.decoded.start, target.len() as u64);
        target.copy_from_slice(part.ok_or_else(too_many)?);
        Ok(())
    }

    /// A cut, from the frames that it touches.
    pub(super) fn seekable_cut(&self, component: &Component, cut: &Cut) -> Result<Owned> {
        let frames = self.frames(component)?;
        if let Some((start, length)) = cut.contiguous() {
            return self.run(component, &frames, start, length);
        }
        within(cut.byte_length(), self.limits)?;
        let mut output = Owned::zeroed(cut.byte_length())?;
        let mut filled = &mut *output;
        let mut held: Option<(usize, Frame, Owned)> = None;
        for (start, bytes) in cut.runs() {
            let (mut at, end) = (start, start.saturating_add(bytes));
            while at < end {
                let wanted = frames.at(at);
                if held.as_ref().is_none_or(|(nth, ..)| *nth != wanted) {
                    let frame = frames.frame(wanted).ok_or_else(too_many)?;
                    let mut whole = Owned::zeroed(frame.decoded.end - frame.decoded.start)?;
                    self.decode_frame(component, &frame, &mut whole)?;
                    held = Some((wanted, frame, whole));
                }
                let Some((_, frame, whole)) = &held else { return Err(too_many()) };
                let taken = end.min(frame.decoded.end).saturating_sub(at);
                let part =
                    checked::slice(whole, at - frame.decoded.start, taken).filter(|part| !part.is_empty());
                let part = part.ok_or_else(too_many)?;
                let (target, rest) = filled.split_at_mut_checked(part.len()).ok_or_else(too_many)?;
                target.copy_from_slice(part);
                filled = rest;
                at += taken;
            }
        }
        Ok(output)
    }

    /// Calls `each` with the decoded bytes, frame by frame, and judges them on the way.
    pub(super) fn decoded_pieces(
        &self,
        component: &Component,
        mut each: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let frames = self.frames(component)?;
        let mut hasher = component.digest.as_deref().and_then(Digest::hasher);
        let mut elements = Elements::new(component.data_rule);
        let mut piece = Vec::new();
        for nth in 0..frames.len() {
            let frame = frames.frame(nth).ok_or_else(too_many)?;
            // At most 16 MiB, as the table was read.
            piece.resize(index(frame.decoded.end - frame.decoded.start, "a frame")?, 0);
            self.decode_frame(component, &frame, &mut piece)?;
            if let Some(hasher) = &mut hasher {
                hasher.update(&piece);
            }
            elements.update(&piece)?;
            each(&mut piece)?;
        }
        compare(component, hasher)?;
        elements.finish()
    }
}
