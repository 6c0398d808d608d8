//! The decoded elements of a component, piece by piece: however large it is and however it is stored, little of it stands in
//! memory at once.
#![forbid(unsafe_code)]

use crate::codecs::zstd_pieces;
use crate::error::{Code, Error, Result};
use crate::kernels::swap::swap_bytes;
use crate::model::{ByteOrder, Component, DType, Encoding, Tensor};
use crate::read::{Reading, Stored};
use crate::work::PIECE;

/// Blobs up to this size on both sides are decoded whole, as they are where they are loaded.
const WHOLE: u64 = 16 << 20;

/// Calls `each` with the decoded, little-endian bytes of a component. A component of `zt.zstd-seekable/1` comes frame by
/// frame, any other one in pieces of whole elements.
pub fn decoded(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    part: &Component,
    mut each: impl FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    if part.part.is_none() && part.inline.is_none() {
        return blob(reading, part, |piece| {
            if part.byte_order == ByteOrder::Big {
                swap_bytes(piece, part.dtype.map_or(1, DType::element_bytes));
            }
            each(piece)
        })
        .map_err(|error| error.tensor(tensor.name()).component(reading.catalog.label(part.role)));
    }
    reading.component(tensor, part)?.chunks_mut(PIECE).try_for_each(|piece| {
        reading.watch.stop.check()?;
        each(piece)
    })
}

/// Calls `each` with the decoded bytes of the blob that a component is, or is a part of, as they stand there.
pub fn blob(
    reading: Reading<'_>,
    part: &Component,
    mut each: impl FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let known = part.decoded_length.filter(|_| part.part.is_none());
    match part.encoding {
        Encoding::Zstd if part.stored_length > WHOLE || known.is_none_or(|length| length > WHOLE) => {
            frames(reading, part, each).map(|_| ())
        }
        Encoding::Zstd => {
            let whole = Component { part: None, byte_order: ByteOrder::Little, ..part.clone() };
            reading.decode(&whole)?.chunks_mut(PIECE).try_for_each(&mut each)
        }
        Encoding::Unknown(label) => {
            let message = format!("the encoding {:?} cannot be decoded here", reading.catalog.label(label));
            Err(Error::new(Code::UnsupportedEncoding, message))
        }
        _ => reading.pieces(part, each),
    }
}

/// Bytes of a component once it is decoded. Where the index does not tell, it is decoded to count them.
pub fn decoded_length(reading: Reading<'_>, tensor: Tensor<'_>, part: &Component) -> Result<u64> {
    if let Some(length) = part.decoded_length {
        return Ok(length);
    }
    if part.part.is_some() || part.encoding != Encoding::Zstd {
        return reading.component(tensor, part).map(|whole| whole.len() as u64);
    }
    let silent = reading.watch.silent();
    let counting = Reading { watch: &silent, ..reading };
    frames(counting, part, |_| Ok(()))
        .map_err(|error| error.tensor(tensor.name()).component(reading.catalog.label(part.role)))
}

/// Decodes the frames of a component and says how much that was.
fn frames(reading: Reading<'_>, part: &Component, each: impl FnMut(&mut [u8]) -> Result<()>) -> Result<u64> {
    let size = reading.decoded_size(part)?;
    let mut stored = Stored::new(reading, part)?;
    let stop = &reading.watch.stop;
    let decoded = zstd_pieces::decode(part.stored_length, size, stop, |piece| stored.read(piece), each);
    let refused =
        decoded.as_ref().err().is_some_and(|error| matches!(error.code(), Code::Decode | Code::Limit));
    if refused {
        // Of what is damaged the digest says it first, as it does where all is loaded at once.
        let mut rest = vec![0; PIECE];
        while stored.left() > 0 {
            let count = usize::try_from(stored.left()).unwrap_or(PIECE).min(PIECE);
            stored.read(rest.get_mut(..count).unwrap_or_default())?;
        }
    }
    if refused || decoded.is_ok() {
        stored.finish()?;
    }
    decoded
}
