//! Checks everything that a file says of itself: digests, decoded lengths, the data rules of layouts.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::catalog::{Component, DataRule, Encoding, Layout, Tensor};
use crate::codec::digest::Digest;
use crate::codec::zstd;
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::read::Reading;
use crate::source::{ReadAt, Shard};
use crate::work::{self, PIECE, Watch};

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
    /// Counts a failure, and lists it where there is room.
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

/// Where a blob stands, how it is read and what it must hash to.
type Blob<'a> = (u32, u64, u64, Encoding, Option<u64>, Option<&'a str>, Option<DataRule>);

/// What was found of each blob. Tensors may share one (tied weights): it is read once and judged for all.
type Found<'a> = Mutex<HashMap<Blob<'a>, Arc<OnceLock<Option<Error>>>>>;

/// Verifies the tensors of the given ordinals, several at once. Fails only where the file cannot be read or
/// the work is stopped; what is wrong with the file is in the outcome.
pub fn verify(reading: Reading<'_>, ordinals: &[u32]) -> Result<Outcome> {
    let tensors: Vec<_> =
        ordinals.iter().filter_map(|&ordinal| reading.catalog.tensor(ordinal as usize)).collect();
    let lengths =
        tensors.iter().flat_map(|tensor| tensor.components()).map(|component| component.stored_length);
    // The digests of whole files stand for all of their tensors together.
    let shards = if ordinals.len() == reading.catalog.len() { reading.sources.shards() } else { Vec::new() };
    let total = lengths.chain(shards.iter().map(|shard| shard.length)).fold(0, u64::saturating_add);
    reading.watch.expect(total, tensors.len() as u64);
    let found = Found::default();
    let failures = Mutex::new(BTreeMap::new());
    let broken = Mutex::new(None);
    work::for_each(tensors.len(), |at| {
        let Some(&tensor) = tensors.get(at) else { return };
        if lock(&broken).is_some() {
            return;
        }
        for error in tensor_failures(reading, tensor, &found) {
            if matches!(error.code(), Code::Io | Code::Aborted | Code::Truncated) {
                lock(&broken).get_or_insert(error);
                return;
            }
            let mut failures = lock(&failures);
            let outcome: &mut Outcome = failures.entry(at).or_default();
            outcome.fail(error);
        }
        reading.watch.did_tensor();
    });
    if let Some(error) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    // What has no digest was not read.
    let components = tensors.iter().flat_map(|tensor| tensor.components());
    let files: BTreeSet<_> =
        components.filter(|part| part.inline.is_none()).map(|component| component.file).collect();
    for file in files {
        reading.sources.source(file)?.check_length()?;
    }
    let mut all = Outcome::default();
    files_of(reading, &shards, &mut all)?;
    for component in tensors.iter().flat_map(|tensor| tensor.components()) {
        let digested = component.has_checked_digest();
        *(if digested { &mut all.checked } else { &mut all.undigested }) += 1;
    }
    for outcome in failures.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        let unlisted = outcome.failed - outcome.failures.len() as u64;
        outcome.failures.into_iter().for_each(|error| all.fail(error));
        all.failed += unlisted;
    }
    Ok(all)
}

/// Hashes whole files whose digests an index gives, several at once.
fn files_of(reading: Reading<'_>, shards: &[Shard<'_>], all: &mut Outcome) -> Result<()> {
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
    let mut piece = vec![0; PIECE];
    let (mut at, end) = (0, source.length());
    while at < end {
        watch.stop.check()?;
        let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let piece = piece.get_mut(..length).unwrap_or_default();
        source.read_at(at, piece)?;
        hasher.update(piece);
        at += piece.len() as u64;
        watch.did_bytes(piece.len() as u64);
    }
    source.check_length()?;
    digest.check(hasher).map(|()| true)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tensor_failures<'a>(reading: Reading<'a>, tensor: Tensor<'a>, found: &Found<'a>) -> Vec<Error> {
    inject::panic_at("verify");
    match tensor.layout() {
        // The rules need the arrays in memory, and loading them checks digests and lengths on the way.
        Layout::SparseCsr | Layout::SparseCoo if tensor.dtype().is_some() => {
            reading.sparse(tensor).map(drop).err().into_iter().collect()
        }
        _ => tensor
            .components()
            .iter()
            .filter_map(|component| blob(reading, tensor, component, found))
            .collect(),
    }
}

/// Hashes the stored bytes of a component and decodes them for their length, in constant memory where they
/// are not compressed.
fn blob<'a>(
    reading: Reading<'a>,
    tensor: Tensor<'a>,
    component: &'a Component,
    found: &Found<'a>,
) -> Option<Error> {
    let digest = component.digest.as_deref().map(|digest| &*digest.text);
    let key = (
        component.file,
        component.offset,
        component.stored_length,
        component.encoding,
        component.decoded_length,
        digest,
        component.data_rule,
    );
    let cell = Arc::clone(lock(found).entry(key).or_default());
    let judged = cell.get_or_init(|| match component.encoding {
        Encoding::Zstd => decoded(reading, component).err(),
        Encoding::ZstdSeekable => reading.pieces(component, |_| Ok(())).err(),
        _ if component.has_checked_digest() || component.data_rule.is_some() => {
            reading.check(component).err()
        }
        _ => None,
    });
    let error = judged.clone()?;
    Some(error.tensor(tensor.name()).component(reading.catalog.label(component.role)))
}

fn decoded(reading: Reading<'_>, component: &Component) -> Result<()> {
    let stored = reading.stored(component)?;
    let length =
        zstd::each_piece(&stored, reading.limits.max_decoded_bytes, &reading.watch.stop, |_| Ok(()))?;
    match component.decoded_length {
        Some(expected) if expected != length => Err(Error::new(
            Code::Decode,
            format!("the zstd frame holds {length} bytes, the tensor {expected}"),
        )),
        _ => Ok(()),
    }
}
