//! Parses the manifest (§3): root, objects and their layouts, in one pass over deterministic CBOR.
#![forbid(unsafe_code)]

use super::footer::{FOOTER, Footer};
use super::part::{Surroundings, again};
use super::vocabulary::{self, Profile};
use super::{regions, rules, shard_table};
use crate::checked::product;
use crate::codecs::digest::xxh3;
use crate::error::{Code, Error, Result};
use crate::formats::attributes::of_cbor;
use crate::formats::overlap::{self, Region};
use crate::formats::zt_magic::CONTAINER;
use crate::layouts;
use crate::layouts::affine::Affine;
use crate::layouts::exact;
use crate::layouts::gguf::Gguf;
use crate::layouts::mx::Mx;
use crate::layouts::quant_group::QuantGroup;
use crate::limits::{self, Limits};
use crate::model::{Attributes, Builder, Catalog, Component, Label, Layout, NewTensor, Shard, Span};
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::syntax::cbor::Reader;
use crate::syntax::repeats::{Draft, Spelled, Spelling, Spellings};
use crate::work::Stop;

/// The maximum number of levels below the root (§3.1).
pub const DEPTH: u32 = 32;
/// The maximum number of dimensions of a tensor (§3.3).
const RANK: usize = 64;
/// The typical size in bytes of a dense tensor's entry, to estimate the number of tensors.
const ENTRY_BYTES: usize = 112;
/// The maximum length of a name in bytes (§3.5).
const NAME_BYTES: usize = 1024;

/// Returns a reader of a manifest at `offset` in its file.
pub fn reader(bytes: &[u8], offset: u64, values: u32) -> Reader<'_> {
    Reader::deterministic(bytes, offset, values, DEPTH, rules::ENCODING)
}

/// Reads the manifest into private memory and verifies its hash.
pub fn read_manifest(source: &dyn ReadAt, footer: Footer, limits: &Limits, stop: &Stop) -> Result<Owned> {
    let Footer { offset, length, hash: expected } = footer;
    let (total, at) = (source.length(), source.length().saturating_sub(FOOTER));
    if length > limits::ZT_INDEX_BYTES {
        let message = format!("the manifest is {length} bytes, more than 1 GiB");
        return Err(Error::new(Code::Limit, message).at(at).rule(rules::ENCODING));
    }
    regions::check_alignment(offset).map_err(|error| error.at(at))?;
    if offset.checked_add(length).is_none_or(|end| end > at) {
        let message = format!(
            "the manifest should be {length} bytes at offset {offset}, the file has {total} in all: it is truncated or damaged"
        );
        return Err(Error::new(Code::OutOfBounds, message).at(at).rule(rules::BLOBS));
    }
    let limit = limits.max_index_bytes.unwrap_or(limits::ZT_INDEX_BYTES);
    if length > limit {
        let message = format!("the manifest is {length} bytes, more than the {limit} allowed");
        return Err(Error::new(Code::Limit, message).option("maxIndexBytes").at(at));
    }
    let bytes = source.read_owned(offset, length, stop)?;
    let found = xxh3(&bytes);
    if found != expected {
        let message = format!(
            "the manifest hashes to {found:016x}, the footer says {expected:016x}: the file is damaged"
        );
        return Err(Error::new(Code::DigestMismatch, message).at(offset).rule(rules::FOOTER));
    }
    Ok(bytes)
}

