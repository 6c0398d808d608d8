//! The common parts of zTensor 1.0 and 1.1-1.2: the root of the manifest, version negotiation (1.0 §6.1) and the
//! location of components.
#![forbid(unsafe_code)]

mod dtypes;
pub mod recorded;
mod repeats;

use std::borrow::Cow;

pub use self::dtypes::tensor_dtype;
use self::dtypes::{component_dtype, logical_dtype};
use self::repeats::{Again, Known};
use super::attributes::of_cbor;
use super::overlap;
use super::zt_magic::CONTAINER;
use super::zt_trailer::placed;
use crate::checked::exact;
use crate::codecs::digest::{Digest, Expected};
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::limits::{self, Limits};
use crate::model::{
    Attributes, Blob, Builder, Catalog, Component, DType, Data, Encoding, Label, Layout, NewTensor,
};
use crate::syntax::Seen;
use crate::syntax::cbor::Reader;
use crate::syntax::repeats::{Draft, Spellings};

/// Blobs start at multiples of this (1.0 §2, 1.2 §4).
const ALIGNMENT: u64 = 64;
/// The typical size in bytes of a dense tensor's entry, to estimate the number of tensors.
const ENTRY_BYTES: usize = 128;

/// How one generation encodes the manifest.
pub struct Generation {
    /// The root key of the tensors.
    pub tensors: &'static str,
    /// A root key that identifies a truncated file of the other generation.
    pub foreign: Option<&'static str>,
    /// The newest minor version of major version 1 that the rules of this generation cover.
    pub newest_minor: u64,
    /// Where dtypes are recorded.
    pub dtypes: Dtypes,
    pub root_rule: &'static str,
    pub tensor_rule: &'static str,
    pub component_rule: &'static str,
    pub bounds_rule: &'static str,
    pub version_rule: &'static str,
}

/// Where the manifest records dtypes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dtypes {
    /// One for the tensor; index arrays are uint64 (1.0 §4.2, §5).
    OfTensor,
    /// One for each component, with an optional logical type (1.2 §2).
    OfComponents,
}

/// Returns the catalog of the manifest `bytes` at `offset`. `total` is the size of the file, for bounds checks.
pub fn parse(
    bytes: &[u8],
    offset: u64,
    total: u64,
    generation: &Generation,
    limits: &Limits,
) -> Result<Catalog> {
    parse_root(bytes, offset, total, generation, limits).map_err(|error| {
        // Another major version may have a different encoding, so its version number takes precedence over the error.
        let version = find_version(bytes);
        version
            .and_then(|text| negotiate(&text, generation).err())
            .filter(|e| e.code() == Code::UnsupportedVersion)
            .unwrap_or(error)
    })
}

fn parse_root(
    bytes: &[u8],
    offset: u64,
    total: u64,
    generation: &Generation,
    limits: &Limits,
) -> Result<Catalog> {
    let mut builder = Builder::new(CONTAINER, limits);
    builder.reserve(bytes.len() / ENTRY_BYTES);
    let mut reader = Reader::new(bytes, offset, limits.max_attribute_values);
    let mut version: Option<String> = None;
    let mut has_tensors = false;
    let mut parser = Parser {
        index: offset,
        total,
        generation,
        builder: &mut builder,
        shape: Vec::new(),
        fields: Vec::new(),
        draft: Draft::default(),
        known: Spellings::default(),
    };
    // The readers of 1.0.1 and 1.2.3 skip tags anywhere, so they miss the meaning of those that have one.
    reader.self_described().map_err(|error| error.rule(generation.root_rule))?;
    reader
        .fields("the manifest", |reader, key| {
            if key == generation.tensors {
                has_tensors = true;
                return reader.names("the map of tensors", |reader, name| parser.tensor(reader, name));
            }
            if Some(key) == generation.foreign {
                let message = format!(
                    "the manifest holds {key:?}, which a footer magic must follow: the file is truncated"
                );
                return Err(Error::new(Code::Truncated, message).at(total));
            }
            match key {
                "version" => version = Some(reader.text("version")?.into_owned()),
                "generator" if !reader.null() => parser.builder.set_generator(reader.text("generator")?),
                "attributes" if !reader.null() => parser.builder.set_attributes(read_attributes(reader)?),
                "generator" | "attributes" => {}
                _ => reader.skip()?,
            }
            Ok(())
        })
        .and_then(|()| reader.end())
        .map_err(|error| error.rule(generation.root_rule))?;
    let missing = |key: &str| {
        Error::new(Code::BadIndex, format!("the manifest has no {key:?}")).rule(generation.root_rule)
    };
    let version = version.ok_or_else(|| missing("version"))?;
    if negotiate(&version, generation)? > generation.newest_minor {
        let message = format!(
            "the file is of version {version}, newer than the 1.{} known here",
            generation.newest_minor
        );
        builder.warn("ZT_WARN_NEWER_VERSION", message, None, None);
    }
    if !has_tensors {
        return Err(missing(generation.tensors));
    }
    builder.set_version(version);
    overlap::warn(&mut builder);
    Ok(builder.finish())
}

