//! Encodes a catalog as the manifest (§3) and footer (§2.3) of a zTensor 2 file.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use ciborium::Value;

use super::footer::{DATA_SHARD_FOOTER, MIN_ALIGNMENT};
use super::manifest::{self, DEPTH};
use super::rules;
use super::vocabulary::{self, Spelling, ZSTD_SEEKABLE};
use crate::codecs::digest::{Algorithm, xxh3};
use crate::error::{Code, Error, Result, short};
use crate::formats::{Sink, TensorHeader, WriteSettings};
use crate::model::{Attributes, Catalog, Component, Encoding, Shard, Tensor};
use crate::syntax::cbor_encode::Encoder;

/// The alignment of canonical form (§6.3).
pub const CANONICAL_ALIGNMENT: u64 = 64 << 10;
/// The maximum size of a manifest in bytes (§3.1).
const LARGEST_MANIFEST: usize = 1 << 30;
/// The nesting depth of the attributes of a file and of a tensor in the manifest.
pub const FILE_ATTRIBUTES: u32 = 2;
pub const TENSOR_ATTRIBUTES: u32 = 4;

/// Encodes a manifest for offset `at`, and the footer after it.
pub fn index(catalog: &Catalog, shards: &[Shard], at: u64, to: Sink<'_>) -> Result<()> {
    let manifest = manifest(catalog, shards)?;
    to(&manifest)?;
    to(&footer(at, &manifest))
}

/// Returns the manifest. A component's `file` is 0 for this file, and otherwise the index of a shard in `shards` plus
/// one.
fn manifest(catalog: &Catalog, shards: &[Shard]) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    let attributes = !catalog.attributes.is_empty();
    encoder.map(1 + usize::from(!shards.is_empty()) + usize::from(attributes));
    if !shards.is_empty() {
        encoder.text("shards");
        encoder.map(shards.len());
        let mut sorted: Vec<&Shard> = shards.iter().collect();
        sorted.arrange_by_key(|shard| sort_key(&shard.name));
        for shard in sorted {
            encoder.text(&shard.name);
            encoder.map(2);
            encoder.text("size");
            encoder.uint(shard.size);
            encoder.text("digest");
            encoder.text(&shard.digest.text());
        }
    }
    encoder.text("objects");
    encoder.map(catalog.len());
    let mut tensors: Vec<_> = catalog.iter().collect();
    tensors.arrange_by_key(|tensor| sort_key(tensor.name()));
    for tensor in tensors {
        encoder.text(tensor.name());
        object(&mut encoder, catalog, tensor, shards)?;
    }
    if attributes {
        encoder.text("attributes");
        deterministic(&mut encoder, &catalog.attributes)?;
    }
    let bytes = encoder.finish();
    if bytes.len() > LARGEST_MANIFEST {
        let message = format!("the manifest takes {} bytes, more than the 1 GiB of zTensor 2", bytes.len());
        return Err(Error::new(Code::Limit, message).rule(rules::ENCODING));
    }
    Ok(bytes)
}

/// Writes the manifest entry of a tensor, without its name.
pub fn object(encoder: &mut Encoder, catalog: &Catalog, tensor: Tensor<'_>, shards: &[Shard]) -> Result<()> {
    encoder.map(3 + usize::from(tensor.attributes().is_some()));
    encoder.text("parts");
    encoder.map(tensor.components().len());
    let mut components: Vec<_> = tensor.components().iter().collect();
    components.arrange_by_key(|component| sort_key(catalog.label(component.role)));
    for component in components {
        encoder.text(catalog.label(component.role));
        part(encoder, component, shards);
    }
    encoder.text("shape");
    encoder.array(tensor.shape().len());
    tensor.shape().iter().for_each(|&dim| encoder.uint(dim));
    encoder.text("layout");
    encoder.text(vocabulary::layout_id(tensor.layout_name()));
    if let Some(own) = tensor.attributes() {
        encoder.text("attributes");
        deterministic(encoder, own)?;
    }
    Ok(())
}

/// Returns the sort key of a map key. Deterministic CBOR sorts keys by their encoded bytes, which begin with the
/// length.
fn sort_key(text: &str) -> (usize, &str) {
    (text.len(), text)
}

fn deterministic(encoder: &mut Encoder, attributes: &Attributes) -> Result<()> {
    if encoder.deterministic(&attributes.values()?) {
        return Ok(());
    }
    let message = "the attributes have a key twice, or a value that zTensor 2 has no form for";
    Err(Error::new(Code::InvalidArg, message).rule(rules::ENCODING))
}

