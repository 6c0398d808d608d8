//! Adds tensors of a checkpoint to the catalog: the locations of their bytes, and their checksums.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use ciborium::Value;
use ztensor_core::checked::{end_within, exact, product};
use ztensor_core::codecs::digest::Digest;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::layouts;
use ztensor_core::model::{
    Attributes, Blob, Builder, ByteOrder, Component, Data, Label, Layout, NewTensor, Piece,
};
use ztensor_core::sources::siblings::Neighbor;

use super::bundle::{Header, Slice, Tensor};
use super::dtypes::ElementType;
use super::slices::{self, TensorSlice, Unlike};
use crate::damage::{self, Damage};

const RULE: &str = "tensor_bundle.proto: BundleEntryProto";

/// An entry of the index.
pub struct Listed {
    pub key: Box<[u8]>,
    pub tensor: Tensor,
}

pub struct Tensors<'i> {
    input: &'i Input<'i>,
    header: &'i Header,
    builder: Builder,
    /// The prefix of the names of data files.
    prefix: &'i str,
    /// Data files that were requested.
    shards: HashMap<u64, (String, Neighbor)>,
}

/// The location of a tensor's bytes, or why there is none.
enum Location {
    Data(Data),
    /// Why its slices cannot be assembled.
    Refused(&'static str),
}

impl<'i> Tensors<'i> {
    pub fn new(input: &'i Input<'i>, header: &'i Header, builder: Builder) -> Self {
        let name = input.own_name().unwrap_or_default();
        let prefix = name.strip_suffix(".index").unwrap_or(name);
        Self { input, header, builder, prefix, shards: HashMap::new() }
    }

    /// Adds the tensors in index order, in which slices of others are not separate tensors.
    pub fn add_all(mut self, all: &[Listed], damage: &mut Damage) -> Result<Builder> {
        let (mut parts, mut broken) = (HashSet::new(), HashMap::new());
        for (nth, Listed { key, tensor }) in all.iter().enumerate() {
            for slice in &tensor.slices {
                let found = name_of(key, tensor).and_then(|name| {
                    let key = slices::key(name, slice);
                    let at = find(all, &key).ok_or_else(|| {
                        let message = format!("the index has no entry for its slice {}", spelled(slice));
                        bad(message, name, tensor)
                    })?;
                    // Each has its own entry, so there are no more of them than entries.
                    let twice = || bad(format!("its slice {} occurs twice", spelled(slice)), name, tensor);
                    parts.insert(at).then_some(()).ok_or_else(twice)
                });
                if let Err(error) = found {
                    broken.entry(nth).or_insert(error);
                }
            }
        }
        for (at, Listed { key, tensor }) in all.iter().enumerate() {
            if parts.contains(&at) {
                continue;
            }
            if key.first() == Some(&0) {
                let message =
                    format!("a slice of a tensor that is not listed: {}", String::from_utf8_lossy(key));
                self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
                continue;
            }
            let name = match broken.remove(&at).map_or_else(|| name_of(key, tensor), Err) {
                Ok(name) => name,
                Err(error) => {
                    damage.note(&mut self.builder, error.tensor(&String::from_utf8_lossy(key)));
                    continue;
                }
            };
            let added = self.add(name, tensor, all);
            let added = added.map_err(|error| error.tensor(name).rule(RULE).at(tensor.at));
            damage.of_item(&mut self.builder, added)?;
        }
        Ok(self.builder)
    }

