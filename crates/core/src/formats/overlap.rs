//! Blobs that partly overlap. No specification below version 2 forbids them, no writer makes them, and all that they can say
//! is read as it stands: so they are a warning. (2 refuses them, as safetensors does; equal ones are tied weights.)
#![forbid(unsafe_code)]

use crate::model::{Builder, Catalog, Component, Tensor};

/// Warns of the first two blobs of a file that overlap without being the same.
pub fn warn(builder: &mut Builder) {
    if builder.last_of_ordered().is_some() {
        return;
    }
    let Some((tensor, role, message)) = first(builder.catalog()) else { return };
    builder.warn("ZT_WARN_OVERLAP", message, Some(&tensor), Some(&role));
}

fn blobs(catalog: &Catalog) -> impl Iterator<Item = (u32, u64, u64, Tensor<'_>, &Component)> {
    let all = catalog.iter().flat_map(|tensor| tensor.components().iter().map(move |part| (tensor, part)));
    let spans = all.flat_map(|(tensor, part)| part.spans().map(move |span| (span, tensor, part)));
    let stored = spans.filter(|(span, ..)| span.length > 0);
    stored.map(|(span, tensor, part)| (span.file, span.offset, span.length, tensor, part))
}

fn first(catalog: &Catalog) -> Option<(String, String, String)> {
    let mut sorted: Vec<_> = blobs(catalog).collect();
    sorted.sort_unstable_by_key(|&(file, offset, length, ..)| (file, offset, length));
    sorted.windows(2).find_map(|pair| {
        let &[(file, offset, length, before, _), (next, other, others, tensor, part)] = pair else { return None };
        let overlaps = next == file && other < offset + length && (offset, length) != (other, others);
        overlaps.then(|| {
            let message = format!(
                "{others} bytes at offset {other} overlap the {length} bytes at offset {offset} of tensor {:?}",
                before.name()
            );
            (tensor.name().to_owned(), catalog.label(part.role).to_owned(), message)
        })
    })
}
