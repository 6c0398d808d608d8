//! Encodes a catalog as the metadata array of zTensor 0.1. Sparse tensors follow the convention of the 0.1.4 Rust
//! crate: `sparsecsr` and `sparsecoo` with all arrays in one blob.
#![forbid(unsafe_code)]

use ciborium::Value;

use super::write_format::Sink;
use super::zt_trailer;
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::model::{Attributes, Catalog, Encoding, Layout, NewTensor};
use crate::syntax::cbor_encode::Encoder;

/// The keys that the format defines for a tensor, and those that would be read as index arrays.
const OWN_KEYS: [&str; 13] = [
    "name",
    "offset",
    "size",
    "dtype",
    "shape",
    "encoding",
    "layout",
    "data_endianness",
    "checksum",
    "sparse_format",
    "indptr",
    "indices",
    "coords",
];

/// Checks custom fields. They share a map with the format's own fields, so their names must be strings and different
/// from those.
fn check_custom(attributes: &[(Value, Value)]) -> Result<()> {
    for (key, _) in attributes {
        match key.as_text() {
            Some(key) if !OWN_KEYS.contains(&key) => {}
            Some(key) => {
                let message = format!("zTensor 0.1 uses {key:?} itself, no attribute can have that name");
                return Err(Error::new(Code::InvalidArg, message));
            }
            None => {
                return Err(Error::new(
                    Code::InvalidArg,
                    "the names of attributes must be texts in zTensor 0.1",
                ));
            }
        }
    }
    Ok(())
}

/// Checks the index entry and the attributes of a tensor.
pub fn check_entry(tensor: &mut NewTensor<'_>, _layout: &str, attributes: Option<&Attributes>) -> Result<()> {
    if let Some(attributes) = attributes {
        check_custom(&attributes.values()?)?;
    }
    layouts::check(tensor)
}

/// Encodes the metadata array and its size.
pub fn index(catalog: &Catalog, to: Sink<'_>) -> Result<()> {
    to(&zt_trailer::tail(&encode(catalog)?, b""))
}

/// Encodes the metadata array. The first component of each tensor is the blob that the writer wrote for it.
fn encode(catalog: &Catalog) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    encoder.array(catalog.len());
    for tensor in catalog.iter() {
        let Some(blob) = tensor.components().first() else { continue };
        let custom = tensor.attributes().map(Attributes::values).transpose()?.unwrap_or_default();
        let raw = blob.encoding() == Encoding::RAW;
        encoder.map(7 + usize::from(raw) + usize::from(blob.digest().is_some()) + custom.len());
        encoder.text("name");
        encoder.text(tensor.name());
        encoder.text("offset");
        encoder.uint(blob.offset());
        encoder.text("size");
        encoder.uint(blob.stored_length());
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
        if let Some(digest) = &blob.digest() {
            encoder.text("checksum");
            encoder.text(&digest.text());
        }
        for (key, value) in &*custom {
            encoder.value(key);
            encoder.value(value);
        }
    }
    Ok(encoder.finish())
}
