//! zTensor 0.1: `ZTEN0001`, blobs, a CBOR array with one map per tensor, and its size in the last 8 bytes.
//!
//! There are two conventions for sparse tensors, and the specification describes neither completely. The Rust crate
//! writes `sparsecsr` and `sparsecoo` with all arrays in one blob ([`single_blob`]). The specification's `sparse` with
//! a `sparse_format` stores the index arrays as CBOR arrays and the values as a blob or, if there are no such arrays,
//! everything in one blob.
#![forbid(unsafe_code)]

use ciborium::Value;

use super::zt_magic::CONTAINER;
use super::zt_trailer::{self, placed};
use super::zt1::tensor_dtype;
use super::{overlap, single_blob};
use crate::checked::exact;
use crate::codecs::digest::{Digest, Expected};
use crate::error::{Code, Error, Result};
use crate::formats::Input;
use crate::layouts;
use crate::limits::Limits;
use crate::model::{
    Blob, Builder, ByteOrder, Catalog, Component, Counted, DType, Data, Encoding, Entries, Label, Layout,
    NewTensor, View,
};
use crate::syntax::cbor::Reader;

const INDEX_RULE: &str = "zTensor 0.1 Index Reading";
const TENSOR_RULE: &str = "zTensor 0.1 Tensor Metadata";
const SPARSE_RULE: &str = "zTensor 0.1 Layouts";
const ALIGNMENT: u64 = 64;

/// Reads the metadata array of a 0.1 file.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let index = zt_trailer::read(input, 8, INDEX_RULE)?;
    parse_index(&index.bytes, index.offset, input.length(), input.limits)
}

/// Returns the catalog of the metadata array `bytes`, at `offset` in a file of `total` bytes.
pub fn parse_index(bytes: &[u8], offset: u64, total: u64, limits: &Limits) -> Result<Catalog> {
    let mut builder = Builder::new(CONTAINER, limits);
    builder.set_version("0.1");
    let mut reader = Reader::new(bytes, offset, limits.max_attribute_values);
    reader.self_described().map_err(|error| error.rule(TENSOR_RULE))?;
    reader
        .array("the metadata", |reader| {
            let fields = Fields::read(reader, limits)?;
            let name = fields.name.clone();
            fields.add(&mut builder, offset, total).map_err(|error| error.tensor(&name).rule(TENSOR_RULE))
        })
        .and_then(|()| reader.end())
        .map_err(|error| error.rule(TENSOR_RULE))?;
    overlap::warn(&mut builder);
    Ok(builder.finish())
}

/// The map of a tensor.
struct Fields {
    name: String,
    shape: Vec<u64>,
    dtype: DType,
    offset: u64,
    size: u64,
    encoding: String,
    layout: String,
    byte_order: ByteOrder,
    checksum: Option<String>,
    custom: Entries,
}

impl Fields {
    fn read(reader: &mut Reader<'_>, limits: &Limits) -> Result<Self> {
        let start = reader.clone();
        let (mut name, mut shape, mut dtype, mut offset, mut size) = (None, None, None, None, None);
        let (mut encoding, mut layout, mut checksum) = (None, None, None);
        let mut byte_order = ByteOrder::Little;
        let mut custom = Entries::new();
        let read = reader.fields("a tensor's metadata", |reader, key| {
            match key {
                "name" => name = Some(reader.text("name")?.into_owned()),
                "shape" => shape = Some(read_shape(reader, limits)?),
                "dtype" => dtype = Some(reader.text("dtype")?.into_owned()),
                "offset" => offset = Some(reader.uint("offset")?),
                "size" => size = Some(exact(reader.uint("size")?, "size")?),
                "encoding" => encoding = Some(reader.text("encoding")?.into_owned()),
                "layout" => layout = Some(reader.text("layout")?.into_owned()),
                "data_endianness" | "checksum" if reader.null() => {}
                "checksum" => checksum = Some(reader.text("checksum")?.into_owned()),
                "data_endianness" => byte_order = read_byte_order(&reader.text("data_endianness")?)?,
                _ => custom.push((Value::Text(key.to_owned()), reader.value()?)),
            }
            Ok(())
        });
        let named = |error: Error| match name.clone().or_else(|| find_name(start.clone())) {
            Some(name) => error.tensor(&name),
            None => error,
        };
        read.map_err(named)?;
        let missing = |key: &str| named(Error::new(Code::BadIndex, format!("the metadata has no {key:?}")));
        let dtype = dtype.ok_or_else(|| missing("dtype"))?;
        Ok(Self {
            shape: shape.ok_or_else(|| missing("shape"))?,
            dtype: tensor_dtype(&dtype).map_err(named)?,
            offset: offset.ok_or_else(|| missing("offset"))?,
            size: size.ok_or_else(|| missing("size"))?,
            encoding: encoding.ok_or_else(|| missing("encoding"))?,
            layout: layout.unwrap_or_else(|| "dense".to_owned()),
            byte_order,
            checksum,
            custom,
            name: name.ok_or_else(|| Error::new(Code::BadIndex, "the metadata has no \"name\""))?,
        })
    }

