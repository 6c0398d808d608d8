//! Reads of deflate streams, such as members of zip archives: straight into the memory that is returned.
#![forbid(unsafe_code)]

use super::{Reading, is_over_decoded};
use crate::codecs::deflate;
use crate::codecs::digest::Digest;
use crate::codecs::frames::Size;
use crate::error::Result;
use crate::model::{Blob, Encoding, View};
use crate::sources::owned::Owned;

/// What is decoded before or behind what is asked for, and thrown away.
const ASIDE: u64 = 1 << 20;

impl Reading<'_> {
    /// One run of the decoded bytes of a blob, such as an array behind its header, after the digest of the whole was checked.
    /// `None` where the view is no such run, or much of the blob is not in it.
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
        let Some(rest) = rest.filter(|&rest| start <= ASIDE && rest <= ASIDE) else { return Ok(None) };
        let stored = self.stored(blob)?;
        let digest = blob.digest.as_deref().filter(|digest| is_over_decoded(digest, blob));
        let mut hasher = digest.and_then(Digest::hasher);
        let (mut before, mut output, mut behind) =
            (Owned::to_fill(start)?, Owned::to_fill(length)?, Owned::to_fill(rest)?);
        let parts: &mut [&mut [u8]] = &mut [&mut before, &mut output, &mut behind];
        deflate::decode_into(&stored, false, parts, &self.watch.stop, |piece| {
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
        })?;
        if let (Some(digest), Some(hasher)) = (digest, hasher) {
            digest.check(hasher).map_err(|error| error.at(blob.offset))?;
        }
        Ok(Some(output))
    }
}
