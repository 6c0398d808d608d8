//! Reverses the filters of an encoding.
#![forbid(unsafe_code)]

use super::Reading;
use crate::codecs::frames::Size;
use crate::codecs::prefixed::PrefixedCodec;
use crate::codecs::{self, Codec};
use crate::error::{Code, Error, Result};
use crate::model::{Blob, Encoding, Filter};
use crate::sources::owned::Owned;
use crate::sources::scratch;
use crate::work::Stop;

/// A filter to reverse, and the expected size of the result.
pub(super) struct Step<'a> {
    codec: &'static Codec,
    filter: &'a Filter,
    size: Size,
}

impl Reading<'_> {
    /// Reverses a list of filters.
    pub(super) fn unfiltered(&self, encoding: Encoding, stored: Owned, size: Size) -> Result<Owned> {
        let steps = self.steps(encoding, 0, size)?;
        match size {
            _ if steps.is_empty() => Ok(stored),
            Size::Exactly(length) => {
                let mut output = Owned::to_fill(length)?;
                take_back(&steps, &stored, &mut output, &self.watch.stop)?;
                Ok(output)
            }
            Size::UpTo(_) => steps.iter().try_fold(stored, |bytes, step| {
                (step.codec.decode)(&bytes, &step.filter.parameters, step.size, &self.watch.stop)
                    .map(Owned::from)
            }),
        }
    }

    /// Returns the compression of a blob that has no other filter, if it is decoded in pieces.
    pub(super) fn compressed_in_pieces(&self, blob: &Blob) -> Option<PrefixedCodec> {
        match self.catalog.filters(blob.encoding) {
            [filter] if blob.digest.is_none() && blob.encoding.is_known() => {
                codecs::named(self.catalog.label(filter.name))?.in_pieces
            }
            _ => None,
        }
    }

    /// Returns the filters in decoding order, without those whose bit is set in `skipped`, from the lowest on.
    pub(super) fn steps(&self, encoding: Encoding, skipped: u32, size: Size) -> Result<Vec<Step<'_>>> {
        let filters = self.catalog.filters(encoding);
        let mut steps = Vec::with_capacity(filters.len());
        let mut before = size;
        for (nth, filter) in filters.iter().enumerate() {
            if u32::try_from(nth).is_ok_and(|nth| skipped.checked_shr(nth).is_some_and(|bits| bits & 1 == 1))
            {
                continue;
            }
            let name = self.catalog.label(filter.name);
            let codec = codecs::named(name).filter(|_| encoding.is_known());
            let codec = codec.ok_or_else(|| self.unsupported(encoding, name))?;
            steps.push(Step { codec, filter, size: before });
            before = match (codec.adds, before) {
                (Some(added), Size::Exactly(length)) => Size::Exactly(length.saturating_add(added)),
                _ => Size::UpTo(self.limits.max_decoded_bytes),
            };
        }
        steps.reverse();
        Ok(steps)
    }

    /// Names the filter of an encoding that is not supported, or `name` if each is by itself.
    fn unsupported(&self, encoding: Encoding, name: &str) -> Error {
        let names = self.catalog.filters(encoding).iter().map(|filter| self.catalog.label(filter.name));
        let name = { names }.find(|name| codecs::named(name).is_none()).unwrap_or(name);
        Error::new(Code::UnsupportedEncoding, format!("the encoding {name:?} is not supported"))
    }
}

/// Reverses filters into memory that must be filled completely. Intermediate results are in per-thread scratch memory: fresh pages for each
/// chunk of an array took longer than decoding.
pub(super) fn take_back(steps: &[Step<'_>], input: &[u8], output: &mut [u8], stop: &Stop) -> Result<()> {
    let Some((Step { codec, filter, size }, rest)) = steps.split_first() else {
        if input.len() != output.len() {
            let message = format!("the data has {} bytes, not {}", input.len(), output.len());
            return Err(Error::new(Code::Decode, message));
        }
        output.copy_from_slice(input);
        return Ok(());
    };
    match size {
        _ if rest.is_empty() => (codec.fill)(input, &filter.parameters, output, stop),
        Size::Exactly(length) => scratch::with(*length, |between| {
            (codec.fill)(input, &filter.parameters, between, stop)?;
            take_back(rest, between, output, stop)
        }),
        Size::UpTo(_) => {
            let between = (codec.decode)(input, &filter.parameters, *size, stop)?;
            take_back(rest, &between, output, stop)
        }
    }
}