/// Returns the minor version of a file of major version 1.
pub(super) fn negotiate(version: &str, generation: &Generation) -> Result<u64> {
    let mut numbers = version.split(['.', '-', '+']);
    let mut number = || numbers.next().map(str::parse::<u64>);
    let (Some(Ok(major)), minor) = (number(), number()) else {
        return Err(
            Error::new(Code::BadIndex, format!("{version:?} is no version")).rule(generation.version_rule)
        );
    };
    if major != 1 {
        let message =
            format!("version {version} of the manifest is not supported; a file of this magic has version 1");
        return Err(Error::new(Code::UnsupportedVersion, message).rule(generation.version_rule));
    }
    match minor {
        None => Ok(0),
        Some(Ok(minor)) => Ok(minor),
        Some(Err(_)) => {
            Err(Error::new(Code::BadIndex, format!("{version:?} is no version"))
                .rule(generation.version_rule))
        }
    }
}

/// Returns the version of a manifest that could not be read.
fn find_version(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader::new(bytes, 0, 0);
    let mut version = None;
    reader.self_described().ok()?;
    let walked = reader.fields("the manifest", |reader, key| {
        if key == "version" {
            version = Some(reader.text("version")?.into_owned());
            return Ok(());
        }
        reader.skip()
    });
    drop(walked);
    version
}

/// The state of a manifest being read.
struct Parser<'p, 'b> {
    index: u64,
    total: u64,
    generation: &'p Generation,
    builder: &'p mut Builder,
    /// The shape and the components of the current tensor, in memory shared by all tensors.
    shape: Vec<u64>,
    fields: Vec<Fields>,
    draft: Draft,
    /// Dense tensors whose spelling the next one may share.
    known: Spellings<'b, Known>,
}

/// The numbers that differ between tensors of one spelling.
const OFFSET: usize = 0;
const LENGTH: usize = 1;
const UNCOMPRESSED: usize = 2;

/// A component as recorded in its map.
struct Fields {
    role: Label,
    dtype: Option<DType>,
    unknown_type: Option<String>,
    offset: u64,
    length: u64,
    uncompressed: Option<u64>,
    encoding: Encoding,
    digest: Option<Digest>,
}

fn read_attributes(reader: &mut Reader<'_>) -> Result<Attributes> {
    Ok(of_cbor(reader.attributes("attributes", |_| ())?))
}

/// Reads the attributes of a tensor, and returns whether they may contain recorded dtypes.
fn read_tensor_attributes(reader: &mut Reader<'_>) -> Result<(Attributes, bool)> {
    let pairs = reader.attributes("attributes", |_| ())?;
    let may_record = recorded::may_be_in(pairs.bytes());
    Ok((of_cbor(pairs), may_record))
}