fn part(encoder: &mut Encoder, component: &Component, shards: &[Shard]) {
    // The writer has rejected dtypes that cannot be encoded; a component without a dtype is stored as bytes.
    let bytes = Spelling { storage: "u8", logical: None };
    let Spelling { storage, logical } = component.dtype.and_then(vocabulary::spelling).unwrap_or(bytes);
    let shard = usize::try_from(component.file()).ok().and_then(|file| shards.get(file.checked_sub(1)?));
    let packed = component.encoding() != Encoding::RAW;
    let optional = [logical.is_some(), shard.is_some(), component.digest().is_some(), packed, packed];
    encoder.map(2 + optional.into_iter().filter(|&present| present).count());
    encoder.text("blob");
    encoder.array(2);
    encoder.uint(component.offset());
    encoder.uint(component.stored_length());
    if let Some(logical) = logical {
        encoder.text("type");
        encoder.text(logical);
    }
    encoder.text("dtype");
    encoder.text(storage);
    if let Some(shard) = shard {
        encoder.text("shard");
        encoder.text(&shard.name);
    }
    if let Some(digest) = &component.digest() {
        encoder.text("digest");
        encoder.text(&digest.text());
    }
    if packed {
        encoder.text("encoding");
        encoder.text(ZSTD_SEEKABLE);
        encoder.text("decoded_length");
        encoder.uint(component.byte_length().unwrap_or_default());
    }
}

/// Returns the footer after a manifest at `offset`.
pub fn footer(offset: u64, manifest: &[u8]) -> [u8; 40] {
    let mut footer = DATA_SHARD_FOOTER;
    footer[..8].copy_from_slice(&offset.to_le_bytes());
    footer[8..16].copy_from_slice(&(manifest.len() as u64).to_le_bytes());
    footer[16..24].copy_from_slice(&xxh3(manifest).to_le_bytes());
    footer
}

/// Checks the settings of a file.
pub fn check_settings(asked: &WriteSettings<'_>) -> Result<()> {
    let WriteSettings { alignment, canonical, .. } = *asked;
    let refused = |message, hint| {
        Err(Error::new(Code::InvalidArg, message).hint("canonical", hint).rule(rules::CANONICAL))
    };
    if canonical && asked.compressed {
        return refused("a canonical file is not compressed", "; write it with canonical: false");
    }
    if canonical && asked.digest != Some(Algorithm::Xxh3) {
        let hint = "; write it with canonical: false for others or none";
        return refused("a canonical file has xxh3 digests", hint);
    }
    if canonical && alignment != CANONICAL_ALIGNMENT {
        let hint = "; write it with canonical: false for another alignment";
        return refused("a canonical file is aligned to 64 KiB", hint);
    }
    if canonical && asked.divided {
        return refused("a canonical file is one file", "; write shards with canonical: false");
    }
    if alignment == 0 || !alignment.is_multiple_of(MIN_ALIGNMENT) {
        let message = format!("alignment must be a multiple of 4096 in zTensor 2, got {alignment}");
        return Err(Error::new(Code::InvalidArg, message).rule(rules::BLOBS));
    }
    check_attributes(&asked.attributes.values()?, FILE_ATTRIBUTES, canonical)
}

/// Checks the name of a tensor, component or attribute (§3.5). Canonical form requires NFC (§6.3).
pub fn check_name(name: &str, what: &str, canonical: bool) -> Result<()> {
    manifest::check_name(name)?;
    if canonical && !unicode_normalization::is_nfc(name) {
        let shown = short(name, 80);
        let message = format!(
            "{what} {shown:?} is not in Unicode normalization form C, which canonical files ask for: write it \
             as name.normalize('NFC')"
        );
        let hint = ", or with canonical: false";
        return Err(Error::new(Code::BadIndex, message).hint("canonical", hint).rule(rules::CANONICAL));
    }
    Ok(())
}

/// Checks attributes at nesting depth `depth` of the manifest: keys are names, there are no tags, and at most 32 levels
/// in total (§3.1).
pub fn check_attributes(attributes: &[(Value, Value)], depth: u32, canonical: bool) -> Result<()> {
    for (key, value) in attributes {
        let Some(name) = key.as_text() else {
            let message = "the names of attributes must be texts in zTensor 2";
            return Err(Error::new(Code::InvalidArg, message).rule(rules::ENCODING));
        };
        check_name(name, "the attribute", canonical)?;
        check_value(value, depth).map_err(|problem| {
            let message = format!("the attribute {:?} {problem}", short(name, 80));
            Error::new(Code::InvalidArg, message).rule(rules::ENCODING)
        })?;
    }
    if Encoder::default().deterministic(attributes) {
        return Ok(());
    }
    Err(Error::new(Code::InvalidArg, "the attributes have a key twice").rule(rules::ENCODING))
}

