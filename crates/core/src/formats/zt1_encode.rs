//! Encodes a catalog as the manifest of zTensor 1.0 (§4) or 1.2 (§1).
#![forbid(unsafe_code)]

use super::write_format::Sink;
use super::zt_magic::MAGIC_1;
use super::zt1::recorded;
use ciborium::Value;

use crate::error::Result;
use crate::model::{Attributes, Catalog, Component, DType, Encoding, Tensor};
use crate::syntax::cbor_encode::Encoder;

/// The default generator: 1.0 requires one.
const GENERATOR: &str = "ztensor for Node";

/// How a version encodes a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelling {
    /// 1.0 §4.2 and §4.3.
    V10,
    /// 1.1 §II: no logical types, no decoded lengths.
    V11,
    /// 1.2 §1 and §2.
    V12,
}

/// The number of bytes of the index that are passed on at once.
const PIECE: usize = 64 << 10;

/// Encodes the manifest of a 1.0 file and its size. Passes the bytes on while it encodes: with many small tensors, the
/// manifest is larger than the data.
pub fn index_10(catalog: &Catalog, to: Sink<'_>) -> Result<()> {
    let mut passed = Passed { length: 0, to };
    let mut last = zt10(catalog, |encoder| passed.pass(encoder, PIECE))?;
    passed.end(&mut last, b"")
}

/// Like [`index_10`], for 1.2, with the magic at the end.
pub fn index_12(catalog: &Catalog, to: Sink<'_>) -> Result<()> {
    let mut passed = Passed { length: 0, to };
    let mut last = zt12(catalog, |encoder| passed.pass(encoder, PIECE))?;
    passed.end(&mut last, MAGIC_1)
}

/// Passes a manifest on, and counts its bytes.
struct Passed<'a> {
    length: u64,
    to: Sink<'a>,
}

impl Passed<'_> {
    /// Passes the encoded bytes on if there are at least `min`.
    fn pass(&mut self, encoder: &mut Encoder, min: usize) -> Result<()> {
        if encoder.bytes().len() >= min {
            self.length += encoder.bytes().len() as u64;
            (self.to)(encoder.bytes())?;
            encoder.taken();
        }
        Ok(())
    }

    fn end(mut self, last: &mut Encoder, footer: &[u8]) -> Result<()> {
        self.pass(last, 0)?;
        (self.to)(&self.length.to_le_bytes())?;
        (self.to)(footer)
    }
}

/// Encodes the manifest of a 1.0 file. `pass` may take the encoded bytes after each tensor. Generator and attributes
/// are always written, because the 1.0.1 reader requires them.
fn zt10(catalog: &Catalog, pass: impl FnMut(&mut Encoder) -> Result<()>) -> Result<Encoder> {
    let mut encoder = Encoder::default();
    encoder.map(4);
    encoder.text("version");
    encoder.text("1.0");
    encoder.text("generator");
    encoder.text(catalog.generator.as_deref().unwrap_or(GENERATOR));
    encoder.text("attributes");
    encoder.attributes(&catalog.attributes.values()?);
    encoder.text("tensors");
    tensors(&mut encoder, catalog, Spelling::V10, pass)?;
    Ok(encoder)
}

/// Encodes the manifest of a 1.2 file. `pass` may take the encoded bytes after each tensor.
fn zt12(catalog: &Catalog, pass: impl FnMut(&mut Encoder) -> Result<()>) -> Result<Encoder> {
    let mut encoder = Encoder::default();
    encoder.map(3);
    encoder.text("version");
    encoder.text("1.2.0");
    encoder.text("attributes");
    encoder.attributes(&catalog.attributes.values()?);
    encoder.text("objects");
    tensors(&mut encoder, catalog, Spelling::V12, pass)?;
    Ok(encoder)
}

fn tensors(
    encoder: &mut Encoder,
    catalog: &Catalog,
    spelling: Spelling,
    mut pass: impl FnMut(&mut Encoder) -> Result<()>,
) -> Result<()> {
    encoder.map(catalog.len());
    for tensor in catalog.iter() {
        encoder.text(tensor.name());
        entry(encoder, catalog, tensor, spelling)?;
        pass(encoder)?;
    }
    Ok(())
}

