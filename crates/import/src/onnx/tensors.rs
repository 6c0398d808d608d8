//! Adds tensors of a model to the catalog: their components, names and warnings.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use ciborium::Value;
use ztensor_core::checked::{end_within, exact, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::layouts::{self, exact as packed};
use ztensor_core::model::{Attributes, Blob, Builder, Component, Data, Label, Layout, NewTensor};

use super::dtypes::ElementType;
use super::tensor::Proto;
use crate::damage;
use crate::names::Names;

const RULE: &str = "ONNX: TensorProto";
const EXTERNAL: &str = "ONNX: external data";

pub struct Tensors<'i> {
    pub builder: Builder,
    input: &'i Input<'i>,
    names: Names,
    /// Unreadable files that were already reported.
    missing: HashSet<u32>,
}

impl<'i> Tensors<'i> {
    pub fn new(builder: Builder, input: &'i Input<'i>) -> Self {
        Self { builder, input, names: Names::default(), missing: HashSet::new() }
    }

    /// Adds a dense tensor.
    pub fn add(&mut self, name: &str, proto: &Proto) -> Result<()> {
        if proto.is_nothing() {
            let message = format!("{name:?} has neither a type nor data");
            self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
            return Ok(());
        }
        let name = self.unique(name);
        let component = self.component(Label::DATA, &name, proto)?;
        let dtype = component.dtype;
        let attributes = dtype.is_none().then(|| self.untyped(&name, proto));
        let mut components = self.builder.no_components();
        components.push(component);
        let (shape, layout) = (&*proto.shape, Layout::Dense);
        let mut tensor = NewTensor { name: &name, shape, layout, dtype, components, attributes };
        // Elements smaller than a byte need not fill the last one.
        match dtype {
            Some(dtype) if dtype.bits() < 8 => packed::dense(&mut tensor),
            _ => layouts::check(&mut tensor),
        }
        .map_err(|error| error.tensor(&name).rule(RULE))?;
        self.builder.add_tensor(tensor)
    }

    /// Warns that a tensor has no values and returns attributes with the name of its type.
    fn untyped(&mut self, name: &str, proto: &Proto) -> Attributes {
        let kind =
            ElementType::of(proto.kind).map_or_else(|| proto.kind.to_string(), |kind| kind.name.to_owned());
        let message = format!("{kind} has no dtype here; the bytes can be read");
        self.builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
        vec![(Value::from("data_type"), Value::from(kind))].into()
    }

    /// Returns a name that no tensor has yet.
    pub fn unique(&mut self, name: &str) -> String {
        self.names.unique(&mut self.builder, name)
    }

    /// Returns the elements of a tensor, all of whose bytes must be present.
    pub fn component(&mut self, role: Label, name: &str, proto: &Proto) -> Result<Component> {
        let kind = ElementType::of(proto.kind);
        let data = self.data(role, name, proto, kind);
        let data = data.map_err(|error| error.tensor(name).rule(RULE).at(proto.at))?;
        Ok(Component::new(role, kind.and_then(|kind| kind.dtype), data))
    }

