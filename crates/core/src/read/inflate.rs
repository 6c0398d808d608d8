//! Reads of deflate streams, such as members of zip archives, directly into the returned memory.
#![forbid(unsafe_code)]

use super::{PIECE, Reading, claimable, is_over_decoded, stored_hasher};
use crate::codecs::deflate;
use crate::codecs::digest::Digest;
use crate::codecs::frames::Size;
use crate::error::Result;
use crate::model::{Blob, Encoding, View};
use crate::sources::owned::Owned;
use crate::sources::scratch;

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
