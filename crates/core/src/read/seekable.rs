//! Reads of zstd frames with a seek table: whole frames in parallel, and only the needed frames of a slice. `zt.zstd-seekable/1` always has
//! one. Plain zstd, as in zTensor 0.1 to 1.2, has one if its writer added it.
#![forbid(unsafe_code)]

use std::slice::Iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Reading, claimable, compare, stored_hasher, too_many, within};
use crate::checked::{self, index};
use crate::codecs::digest::{Digest, Hasher};
use crate::codecs::frames::{self, Judge, Size};
use crate::codecs::seekable::{self, FOOTER, Frame, Frames};
use crate::codecs::zstd;
use crate::error::{Code, Error, Result};
use crate::layouts::elements::RuleCheck;
use crate::model::slice::TensorSlice;
use crate::model::{Blob, Component, Encoding};
use crate::sources::decoded::Place;
use crate::sources::owned::Owned;
use crate::sources::scratch;
use crate::work;

/// Decoded bytes held at a time while only checking or passing on, or one larger frame.
const GROUP: u64 = 8 << 20;
/// Stored bytes that are read at a time if they must be hashed in order, or one larger frame.
const HASHED: u64 = 8 << 20;
/// Minimum decoded bytes for multithreaded decoding.
const PARALLEL: usize = 4 << 20;
/// Smaller blobs of plain zstd are decoded as a whole: looking for a seek table takes as long as reading them.
const TABLED: u64 = 256 << 10;

/// The digest of a blob that is decoded from its first byte to its last.
pub(super) enum Check {
    None,
    /// Of the decoded bytes.
    Decoded(Hasher),
    /// Of the stored bytes, of which so many were hashed.
    Stored(Hasher, u64),
}

impl Check {
    pub(super) fn of(blob: &Blob) -> Self {
        match (blob.digest.as_ref().and_then(Digest::hasher), stored_hasher(blob)) {
            (_, Some(hasher)) => Self::Stored(hasher, 0),
            (Some(hasher), None) => Self::Decoded(hasher),
            (None, None) => Self::None,
        }
    }
}