    fn data(&mut self, role: Label, name: &str, proto: &Proto, kind: Option<&ElementType>) -> Result<Data> {
        let shape = &*proto.shape;
        let elements = product(shape).and_then(|elements| exact(elements, "elements").ok());
        let elements = elements.ok_or_else(|| {
            Error::new(Code::Limit, format!("the shape {shape:?} has more than 2^53 - 1 elements")).of_item()
        })?;
        let bits = kind.filter(|kind| kind.bits > 0).map(|kind| u64::from(kind.bits));
        let needed = bits.map(|bits| u128::from(elements) * u128::from(bits));
        let needed = needed.map(|bits| u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX));
        if let Some(needed) = needed {
            exact(needed, "the number of bytes")?;
        }
        let needs = |held: u64, what: &str| {
            let name = kind.map_or("?", |kind| kind.name);
            let message =
                format!("the shape {shape:?} of {name} needs {} bytes, {what} {held}", needed.unwrap_or(0));
            Error::new(Code::BadShape, message)
        };
        if proto.segment {
            return Ok(self.segment(name, proto));
        }
        if proto.external {
            // Slices of a dense tensor can be read even if its file is truncated.
            let width =
                bits.filter(|bits| role == Label::DATA && bits.is_multiple_of(8)).map(|bits| bits / 8);
            return self.external(name, proto, needed, width).map_err(|error| error.rule(EXTERNAL));
        }
        let list = kind.and_then(|kind| proto.list_of(kind));
        if let Some(raw) = proto.raw.filter(|raw| raw.length() > 0 || list.is_none()) {
            let held = raw.length();
            return match needed {
                Some(needed) if needed != held => Err(needs(held, "raw_data has")),
                _ => Ok(Data::Blob(Blob::raw(raw.at, held))),
            };
        }
        let Some(kind) = kind else {
            // For an unknown type any list may be the right one.
            let run = proto.first_list().unwrap_or_default();
            return Ok(Data::Blob(Blob::raw(run.at, run.length())));
        };
        let Some(list) = list else {
            return if elements == 0 {
                Ok(Data::Blob(Blob::raw(proto.at, 0)))
            } else {
                Err(needs(0, "it has"))
            };
        };
        let entries = match (needed, kind.list.bits) {
            // One element per entry, of which some bits are used.
            (Some(_), 6) | (None, _) => elements,
            (Some(needed), bits) => needed / u64::from(bits / 8).max(1),
        };
        if !list.may_have(entries) {
            let held = if list.min == list.max {
                list.min.to_string()
            } else {
                format!("{} to {}", list.min, list.max)
            };
            let message = format!(
                "the shape {shape:?} of {} needs {entries} entries, but the list has {held}",
                kind.name
            );
            return Err(Error::new(Code::BadShape, message).at(list.whole.at));
        }
        Ok(list.data(&mut self.builder, kind.list.bits, needed.unwrap_or(0)))
    }

    fn segment(&mut self, name: &str, proto: &Proto) -> Data {
        let message = "it is a segment of a tensor; segments are not joined, so its data cannot be read";
        self.builder.warn("ZT_WARN_UNKNOWN_ENCODING", message, Some(name), None);
        let raw = proto.raw.unwrap_or(crate::protobuf::Run { at: proto.at, end: proto.at });
        let encoding = self.builder.unknown_encoding("onnx.segment");
        Data::Blob(Blob { encoding, decoded: None, ..Blob::raw(raw.at, raw.length()) })
    }

    /// Locates data in a sibling file. A file that cannot be read is reported once and affects only its data. If it is truncated, the
    /// elements present are used, of `width` bytes each.
    fn external(
        &mut self,
        name: &str,
        proto: &Proto,
        needed: Option<u64>,
        width: Option<u64>,
    ) -> Result<Data> {
        let bad = |message: String| Error::new(Code::BadIndex, message);
        let location = proto.location.as_deref();
        let location = location.ok_or_else(|| bad("its external data has no location".to_owned()))?;
        let neighbor = self.input.sibling(location)?;
        if let Some(problem) = neighbor.problem.filter(|_| self.missing.insert(neighbor.file)) {
            let message = format!(
                "the data of tensors is in {location:?}, which cannot be read: {}",
                problem.message()
            );
            self.builder.warn("ZT_WARN_INCOMPLETE_SET", message, None, None);
        }
        let offset = proto.offset.unwrap_or(0);
        let rest = neighbor.length.map(|total| total.saturating_sub(offset));
        // Some exporters write a length of 0 if they do not know it.
        let length = proto.length.filter(|&length| length > 0).or(needed).or(rest).unwrap_or(0);
        if let Some(needed) = needed.filter(|&needed| needed != length) {
            let shape = &proto.shape;
            let message =
                format!("the shape {shape:?} needs {needed} bytes, but its external data has {length}");
            return Err(Error::new(Code::BadShape, message));
        }
        exact(offset.saturating_add(length), "the end of external data")?;
        if let Some(total) = neighbor.length
            && end_within(offset, length, total).is_none()
        {
            let message =
                format!("{length} bytes at offset {offset} of {location:?} extend past its {total} bytes");
            let Some(width) = width else { return Err(Error::new(Code::Truncated, message)) };
            self.builder.warn(damage::warning_of(Code::Truncated), message, Some(name), None);
            return Ok(Data::short_slice(neighbor.file, &proto.shape, width, offset, total));
        }
        Ok(Data::Blob(Blob { file: neighbor.file, ..Blob::raw(offset, length) }))
    }
}