impl<'b> Parser<'_, 'b> {
    fn tensor(&mut self, reader: &mut Reader<'b>, name: &str) -> Result<()> {
        self.entry(reader, name).map_err(|error| error.tensor(name).rule(self.generation.tensor_rule))
    }

    fn entry(&mut self, reader: &mut Reader<'b>, name: &str) -> Result<()> {
        if let Some(Again { dtype }) = self.repeated(reader) {
            return self.add(name, Layout::Dense, dtype, None);
        }
        self.draft.begin(reader);
        let mut dtype = None;
        let mut layout = None;
        let (mut has_shape, mut has_components) = (false, false);
        let mut attributes: Option<Attributes> = None;
        let mut may_record = false;
        reader.fields("the tensor", |reader, key| {
            match key {
                "dtype" if self.generation.dtypes == Dtypes::OfTensor => {
                    let text = reader.text("dtype")?;
                    dtype = Some(tensor_dtype(&text)?);
                }
                "shape" => {
                    self.shape(reader)?;
                    has_shape = true;
                }
                "format" => layout = Some(Layout::from_label(self.builder.intern(&reader.text("format")?))),
                "attributes" if !reader.null() => {
                    let (read, recorded) = read_tensor_attributes(reader)?;
                    (attributes, may_record) = (Some(read), recorded);
                }
                "attributes" => {}
                "components" => {
                    self.components(reader, name)?;
                    has_components = true;
                }
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        let missing = |key: &str| Error::new(Code::BadIndex, format!("the tensor has no {key:?}"));
        let layout = layout.ok_or_else(|| missing("format"))?;
        if !has_components {
            return Err(missing("components"));
        }
        if !has_shape {
            return Err(missing("shape"));
        }
        if self.generation.dtypes == Dtypes::OfTensor && dtype.is_none() {
            return Err(missing("dtype"));
        }
        if may_record && self.generation.dtypes == Dtypes::OfTensor {
            self.apply_recorded(&mut attributes, layout, &mut dtype)?;
        }
        let known = if attributes.is_none() { self.known(reader, layout, dtype) } else { None };
        self.add(name, layout, dtype, attributes)?;
        if let Some((spelling, known)) = known {
            self.known.add(spelling, known);
        }
        Ok(())
    }

    /// Moves recorded dtypes from the attributes to the tensor and its components.
    fn apply_recorded(
        &mut self,
        attributes: &mut Option<Attributes>,
        layout: Layout,
        dtype: &mut Option<DType>,
    ) -> Result<()> {
        let found = attributes.as_ref().map(recorded::take).transpose()?.flatten();
        let Some((rest, recorded)) = found else { return Ok(()) };
        *attributes = rest;
        if recorded.has_none && matches!(layout, Layout::Other(_)) {
            *dtype = None;
        }
        for fields in &mut self.fields {
            let role = self.builder.label(fields.role);
            // A role of a known layout has the dtype of that layout.
            if let Some(&dtype) = recorded.components.get(role) {
                fields.dtype = Some(dtype);
            }
            if fields.encoding != Encoding::RAW
                && let Some(&length) = recorded.lengths.get(role)
            {
                fields.uncompressed = Some(length);
            }
        }
        Ok(())
    }

    /// Adds the tensor with the shape and the components read before.
    fn add(
        &mut self,
        name: &str,
        layout: Layout,
        dtype: Option<DType>,
        attributes: Option<Attributes>,
    ) -> Result<()> {
        let mut components = self.builder.no_components();
        let mut fields = std::mem::take(&mut self.fields);
        components.extend(fields.drain(..).map(|fields| self.component(fields, name, layout, dtype)));
        self.fields = fields;
        self.warn_of_layout(layout, name);
        let mut tensor = NewTensor { name, shape: &self.shape, layout, dtype, components, attributes };
        layouts::check(&mut tensor)?;
        tensor.dtype = dtype.or_else(|| {
            let role = if layout == Layout::Dense { Label::DATA } else { Label::VALUES };
            let known = matches!(layout, Layout::Dense | Layout::SparseCsr | Layout::SparseCoo);
            tensor.components.iter().find(|component| known && component.role == role)?.dtype
        });
        self.builder.add_tensor(tensor)
    }

    fn shape(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.shape.clear();
        let limits = self.builder.limits();
        reader.array("shape", |reader| limits.push_dim(&mut self.shape, reader.uint("a dimension")?))
    }

    fn components(&mut self, reader: &mut Reader<'_>, name: &str) -> Result<()> {
        self.fields.clear();
        let mut roles = Seen::default();
        reader.names("components", |reader, role| {
            if self.fields.len() == limits::COMPONENTS {
                let message = format!("the tensor has more than {} components", limits::COMPONENTS);
                return Err(Error::new(Code::Limit, message));
            }
            let fields = self.fields(reader, role, name).and_then(|fields| {
                let twice =
                    || Error::new(Code::BadIndex, "the role appears twice in the tensor").rule("unique keys");
                roles.insert(fields.role).then_some(fields).ok_or_else(twice)
            });
            let fields =
                fields.map_err(|error| error.component(role).rule(self.generation.component_rule))?;
            self.fields.push(fields);
            Ok(())
        })
    }

    fn fields<'r>(&mut self, reader: &mut Reader<'r>, role: &str, name: &str) -> Result<Fields> {
        let own_dtype = self.generation.dtypes == Dtypes::OfComponents;
        let mut storage: Option<Cow<'r, str>> = None;
        let mut logical: Option<Cow<'r, str>> = None;
        let (mut offset, mut length, mut uncompressed) = (None, None, None);
        let mut encoding = Encoding::RAW;
        let mut digest = None;
        reader.fields("the component", |reader, key| {
            match key {
                "offset" => offset = Some(self.draft.number(reader, OFFSET, "offset")?),
                "length" => length = Some(exact(self.draft.number(reader, LENGTH, "length")?, "length")?),
                "dtype" if own_dtype => storage = Some(reader.text("dtype")?),
                "type" | "uncompressed_length" | "encoding" | "digest" if reader.null() => {}
                "type" if own_dtype => logical = Some(reader.text("type")?),
                "uncompressed_length" if own_dtype => {
                    let bytes = self.draft.number(reader, UNCOMPRESSED, "uncompressed_length")?;
                    uncompressed = Some(exact(bytes, "uncompressed_length")?);
                }
                "encoding" => encoding = self.encoding(&reader.text("encoding")?, name, role),
                "digest" => {
                    let text = self.draft.text(reader, "digest")?;
                    digest = Some(self.digest(&text, name, role)?);
                }
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        let missing = |key: &str| Error::new(Code::BadIndex, format!("the component has no {key:?}"));
        let offset = offset.ok_or_else(|| missing("offset"))?;
        let length = length.ok_or_else(|| missing("length"))?;
        placed(offset, length, self.index, self.total, self.generation.bounds_rule)?;
        if !offset.is_multiple_of(ALIGNMENT) && length > 0 {
            let message = format!(
                "offset {offset} is no multiple of {ALIGNMENT}; reading works, SIMD code may be slower"
            );
            self.builder.warn("ZT_WARN_UNALIGNED", message, Some(name), Some(role));
        }
        let (mut dtype, mut unknown_type) = (None, None);
        if own_dtype {
            let storage = storage.ok_or_else(|| missing("dtype"))?;
            match logical.as_deref() {
                None => dtype = Some(component_dtype(&storage)?),
                Some(logical) => match logical_dtype(logical, &storage)? {
                    Some(known) => dtype = Some(known),
                    None => unknown_type = Some(logical.to_owned()),
                },
            }
        }
        let role = self.builder.intern(role);
        Ok(Fields { role, dtype, unknown_type, offset, length, uncompressed, encoding, digest })
    }

    fn encoding(&mut self, text: &str, name: &str, role: &str) -> Encoding {
        match text {
            "raw" => Encoding::RAW,
            "zstd" => Encoding::ZSTD,
            other => {
                let message = format!("the encoding {other:?} is not known here; the data cannot be decoded");
                self.builder.warn("ZT_WARN_UNKNOWN_ENCODING", message, Some(name), Some(role));
                self.builder.unknown_encoding(other)
            }
        }
    }

    fn digest(&mut self, text: &str, name: &str, role: &str) -> Result<Digest> {
        let digest = Digest::parse(text)?;
        if digest.expected == Expected::Unknown {
            let message =
                format!("the digest {text:?} is of an algorithm not known here and is never checked");
            self.builder.warn("ZT_WARN_UNKNOWN_DIGEST", message, Some(name), Some(role));
        }
        Ok(digest)
    }

    /// Returns the component of a tensor, given its layout.
    fn component(&mut self, fields: Fields, name: &str, layout: Layout, dtype: Option<DType>) -> Component {
        if let Some(unknown) = &fields.unknown_type {
            let message =
                format!("the type {unknown:?} is not known here; the component is readable as bytes");
            let role = self.builder.label(fields.role).to_owned();
            self.builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), Some(&role));
        }
        let dtype = match (self.generation.dtypes, layout, fields.role) {
            (Dtypes::OfComponents, ..) => fields.dtype,
            (_, Layout::Dense, Label::DATA) | (_, Layout::SparseCsr | Layout::SparseCoo, Label::VALUES) => {
                dtype
            }
            (_, Layout::SparseCsr, Label::INDICES | Label::INDPTR)
            | (_, Layout::SparseCoo, Label::COORDS) => Some(DType::Uint64),
            _ => fields.dtype,
        };
        let decoded =
            if fields.encoding == Encoding::RAW { Some(fields.length) } else { fields.uncompressed };
        let Fields { role, offset, length: stored, encoding, digest, .. } = fields;
        Component::new(role, dtype, Data::Blob(Blob { file: 0, encoding, offset, stored, decoded, digest }))
    }

    fn warn_of_layout(&mut self, layout: Layout, name: &str) {
        let Layout::Other(label) = layout else { return };
        let text = self.builder.label(label).to_owned();
        // 1.1 §III.4 and 1.2 §3 define this layout; its components are read with their own dtypes.
        if self.generation.dtypes == Dtypes::OfComponents && text == "quantized_group" {
            return;
        }
        if layouts::is_decoded(&text) {
            return;
        }
        let message = format!("the layout {text:?} is not known here; its components are readable");
        self.builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(name), None);
    }
}