/// Writes the manifest entry of a tensor, without its name.
pub fn entry(encoder: &mut Encoder, catalog: &Catalog, tensor: Tensor<'_>, spelling: Spelling) -> Result<()> {
    let fields = if spelling == Spelling::V10 { 4 } else { 3 };
    let mut attributes = tensor.attributes().map(Attributes::values).transpose()?;
    if spelling == Spelling::V10
        && let Some(dtypes) = recorded::entry(catalog, tensor)
    {
        attributes.get_or_insert_default().to_mut().push(dtypes);
    }
    encoder.map(fields + usize::from(attributes.is_some()));
    if spelling == Spelling::V10 {
        encoder.text("dtype");
        // The writer made sure that a known layout has a dtype; extensions without one are stored as bytes.
        encoder.text(tensor.dtype().unwrap_or(DType::Uint8).name());
    }
    shape_and_format(encoder, tensor, attributes.as_deref());
    components(encoder, catalog, tensor, |component| match spelling {
        Spelling::V10 => Own::default(),
        // The writer has rejected dtypes without a storage type here.
        Spelling::V11 => Own {
            types: Some((component.dtype.and_then(primitive).unwrap_or("u8"), None)),
            decoded_length: None,
        },
        Spelling::V12 => Own {
            types: Some(component.dtype.and_then(types).unwrap_or(("u8", None))),
            decoded_length: component.byte_length().filter(|_| component.encoding() == Encoding::ZSTD),
        },
    });
    Ok(())
}

/// The fields of a component that only 1.1 and 1.2 have.
#[derive(Default)]
struct Own {
    /// The storage type and, if it differs, the logical type.
    types: Option<(&'static str, Option<&'static str>)>,
    decoded_length: Option<u64>,
}

fn shape_and_format(encoder: &mut Encoder, tensor: Tensor<'_>, attributes: Option<&[(Value, Value)]>) {
    encoder.text("shape");
    encoder.array(tensor.shape().len());
    for &dim in tensor.shape() {
        encoder.uint(dim);
    }
    encoder.text("format");
    encoder.text(tensor.layout_name());
    if let Some(attributes) = attributes {
        encoder.text("attributes");
        encoder.attributes(attributes);
    }
}

fn components(encoder: &mut Encoder, catalog: &Catalog, tensor: Tensor<'_>, own: impl Fn(&Component) -> Own) {
    encoder.text("components");
    encoder.map(tensor.components().len());
    for component in tensor.components() {
        encoder.text(catalog.label(component.role));
        let Own { types, decoded_length } = own(component);
        let logical = types.and_then(|(_, logical)| logical);
        let zstd = component.encoding() == Encoding::ZSTD;
        let optional = [
            types.is_some(),
            logical.is_some(),
            decoded_length.is_some(),
            zstd,
            component.digest().is_some(),
        ];
        encoder.map(2 + optional.into_iter().filter(|&present| present).count());
        if let Some((storage, _)) = types {
            encoder.text("dtype");
            encoder.text(storage);
        }
        if let Some(logical) = logical {
            encoder.text("type");
            encoder.text(logical);
        }
        encoder.text("offset");
        encoder.uint(component.offset());
        encoder.text("length");
        encoder.uint(component.stored_length());
        if let Some(length) = decoded_length {
            encoder.text("uncompressed_length");
            encoder.uint(length);
        }
        if zstd {
            encoder.text("encoding");
            encoder.text("zstd");
        }
        if let Some(digest) = &component.digest() {
            encoder.text("digest");
            encoder.text(&digest.text());
        }
    }
}

/// Returns the storage type of a dtype (1.2 §2) and, if it differs, the logical type; `None` if 1.2 does not support
/// the dtype.
pub fn types(dtype: DType) -> Option<(&'static str, Option<&'static str>)> {
    Some(match dtype {
        DType::Float64 => ("f64", None),
        DType::Float32 => ("f32", None),
        DType::Float16 => ("f16", None),
        DType::BFloat16 => ("bf16", None),
        DType::Int64 => ("i64", None),
        DType::Int32 => ("i32", None),
        DType::Int16 => ("i16", None),
        DType::Int8 => ("i8", None),
        DType::Uint64 => ("u64", None),
        DType::Uint32 => ("u32", None),
        DType::Uint16 => ("u16", None),
        DType::Uint8 => ("u8", None),
        DType::Bool => ("bool", None),
        DType::Float8E4M3Fn => ("u8", Some("f8_e4m3fn")),
        DType::Float8E5M2 => ("u8", Some("f8_e5m2")),
        DType::Float8E4M3Fnuz => ("u8", Some("f8_e4m3fnuz")),
        DType::Float8E5M2Fnuz => ("u8", Some("f8_e5m2fnuz")),
        DType::Complex64 => ("f32", Some("complex64")),
        DType::Complex128 => ("f64", Some("complex128")),
        _ => return None,
    })
}

/// Returns the type of a dtype (1.1 §II.4); `None` if 1.1 does not support the dtype.
pub fn primitive(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Float8E4M3Fn => Some("f8_e4m3"),
        DType::Float8E5M2 => Some("f8_e5m2"),
        DType::Complex64 => Some("complex64"),
        DType::Complex128 => Some("complex128"),
        _ => types(dtype).and_then(|(storage, logical)| logical.is_none().then_some(storage)),
    }
}
