//! Divides one long read into concurrent pieces, hashed on arrival if the digests of pieces can be combined.
#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::codecs::digest::Checksum;
use crate::error::Result;
use crate::sources::{Costs, ReadAt};
use crate::work::{self, Watch};

/// Minimum size of reads that are divided: below, starting the threads costs as much as they save.
pub const FROM: u64 = 4 * Costs::LOCAL.piece as u64;
/// Bytes that are hashed as they arrive, while they are in the cache of the core that reads them.
pub const HASHED: usize = 256 << 10;

/// Returns the number of threads for a range: the number of cores for data in memory, more if they would wait.
pub fn threads(source: &dyn ReadAt, offset: u64, length: u64) -> usize {
    threads_if(source, source.is_cached(offset, length))
}

fn threads_if(source: &dyn ReadAt, cached: bool) -> usize {
    if cached { work::cores() } else { source.costs().in_flight }
}

/// Fills `output` from `offset`. Returns its checksum if one is requested.
pub fn fill(
    source: &dyn ReadAt,
    offset: u64,
    output: &mut [u8],
    checksum: Option<Checksum>,
    watch: &Watch,
) -> Result<u32> {
    let length = output.len() as u64;
    let cached = source.is_cached(offset, length);
    let one = source.costs().piece.max(1);
    let step = if checksum.is_some() && cached { HASHED } else { one };
    let pieces: Vec<_> = output.chunks_mut(one).map(|piece| Mutex::new(Some(piece))).collect();
    let hashes: Vec<_> = pieces.iter().map(|_| AtomicU32::new(0)).collect();
    work::try_each_on(threads_if(source, cached), pieces.len(), |at| {
        let piece = pieces.get(at).and_then(|piece| piece.lock().ok()?.take()).unwrap_or_default();
        let (mut from, mut sum) = (offset.saturating_add((at * one) as u64), 0);
        for part in piece.chunks_mut(step) {
            watch.stop.check()?;
            source.read_bulk(from, part, &watch.stop)?;
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
    Ok(checksum.map_or(0, |checksum| combined(checksum, &hashes, one, length)))
}

/// Combines the checksums of the pieces of `length` bytes, which have `piece` bytes each except the last.
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

    const PIECE: usize = Costs::LOCAL.piece;

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