    fn add(&mut self, name: &str, tensor: &Tensor, all: &[Listed]) -> Result<()> {
        let kind = ElementType::of(tensor.kind);
        if let Some(ElementType { name: kind, width: None, .. }) = kind {
            let message = format!("{name:?} has the type {kind}, which is not numeric");
            self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
            return Ok(());
        }
        let found = if tensor.slices.is_empty() {
            Location::Data(self.run(name, tensor, kind)?)
        } else {
            self.assembled(name, tensor, kind, all)?
        };
        let data = match found {
            Location::Data(data) => data,
            Location::Refused(why) => self.refused(name, why),
        };
        let dtype = kind.and_then(|kind| kind.dtype);
        let attributes = dtype.is_none().then(|| self.untyped(name, tensor.kind));
        let mut component = Component::new(Label::DATA, dtype, data);
        if self.header.big_endian {
            component.byte_order = ByteOrder::Big;
        }
        let mut components = self.builder.no_components();
        components.push(component);
        let (shape, layout) = (&*tensor.shape, Layout::Dense);
        let mut new = NewTensor { name, shape, layout, dtype, components, attributes };
        layouts::check(&mut new)?;
        self.builder.add_tensor(new)
    }

    /// Warns that a tensor has no values and returns attributes with the name of its type.
    fn untyped(&mut self, name: &str, kind: u64) -> Attributes {
        let kind = ElementType::of(kind).map_or_else(|| kind.to_string(), |kind| kind.name.to_owned());
        let message = format!("{kind} has no dtype here; the bytes can be read");
        self.builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
        vec![(Value::from("data_type"), Value::from(kind))].into()
    }

    /// Returns data that is present but cannot be assembled.
    fn refused(&mut self, name: &str, why: &str) -> Data {
        let message = format!("{why}: its data cannot be read");
        self.builder.warn("ZT_WARN_UNKNOWN_ENCODING", message, Some(name), None);
        let encoding = self.builder.unknown_encoding("tensorflow.slices");
        Data::Blob(Blob { encoding, decoded: None, ..Blob::raw(0, 0) })
    }

    /// Assembles the slices of a tensor.
    fn assembled(
        &mut self,
        name: &str,
        tensor: &Tensor,
        kind: Option<&ElementType>,
        all: &[Listed],
    ) -> Result<Location> {
        let mut blobs = Vec::with_capacity(tensor.slices.len());
        for slice in &tensor.slices {
            let part = find(all, &slices::key(name, slice)).and_then(|at| all.get(at));
            let Some(Listed { tensor: part, .. }) = part else { continue };
            let shape = slices::shape_of(slice, &tensor.shape);
            if shape.as_ref() != Some(&part.shape) || part.kind != tensor.kind || !part.slices.is_empty() {
                let message = format!(
                    "its slice {} has the shape {:?} and type {}, which do not match the tensor of shape {:?} and type {}",
                    spelled(slice),
                    part.shape,
                    part.kind,
                    tensor.shape,
                    tensor.kind
                );
                return Err(bad(message, name, tensor));
            }
            blobs.push(Some(self.blob(part, kind).map_err(|error| error.at(part.at))?));
        }
        let TensorSlice { rows, runs } = match slices::arrange(&tensor.shape, &tensor.slices) {
            Ok(slices) => slices,
            Err(Unlike::Axes) => return Ok(Location::Refused("it is split along several dimensions")),
            Err(Unlike::Gaps) => {
                return Ok(Location::Refused("its slices have gaps, overlap or extend past it"));
            }
        };
        let Some(width) = kind.and_then(|kind| kind.width) else {
            return Ok(Location::Refused("it is split and has an unknown type"));
        };
        let mut pieces = Vec::with_capacity(runs.len());
        for (at, elements) in runs {
            let Some(blob) = blobs.get_mut(at).and_then(Option::take) else { continue };
            pieces.push(Piece { blob, run: elements.saturating_mul(width) });
        }
        Data::pieces(rows, pieces).map(Location::Data)
    }

    /// Returns the bytes of an unsplit tensor; if its file is truncated, the elements present.
    fn run(&mut self, name: &str, tensor: &Tensor, kind: Option<&ElementType>) -> Result<Data> {
        let width = kind.and_then(|kind| kind.width);
        let (error, width) = match (self.blob(tensor, kind), width) {
            (Err(error), Some(width)) if error.code() == Code::Truncated => (error, width),
            (blob, _) => return blob.map(Data::Blob),
        };
        let &(_, Neighbor { file, length, .. }) = self.shard(tensor.shard)?;
        self.builder.warn(damage::warning_of(error.code()), error.message(), Some(name), None);
        Ok(Data::short_slice(file, &tensor.shape, width, tensor.offset, length.unwrap_or_default()))
    }

