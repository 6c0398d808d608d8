//! The pieces of compressed data that slices decoded last, so that a loop over rows decodes each frame or chunk once.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::owned::Owned;
use crate::codecs::seekable::Frames;
use crate::limits::{DECODED_BYTES, DECODED_PIECES};
use crate::model::{Blob, Encoding};

/// Stored bytes, and how they are decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub file: u32,
    pub offset: u64,
    pub stored: u64,
    pub decoded: u64,
    /// All catalogs of the same files number the encodings alike.
    pub encoding: Encoding,
    /// The filters that were not applied, as in [`Chunk::skipped`](crate::model::Chunk::skipped).
    pub skipped: u32,
}

impl Place {
    /// Returns the place of a whole blob.
    pub fn of(blob: &Blob, decoded: u64) -> Self {
        let &Blob { file, offset, stored, encoding, .. } = blob;
        Self { file, offset, stored, decoded, encoding, skipped: 0 }
    }
}

/// What was read from a place.
#[derive(Clone)]
enum Content {
    Decoded(Arc<Owned>),
    Frames(Arc<Frames>),
}

impl Content {
    fn bytes(&self) -> usize {
        match self {
            Self::Decoded(bytes) => bytes.len(),
            Self::Frames(frames) => frames.memory(),
        }
    }
}

/// Decoded pieces and seek tables of the files of one name space, at most [`DECODED_PIECES`] with [`DECODED_BYTES`]: those that were used
/// last.
#[derive(Default)]
pub struct DecodedPieces(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those used last are at the end.
    pieces: Vec<(Place, Content)>,
    bytes: usize,
    /// Whether the files were closed: nothing is added any more.
    closed: bool,
}

impl DecodedPieces {
    /// Returns whether so many pieces of `bytes` in total fit. A slice of more would only displace other pieces.
    pub fn fits(pieces: u64, bytes: u64) -> bool {
        pieces <= DECODED_PIECES as u64 && bytes <= DECODED_BYTES as u64
    }

    pub fn decoded(&self, place: &Place) -> Option<Arc<Owned>> {
        match self.find(place)? {
            Content::Decoded(bytes) => Some(bytes),
            Content::Frames(_) => None,
        }
    }

    pub fn frames(&self, place: &Place) -> Option<Arc<Frames>> {
        match self.find(place)? {
            Content::Frames(frames) => Some(frames),
            Content::Decoded(_) => None,
        }
    }

    pub fn add_decoded(&self, place: Place, bytes: &Arc<Owned>) {
        self.add(place, Content::Decoded(Arc::clone(bytes)));
    }

    pub fn add_frames(&self, place: Place, frames: &Arc<Frames>) {
        self.add(place, Content::Frames(Arc::clone(frames)));
    }

    /// Frees all of them, and refuses others.
    pub fn close(&self) {
        let mut state = self.lock();
        let pieces = std::mem::take(&mut state.pieces);
        (state.bytes, state.closed) = (0, true);
        drop(state);
        drop(pieces);
    }

    fn find(&self, place: &Place) -> Option<Content> {
        let mut state = self.lock();
        let at = state.pieces.iter().rposition(|(other, _)| other == place)?;
        let found = state.pieces.remove(at);
        let content = found.1.clone();
        state.pieces.push(found);
        Some(content)
    }

    fn add(&self, place: Place, content: Content) {
        let bytes = content.bytes();
        let mut state = self.lock();
        // Another thread may have decoded it meanwhile.
        if bytes > DECODED_BYTES || state.closed || state.pieces.iter().any(|(other, _)| *other == place) {
            return;
        }
        state.pieces.push((place, content));
        state.bytes += bytes;
        let (mut gone, mut left) = (0, state.bytes);
        for (_, content) in &state.pieces {
            if left <= DECODED_BYTES && state.pieces.len() - gone <= DECODED_PIECES {
                break;
            }
            left -= content.bytes();
            gone += 1;
        }
        state.bytes = left;
        let gone: Vec<_> = state.pieces.drain(..gone).collect();
        // Other threads need not wait until the memory is freed.
        drop(state);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64) -> Place {
        Place { file: 0, offset, stored: 1, decoded: 1, encoding: Encoding::ZSTD_SEEKABLE, skipped: 0 }
    }

    fn piece(length: usize) -> Arc<Owned> {
        Arc::new(Owned::from(vec![7; length]))
    }

    #[test]
    fn pieces_that_were_used_last_stay() {
        let pieces = DecodedPieces::default();
        let third = DECODED_BYTES / 3;
        for offset in 0..3 {
            pieces.add_decoded(place(offset), &piece(third));
        }
        assert!(pieces.decoded(&place(0)).is_some());
        pieces.add_decoded(place(3), &piece(third));
        let held = [0, 1, 2, 3].map(|offset| pieces.decoded(&place(offset)).is_some());
        assert_eq!(held, [true, false, true, true]);
        assert!(pieces.lock().bytes <= DECODED_BYTES);
    }

    #[test]
    fn bytes_and_pieces_are_bounded() {
        let pieces = DecodedPieces::default();
        pieces.add_decoded(place(0), &piece(DECODED_BYTES + 1));
        assert!(pieces.decoded(&place(0)).is_none());
        for offset in 0..2 * DECODED_PIECES as u64 {
            pieces.add_decoded(place(offset), &piece(10));
            pieces.add_decoded(place(offset), &piece(10));
        }
        assert_eq!(pieces.lock().pieces.len(), DECODED_PIECES);
        assert_eq!(pieces.lock().bytes, 10 * DECODED_PIECES);
        let all = DECODED_PIECES as u64;
        assert!(pieces.decoded(&place(all - 1)).is_none() && pieces.decoded(&place(all)).is_some());
        assert!(DecodedPieces::fits(all, DECODED_BYTES as u64));
        assert!(!DecodedPieces::fits(all + 1, 1) && !DecodedPieces::fits(1, DECODED_BYTES as u64 + 1));
    }

    #[test]
    fn closing_frees_all_pieces_and_refuses_others() {
        let pieces = DecodedPieces::default();
        let bytes = piece(10);
        pieces.add_decoded(place(0), &bytes);
        assert_eq!(Arc::strong_count(&bytes), 2);
        pieces.close();
        assert_eq!(Arc::strong_count(&bytes), 1);
        pieces.add_decoded(place(0), &bytes);
        assert!(pieces.decoded(&place(0)).is_none());
    }

    #[test]
    fn equal_ranges_that_are_decoded_differently_are_distinct() {
        let pieces = DecodedPieces::default();
        pieces.add_decoded(place(0), &piece(10));
        let others = [
            Place { file: 1, ..place(0) },
            Place { stored: 2, ..place(0) },
            Place { decoded: 2, ..place(0) },
            Place { encoding: Encoding::ZSTD, ..place(0) },
            Place { skipped: 1, ..place(0) },
        ];
        assert!(others.iter().all(|other| pieces.decoded(other).is_none()));
        assert!(pieces.frames(&place(0)).is_none());
    }
}