/// Returns the catalog of the manifest `bytes`, at `offset` in a file of `total` bytes.
pub fn parse(bytes: &[u8], offset: u64, total: u64, limits: &Limits) -> Result<Catalog> {
    let mut builder = Builder::new(CONTAINER, limits);
    builder.set_version("2");
    builder.reserve(bytes.len() / ENTRY_BYTES);
    let mut reader = reader(bytes, offset, limits.max_attribute_values);
    let manifest = Span { file: 0, offset, length: bytes.len() as u64 };
    let mut objects = Objects {
        total,
        builder: &mut builder,
        shards: Vec::new(),
        shape: Vec::new(),
        draft: Draft::default(),
        known: Spellings::default(),
    };
    let (mut has_objects, mut attributes) = (false, None);
    // Deterministic order puts the shards before the objects that refer to them.
    reader
        .fields("the manifest", |reader, key| match key {
            "shards" => {
                objects.shards =
                    shard_table::parse(reader).map_err(|error| error.rule(rules::SHARD_TABLE))?;
                Ok(())
            }
            "objects" => {
                has_objects = true;
                reader.names("objects", |reader, name| objects.object(reader, name))
            }
            "attributes" => {
                attributes = Some(read_attributes(reader)?);
                Ok(())
            }
            _ => reader.skip(),
        })
        .and_then(|()| reader.end())
        .map_err(|error| error.rule(rules::ROOT))?;
    if !has_objects {
        return Err(Error::new(Code::BadIndex, "the manifest has no \"objects\"").rule(rules::ROOT));
    }
    let Objects { shards, .. } = objects;
    builder.set_shards(shards);
    builder.set_attributes(attributes.unwrap_or_default());
    let disjoint = builder.is_known_disjoint(Some(manifest));
    let catalog = builder.finish();
    if disjoint {
        return Ok(catalog);
    }
    let mut regions = overlap::regions(&catalog);
    regions.insert(0, Region { span: manifest, tensor: None, role: Label::DATA });
    match overlap::first(regions) {
        Some(pair) => Err(overlapping(&catalog, pair)),
        None => Ok(catalog),
    }
}

fn overlapping(catalog: &Catalog, (first, second): (Region, Region)) -> Error {
    let range = |blob: Region| {
        let owner = blob.tensor.and_then(|tensor| catalog.tensor(tensor as usize));
        let owner = owner.map_or("the manifest".to_owned(), |tensor| format!("tensor {:?}", tensor.name()));
        format!("{} bytes at offset {} of {owner}", blob.span.length, blob.span.offset)
    };
    let message = format!("{} and {} overlap and are not the same", range(first), range(second));
    let error = Error::new(Code::BadIndex, message).at(second.span.offset).rule(rules::BLOBS);
    let (tensor, role) =
        if second.tensor.is_some() { (second.tensor, second.role) } else { (first.tensor, first.role) };
    match tensor.and_then(|tensor| catalog.tensor(tensor as usize)) {
        Some(tensor) => error.tensor(tensor.name()).component(catalog.label(role)),
        None => error,
    }
}

/// Checks the name of an object, part or attribute.
pub fn check_name(name: &str) -> Result<()> {
    let fault = if name.is_empty() {
        "is empty"
    } else if name.len() > NAME_BYTES {
        "has more than 1024 bytes"
    } else if name.contains('\0') {
        "contains U+0000"
    } else {
        return Ok(());
    };
    Err(Error::new(Code::BadIndex, format!("the name {name:?} {fault}")).rule(rules::NAMES))
}

/// Reads attributes. Their top-level keys must be names; nested values are not restricted.
fn read_attributes(reader: &mut Reader<'_>) -> Result<Attributes> {
    let mut checked = Ok(());
    let pairs = reader.attributes("attributes", |key| {
        if checked.is_ok() {
            let no_text =
                || Error::new(Code::BadIndex, "a key of the attributes is not text").rule(rules::ENCODING);
            checked = key.ok_or_else(no_text).and_then(check_name);
        }
    })?;
    checked.map(|()| of_cbor(pairs))
}

/// The state of the objects being read.
struct Objects<'b, 'm> {
    total: u64,
    builder: &'b mut Builder,
    shards: Vec<Shard>,
    /// Reused for each shape.
    shape: Vec<u64>,
    draft: Draft,
    /// Dense tensors whose spelling the next one may share.
    known: Spellings<'m, Known>,
}

/// A dense tensor that was read before, without attributes and in the file of the index.
struct Known {
    shape: Vec<u64>,
    part: Component,
}

