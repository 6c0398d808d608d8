//! Reads of `zt.zstd-seekable/1`: whole frames in parallel, and only the needed frames of a slice.
#![forbid(unsafe_code)]

use std::slice::Iter;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Reading, claimable, compare, too_many, within};
use crate::checked::{self, index};
use crate::codecs::digest::{Digest, Hasher};
use crate::codecs::seekable::{self, FOOTER, Frame, Frames};
use crate::error::{Code, Error, Result};
use crate::layouts::elements::RuleCheck;
use crate::model::slice::TensorSlice;
use crate::model::{Blob, Component};
use crate::sources::owned::Owned;
use crate::sources::scratch;
use crate::work;

/// Decoded bytes held at a time while only checking, or one larger frame.
const GROUP: u64 = 64 << 20;
/// Minimum decoded bytes for multithreaded decoding.
const PARALLEL: usize = 4 << 20;

impl Reading<'_> {
    /// Returns the seek table of a component.
    pub(super) fn seek_table(&self, blob: &Blob) -> Result<Frames> {
        let source = self.sources.source(blob.file)?;
        let (stored, end) = (blob.stored, blob.offset.saturating_add(blob.stored));
        let decoded = blob.decoded.ok_or_else(|| {
            Error::new(Code::Decode, "the index does not state the decoded size of the data")
        })?;
        let footer =
            source.read_vec(end.saturating_sub(FOOTER.min(stored)), FOOTER.min(stored), &self.watch.stop)?;
        let length = seekable::table_length(&footer, stored)?;
        Frames::parse(&source.read_vec(end - length, length, &self.watch.stop)?, stored, decoded)
    }

    fn decode_frame(&self, blob: &Blob, frame: &Frame, output: &mut [u8]) -> Result<()> {
        self.watch.stop.check()?;
        let (offset, length) =
            (blob.offset.saturating_add(frame.stored.start), frame.stored.end - frame.stored.start);
        let source = self.sources.source(blob.file)?;
        claimable(source, offset, length)?;
        scratch::with(length, |input| {
            source.read_at(offset, input, &self.watch.stop)?;
            self.watch.did_bytes(length);
            seekable::decode_frame(input, output, &self.watch.stop)
        })
    }

    /// Returns all decoded bytes, after verifying the digest over them.
    pub(super) fn seekable(&self, blob: &Blob) -> Result<Owned> {
        let frames = self.seek_table(blob)?;
        let length = blob.decoded.unwrap_or_default();
        within(length, self.limits)?;
        let mut bytes = Owned::to_fill(length)?;
        let mut hasher = blob.digest.as_ref().and_then(Digest::hasher);
        self.run(blob, &frames, 0, &mut bytes, hasher.as_mut())?;
        compare(blob, hasher)?;
        Ok(bytes)
    }

    /// Decodes all of a component in groups of frames and checks it, without retaining it.
    pub(super) fn check_seekable(&self, component: &Component, blob: &Blob) -> Result<()> {
        if blob.decoded == Some(0) {
            return self.decoded_pieces(component, blob, |_| Ok(()));
        }
        let frames = self.seek_table(blob)?;
        let mut hasher = blob.digest.as_ref().and_then(Digest::hasher);
        let mut elements = RuleCheck::new(component.rule);
        let mut group = Owned::to_fill(0)?;
        let mut at = 0;
        let total = blob.decoded.unwrap_or_default();
        while at < total {
            let last = frames.frame(frames.at(at.saturating_add(GROUP - 1))).ok_or_else(too_many)?;
            // Whole frames: one that crosses the end of the group is left to the next group, unless it is the first.
            let end = if last.decoded.end - at > GROUP && last.decoded.start > at {
                last.decoded.start
            } else {
                last.decoded.end
            };
            if end <= at {
                return Err(too_many());
            }
            let length = index(end - at, "frames")?;
            if group.len() < length {
                group = Owned::to_fill(end - at)?;
            }
            let bytes = group.get_mut(..length).ok_or_else(too_many)?;
            self.run(blob, &frames, at, bytes, hasher.as_mut())?;
            elements.note(bytes);
            at = end;
        }
        compare(blob, hasher)?;
        elements.finish()
    }

    /// Fills `output` with decoded bytes from `start` on. Decoded frames are hashed in order by any thread that has just decoded one while
    /// no other is hashing, so that hashing overlaps with decoding.
    fn run(
        &self,
        blob: &Blob,
        frames: &Frames,
        start: u64,
        output: &mut [u8],
        hasher: Option<&mut Hasher>,
    ) -> Result<()> {
        let length = output.len();
        let mut targets = Vec::new();
        let (mut rest, mut at) = (output, start);
        while !rest.is_empty() {
            let frame = frames.frame(frames.at(at)).ok_or_else(too_many)?;
            let taken = index(frame.decoded.end.saturating_sub(at), "a frame")?.min(rest.len());
            if taken == 0 {
                return Err(too_many());
            }
            let (target, further) = rest.split_at_mut(taken);
            rest = further;
            targets.push(Mutex::new(Target { frame, at, bytes: target, decoded: false }));
            at += taken as u64;
        }
        let digest = hasher.map(|hasher| Mutex::new((hasher, targets.iter())));
        let threads = if length < PARALLEL { 1 } else { work::cores() };
        work::try_each_on(threads, targets.len(), |nth| {
            let Some(target) = targets.get(nth) else { return Ok(()) };
            {
                let mut target = lock(target);
                let Target { frame, at, bytes, decoded } = &mut *target;
                self.decode_part(blob, frame, *at, bytes)?;
                *decoded = true;
            }
            if let Some(Ok(mut digest)) = digest.as_ref().map(Mutex::try_lock) {
                let (hasher, waiting) = &mut *digest;
                hash_decoded(hasher, waiting);
            }
            Ok(())
        })?;
        if let Some(digest) = digest {
            let (hasher, mut waiting) = digest.into_inner().unwrap_or_else(PoisonError::into_inner);
            hash_decoded(hasher, &mut waiting);
        }
        Ok(())
    }

    /// Decodes a frame and copies its bytes from `at` on.
    fn decode_part(&self, blob: &Blob, frame: &Frame, at: u64, target: &mut [u8]) -> Result<()> {
        let bytes = frame.decoded.end - frame.decoded.start;
        if bytes == target.len() as u64 {
            return self.decode_frame(blob, frame, target);
        }
        let mut whole = Owned::zeroed(bytes)?;
        self.decode_frame(blob, frame, &mut whole)?;
        let part = checked::slice(&whole, at - frame.decoded.start, target.len() as u64);
        target.copy_from_slice(part.ok_or_else(too_many)?);
        Ok(())
    }

    /// Returns a slice, from the frames that it overlaps.
    pub(super) fn slice_seekable(&self, blob: &Blob, slice: &TensorSlice) -> Result<Owned> {
        let frames = self.seek_table(blob)?;
        if let Some((start, length)) = slice.contiguous() {
            within(length, self.limits)?;
            let mut output = Owned::to_fill(length)?;
            self.run(blob, &frames, start, &mut output, None)?;
            return Ok(output);
        }
        within(slice.byte_length(), self.limits)?;
        let mut output = Owned::to_fill(slice.byte_length())?;
        let mut filled = &mut *output;
        let mut held: Option<(usize, Frame, Owned)> = None;
        for (start, bytes) in slice.runs() {
            let (mut at, end) = (start, start.saturating_add(bytes));
            while at < end {
                let wanted = frames.at(at);
                if held.as_ref().is_none_or(|(nth, ..)| *nth != wanted) {
                    let frame = frames.frame(wanted).ok_or_else(too_many)?;
                    let mut whole = Owned::zeroed(frame.decoded.end - frame.decoded.start)?;
                    self.decode_frame(blob, &frame, &mut whole)?;
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

    /// Calls `each` with the decoded bytes, frame by frame, and checks them on the way.
    pub(super) fn decoded_pieces(
        &self,
        component: &Component,
        blob: &Blob,
        mut each: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let frames = self.seek_table(blob)?;
        let mut hasher = blob.digest.as_ref().and_then(Digest::hasher);
        let mut elements = RuleCheck::new(component.rule);
        let mut piece = Vec::new();
        for nth in 0..frames.len() {
            let frame = frames.frame(nth).ok_or_else(too_many)?;
            // At most 16 MiB, as checked when reading the table.
            piece.resize(index(frame.decoded.end - frame.decoded.start, "a frame")?, 0);
            self.decode_frame(blob, &frame, &mut piece)?;
            if let Some(hasher) = &mut hasher {
                hasher.update(&piece);
            }
            elements.note(&piece);
            each(&mut piece)?;
        }
        compare(blob, hasher)?;
        elements.finish()
    }
}

/// A frame, its first wanted byte, and the destination.
struct Target<'o> {
    frame: Frame,
    at: u64,
    bytes: &'o mut [u8],
    decoded: bool,
}

/// Hashes the frames that are next in order and decoded.
fn hash_decoded(hasher: &mut Hasher, waiting: &mut Iter<'_, Mutex<Target<'_>>>) {
    while let Some(target) = waiting.as_slice().first() {
        // A locked frame is being decoded.
        let Ok(target) = target.try_lock() else { return };
        if !target.decoded {
            return;
        }
        hasher.update(target.bytes);
        waiting.next();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