    fn add(mut self, builder: &mut Builder, index: u64, total: u64) -> Result<()> {
        placed(self.offset, self.size, index, total, "zTensor 0.1 File Layout")?;
        let name = self.name.clone();
        if !self.offset.is_multiple_of(ALIGNMENT) && self.size > 0 {
            let message = format!(
                "offset {} is no multiple of {ALIGNMENT}; reading works, SIMD code may be slower",
                self.offset
            );
            builder.warn("ZT_WARN_UNALIGNED", message, Some(&name), None);
        }
        let blob = self.blob(builder)?;
        let (layout, components) = self.components(builder, blob)?;
        let shape = std::mem::take(&mut self.shape);
        let attributes = Some(std::mem::take(&mut self.custom).into());
        let mut tensor =
            NewTensor { name: &name, shape: &shape, layout, dtype: Some(self.dtype), components, attributes };
        layouts::check(&mut tensor).map_err(|error| error.rule(TENSOR_RULE))?;
        builder.add_tensor(tensor)
    }

    /// Returns the only blob of the tensor, as a component with its values.
    fn blob(&self, builder: &mut Builder) -> Result<Component> {
        let encoding = match self.encoding.as_str() {
            "raw" => Encoding::RAW,
            "zstd" => Encoding::ZSTD,
            other => {
                let message = format!("the encoding {other:?} is not known here; the data cannot be decoded");
                builder.warn("ZT_WARN_UNKNOWN_ENCODING", message, Some(&self.name), None);
                builder.unknown_encoding(other)
            }
        };
        let decoded = (encoding == Encoding::RAW).then_some(self.size);
        let mut digest = None;
        if let Some(text) = &self.checksum {
            let parsed = Digest::parse(text)?;
            if parsed.expected == Expected::Unknown {
                let message =
                    format!("the checksum {text:?} is of an algorithm not known here and is never checked");
                builder.warn("ZT_WARN_UNKNOWN_DIGEST", message, Some(&self.name), None);
            }
            digest = Some(parsed);
        }
        let data = Blob { file: 0, encoding, offset: self.offset, stored: self.size, decoded, digest };
        let mut blob = Component::new(Label::DATA, Some(self.dtype), Data::Blob(data));
        // The specification defines `data_endianness` for raw data only, and the 0.1.4 crate swaps nothing else.
        blob.byte_order = if self.encoding == "raw" { self.byte_order } else { ByteOrder::Little };
        Ok(blob)
    }

