//! One long read in pieces, several at once, hashed on the way where the digests of pieces combine.
#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::codecs::digest::Checksum;
use crate::error::Result;
use crate::sources::ReadAt;
use crate::work::{self, Watch};

/// Reads from here on are divided: below, starting the threads costs as much as they save.
pub const FROM: u64 = 4 * PIECE as u64;
/// Bytes of one read. Storage gives its best from some MiB on, and pages that are there already are copied in
/// under 5 ms.
pub const PIECE: usize = 8 << 20;
/// Bytes of a read that are hashed as they arrive, while they are in the cache of the core that reads them.
pub const HASHED: usize = 256 << 10;
/// Reads under way at once where the data has to come from storage: one after the other gains nothing there.
const FLIGHT: usize = 16;

/// How many threads read a range: as many as there are cores for what is in memory, more where they would wait.
pub fn threads(source: &dyn ReadAt, offset: u64, length: u64) -> usize {
    threads_if(source.is_cached(offset, length))
}

fn threads_if(cached: bool) -> usize {
    if cached { work::cores() } else { FLIGHT.max(work::cores()) }
}

/// Fills `output` from `offset`. Gives its checksum where one is asked for.
pub fn fill(
    source: &dyn ReadAt,
    offset: u64,
    output: &mut [u8],
    checksum: Option<Checksum>,
    watch: &Watch,
) -> Result<u32> {
    let length = output.len() as u64;
    let cached = source.is_cached(offset, length);
    let step = if checksum.is_some() && cached { HASHED } else { PIECE };
    let pieces: Vec<_> = output.chunks_mut(PIECE).map(|piece| Mutex::new(Some(piece))).collect();
    let hashes: Vec<_> = pieces.iter().map(|_| AtomicU32::new(0)).collect();
    work::try_each_on(threads_if(cached), pieces.len(), |at| {
        let piece = pieces.get(at).and_then(|piece| piece.lock().ok()?.take()).unwrap_or_default();
        let (mut from, mut sum) = (offset.saturating_add((at * PIECE) as u64), 0);
        for part in piece.chunks_mut(step) {
            watch.stop.check()?;
            source.read_bulk(from, part)?;
            if let Some(checksum) = checksum {
                sum = checksum.append(sum, part);
            }
            from = from.saturating_add(part.len() as u64);
            watch.did_bytes(part.len() as u64);
        }
        if let Some(found) = hashes.get(at) {
            found.store(sum, Ordering::Relaxed);
        }
        Ok(())
    })?;
    Ok(checksum.map_or(0, |checksum| combined(checksum, &hashes, PIECE, length)))
}

/// The checksum of `length` bytes from those of their pieces, which have `piece` bytes each but for the last.
pub fn combined(checksum: Checksum, hashes: &[AtomicU32], piece: usize, length: u64) -> u32 {
    let lengths =
        (0..length).step_by(piece).map(|at| usize::try_from(length - at).unwrap_or(piece).min(piece));
    hashes
        .iter()
        .zip(lengths)
        .fold(0, |sum, (hash, length)| checksum.combine(sum, hash.load(Ordering::Relaxed), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_in_order_and_their_digests_combine() {
        let bytes: Vec<u8> = (0..3 * PIECE + 5).map(|at| u8::try_from((at >> 7) % 251).unwrap()).collect();
        for checksum in [Checksum::Crc32c, Checksum::Crc32] {
            let mut output = vec![0; bytes.len() - 3];
            let sum = fill(&&*bytes, 3, &mut output, Some(checksum), &Watch::default()).unwrap();
            assert!(output == bytes[3..]);
            assert_eq!(sum, checksum.append(0, &bytes[3..]));
        }
    }

    #[test]
    fn a_read_past_the_end_fails() {
        let mut output = vec![0; 2 * PIECE];
        assert!(fill(&&[0_u8; 100][..], 0, &mut output, None, &Watch::default()).is_err());
    }
}
