//! Reads of deflate streams, such as members of zip archives, directly into the returned memory.
#![forbid(unsafe_code)]

use super::{PIECE, Reading, claimable, compare, is_over_decoded, short, stored_hasher};
use crate::codecs::deflate;
use crate::codecs::digest::Digest;
use crate::codecs::frames::Size;
use crate::error::Result;
use crate::layouts::elements::RuleCheck;
use crate::model::{Blob, Component, Data, Encoding, View};
use crate::sources::owned::Owned;
use crate::sources::scratch;

/// Maximum decoded size of streams that are decoded whole.
const WHOLE: u64 = 8 << 20;
/// Decoded bytes that are passed on together.
const GATHERED: usize = 2 << 20;
/// Maximum decoded bytes before or after the requested ones that are retained with them.
const ASIDE: u64 = 1 << 20;

impl Reading<'_> {
    /// Returns a contiguous range of the decoded bytes of a blob, such as an array after its header, after verifying the digest of the
    /// whole. `None` if the view is not contiguous or excludes much of the blob.
    pub(super) fn inflated(&self, blob: &Blob, view: &View) -> Result<Option<Owned>> {
        if blob.encoding != Encoding::DEFLATE {
            return Ok(None);
        }
        let Size::Exactly(total) = self.decoded_size(blob)? else { return Ok(None) };
        let run = match view {
            View::Whole => Some((0, total)),
            View::Strided(strided) => strided.run(),
            View::Counted(_) => None,
        };
        let Some((start, length)) = run else { return Ok(None) };
        let rest = start.checked_add(length).and_then(|end| total.checked_sub(end));
        if start > ASIDE || rest.is_none_or(|rest| rest > ASIDE) {
            return Ok(None);
        }
        let digest = blob.digest.as_ref().filter(|digest| is_over_decoded(digest, blob));
        let mut hasher = digest.and_then(Digest::hasher);
        let output = self.with_stored(blob, |stored| {
            let mut output = Owned::to_fill(total)?;
            deflate::decode_into(stored, false, &mut output, &self.watch.stop, |piece| {
                if let Some(hasher) = &mut hasher {
                    hasher.update(piece);
                }
            })?;
            output.part(start, length)
        })?;
        if let (Some(digest), Some(hasher)) = (digest, hasher) {
            digest.check(hasher).map_err(|error| error.at(blob.offset))?;
        }
        Ok(Some(output))
    }

    /// Calls `each` with the elements of a component that is a contiguous range of a large deflate stream, in pieces of whole elements.
    /// Digests and rules are checked on the way. Returns whether it is one.
    pub(super) fn inflated_pieces(
        &self,
        component: &Component,
        each: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let Data::Blob(blob) = &component.data else { return Ok(false) };
        if blob.encoding != Encoding::DEFLATE {
            return Ok(false);
        }
        let Size::Exactly(total) = self.decoded_size(blob)? else { return Ok(false) };
        let run = match &component.view {
            View::Whole => Some((0, total)),
            View::Strided(strided) => strided.run(),
            View::Counted(_) => None,
        };
        let Some((start, length)) = run.filter(|_| total > WHOLE) else { return Ok(false) };
        let end = start.checked_add(length).filter(|&end| end <= total);
        let end = end.ok_or_else(short)?;
        let decoded = blob.digest.as_ref().filter(|digest| is_over_decoded(digest, blob));
        let mut decoded_hasher = decoded.and_then(Digest::hasher);
        let mut hasher = stored_hasher(blob);
        let source = self.sources.source(blob.file)?;
        claimable(source, blob.offset, blob.stored)?;
        let (mut from, mut at) = (blob.offset, 0);
        let mut elements = RuleCheck::new(component.rule);
        let mut gathered = Vec::new();
        let inflated = deflate::decode_pieces(
            blob.stored,
            total,
            &self.watch.stop,
            |input| {
                source.read_at(from, input, &self.watch.stop)?;
                from = from.saturating_add(input.len() as u64);
                self.watch.did_bytes(input.len() as u64);
                if let Some(hasher) = &mut hasher {
                    hasher.update(input);
                }
                Ok(())
            },
            |piece| {
                if let Some(hasher) = &mut decoded_hasher {
                    hasher.update(piece);
                }
                let inside = |position: u64| {
                    usize::try_from(position.saturating_sub(at)).unwrap_or(usize::MAX).min(piece.len())
                };
                gathered.extend_from_slice(piece.get(inside(start)..inside(end)).unwrap_or_default());
                at += piece.len() as u64;
                if gathered.len() >= GATHERED || at >= end {
                    // Whole elements, the rest with the next piece.
                    let count = if at >= end { gathered.len() } else { gathered.len() / 16 * 16 };
                    let (now, _) = gathered.split_at_mut(count);
                    elements.note(now);
                    each(now)?;
                    gathered.drain(..count);
                }
                Ok(())
            },
        );
        inflated?;
        if let (Some(digest), Some(hasher)) = (decoded, decoded_hasher) {
            digest.check(hasher).map_err(|error| error.at(blob.offset))?;
        }
        compare(blob, hasher)?;
        elements.finish().map(|()| true)
    }

    /// Calls `work` with the stored bytes of a blob, after verifying their digest. Small blobs are read into per-thread scratch memory:
    /// fresh pages for each member of an archive cost a twelfth of the total.
    fn with_stored<T>(&self, blob: &Blob, work: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        if blob.stored > PIECE as u64 || stored_hasher(blob).is_some() {
            return work(&self.stored(blob)?);
        }
        let source = self.sources.source(blob.file)?;
        claimable(source, blob.offset, blob.stored)?;
        self.watch.stop.check()?;
        scratch::with(blob.stored, |stored| {
            source.read_at(blob.offset, stored, &self.watch.stop)?;
            self.watch.did_bytes(blob.stored);
            work(stored)
        })
    }
}
