//! The metadata array of zTensor 0.1, from a catalog. Sparse tensors are in the convention of the 0.1.4 Rust
//! crate: `sparsecsr` and `sparsecoo` with all arrays in one blob.
#![forbid(unsafe_code)]

use crate::catalog::{Catalog, Encoding, Layout};
use crate::syntax::cbor_encode::Encoder;

/// The metadata array. Each tensor's first component is the blob that the writer wrote for it.
pub fn encode(catalog: &Catalog) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.array(catalog.len());
    for tensor in catalog.iter() {
        let Some(blob) = tensor.components().first() else { continue };
        let custom = tensor.attributes().map_or(&[][..], |attributes| attributes);
        let raw = blob.encoding == Encoding::Raw;
        encoder.map(7 + usize::from(raw) + usize::from(blob.digest.is_some()) + custom.len());
        encoder.text("name");
        encoder.text(tensor.name());
        encoder.text("offset");
        encoder.uint(blob.offset);
        encoder.text("size");
        encoder.uint(blob.stored_length);
        encoder.text("dtype");
        encoder.text(tensor.dtype().map_or("", |dtype| dtype.name()));
        encoder.text("layout");
        encoder.text(match tensor.layout() {
            Layout::SparseCsr => "sparsecsr",
            Layout::SparseCoo => "sparsecoo",
            _ => "dense",
        });
        encoder.text("shape");
        encoder.array(tensor.shape().len());
        for &dim in tensor.shape() {
            encoder.uint(dim);
        }
        encoder.text("encoding");
        encoder.text(if raw { "raw" } else { "zstd" });
        if raw {
            encoder.text("data_endianness");
            encoder.text("little");
        }
        if let Some(digest) = &blob.digest {
            encoder.text("checksum");
            encoder.text(&digest.text);
        }
        for (key, value) in custom {
            encoder.value(key);
            encoder.value(value);
        }
    }
    encoder.finish()
}