impl Reading<'_> {
    /// Returns the frames of a blob that can be decoded independently. `None` unless a seek table describes them.
    pub fn frames_of(&self, blob: &Blob) -> Result<Option<Frames>> {
        match blob.encoding {
            Encoding::ZSTD_SEEKABLE => self.seek_table(blob).map(Some),
            Encoding::ZSTD if blob.decoded.is_some_and(|decoded| decoded > TABLED) => {
                // These versions do not promise a table. What is none is a frame that readers skip.
                match self.seek_table(blob) {
                    Ok(frames) => Ok((frames.step() > 0).then_some(frames)),
                    Err(error) if error.code() == Code::Decode => Ok(None),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(None),
        }
    }

    fn seek_table(&self, blob: &Blob) -> Result<Frames> {
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
            self.decode_stored(blob, input, output)
        })
    }

    fn decode_stored(&self, blob: &Blob, input: &[u8], output: &mut [u8]) -> Result<()> {
        self.watch.stop.check()?;
        if blob.encoding == Encoding::ZSTD_SEEKABLE {
            return seekable::decode_frame(input, output, &self.watch.stop);
        }
        if let Some(head) = frames::head(input)? {
            Judge::new(Size::Exactly(output.len() as u64)).begin(&head)?;
        }
        zstd::decode_frame(input, output)
    }

    /// Returns all decoded bytes, after verifying the digest.
    pub(super) fn seekable(&self, blob: &Blob, frames: &Frames) -> Result<Owned> {
        let length = blob.decoded.unwrap_or_default();
        within(length, self.limits)?;
        let mut bytes = Owned::to_fill(length)?;
        let mut check = Check::of(blob);
        self.run(blob, frames, 0, &mut bytes, &mut check)?;
        self.checked(blob, check)?;
        Ok(bytes)
    }

    /// Verifies the digest of a blob whose frames were all decoded.
    pub(super) fn checked(&self, blob: &Blob, check: Check) -> Result<()> {
        match check {
            Check::None => Ok(()),
            Check::Decoded(hasher) => compare(blob, Some(hasher)),
            Check::Stored(mut hasher, done) => {
                let source = self.sources.source(blob.file)?;
                self.hash(source, blob.offset.saturating_add(done), blob.stored - done, &mut hasher)?;
                compare(blob, Some(hasher))
            }
        }
    }

    /// Calls `each` with the decoded bytes in groups of whole frames, which all cores decode, and checks them on the way.
    pub(super) fn decoded_pieces(
        &self,
        component: &Component,
        blob: &Blob,
        frames: &Frames,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let total = blob.decoded.unwrap_or_default();
        let mut check = Check::of(blob);
        let mut elements = RuleCheck::new(component.rule);
        let mut group = Owned::to_fill(0)?;
        let mut at = 0;
        if total == 0 {
            for nth in 0..frames.len() {
                self.decode_frame(blob, &frames.frame(nth).ok_or_else(too_many)?, &mut [])?;
            }
        }
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
            self.run(blob, frames, at, bytes, &mut check)?;
            elements.note(bytes);
            each(bytes)?;
            at = end;
        }
        self.checked(blob, check)?;
        elements.finish()
    }

    /// Fills `output` with decoded bytes from `start` on. Decoded frames are hashed in order by any thread that has just decoded one while
    /// no other is hashing, so that hashing overlaps with decoding.
    pub(super) fn run(
        &self,
        blob: &Blob,
        frames: &Frames,
        start: u64,
        output: &mut [u8],
        check: &mut Check,
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
        let threads = if length < PARALLEL { 1 } else { work::cores() };
        let hasher = match check {
            Check::None => None,
            Check::Decoded(hasher) => Some(hasher),
            Check::Stored(hasher, done) => return self.run_hashed(blob, &targets, threads, hasher, done),
        };
        let digest = hasher.map(|hasher| Mutex::new((hasher, targets.iter())));
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

    /// Reads the frames of whole targets in order, hashes what is read, and decodes it.
    fn run_hashed(
        &self,
        blob: &Blob,
        mut targets: &[Mutex<Target<'_>>],
        threads: usize,
        hasher: &mut Hasher,
        done: &mut u64,
    ) -> Result<()> {
        let source = self.sources.source(blob.file)?;
        while !targets.is_empty() {
            let start = *done;
            let end = |target: &Mutex<Target<'_>>| lock(target).frame.stored.end;
            let count = targets.partition_point(|target| end(target) - start <= HASHED).max(1);
            let (group, rest) = targets.split_at(count);
            let end = group.last().map_or(start, end);
            let offset = blob.offset.saturating_add(start);
            claimable(source, offset, end - start)?;
            scratch::with(end - start, |stored| {
                self.read_into(source, offset, stored, Some(hasher))?;
                let stored = &*stored;
                work::try_each_on(threads, group.len(), |nth| {
                    let Some(target) = group.get(nth) else { return Ok(()) };
                    let Target { frame, bytes, .. } = &mut *lock(target);
                    let from = frame.stored.start - start;
                    let input = checked::slice(stored, from, frame.stored.end - frame.stored.start);
                    self.decode_stored(blob, input.ok_or_else(too_many)?, bytes)
                })
            })?;
            (*done, targets) = (end, rest);
        }
        Ok(())
    }

    /// Decodes a frame and copies its bytes from `at` on.
    fn decode_part(&self, blob: &Blob, frame: &Frame, at: u64, target: &mut [u8]) -> Result<()> {
        let bytes = frame.decoded.end - frame.decoded.start;
        if bytes == target.len() as u64 {
            return self.decode_frame(blob, frame, target);
        }
        let whole = self.frame_once(blob, frame)?;
        let part = checked::slice(&whole, at - frame.decoded.start, target.len() as u64);
        target.copy_from_slice(part.ok_or_else(too_many)?);
        Ok(())
    }

    /// Returns the decoded bytes of a frame, for slices of it.
    fn frame_once(&self, blob: &Blob, frame: &Frame) -> Result<Arc<Owned>> {
        let place = Place {
            file: blob.file,
            offset: blob.offset.saturating_add(frame.stored.start),
            stored: frame.stored.end - frame.stored.start,
            decoded: frame.decoded.end - frame.decoded.start,
            encoding: blob.encoding,
            skipped: 0,
        };
        self.decoded_once(place, || self.frame(blob, frame))
    }

    fn frame(&self, blob: &Blob, frame: &Frame) -> Result<Owned> {
        let mut whole = Owned::to_fill(frame.decoded.end - frame.decoded.start)?;
        self.decode_frame(blob, frame, &mut whole)?;
        Ok(whole)
    }

    /// Returns a slice, from the frames that it overlaps.
    pub(super) fn slice_seekable(&self, blob: &Blob, frames: &Frames, slice: &TensorSlice) -> Result<Owned> {
        if let Some((start, length)) = slice.contiguous() {
            within(length, self.limits)?;
            let mut output = Owned::to_fill(length)?;
            self.run(blob, frames, start, &mut output, &mut Check::None)?;
            return Ok(output);
        }
        within(slice.byte_length(), self.limits)?;
        let mut output = Owned::to_fill(slice.byte_length())?;
        let mut filled = &mut *output;
        let mut held: Option<(usize, Frame, Arc<Owned>)> = None;
        let once = self.is_decoded_once(1, slice.span().1);
        for (start, bytes) in slice.runs() {
            let (mut at, end) = (start, start.saturating_add(bytes));
            while at < end {
                let wanted = frames.at(at);
                if held.as_ref().is_none_or(|(nth, ..)| *nth != wanted) {
                    let frame = frames.frame(wanted).ok_or_else(too_many)?;
                    let whole = if once {
                        self.frame_once(blob, &frame)?
                    } else {
                        Arc::new(self.frame(blob, &frame)?)
                    };
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
