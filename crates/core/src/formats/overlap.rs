//! Finds blobs of one file that overlap without being identical. Identical blobs are tied weights. Version 2 and
//! safetensors forbid other overlaps. No specification below version 2 forbids them, but no writer produces them. They
//! are safe to read, so they are only a warning.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use crate::model::{Builder, Catalog, Label, Span};

/// A blob referenced by an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    pub span: Span,
    /// The ordinal of the tensor that refers to it; `None` for the index itself.
    pub tensor: Option<u32>,
    pub role: Label,
}

/// Warns about the first two blobs of a file that overlap without being identical.
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

/// Returns the blobs of all tensors.
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

/// Returns the first two blobs of one file that overlap without being identical, if any.
pub fn first(mut regions: Vec<Region>) -> Option<(Region, Region)> {
    regions.retain(|region| region.span.length > 0);
    // Files list tensors by name, and store them in that order or in layer order. The result is long sorted runs, which
    // the stable sort merges.
    regions.arrange_by_key(|region| region.span);
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
    fn only_overlapping_blobs_that_differ_are_found() {
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
