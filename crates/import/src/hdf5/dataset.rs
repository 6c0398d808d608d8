//! Converts datasets to tensors.
#![forbid(unsafe_code)]

use std::sync::Arc;

use ciborium::Value;
use hdf5_reader::messages::{dataspace, external_files, fill_value};
use ztensor_core::checked::{MAX_EXACT, end_within, index, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{
    Attributes, Blob, Builder, ByteOrder, Chunk, Chunks, Component, DType, Data, Filter, Grid, Label,
};

use super::attribute::{self, Left};
use super::chunks::{Run, Table, Unwritten};
use super::datatypes::{Type, TypeClass};
use super::filters::{self, Filters};
use super::layout::{Chunked, Layout};
use super::reader::{Object, Problems, Reader, message};
use super::storage::Read;
use super::storage::bad;
use crate::damage::warning_of;
use crate::limits::HDF5_TEXT_BYTES;

/// The result of reading a dataset.
pub enum Dataset {
    Tensor(Box<Tensor>),
    /// Strings, or neither elements nor a shape.
    Plain(Value),
}

pub struct Tensor {
    pub shape: Vec<u64>,
    pub component: Component,
    pub attributes: Option<Attributes>,
    /// Warnings for users: a code and a message.
    pub warnings: Vec<(&'static str, String)>,
}

/// Returns whether an object is a dataset.
pub fn is(object: &Object) -> bool {
    object.get(message::LAYOUT).is_some() || object.get(message::DATASPACE).is_some()
}

/// The state between reading the messages of a dataset and locating its elements.
struct Elements<'o, 's> {
    reader: &'o Reader<'s>,
    object: &'o Object,
    /// The stored element type, including arrays.
    stored: Type,
    /// The current and maximum dimensions of the dataset.
    dims: Vec<u64>,
    max: Option<Vec<u64>>,
    /// The shape including the dimensions of arrays in elements.
    shape: Vec<u64>,
    /// The dimensions of arrays in elements.
    own: Vec<u64>,
    /// Bytes of an element of `shape`.
    width: u64,
    bytes: u64,
}

/// Reads a dataset. `source` reads the file itself. Fails if the dataset cannot be listed; other errors are added to the problems.
pub fn read(
    reader: &Reader<'_>,
    builder: &mut Builder,
    object: &Object,
    source: Read<'_>,
    left: &mut Left,
    problems: &mut Problems,
) -> Result<Dataset> {
    let missing = |what: &str| bad(format!("a dataset has no {what}"));
    let space = object.get(message::DATASPACE).ok_or_else(|| missing("shape"))?;
    let space = reader.parse(space, "a dataset's shape", dataspace::parse)?;
    let Some(dims) = attribute::shape(&space) else { return Ok(Dataset::Plain(Value::Null)) };
    let mut shape = Vec::new();
    dims.iter().try_for_each(|&dim| builder.limits().push_dim(&mut shape, dim))?;

    let stored = object.get(message::DATATYPE).ok_or_else(|| missing("type"))?;
    let stored = reader.parse(stored, "a dataset's type", |_, _, _, _| Type::parse(stored))?;
    let (own, mut kind) = stored.clone().flat();
    own.iter().try_for_each(|&dim| builder.limits().push_dim(&mut shape, dim))?;

    let mut warnings = Vec::new();
    let attributes = attributes(reader, object, left, &mut warnings, problems)?;
    // Keras records the dtype of byte arrays in an attribute.
    let named = attributes.iter().find(|(key, _)| *key == Value::from("dtype")).map(|(_, value)| value);
    if (&kind.kind, kind.size) == (&TypeClass::Opaque, 2) && named == Some(&Value::from("bfloat16")) {
        kind.kind = TypeClass::Number(DType::BFloat16, ByteOrder::Little);
    }
    let bytes = product(&shape).and_then(|count| count.checked_mul(kind.size));
    let bytes = bytes.filter(|&bytes| bytes <= MAX_EXACT).ok_or_else(|| {
        Error::new(Code::Limit, format!("the shape {shape:?} has more than 2^53 - 1 bytes")).of_item()
    })?;
    let elements = Elements {
        reader,
        object,
        dims: dims.to_vec(),
        max: space.max_dims.clone(),
        own,
        width: kind.size,
        stored,
        bytes,
        shape,
    };

    let layout = object.get(message::LAYOUT).ok_or_else(|| missing("layout")).and_then(|layout| {
        reader.parse(layout, "a dataset's layout", |_, _, _, _| Layout::parse(layout, reader.sizes))
    });
    let layout = match layout {
        Err(error) if error.code() != Code::UnsupportedEncoding && reader.bytes.is_of_item(&error) => {
            Err(error)
        }
        layout => Ok(layout?),
    };
    if matches!(kind.kind, TypeClass::Text | TypeClass::Texts)
        && let Ok(layout) = &layout
    {
        let texts = elements.texts(layout, &kind, left);
        if let Some(texts) = reader.recover(texts, problems)?.flatten() {
            return Ok(Dataset::Plain(texts));
        }
    }
    let (dtype, order) = match kind.kind {
        TypeClass::Number(dtype, order) => (Some(dtype), order),
        other => {
            warnings.push(("ZT_WARN_UNKNOWN_TYPE", unknown(&other)));
            (None, ByteOrder::Little)
        }
    };
    let data = layout
        .and_then(|layout| elements.data(builder, layout, order, source, &mut warnings, problems))
        .or_else(|error| elements.refused(builder, error, &mut warnings))?;
    let order = if matches!(data, Data::Inline(_)) { ByteOrder::Little } else { order };
    let component = Component { byte_order: order, ..Component::new(Label::DATA, dtype, data) };
    let attributes = (!attributes.is_empty()).then(|| Attributes::from(attributes));
    Ok(Dataset::Tensor(Box::new(Tensor { shape: elements.shape, component, attributes, warnings })))
}

/// Returns attributes with values, by name, and emits a warning for the others.
pub fn attributes(
    reader: &Reader<'_>,
    object: &Object,
    left: &mut Left,
    warnings: &mut Vec<(&'static str, String)>,
    problems: &mut Problems,
) -> Result<Vec<(Value, Value)>> {
    let mut found = Vec::new();
    for attribute in attribute::all(reader, object, left, problems)? {
        if let Some(value) = attribute.value {
            found.push((Value::Text(attribute.name), value));
        } else {
            let message = format!("the attribute {:?} is not a plain value, or is too large", attribute.name);
            warnings.push(("ZT_WARN_SKIPPED", message));
        }
    }
    Ok(found)
}

fn unknown(kind: &TypeClass) -> String {
    let what = match kind {
        TypeClass::Text | TypeClass::Texts => "a string",
        TypeClass::Opaque => "opaque bytes (2-byte elements may be bfloat16)",
        TypeClass::Other(what) => what,
        _ => "an array",
    };
    format!("an element is {what}, which has no dtype here; the bytes can be read")
}

impl Elements<'_, '_> {
    /// Locates the elements.
    fn data(
        &self,
        builder: &mut Builder,
        layout: Layout,
        order: ByteOrder,
        source: Read<'_>,
        warnings: &mut Vec<(&'static str, String)>,
        problems: &mut Problems,
    ) -> Result<Data> {
        if let Some(files) = self.object.get(message::EXTERNAL_FILES) {
            self.reader.parse(files, "a dataset's files", external_files::parse)?;
            return Ok(self.elsewhere(builder, "external", "in other files", warnings));
        }
        match layout {
            Layout::Virtual => Ok(self.elsewhere(builder, "virtual", "in other datasets", warnings)),
            _ if self.bytes == 0 => Ok(Data::Blob(Blob::raw(0, 0))),
            Layout::Compact(bytes) => {
                let bytes = bytes.get(..index(self.bytes, "a dataset")?).map(<[u8]>::to_vec);
                let mut bytes = bytes.ok_or_else(|| self.too_short())?;
                if order == ByteOrder::Big {
                    // A complex number has two parts, each with its own byte order.
                    let width = if self.is_complex() { self.width / 2 } else { self.width };
                    bytes.chunks_exact_mut(index(width.max(1), "an element")?).for_each(<[u8]>::reverse);
                }
                Ok(Data::Inline(bytes.into()))
            }
            Layout::Contiguous { address, .. } if !self.reader.is_defined(address) => {
                self.grid(Blob::raw(0, 0), self.shape.clone(), Box::new(Unwritten))
            }
            Layout::Contiguous { address, length } => {
                let range = self.reader.bytes.range();
                let offset = self.reader.bytes.offset(address);
                let is_short = length.is_some_and(|length| length < self.bytes);
                let is_there = !is_short && end_within(address, self.bytes, range.length).is_some();
                match &self.reader.held {
                    Some(held) if is_there => {
                        let encoding = builder.intern(held.encoding);
                        let encoding = builder.encoding(&[Filter::named(encoding)], true);
                        let blob = Blob { encoding, ..Blob::raw(held.offset, 0) };
                        let chunk = Chunk { offset, stored: self.bytes, skipped: 1 };
                        let run = Run { bytes: Arc::clone(&held.bytes), chunk };
                        self.grid(blob, self.shape.clone(), Box::new(run))
                    }
                    None if is_there => Ok(Data::Blob(Blob::raw(offset, self.bytes))),
                    Some(_) => Err(self.too_short().at(offset)),
                    None => {
                        let end = length.map_or(u64::MAX, |length| offset.saturating_add(length));
                        let end = end.min(range.base.saturating_add(range.length));
                        warnings.push((warning_of(Code::Truncated), self.too_short().message().to_owned()));
                        Ok(Data::short_slice(0, &self.shape, self.width, offset, end))
                    }
                }
            }
            Layout::Chunked(chunked) => self.chunks(builder, chunked, source, warnings, problems),
        }
    }

    /// Returns data that cannot be located. Unknown features do not count as damage.
    fn refused(
        &self,
        builder: &mut Builder,
        error: Error,
        warnings: &mut Vec<(&'static str, String)>,
    ) -> Result<Data> {
        if !self.reader.bytes.is_of_item(&error) {
            return Err(error);
        }
        let message = format!("its data cannot be read: {}", error.message());
        if matches!(error.code(), Code::UnsupportedVersion | Code::UnsupportedEncoding) {
            warnings.push(("ZT_WARN_UNKNOWN_ENCODING", message));
            let encoding = builder.unknown_encoding("hdf5.unknown");
            return Ok(Data::Blob(Blob { encoding, decoded: Some(self.bytes), ..Blob::raw(0, 0) }));
        }
        warnings.push((warning_of(error.code()), message));
        Ok(Data::refused(0, &self.shape, self.width, error))
    }

    fn is_complex(&self) -> bool {
        let (_, kind) = self.stored.clone().flat();
        matches!(kind.kind, TypeClass::Number(DType::Complex64 | DType::Complex128, _))
    }

    fn too_short(&self) -> Error {
        let message = format!("the shape {:?} needs {} bytes, but fewer are stored", self.shape, self.bytes);
        Error::new(Code::Truncated, message)
    }

    fn chunks(
        &self,
        builder: &mut Builder,
        layout: Chunked,
        source: Read<'_>,
        warnings: &mut Vec<(&'static str, String)>,
        problems: &mut Problems,
    ) -> Result<Data> {
        let Filters { encoding, count, unknown } = filters::read(self.reader, builder, self.object)?;
        if layout.dims.len() != self.dims.len() || layout.dims.contains(&0) {
            let message = format!("chunks of {:?} in a dataset of {:?}", layout.dims, self.dims);
            return Err(bad(message));
        }
        if let Some(name) = &unknown {
            let message =
                format!("its chunks went through the filter {name:?}, which cannot be reversed here");
            warnings.push(("ZT_WARN_UNKNOWN_ENCODING", message));
        }
        let chunk: Vec<u64> =
            layout.dims.iter().map(|&dim| dim.into()).chain(self.own.iter().copied()).collect();
        let bytes = product(&chunk).and_then(|count| count.checked_mul(self.width));
        // A chunk is smaller than 4 GiB.
        let bytes = bytes.filter(|&bytes| u32::try_from(bytes).is_ok());
        let bytes = bytes.ok_or_else(|| bad("a chunk has 4 GiB or more"))?;
        if !self.reader.is_defined(layout.address) {
            let blob = Blob { encoding, ..Blob::raw(0, 0) };
            return self.grid(blob, chunk, Box::new(Unwritten));
        }
        let shapes = (self.dims.clone(), self.max.clone());
        let held = self.reader.held.clone();
        let table =
            Table::new(self.reader.bytes.range(), self.reader.sizes, layout, shapes, (bytes, count), held)?;
        let span = table.span(source)?;
        match span.problem {
            // The chunks are never decoded, so verification would not find this damage by reading.
            Some(error) if unknown.is_some() => problems.push(error),
            Some(error) => {
                let message = format!("some of its data cannot be read: {}", error.message());
                warnings.push((warning_of(error.code()), message));
            }
            None => {}
        }
        let (offset, stored) = match &self.reader.held {
            Some(held) => (held.offset, 0),
            None => (span.offset, span.stored),
        };
        let blob = Blob { file: 0, encoding, offset, stored, decoded: None, digest: None };
        self.grid(blob, chunk, Box::new(table))
    }

    fn grid(&self, blob: Blob, chunk: Vec<u64>, chunks: Box<dyn Chunks>) -> Result<Data> {
        let chunk = chunk.into_iter().map(|dim| dim.max(1)).collect();
        let fill = self.fill()?;
        let blob = Blob { decoded: None, ..blob };
        let shape = self.shape.clone().into();
        Ok(Data::Grid(blob, Arc::new(Grid { shape, chunk, width: self.width, fill, chunks })))
    }

    /// Returns the fill value as elements are stored. Empty means zeros, because the file may claim elements of 4 GiB.
    fn fill(&self) -> Result<Box<[u8]>> {
        let what = "a fill value";
        let value = match (self.object.get(message::FILL_VALUE), self.object.get(message::FILL_VALUE_OLD)) {
            (Some(bytes), _) => self.reader.parse(bytes, what, fill_value::parse_new)?.value,
            (None, Some(bytes)) => self.reader.parse(bytes, what, fill_value::parse_old)?.value,
            (None, None) => None,
        };
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(Box::default()) };
        if value.len() as u64 != self.stored.size {
            return Err(bad(format!(
                "a fill value has {} bytes, an element {}",
                value.len(),
                self.stored.size
            )));
        }
        let width = index(self.width, "an element")?;
        let (first, rest) = value.split_at(width.min(value.len()));
        if rest.chunks(width).any(|other| other != first) {
            let message = "a fill value is an array of different numbers, which is not read here";
            return Err(Error::new(Code::UnsupportedEncoding, message));
        }
        Ok(first.into())
    }

    /// Returns data that is never opened.
    fn elsewhere(
        &self,
        builder: &mut Builder,
        name: &str,
        location: &str,
        warnings: &mut Vec<(&'static str, String)>,
    ) -> Data {
        let message = format!("its elements are stored {location}, which are never opened");
        warnings.push(("ZT_WARN_UNKNOWN_ENCODING", message));
        let encoding = builder.unknown_encoding(&format!("hdf5.{name}"));
        Data::Blob(Blob { encoding, decoded: Some(self.bytes), ..Blob::raw(0, 0) })
    }

    /// Returns strings stored contiguously, if they are few.
    fn texts(&self, layout: &Layout, kind: &Type, left: &mut Left) -> Result<Option<Value>> {
        if self.bytes > HDF5_TEXT_BYTES || self.object.get(message::EXTERNAL_FILES).is_some() {
            return Ok(None);
        }
        let bytes = match layout {
            Layout::Compact(bytes) => bytes.clone(),
            Layout::Contiguous { address, .. } if self.bytes > 0 && self.reader.is_defined(*address) => {
                self.reader.bytes.at(*address, self.bytes)?
            }
            _ => return Ok(None),
        };
        attribute::value(self.reader, kind.clone(), &self.shape, &bytes, left)
    }
}
