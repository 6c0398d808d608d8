//! Where canonical form (zTensor 2 §6.3) has the blobs of a file.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs::File;

use super::once::same;
use crate::codecs::digest::Digest;
use crate::error::Result;
use crate::formats::{Canonical, WriteFormat};
use crate::model::{Catalog, Component};
use crate::sinks::AtomicFile;
use crate::work::Stop;

/// A blob by its place among the bytes that were written.
type Written = (u64, u64);

/// Puts the blobs of a file where canonical form has them, and says where they end. Where they did not come in the
/// order of their names, or some more than once, that is another file for the same target.
pub fn arrange(
    file: &mut AtomicFile,
    catalog: &mut Catalog,
    format: &WriteFormat,
    form: &Canonical,
    stop: &Stop,
) -> Result<u64> {
    let start = format.magic.len() as u64;
    let plan = Plan::new(catalog, file.file(), start, form)?;
    if plan.moves() {
        let mut ordered = file.another()?;
        ordered.reserve(plan.copies.iter().map(|&(_, length, _)| length).sum());
        ordered.write(format.magic)?;
        let mut at = start;
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
    /// In the bytewise order of tensor and component, equal content once, packed from `start` on.
    pub fn new(catalog: &Catalog, file: &File, start: u64, form: &Canonical) -> Result<Self> {
        let mut order: Vec<(&str, &str, &Component)> = Vec::with_capacity(catalog.len());
        for tensor in catalog.iter() {
            let parts = tensor.components().iter();
            order.extend(parts.map(|part| (tensor.name(), catalog.label(part.role), part)));
        }
        order.sort_unstable_by_key(|&(tensor, role, _)| (tensor, role));
        let (mut copies, mut places) = (Vec::new(), HashMap::new());
        let mut seen: HashMap<Content<'_>, Vec<(u64, u64)>> = HashMap::new();
        let mut end = start;
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
                let at = end.next_multiple_of(form.alignment);
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
