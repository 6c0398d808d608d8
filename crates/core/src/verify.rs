//! Checks everything that a file says of itself: digests, decoded lengths, the data rules of layouts.
#![forbid(unsafe_code)]

use rayon::prelude::*;

use crate::catalog::{Component, Encoding, Layout, Tensor};
use crate::codec::digest::Digest;
use crate::codec::zstd;
use crate::error::{Code, Error, Result};
use crate::read::Reading;
use crate::work::PIECE;

/// What a verification found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Components whose digest was compared.
    pub checked: u64,
    /// Components without a digest of a known algorithm.
    pub undigested: u64,
    pub failures: Vec<Error>,
}

impl Outcome {
    fn join(mut self, other: Self) -> Self {
        self.checked += other.checked;
        self.undigested += other.undigested;
        self.failures.extend(other.failures);
        self
    }
}

/// Verifies the tensors of the given ordinals, in parallel on the calling thread's pool. Fails only where
/// the file cannot be read or the work is stopped; what is wrong with the file is in the outcome, in the
/// order of the ordinals.
pub fn verify(reading: Reading<'_>, ordinals: &[u32]) -> Result<Outcome> {
    let tensors = ordinals.iter().filter_map(|&ordinal| reading.catalog.tensor(ordinal as usize));
    let bytes = tensors.flat_map(Tensor::components).map(|component| component.stored_length);
    let bytes = bytes.fold(0, u64::saturating_add);
    reading.watch.expect(bytes, ordinals.len() as u64);
    let outcomes: Vec<Result<Outcome>> = ordinals
        .par_iter()
        .filter_map(|&ordinal| reading.catalog.tensor(ordinal as usize))
        .map(|tensor| {
            let outcome = tensor_outcome(reading, tensor)?;
            reading.watch.did_tensor();
            Ok(outcome)
        })
        .collect();
    outcomes.into_iter().try_fold(Outcome::default(), |all, one| Ok(all.join(one?)))
}

fn tensor_outcome(reading: Reading<'_>, tensor: Tensor<'_>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for component in tensor.components() {
        let digested = component.digest.as_deref().is_some_and(|digest| digest.hasher().is_some());
        if digested {
            outcome.checked += 1;
        } else {
            outcome.undigested += 1;
        }
    }
    let failures = match tensor.layout() {
        // The rules need the arrays in memory, and loading them checks digests and lengths on the way.
        Layout::SparseCsr | Layout::SparseCoo => reading.sparse(tensor).map(drop).err().into_iter().collect(),
        _ => tensor
            .components()
            .iter()
            .filter_map(|component| blob(reading, tensor, component).err())
            .collect::<Vec<_>>(),
    };
    for failure in failures {
        if matches!(failure.code(), Code::Io | Code::Aborted | Code::Truncated) {
            return Err(failure);
        }
        outcome.failures.push(failure);
    }
    Ok(outcome)
}

/// Hashes the stored bytes of a component and decodes them for their length, in constant memory where they
/// are not compressed.
fn blob(reading: Reading<'_>, tensor: Tensor<'_>, component: &Component) -> Result<()> {
    let checked = match component.encoding {
        Encoding::Zstd => decoded(reading, component),
        _ if component.digest.is_some() => hashed(reading, component, |_| Ok(())),
        _ => Ok(()),
    };
    checked.map_err(|error| error.tensor(tensor.name()).component(reading.catalog.label(component.role)))
}

fn hashed(
    reading: Reading<'_>,
    component: &Component,
    mut keep: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut hasher = component.digest.as_deref().and_then(Digest::hasher);
    let (mut at, end) = (component.offset, component.offset.saturating_add(component.stored_length));
    while at < end {
        reading.watch.stop.check()?;
        let piece = reading.source.read_vec(at, (end - at).min(PIECE as u64))?;
        if let Some(hasher) = &mut hasher {
            hasher.update(&piece);
        }
        keep(&piece)?;
        at += piece.len() as u64;
        reading.watch.did_bytes(piece.len() as u64);
    }
    match (&component.digest, hasher) {
        (Some(digest), Some(hasher)) => digest.check(hasher).map_err(|error| error.at(component.offset)),
        _ => Ok(()),
    }
}

fn decoded(reading: Reading<'_>, component: &Component) -> Result<()> {
    let mut stored = Vec::new();
    hashed(reading, component, |piece| {
        stored
            .try_reserve(piece.len())
            .map_err(|_| Error::new(Code::Limit, "not enough memory to decode"))?;
        stored.extend_from_slice(piece);
        Ok(())
    })?;
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
