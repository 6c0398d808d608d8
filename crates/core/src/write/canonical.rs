//! The order of blobs in canonical form (zTensor 2 §6.3).
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::collections::HashMap;
use std::fs::File;

use super::deduplicate::same;
use crate::codecs::digest::Digest;
use crate::error::Result;
use crate::formats::{Canonical, WriteFormat};
use crate::model::{Catalog, Component};
use crate::sinks::AtomicFile;
use crate::work::Stop;

/// A written blob: its offset and length.
type Written = (u64, u64);

/// Moves the blobs of a file to where canonical form requires them, and returns the offset of their end. If they were
/// not written in the order of their names, or some were written more than once, the result is a new file for the same
/// target.
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
        // Padding before an empty blob may follow the last byte of data.
        file.truncate(plan.end)?;
    }
    for component in catalog.components_mut() {
        let offset = plan.new_offset(component);
        if let Some(blob) = component.blob_mut() {
            blob.offset = offset;
        }
    }
    Ok(plan.end)
}

/// A key that blobs with the same bytes share: digest and length.
type Content<'c> = (Option<&'c Digest>, u64);

/// The offsets of the blobs in canonical form.
pub struct Plan {
    /// Old offset, length and new offset of each blob to keep, in order.
    pub copies: Vec<(u64, u64, u64)>,
    /// The new offset of each blob.
    offsets: HashMap<Written, u64>,
    /// The end of the last blob.
    pub end: u64,
}

impl Plan {
    /// Orders the blobs by the bytes of the tensor name, then of the role, and packs them from `start` on. Blobs with
    /// equal content are stored once.
    pub fn new(catalog: &Catalog, file: &File, start: u64, form: &Canonical) -> Result<Self> {
        let mut order: Vec<(&str, &str, &Component)> = Vec::with_capacity(catalog.len());
        for tensor in catalog.iter() {
            let parts = tensor.components().iter();
            order.extend(parts.map(|part| (tensor.name(), catalog.label(part.role), part)));
        }
        order.arrange_by_key(|&(tensor, role, _)| (tensor, role));
        let (mut copies, mut offsets) = (Vec::new(), HashMap::new());
        let mut seen: HashMap<Content<'_>, Vec<(u64, u64)>> = HashMap::new();
        let mut end = start;
        for (_, _, component) in order {
            let length = component.stored_length();
            let digest = component.digest();
            let candidates = seen.entry((digest, length)).or_default();
            let mut equal = None;
            for &(offset, at) in candidates.iter() {
                // Hashes can collide, so compare the bytes.
                if same(file, offset, component.offset(), length)? {
                    equal = Some(at);
                    break;
                }
            }
            let new = equal.unwrap_or_else(|| {
                let at = end.next_multiple_of(form.alignment);
                copies.push((component.offset(), length, at));
                candidates.push((component.offset(), at));
                end = at + length;
                at
            });
            offsets.insert((component.offset(), length), new);
        }
        Ok(Self { copies, offsets, end })
    }

    /// Returns whether any byte has to move.
    fn moves(&self) -> bool {
        let full = |&&(_, length, _): &&(u64, u64, u64)| length > 0;
        let copied = self.copies.iter().filter(full).count();
        let written = self.offsets.keys().filter(|(_, length)| *length > 0).count();
        copied != written || self.copies.iter().filter(full).any(|&(from, _, to)| from != to)
    }

    /// Returns the new offset of a component.
    pub fn new_offset(&self, component: &Component) -> u64 {
        self.offsets
            .get(&(component.offset(), component.stored_length()))
            .copied()
            .unwrap_or(component.offset())
    }
}