    fn components(&mut self, builder: &mut Builder, blob: Component) -> Result<(Layout, Vec<Component>)> {
        let sparse = match self.layout.as_str() {
            "dense" => return Ok((Layout::Dense, vec![blob])),
            "sparsecsr" | "sparse_csr" => Some(Layout::SparseCsr),
            "sparsecoo" | "sparse_coo" => Some(Layout::SparseCoo),
            "sparse" => self.sparse_format()?,
            _ => None,
        };
        match sparse {
            Some(Layout::SparseCsr) => {
                let arrays =
                    (self.take_array("indices", Label::INDICES)?, self.take_array("indptr", Label::INDPTR)?);
                match arrays {
                    (None, None) => Ok((Layout::SparseCsr, self.packed_csr(&blob)?)),
                    (Some(indices), Some(indptr)) => {
                        Ok((Layout::SparseCsr, vec![values(blob), indices, indptr]))
                    }
                    (Some(_), None) => Err(missing_array("indptr")),
                    (None, Some(_)) => Err(missing_array("indices")),
                }
            }
            Some(_) => match self.take_coords()? {
                Some(coords) => Ok((Layout::SparseCoo, vec![values(blob), coords])),
                None => Ok((Layout::SparseCoo, self.packed_coo(&blob)?)),
            },
            None => {
                let layout = Layout::from_label(builder.intern(&self.layout));
                let message =
                    format!("the layout {:?} is not known here; its data is readable as bytes", self.layout);
                builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(&self.name), None);
                Ok((layout, vec![Component { dtype: None, ..blob }]))
            }
        }
    }

    /// Returns the layout of `sparse_format`, and removes the field from the custom fields if the layout is known.
    fn sparse_format(&mut self) -> Result<Option<Layout>> {
        let Some(at) = self.custom_at("sparse_format") else {
            return Err(
                Error::new(Code::BadIndex, "a sparse tensor needs a \"sparse_format\"").rule(SPARSE_RULE)
            );
        };
        let layout = match self.custom[at].1.as_text() {
            Some("csr") => Layout::SparseCsr,
            Some("coo") => Layout::SparseCoo,
            _ => return Ok(None),
        };
        self.custom.remove(at);
        Ok(Some(layout))
    }

    fn custom_at(&self, key: &str) -> Option<usize> {
        self.custom.iter().position(|(name, _)| name.as_text() == Some(key))
    }

    fn take_array(&mut self, key: &str, role: Label) -> Result<Option<Component>> {
        let Some(at) = self.custom_at(key) else { return Ok(None) };
        let (_, value) = self.custom.remove(at);
        let elements =
            value.as_array().and_then(|items| items.iter().map(unsigned).collect::<Option<Vec<_>>>());
        let elements = elements.ok_or_else(|| no_array(key))?;
        Ok(Some(inline(role, &elements)))
    }

    /// Returns the coordinates. A flat array is dimension-major, as in 1.0. Nested arrays hold one tuple per entry, as
    /// in the 0.1 crate, or, if only that matches the rank, one array per dimension.
    fn take_coords(&mut self) -> Result<Option<Component>> {
        let Some((key, at)) =
            ["coords", "indices"].into_iter().find_map(|key| self.custom_at(key).map(|at| (key, at)))
        else {
            return Ok(None);
        };
        let (_, value) = self.custom.remove(at);
        let items = value.as_array().ok_or_else(|| no_array(key))?;
        if let Some(flat) = items.iter().map(unsigned).collect::<Option<Vec<_>>>() {
            return Ok(Some(inline(Label::COORDS, &flat)));
        }
        let nested =
            items.iter().map(|item| item.as_array()?.iter().map(unsigned).collect::<Option<Vec<_>>>());
        let nested = nested.collect::<Option<Vec<_>>>().ok_or_else(|| no_array(key))?;
        let rank = self.shape.len();
        if nested.iter().all(|tuple| tuple.len() == rank) {
            let flat: Vec<u64> =
                (0..rank).flat_map(|dim| nested.iter().map(move |tuple| tuple[dim])).collect();
            return Ok(Some(inline(Label::COORDS, &flat)));
        }
        if nested.len() == rank {
            return Ok(Some(inline(Label::COORDS, &nested.concat())));
        }
        let message = format!("{key} must be flat, or hold tuples of {rank} coordinates, or {rank} arrays");
        Err(Error::new(Code::BadSparse, message).component("coords").rule(SPARSE_RULE))
    }

    fn packed_csr(&self, blob: &Component) -> Result<Vec<Component>> {
        let &[rows, _] = self.shape.as_slice() else {
            let message =
                format!("sparse_csr has 2 dimensions, the shape {:?} has {}", self.shape, self.shape.len());
            return Err(Error::new(Code::BadLayout, message).rule(SPARSE_RULE));
        };
        let [values, indices, indptr] = single_blob::csr(rows, u64::from(self.dtype.bits() / 8))?;
        Ok(vec![
            part(blob, Label::VALUES, self.dtype, values)?,
            part(blob, Label::INDICES, DType::Uint64, indices)?,
            part(blob, Label::INDPTR, DType::Uint64, indptr)?,
        ])
    }

    fn packed_coo(&self, blob: &Component) -> Result<Vec<Component>> {
        let rank = self.shape.len() as u64;
        let [values, coords] = single_blob::coo(rank, u64::from(self.dtype.bits() / 8));
        Ok(vec![
            part(blob, Label::VALUES, self.dtype, values)?,
            part(blob, Label::COORDS, DType::Uint64, coords)?,
        ])
    }
}

/// Returns the name of a tensor whose map could not be read.
fn find_name(mut reader: Reader<'_>) -> Option<String> {
    let mut name = None;
    let walked = reader.fields("a tensor's metadata", |reader, key| {
        if key == "name" {
            name = Some(reader.text("name")?.into_owned());
            return Ok(());
        }
        reader.skip()
    });
    drop(walked);
    name
}

fn read_shape(reader: &mut Reader<'_>, limits: &Limits) -> Result<Vec<u64>> {
    let mut shape = Vec::new();
    reader.array("shape", |reader| limits.push_dim(&mut shape, reader.uint("a dimension")?))?;
    Ok(shape)
}

fn read_byte_order(text: &str) -> Result<ByteOrder> {
    match text {
        "little" => Ok(ByteOrder::Little),
        "big" => Ok(ByteOrder::Big),
        _ => Err(Error::new(
            Code::BadIndex,
            format!("data_endianness must be \"little\" or \"big\", not {text:?}"),
        )),
    }
}

fn values(blob: Component) -> Component {
    Component { role: Label::VALUES, ..blob }
}

/// Returns one array of the shared blob.
fn part(blob: &Component, role: Label, dtype: DType, counted: Counted) -> Result<Component> {
    let view = if blob.is_raw_blob() {
        counted.view(blob.stored_length()).map_err(|error| error.rule(SPARSE_RULE))?
    } else {
        View::Counted(Box::new(counted))
    };
    Ok(Component { role, dtype: Some(dtype), view, ..blob.clone() })
}

fn inline(role: Label, elements: &[u64]) -> Component {
    let bytes = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
    Component::inline(role, Some(DType::Uint64), bytes)
}

fn unsigned(value: &Value) -> Option<u64> {
    value.as_integer()?.try_into().ok()
}

fn missing_array(key: &'static str) -> Error {
    Error::new(Code::BadLayout, format!("index arrays come together, {key:?} is missing"))
        .component(key)
        .rule(SPARSE_RULE)
}

fn no_array(key: &str) -> Error {
    Error::new(Code::BadIndex, format!("{key} must be an array of unsigned integers"))
        .component(key)
        .rule(SPARSE_RULE)
}