    /// Returns the bytes of a tensor or of a slice of one.
    fn blob(&mut self, tensor: &Tensor, kind: Option<&ElementType>) -> Result<Blob> {
        let &Tensor { shard, offset, size, sum, ref shape, .. } = tensor;
        let elements = product(shape).and_then(|elements| exact(elements, "elements").ok());
        let elements = elements.ok_or_else(|| {
            Error::new(Code::Limit, format!("the shape {shape:?} has more than 2^53 - 1 elements")).of_item()
        })?;
        let width = kind.and_then(|kind| kind.width);
        let needed = width.map(|width| elements.saturating_mul(width));
        if let Some(needed) = needed.filter(|&needed| needed != size) {
            let kind = kind.map_or("?", |kind| kind.name);
            let message =
                format!("the shape {shape:?} of {kind} needs {needed} bytes, but the index states {size}");
            return Err(Error::new(Code::BadShape, message));
        }
        exact(offset.saturating_add(size), "the end of the data")?;
        let (name, neighbor) = self.shard(shard)?;
        if let Some(total) = neighbor.length
            && end_within(offset, size, total).is_none()
        {
            let message =
                format!("{size} bytes at offset {offset} of {name:?} extend past its {total} bytes");
            return Err(Error::new(Code::Truncated, message));
        }
        let digest = Some(Digest::masked_crc32c(sum));
        Ok(Blob { file: neighbor.file, digest, ..Blob::raw(offset, size) })
    }

    /// Returns a data file. One that cannot be read is reported once and affects only its data.
    fn shard(&mut self, number: u64) -> Result<&(String, Neighbor)> {
        let count = self.header.shards;
        if number >= count {
            let message =
                format!("its data is in file {number}, but there are only {count} files, numbered from 0");
            return Err(Error::new(Code::BadIndex, message));
        }
        if !self.shards.contains_key(&number) {
            let name = format!("{}.data-{number:05}-of-{count:05}", self.prefix);
            let neighbor = self.input.sibling(&name)?;
            if let Some(problem) = &neighbor.problem {
                let message = format!(
                    "the data of tensors is in {name:?}, which cannot be read: {}",
                    problem.message()
                );
                self.builder.warn("ZT_WARN_INCOMPLETE_SET", message, None, None);
            }
            self.shards.insert(number, (name, neighbor));
        }
        self.shards.get(&number).ok_or_else(|| Error::new(Code::Internal, "a file of data was lost"))
    }
}

/// Finds a key by binary search in the sorted index.
fn find(all: &[Listed], key: &[u8]) -> Option<usize> {
    all.binary_search_by(|listed| (*listed.key).cmp(key)).ok()
}

fn name_of<'k>(key: &'k [u8], tensor: &Tensor) -> Result<&'k str> {
    std::str::from_utf8(key).map_err(|_| {
        let message = format!("the name of a tensor is not UTF-8: {:?}", String::from_utf8_lossy(key));
        Error::new(Code::BadIndex, message).at(tensor.at).rule(RULE)
    })
}

fn bad(message: String, name: &str, tensor: &Tensor) -> Error {
    Error::new(Code::BadIndex, message).tensor(name).at(tensor.at).rule(RULE)
}

/// Formats a slice like TensorFlow: `0,2:-` begins at 0 of the first dimension and takes two, and all of the second.
fn spelled(slice: &Slice) -> String {
    let extents = slice.iter().map(|&(start, length)| match length {
        Some(length) => format!("{start},{length}"),
        None => "-".to_owned(),
    });
    extents.collect::<Vec<_>>().join(":")
}