impl<'m> Objects<'_, 'm> {
    fn object(&mut self, reader: &mut Reader<'m>, name: &str) -> Result<()> {
        check_name(name)
            .and_then(|()| self.entry(reader, name))
            .map_err(|error| error.tensor(name).rule(rules::OBJECT))
    }

    fn entry(&mut self, reader: &mut Reader<'m>, name: &str) -> Result<()> {
        if let Some(added) = self.repeated(reader, name) {
            return added;
        }
        self.draft.begin(reader);
        let (mut has_shape, mut layout, mut parts, mut attributes) = (false, None, None, None);
        reader.fields("the object", |reader, key| {
            match key {
                "parts" => parts = Some(self.parts(reader, name)?),
                "shape" => {
                    has_shape = true;
                    self.shape(reader)?;
                }
                "layout" => layout = Some(reader.text("layout")?),
                "attributes" => attributes = Some(read_attributes(reader)?),
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        let missing = |key: &str| Error::new(Code::BadIndex, format!("the object has no {key:?}"));
        let parts = parts.ok_or_else(|| missing("parts"))?;
        if !has_shape {
            return Err(missing("shape"));
        }
        let layout = layout.ok_or_else(|| missing("layout"))?;
        if parts.is_empty() {
            return Err(Error::new(Code::BadLayout, "the object has no parts"));
        }
        self.tensor(name, &layout, parts, attributes)?;
        if let Some((spelling, known)) = self.known(reader) {
            self.known.add(spelling, known);
        }
        Ok(())
    }

    /// Reads and adds the next object if it is spelled like an earlier one and needs no error or warning; any other is
    /// left to be read key by key. Shape, dtype and decoded length are those of the earlier object, which was checked.
    fn repeated(&mut self, reader: &mut Reader<'m>, name: &str) -> Option<Result<()>> {
        let start = reader.mark();
        let (Known { shape, part }, filling) = self.known.read(reader)?;
        let Some(again) = again(part, &filling, self.total) else {
            reader.go_to(start);
            return None;
        };
        let mut components = self.builder.no_components();
        components.push(again);
        let (layout, dtype) = (Layout::Dense, part.dtype);
        Some(self.builder.add_tensor(NewTensor { name, shape, layout, dtype, components, attributes: None }))
    }

    /// Returns the spelling of the object just added, if other objects may share it: a dense tensor that differs from
    /// others only in its numbers.
    fn known(&self, reader: &Reader<'m>) -> Option<(Spelling<'m>, Known)> {
        let catalog = self.builder.catalog();
        let tensor = catalog.tensor(catalog.len().checked_sub(1)?)?;
        let [part] = tensor.components() else { return None };
        let plain = tensor.layout() == Layout::Dense
            && tensor.attributes().is_none()
            && part.file() == 0
            && part.dtype.is_some()
            && part.is_decodable();
        let spelling = self.draft.spelling(reader).filter(|_| plain)?;
        Some((spelling, Known { shape: self.shape.clone(), part: part.clone() }))
    }

    fn shape(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.shape.clear();
        reader.array("shape", |reader| {
            if self.shape.len() == RANK {
                return Err(Error::new(Code::BadShape, "the shape has more than 64 dimensions"));
            }
            self.shape.push(reader.uint("a dimension")?);
            Ok(())
        })?;
        if product(&self.shape).is_none() {
            let message = format!("the product of the dimensions {:?} exceeds a u64", self.shape);
            return Err(Error::new(Code::BadShape, message));
        }
        Ok(())
    }

    fn parts(&mut self, reader: &mut Reader<'_>, name: &str) -> Result<Vec<Component>> {
        let Self { total, builder, shards, draft, .. } = self;
        let mut parts = builder.no_components();
        let mut surroundings = Surroundings { shards, total: *total, builder, draft };
        reader.names("parts", |reader, role| {
            if parts.len() == limits::COMPONENTS {
                let message = format!("the tensor has more than {} components", limits::COMPONENTS);
                return Err(Error::new(Code::Limit, message));
            }
            let part = check_name(role).and_then(|()| surroundings.part(reader, role, name));
            parts.push(part.map_err(|error| error.component(role).rule(rules::PART))?);
            Ok(())
        })?;
        Ok(parts)
    }

    /// Adds a tensor with the shape read before.
    fn tensor(
        &mut self,
        name: &str,
        id: &str,
        components: Vec<Component>,
        attributes: Option<Attributes>,
    ) -> Result<()> {
        let profile = vocabulary::profile(id);
        let layout = match profile {
            Some(Profile::Dense) => Layout::Dense,
            Some(Profile::SparseCsr) => Layout::SparseCsr,
            Some(Profile::SparseCoo) => Layout::SparseCoo,
            _ => self.named(id, profile, name)?,
        };
        let mut tensor = NewTensor { name, shape: &self.shape, layout, dtype: None, components, attributes };
        check(profile, &mut tensor)?;
        let values = match layout {
            Layout::Dense => Some(Label::DATA),
            Layout::SparseCsr | Layout::SparseCoo => Some(Label::VALUES),
            Layout::Other(_) => None,
        };
        let values = values.and_then(|role| tensor.components.iter().find(|part| part.role == role));
        tensor.dtype = values.and_then(|values| values.dtype);
        self.builder.add_tensor(tensor)
    }

    /// Returns a layout without a name in the catalog, identified by its own id.
    fn named(&mut self, id: &str, profile: Option<Profile>, name: &str) -> Result<Layout> {
        let label = self.builder.intern(id);
        // These are the catalog's names of the profiles zt.sparse_csr/1 and zt.sparse_coo/1, and not profile ids.
        if matches!(label, Label::SPARSE_CSR | Label::SPARSE_COO) {
            let message = format!("the layout {id:?} is no profile id: those have a namespace and a version");
            return Err(Error::new(Code::BadLayout, message).rule(rules::LAYOUTS));
        }
        if profile.is_none() && !layouts::is_decoded(id) {
            let message = format!("the layout {id:?} is not known here; its components are readable");
            self.builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(name), None);
        }
        Ok(Layout::Other(label))
    }
}

/// Checks the manifest entry of a tensor with the layout `layout`.
pub fn check_entry(tensor: &mut NewTensor<'_>, layout: &str, attributes: Option<&Attributes>) -> Result<()> {
    if tensor.components.is_empty() {
        return Err(Error::new(Code::BadLayout, "a tensor needs a component").rule(rules::OBJECT));
    }
    tensor.attributes = attributes.cloned();
    check(vocabulary::profile(vocabulary::layout_id(layout)), tensor)
}

/// Checks a tensor against the metadata rules of its profile, and records the rules for its data.
fn check(profile: Option<Profile>, tensor: &mut NewTensor<'_>) -> Result<()> {
    let none = Attributes::default();
    let attributes = tensor.attributes.as_ref().unwrap_or(&none);
    match profile {
        Some(Profile::Dense) => exact::dense(tensor).map_err(|error| error.rule(rules::DENSE)),
        Some(Profile::SparseCsr) => exact::csr(tensor).map_err(|error| error.rule(exact::CSR)),
        Some(Profile::SparseCoo) => exact::coo(tensor).map_err(|error| error.rule(exact::COO)),
        Some(Profile::QuantGroup) => QuantGroup::read(tensor.shape, attributes, &tensor.components).map(drop),
        Some(Profile::Mx) => Mx::read(tensor.shape, attributes, &tensor.components).map(drop),
        Some(Profile::TfliteQuantized) => {
            Affine::read(tensor.shape, attributes, &tensor.components).map(drop)
        }
        Some(Profile::Gguf) => Gguf::read(tensor.shape, attributes, &tensor.components).map(drop),
        None => Ok(()),
    }
}
