//! Digests over several tensors and what lies between them, which no tensor has alone.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use super::Outcome;
use crate::codecs::digest::{Digest, Hasher};
use crate::error::Result;
use crate::model::Section;
use crate::read::{Reading, parallel};
use crate::sources::MappedWindows;
use crate::work;

/// Bytes that are hashed by one thread in one go, between two looks at the stop flag.
const PIECE: u64 = 8 << 20;

/// Hashes a section and compares. Fails only where the file cannot be read or the work is stopped.
pub fn judge(reading: Reading<'_>, section: &Section, all: &mut Outcome) -> Result<()> {
    let hasher = section.blob.digest.as_ref().and_then(|digest| Some((digest, digest.hasher()?)));
    let Some((digest, hasher)) = hasher.filter(|(_, hasher)| hasher.combines()) else {
        all.undigested += 1;
        return Ok(());
    };
    // Of a file in memory only the tensors are staged.
    let source = reading.sources.source(section.blob.file)?;
    if !source.holds(section.blob.offset, section.blob.stored) {
        all.undigested += 1;
        return Ok(());
    }
    all.checked += 1;
    let found = hash(reading, section, digest, hasher)?;
    if let Err(error) = digest.check(found) {
        let message = format!("{}: {}", section.name, error.message());
        let named = error.reworded(message).at(section.blob.offset);
        all.fail(error.broken_rule().map_or(named.clone(), |rule| named.rule(rule)));
    }
    Ok(())
}

fn hash(reading: Reading<'_>, section: &Section, digest: &Digest, mut whole: Hasher) -> Result<Hasher> {
    let (blob, stop) = (&section.blob, &reading.watch.stop);
    let source = reading.sources.source(blob.file)?;
    let windows = MappedWindows::default();
    let piece = |at: u64| ((at * PIECE, (blob.stored - at * PIECE).min(PIECE)), AtomicU32::new(0));
    let all: Vec<_> = (0..blob.stored.div_ceil(PIECE)).map(piece).collect();
    let threads = parallel::threads(source, blob.offset, blob.stored);
    work::try_each_on(threads, all.len(), |at| {
        stop.check()?;
        let Some(((at, length), found)) = all.get(at) else { return Ok(()) };
        let Some(mut hasher) = digest.hasher() else { return Ok(()) };
        source.hash(&windows, blob.offset.saturating_add(*at), *length, &mut hasher, stop)?;
        found.store(hasher.combined().unwrap_or_default(), Ordering::Relaxed);
        reading.watch.did_bytes(*length);
        Ok(())
    })?;
    source.check_length()?;
    for ((_, length), found) in &all {
        whole.combine(found.load(Ordering::Relaxed), *length);
    }
    Ok(whole)
}
