//! Blobs of one file that overlap without being the same: those that are the same are tied weights. Version 2 refuses others, and so does
//! safetensors. No specification below version 2 forbids them, no writer makes them, and all that they can say is read as it stands: so
//! they are a warning.
#![forbid(unsafe_code)]

use crate::model::{Builder, Catalog, Label, Span};

/// A blob that an index refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    pub span: Span,
    /// Who refers to it; `None` is the index itself.
    pub tensor: Option<u32>,
    pub role: Label,
}

/// Warns of the first two blobs of a file that overlap without being the same.
pub fn warn(builder: &mut Builder) {
    if builder.is_known_disjoint(None) {
        return;
    }
    let catalog = builder.catalog();
    let Some((first, second)) = first(regions(catalog)) else { return };
    let of = |region: Region| region.tensor.and_then(|tensor| catalog.tensor(tensor as usize));
    let name = |region| of(region).map_or("", |tensor| tensor.name());
    let message = format!(
        "{} bytes at offset {} overlap the {} bytes at offset {} of tensor {:?}",
        second.span.length,
        second.span.offset,
        first.span.length,
        first.span.offset,
        name(first)
    );
    let (tensor, role) = (name(second).to_owned(), catalog.label(second.role).to_owned());
    builder.warn("ZT_WARN_OVERLAP", message, Some(&tensor), Some(&role));
}

/// The blobs of all tensors.
pub fn regions(catalog: &Catalog) -> Vec<Region> {
    let mut regions = Vec::with_capacity(catalog.len());
    for tensor in catalog.iter() {
        let ordinal = u32::try_from(tensor.ordinal()).ok();
        for part in tensor.components() {
            regions.extend(part.spans().map(|span| Region { span, tensor: ordinal, role: part.role }));
        }
    }
    regions
}

/// Two blobs of one file that overlap without being the same, if there are any.
pub fn first(mut regions: Vec<Region>) -> Option<(Region, Region)> {
    regions.retain(|region| region.span.length > 0);
    // Files list their tensors by name, and place them so or in the order of their layers: long runs, which the stable
    // sort merges.
    regions.sort_by_key(|region| region.span);
    regions.windows(2).find_map(|pair| {
        let &[first, second] = pair else { return None };
        let (one, other) = (first.span, second.span);
        let overlap = one.file == other.file && other.offset < one.end() && one != other;
        overlap.then_some((first, second))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(file: u32, offset: u64, length: u64) -> Region {
        Region { span: Span { file, offset, length }, tensor: Some(0), role: Label::DATA }
    }

    #[test]
    fn identical_or_disjoint() {
        let ok = [
            region(0, 8192, 10),
            region(0, 4096, 4096),
            region(0, 4096, 4096),
            region(1, 4096, 8192),
            region(0, 4096, 0),
        ];
        assert_eq!(first(ok.to_vec()), None);
        for bad in [region(0, 4096, 4095), region(0, 4096, 4097), region(1, 8192, 1)] {
            assert!(first([&ok[..], &[bad]].concat()).is_some(), "{bad:?}");
        }
    }
}
