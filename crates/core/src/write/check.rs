//! Checks a tensor before its bytes are known: as a reader would, and as the format requires.
#![forbid(unsafe_code)]

use super::open_tensor::Open;
use super::{Spec, WriteFormat, Writer};
use crate::error::{Code, Error, Result};
use crate::formats::{Names, SparseForm, TensorHeader};
use crate::layouts::has_own;
use crate::model::{Attributes, Component, DType, DataRule, Label, Layout, NewTensor};

impl Writer {
    /// Checks a tensor, and records in `open` the blobs to store.
    pub(super) fn check(&mut self, spec: &Spec<'_>, open: &mut Open) -> Result<()> {
        let format = self.settings.format;
        if self.has(spec.name) {
            return Err(Error::new(Code::BadIndex, "another tensor has this name already"));
        }
        self.doubles.check(spec.name, format)?;
        let layout = Layout::from_label(self.builder.intern(spec.layout));
        if !(format.holds_layout)(spec.layout) {
            let message = format!("{} cannot hold the layout {:?}", format.title, spec.layout);
            return Err(Error::new(Code::BadLayout, message));
        }
        match format.names {
            Names::Numbers if spec.name != self.builder.len().to_string() => {
                let (title, number) = (format.title, self.builder.len());
                let message = format!("{title} has no names: this tensor must be called \"{number}\"");
                return Err(Error::new(Code::InvalidArg, message));
            }
            Names::Except(reserved) if spec.name == reserved => {
                let message = format!("{} reserves this name for its metadata", format.title);
                return Err(Error::new(Code::InvalidArg, message));
            }
            _ => {}
        }
        // BTF stores coordinates as uint64, a dtype that its dense tensors cannot have.
        let coords = |role: &str| format.sparse == SparseForm::Tuples && role == "coords";
        let parts =
            spec.components.iter().filter(|(role, ..)| !coords(role)).filter_map(|(_, dtype, _)| *dtype);
        let holds = format.holds_in(layout);
        if let Some(dtype) = parts.chain(spec.dtype).find(|&dtype| !holds(dtype)) {
            let message = format!("{} cannot hold {}", format.title, dtype.name());
            return Err(Error::new(Code::BadDtype, message));
        }
        if !format.tensor_attributes && spec.attributes.is_some_and(|own| has_own(spec.layout, own)) {
            let message = format!("{} has no attributes of a tensor", format.title);
            return Err(Error::new(Code::InvalidArg, message));
        }
        let roles: Vec<&str> = spec.components.iter().map(|&(role, ..)| role).collect();
        (format.check_announced)(&TensorHeader {
            name: spec.name,
            shape: spec.shape,
            layout: spec.layout,
            attributes: spec.attributes,
            roles: &roles,
            canonical: self.settings.canonical,
        })?;
        let mut components = std::mem::take(&mut open.written);
        for (role, dtype, length) in spec.components {
            let role = self.builder.intern(role);
            if components.iter().any(|component: &Component| component.role == role) {
                return Err(
                    Error::new(Code::BadIndex, "the role appears twice").component(self.builder.label(role))
                );
            }
            components.push(Component::raw(role, *dtype, 0, *length));
        }
        let elements = if layout == Layout::Dense { Label::DATA } else { Label::VALUES };
        let known = matches!(layout, Layout::Dense | Layout::SparseCsr | Layout::SparseCoo);
        let own = components.iter().find(|component| known && component.role == elements);
        if let Some(own) = own.filter(|own| own.dtype != spec.dtype) {
            let (own, tensor) =
                (own.dtype.map_or("none", DType::name), spec.dtype.map_or("none", DType::name));
            return Err(Error::new(
                Code::BadDtype,
                format!(
                    "the dtype of the tensor is {tensor}, but that of its elements is {own}: give both the same"
                ),
            ));
        }
        let (name, shape, dtype) = (spec.name, spec.shape, spec.dtype);
        let mut tensor = NewTensor { name, shape, layout, dtype, components, attributes: None };
        entry(format, spec.layout, spec.attributes, &mut tensor)?;
        for part in &tensor.components {
            if let Some(what) = part.partial_element() {
                let role = self.builder.label(part.role);
                return Err(Error::new(Code::BadShape, what).component(role));
            }
        }
        self.builder.check_shape(shape)?;
        let form = format.sparse;
        if layout != Layout::Dense && form.packs() {
            let length = spec.components.iter().map(|(.., length)| length).sum::<u64>() + form.framing();
            open.stored.push((Label::DATA, dtype, None, length));
        } else {
            // The rules of a layout concern all of its components together; the reader checks those.
            let rule = |part: &Component| match part.rule {
                None if part.dtype == Some(DType::Bool) => Some(DataRule::Bool),
                rule => rule,
            };
            let parts = tensor.components.iter();
            open.stored.extend(parts.map(|part| (part.role, part.dtype, rule(part), part.stored_length())));
        }
        open.layout = layout;
        tensor.components.clear();
        open.written = tensor.components;
        Ok(())
    }

    /// Returns whether a tensor of this name was added.
    pub(super) fn has_added(&self, name: &str) -> bool {
        self.builder.contains(name)
            || self.gathering.as_ref().is_some_and(|gathering| gathering.contains(name))
    }

    /// Returns whether a tensor of this name was added or is in the file already.
    pub(super) fn has(&self, name: &str) -> bool {
        self.has_added(name)
            || self.parts.as_ref().is_some_and(|parts| parts.contains(name))
            || self.edit.as_ref().is_some_and(|edit| edit.contains(name))
    }
}

/// Checks the index entry of a tensor as a reader of the format would. `layout` is the name of the layout.
pub(crate) fn entry(
    format: &'static WriteFormat,
    layout: &str,
    attributes: Option<&Attributes>,
    tensor: &mut NewTensor<'_>,
) -> Result<()> {
    if tensor.layout == Layout::Dense && !format.other_components && tensor.components.len() > 1 {
        let message = format!("{} stores one component of a dense tensor, \"data\"", format.title);
        return Err(Error::new(Code::BadLayout, message));
    }
    (format.check_entry)(tensor, layout, attributes)
}
