//! Where blobs may be (§2.4): on multiples of 4096, off the footer, and in each file identical or disjoint.
#![forbid(unsafe_code)]

use super::{FOOTER, LEAST_ALIGNMENT, rules};
use crate::error::{Code, Error, Result};
use crate::model::{Catalog, Label, Span};

/// A blob that an index refers to. Ordered by where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Region {
    /// 0 is the file of the index, others are shards.
    pub file: u32,
    pub offset: u64,
    pub length: u64,
    /// Who refers to it; `None` is the manifest itself.
    pub tensor: Option<u32>,
    pub role: Label,
}

pub fn check_alignment(offset: u64) -> Result<()> {
    if offset >= LEAST_ALIGNMENT && offset.is_multiple_of(LEAST_ALIGNMENT) {
        return Ok(());
    }
    let message = format!("offset {offset} is no multiple of 4096 from 4096 on");
    Err(Error::new(Code::BadIndex, message).rule(rules::BLOBS))
}

/// Checks that a blob lies before the footer of a file of `total` bytes.
pub fn check_bounds(offset: u64, length: u64, total: u64) -> Result<()> {
    let end = total.saturating_sub(FOOTER);
    if offset.checked_add(length).is_some_and(|last| last <= end) {
        return Ok(());
    }
    let message =
        format!("{length} bytes at offset {offset} are not inside the data, which ends at byte {end}");
    Err(Error::new(Code::OutOfBounds, message).at(offset).rule(rules::BLOBS))
}

/// The blobs of all tensors, and one before them.
pub fn of(catalog: &Catalog, before: Region) -> Vec<Region> {
    let mut regions = Vec::with_capacity(catalog.len() + 1);
    regions.push(before);
    for tensor in catalog.iter() {
        let ordinal = u32::try_from(tensor.ordinal()).unwrap_or(u32::MAX);
        for part in tensor.components() {
            let Span { file, offset, length } = part.span();
            regions.push(Region { file, offset, length, tensor: Some(ordinal), role: part.role });
        }
    }
    regions
}

/// Two blobs of one file that overlap without being the same, if there are any.
pub fn first_overlap(mut blobs: Vec<Region>) -> Option<(Region, Region)> {
    blobs.retain(|blob| blob.length > 0);
    let place = |blob: &Region| (blob.file, blob.offset, blob.length);
    // Files list their tensors by name, and place them so or in the order of their layers: long runs, which the stable
    // sort merges.
    blobs.sort_by_key(place);
    blobs.windows(2).find_map(|pair| {
        let &[first, second] = pair else { return None };
        let overlap = first.file == second.file
            && second.offset < first.offset.saturating_add(first.length)
            && place(&first) != place(&second);
        overlap.then_some((first, second))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(file: u32, offset: u64, length: u64) -> Region {
        Region { file, offset, length, tensor: Some(0), role: Label::DATA }
    }

    #[test]
    fn identical_or_disjoint() {
        let ok = [
            blob(0, 8192, 10),
            blob(0, 4096, 4096),
            blob(0, 4096, 4096),
            blob(1, 4096, 8192),
            blob(0, 4096, 0),
        ];
        assert_eq!(first_overlap(ok.to_vec()), None);
        for bad in [blob(0, 4096, 4095), blob(0, 4096, 4097), blob(1, 8192, 1)] {
            assert!(first_overlap([&ok[..], &[bad]].concat()).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn ends_never_wrap() {
        assert!(check_bounds(u64::MAX - 4095, 4096, u64::MAX).is_err());
        assert!(check_bounds(4096, 8, 4096 + 8 + 40).is_ok());
        assert!(check_bounds(4096, 9, 4096 + 8 + 40).is_err());
        assert!(
            check_alignment(0).is_err() && check_alignment(4097).is_err() && check_alignment(8192).is_ok()
        );
    }
}
