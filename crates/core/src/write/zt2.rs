//! The end of a zTensor 2 file: where canonical form (§6.3) has its blobs, its manifest and its footer.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs::File;

use super::once::same;
use super::{Settings, WriteFormat};
use crate::codecs::digest::{Algorithm, Digest};
use crate::error::{Code, Error, Result};
use crate::formats::zt2::encode::{self, CANONICAL_ALIGNMENT, FILE_ATTRIBUTES, LEAST_ALIGNMENT};
use crate::formats::zt2::rules;
use crate::model::{Catalog, Component, Shard};
use crate::sinks::AtomicFile;
use crate::sinks::block::Block;
use crate::work::Stop;

/// Checks what is asked of a file.
pub fn check_settings(settings: &Settings) -> Result<()> {
    let canonical = settings.canonical;
    if settings.format != WriteFormat::ZT2 {
        return Ok(());
    }
    let refused = |message: &str| Err(Error::new(Code::InvalidArg, message).rule(rules::CANONICAL));
    if canonical && settings.compression.is_some() {
        return refused("a canonical file is not compressed; write it with canonical: false");
    }
    if canonical && settings.digest != Some(Algorithm::Xxh3) {
        return refused(
            "a canonical file has xxh3 digests; write it with canonical: false for others or none",
        );
    }
    if canonical && settings.alignment != CANONICAL_ALIGNMENT {
        return refused(
            "a canonical file is aligned to 64 KiB; write it with canonical: false for another alignment",
        );
    }
    if canonical && settings.max_shard.is_some() {
        return refused("a canonical file is one file; write shards with canonical: false");
    }
    if settings.alignment == 0 || !settings.alignment.is_multiple_of(LEAST_ALIGNMENT) {
        let message =
            format!("alignment must be a multiple of 4096 in zTensor 2, got {}", settings.alignment);
        return Err(Error::new(Code::InvalidArg, message).rule(rules::BLOBS));
    }
    encode::check_attributes(&settings.attributes.values()?, FILE_ATTRIBUTES, canonical)
}

/// A blob by its place among the bytes that were written.
type Written = (u64, u64);

/// Puts the blobs of a file where canonical form has them, and says where they end. Where they did not come in the
/// order of their names, or some more than once, that is another file for the same target.
pub fn arrange(file: &mut AtomicFile, catalog: &mut Catalog, stop: &Stop) -> Result<u64> {
    let plan = Plan::canonical(catalog, file.file())?;
    if plan.moves() {
        let mut ordered = file.another()?;
        ordered.reserve(plan.copies.iter().map(|&(_, length, _)| length).sum());
        ordered.write(&encode::MAGIC)?;
        let mut at = encode::MAGIC.len() as u64;
        for &(from, length, to) in &plan.copies {
            ordered.skip(to - at)?;
            ordered.copy_pieces(file.file(), from, length, |_| stop.check())?;
            at = to + length;
        }
        *file = ordered;
    } else {
        // Behind the blobs there may be the padding of an empty one.
        file.truncate(plan.end)?;
    }
    for component in catalog.components_mut() {
        let place = plan.place(component);
        if let Some(blob) = component.blob_mut() {
            blob.offset = place;
        }
    }
    Ok(plan.end)
}

/// Adds manifest and footer behind blobs that end at `end`.
pub fn close(
    catalog: &Catalog,
    shards: &[Shard],
    alignment: u64,
    end: u64,
    buffer: &mut Block,
) -> Result<()> {
    let manifest = encode::manifest(catalog, shards)?;
    let at = end.next_multiple_of(alignment);
    buffer.zeros(usize::try_from(at - end).unwrap_or(0))?;
    buffer.extend(&manifest)?;
    buffer.extend(&encode::footer(Some((at, &manifest))))
}

/// What tells whether two blobs may hold the same bytes: their digest and length.
type Content<'c> = (Option<&'c Digest>, u64);

/// Where canonical form has the blobs.
pub struct Plan {
    /// Old offset, length and new offset of each blob that is kept, in order.
    pub copies: Vec<(u64, u64, u64)>,
    /// The new offset of every blob.
    places: HashMap<Written, u64>,
    /// Behind the last blob.
    pub end: u64,
}

impl Plan {
    /// Rules 2 and 3 of §6.3: in the bytewise order of tensor and component, equal content once, packed at 64 KiB.
    pub fn canonical(catalog: &Catalog, file: &File) -> Result<Self> {
        let mut order: Vec<(&str, &str, &Component)> = Vec::with_capacity(catalog.len());
        for tensor in catalog.iter() {
            let parts = tensor.components().iter();
            order.extend(parts.map(|part| (tensor.name(), catalog.label(part.role), part)));
        }
        order.sort_unstable_by_key(|&(tensor, role, _)| (tensor, role));
        let (mut copies, mut places) = (Vec::new(), HashMap::new());
        let mut seen: HashMap<Content<'_>, Vec<(u64, u64)>> = HashMap::new();
        let mut end = encode::MAGIC.len() as u64;
        for (_, _, component) in order {
            let length = component.stored_length();
            let digest = component.digest();
            let alike = seen.entry((digest, length)).or_default();
            let mut place = None;
            for &(offset, at) in alike.iter() {
                // A hash can collide: the bytes decide.
                if same(file, offset, component.offset(), length)? {
                    place = Some(at);
                    break;
                }
            }
            let place = place.unwrap_or_else(|| {
                let at = end.next_multiple_of(CANONICAL_ALIGNMENT);
                copies.push((component.offset(), length, at));
                alike.push((component.offset(), at));
                end = at + length;
                at
            });
            places.insert((component.offset(), length), place);
        }
        Ok(Self { copies, places, end })
    }

    /// Whether any byte is not where it has to be.
    fn moves(&self) -> bool {
        let full = |&&(_, length, _): &&(u64, u64, u64)| length > 0;
        let kept = self.copies.iter().filter(full).count();
        let written = self.places.keys().filter(|(_, length)| *length > 0).count();
        kept != written || self.copies.iter().filter(full).any(|&(from, _, to)| from != to)
    }

    /// The new offset of a component.
    pub fn place(&self, component: &Component) -> u64 {
        self.places
            .get(&(component.offset(), component.stored_length()))
            .copied()
            .unwrap_or(component.offset())
    }
}