/// Checks a value. `depth` is the depth of its container.
fn check_value(value: &Value, depth: u32) -> std::result::Result<(), &'static str> {
    if matches!(value, Value::Array(_) | Value::Map(_)) && depth >= DEPTH {
        return Err("is nested deeper than the 32 levels of zTensor 2");
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| check_value(item, depth + 1)),
        Value::Map(entries) => entries.iter().try_for_each(|(key, item)| {
            check_value(key, depth + 1)?;
            check_value(item, depth + 1)
        }),
        Value::Tag(..) => Err("has a tag (such as an integer of more than 64 bits), which zTensor 2 has not"),
        Value::Integer(_)
        | Value::Bytes(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Bool(_)
        | Value::Null => Ok(()),
        _ => Err("is of a kind that zTensor 2 has not"),
    }
}

/// Returns whether a manifest can contain `layout`: one of the catalog's own names, `dense`, or a namespaced profile
/// with its version, `vendor.name/1` (§5.2).
pub fn is_layout(layout: &str) -> bool {
    let id = vocabulary::layout_id(layout);
    if vocabulary::profile(id).is_some() {
        return true;
    }
    let Some((name, version)) = id.rsplit_once('/') else { return false };
    let namespaced = name.split_once('.').is_some_and(|(space, rest)| !space.is_empty() && !rest.is_empty());
    // All registered names of these namespaces are known; any other is unassigned.
    let reserved = name.starts_with("zt.") || name.starts_with("gguf.");
    let versioned = version.parse::<u32>().is_ok_and(|number| number > 0) && !version.starts_with(['+', '0']);
    namespaced && versioned && !reserved && check_name(id, "the layout", false).is_ok()
}

/// Checks what is known of a tensor before its bytes are written.
pub fn check_announced(announced: &TensorHeader<'_>) -> Result<()> {
    let TensorHeader { name, layout, attributes, roles, canonical, .. } = *announced;
    check_name(name, "the name", canonical)?;
    if let Some(attributes) = attributes {
        check_attributes(&attributes.values()?, TENSOR_ATTRIBUTES, canonical)?;
    }
    if !is_layout(layout) {
        return Err(bad_layout(layout));
    }
    roles.iter().try_for_each(|role| check_name(role, "the component", canonical))
}

/// Returns the error for an invalid layout name.
fn bad_layout(layout: &str) -> Error {
    let message = format!(
        "zTensor 2 names layouts as \"vendor.name/1\" (zt. and gguf. are its own), so it cannot hold {:?}",
        short(layout, 80)
    );
    Error::new(Code::BadLayout, message).rule(rules::LAYOUTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_is_encoded() {
        let footer = footer(65536, b"\xa1\x67objects\xa0");
        assert_eq!(footer[..8], 65536_u64.to_le_bytes());
        assert_eq!(footer[24..], *b"\x02\0\0\0\0\0\0\0\x89ZT2\r\n\x1a\n");
        assert_eq!(DATA_SHARD_FOOTER[..24], [0; 24]);
        assert_eq!(DATA_SHARD_FOOTER[24..], footer[24..]);
    }

    #[test]
    fn layout_names_are_checked() {
        for good in ["dense", "sparse_csr", "zt.mx/1", "gguf.q4_k/1", "pie.paged_kv/12"] {
            assert!(is_layout(good), "{good}");
        }
        for bad in [
            "",
            "quantized_group",
            "zt.mx/2",
            "pie.x",
            "pie.x/0",
            "pie.x/01",
            "pie.x/+1",
            ".x/1",
            "pie./1",
            "pie/1",
            "gguf.f32/1",
        ] {
            assert!(!is_layout(bad), "{bad}");
        }
    }

    #[test]
    fn attributes_are_checked() {
        let nested = |levels: u32| {
            let value = (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
            vec![(Value::from("a"), value)]
        };
        assert!(check_attributes(&nested(30), FILE_ATTRIBUTES, true).is_ok());
        assert!(check_attributes(&nested(31), FILE_ATTRIBUTES, true).is_err());
        assert!(check_attributes(&nested(28), TENSOR_ATTRIBUTES, true).is_ok());
        assert!(check_attributes(&nested(29), TENSOR_ATTRIBUTES, true).is_err());
        let keyed = |key: &str| vec![(Value::from(key), Value::Null)];
        assert!(check_attributes(&keyed("e\u{301}"), 2, true).is_err());
        assert!(check_attributes(&keyed("e\u{301}"), 2, false).is_ok());
        assert!(check_attributes(&keyed(""), 2, false).is_err());
        assert!(check_attributes(&[keyed("a"), keyed("a")].concat(), 2, false).is_err());
        assert!(check_attributes(&[(Value::Null, Value::Null)], 2, false).is_err());
    }
}
