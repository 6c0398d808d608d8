//! Checks everything that a file says of itself: digests, decoded lengths, the data rules of layouts. Uses `read`, and
//! `formats` for the canonical form.
#![forbid(unsafe_code)]

mod blobs;
pub mod canonical;
mod sections;

use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

use crate::codecs::digest::Digest;
use crate::error::{Code, Error, Result, short};
use crate::limits::FILE_NAME_BYTES;
use crate::model::{Catalog, Component, Damage, Data};
use crate::read::Reading;
use crate::sources::{DigestedFile, MappedWindows, ReadAt};
use crate::work::{self, PIECE, Watch};
use blobs::Blobs;

/// Failures listed one by one, and the bytes of their texts: a hostile file must not fill the memory with them.
const LISTED: usize = 1000;
const LISTED_BYTES: usize = 4 << 20;

/// What a verification found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Components whose digest was compared.
    pub checked: u64,
    /// Components without a digest of a known algorithm.
    pub undigested: u64,
    /// All failures.
    pub failed: u64,
    /// The first of them, in the order of the tensors.
    pub failures: Vec<Error>,
    listed_bytes: usize,
}

impl Outcome {
    /// Counts a failure, and lists it if the list is not full.
    pub fn fail(&mut self, error: Error) {
        self.failed += 1;
        let bytes = error.tensor_name().map_or(0, str::len)
            + error.component_role().map_or(0, str::len)
            + error.message().len();
        if self.failures.len() < LISTED && self.listed_bytes + bytes <= LISTED_BYTES {
            self.listed_bytes += bytes;
            self.failures.push(error);
        }
    }
}

/// Verifies the tensors of the given ordinals, several at once. Fails only where the file cannot be read or
/// the work is stopped; what is wrong with the file is in the outcome.
pub fn verify(reading: Reading<'_>, ordinals: &[u32]) -> Result<Outcome> {
    let tensors: Vec<_> =
        ordinals.iter().filter_map(|&ordinal| reading.catalog.tensor(ordinal as usize)).collect();
    // The digests of whole files and sections stand for all of their tensors together.
    let is_all = ordinals.len() == reading.catalog.len();
    let shards = if is_all { reading.sources.digested() } else { Vec::new() };
    let sections = if is_all { &*reading.catalog.sections } else { &[] };
    let more = shards.iter().map(|shard| shard.length);
    let more = more.chain(sections.iter().map(|section| section.blob.stored));
    let blobs = Blobs::of(reading, &tensors);
    // What has no digest and no rule is not read, and not counted.
    let total = more.fold(blobs.bytes(), u64::saturating_add);
    reading.watch.expect(total, tensors.len() as u64);
    blobs.judge()?;
    // What has no digest was not read.
    let components = tensors.iter().flat_map(|tensor| tensor.components());
    let files: BTreeSet<_> =
        components.filter(|part| !matches!(part.data, Data::Inline(_))).map(Component::file).collect();
    for file in files {
        reading.sources.source(file)?.check_length()?;
    }
    let mut all = Outcome::default();
    files_of(reading, &shards, &mut all)?;
    sections.iter().try_for_each(|section| sections::judge(reading, section, &mut all))?;
    for component in tensors.iter().flat_map(|tensor| tensor.components()) {
        let digested = component.has_checked_digest();
        *(if digested { &mut all.checked } else { &mut all.undigested }) += 1;
    }
    blobs.wrong(&tensors, |error| all.fail(error));
    Ok(all)
}

/// What the index showed of damage that no tensor's data does: of the tensors of the given ordinals, and with `whole` of the file.
/// [`verify`] reads data, and leaves this to its caller: it may be called for some of the tensors at a time.
pub fn damage(catalog: &Catalog, ordinals: &[u32], whole: bool) -> Outcome {
    let mut all = Outcome::default();
    if catalog.warnings.iter().all(|warning| warning.damage.is_none()) {
        return all;
    }
    let chosen: HashSet<u32> = ordinals.iter().copied().collect();
    for warning in &catalog.warnings {
        let Some(Damage { code, offset }) = warning.damage else { continue };
        let of = warning.tensor.as_deref().and_then(|name| u32::try_from(catalog.find(name)?).ok());
        if !of.map_or(whole, |ordinal| chosen.contains(&ordinal)) {
            continue;
        }
        let mut error = Error::new(code, warning.message.clone());
        if let Some(tensor) = &warning.tensor {
            error = error.tensor(tensor);
        }
        if let Some(offset) = offset {
            error = error.at(offset);
        }
        if let Some(name) = &warning.path {
            error = error.context(format!("'{}'", short(name, FILE_NAME_BYTES)));
        }
        all.fail(error);
    }
    all
}

/// Hashes whole files whose digests an index gives, several at once.
fn files_of(reading: Reading<'_>, shards: &[DigestedFile<'_>], all: &mut Outcome) -> Result<()> {
    let judged: Vec<OnceLock<Result<bool>>> = shards.iter().map(|_| OnceLock::new()).collect();
    work::for_each(shards.len(), |at| {
        if let (Some(shard), Some(cell)) = (shards.get(at), judged.get(at)) {
            let source = reading.sources.source(shard.file);
            let _ = cell.set(source.and_then(|source| whole(source, shard.digest, reading.watch)));
        }
    });
    for (shard, cell) in shards.iter().zip(judged) {
        match cell.into_inner().unwrap_or(Ok(false)) {
            Ok(true) => all.checked += 1,
            Ok(false) => all.undigested += 1,
            Err(error) if error.code() == Code::DigestMismatch => {
                all.checked += 1;
                all.fail(error.in_file(shard.name, shard.path));
            }
            Err(error) => return Err(error.file(shard.path)),
        }
    }
    Ok(())
}

/// Hashes a whole file and compares. False where the digest is of an algorithm that is not known.
pub fn whole(source: &dyn ReadAt, digest: &Digest, watch: &Watch) -> Result<bool> {
    let Some(mut hasher) = digest.hasher() else { return Ok(false) };
    let windows = MappedWindows::default();
    let (mut at, end) = (0, source.length());
    while at < end {
        watch.stop.check()?;
        let step = (end - at).min(PIECE as u64);
        source.hash(&windows, at, step, &mut hasher, &watch.stop)?;
        at += step;
        watch.did_bytes(step);
    }
    source.check_length()?;
    digest.check(hasher).map(|()| true)
}
