//! Determines what a target cannot hold, before anything is written.
#![forbid(unsafe_code)]

use ciborium::Value;

use super::Casts;
use super::cast::cast_length;
use super::{dequantize, quantize};
use crate::checked::{bytes_of, product};
use crate::error::{Code, Error, Result};
use crate::formats::{FileAttributes, Names, RecordedDtypes, TensorHeader};
use crate::kernels::dequantize::can_dequantize;
use crate::layouts::has_own;
use crate::limits::ATTRIBUTE_VALUES;
use crate::model::{Attributes, Catalog, Component, DType, Label, Layout, NewTensor, Tensor};
use crate::read::sparse_parts;
use crate::write::sparse::IndexTypes;
use crate::write::{WriteFormat, check};

/// The requested conversion.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub format: &'static WriteFormat,
    /// zTensor 2: write the canonical form.
    pub canonical: bool,
    pub casts: &'a Casts,
}

/// Returns why the target cannot hold a tensor under a name.
pub fn refusal(catalog: &Catalog, tensor: Tensor<'_>, name: &str, wanted: Target<'_>) -> Option<Error> {
    let Target { format, casts, .. } = wanted;
    if let Some(target) = casts.quantized(tensor) {
        let checked = quantized(catalog, tensor, name, target, wanted);
        return checked.err().map(|error| error.tensor(tensor.name()));
    }
    if let Some(dtype) = casts.dequantized(tensor) {
        let checked = dequantized(catalog, tensor, name, dtype, wanted);
        return checked.err().map(|error| error.tensor(tensor.name()));
    }
    let attributes = casts.attributes(tensor);
    let problem = if !(format.holds_layout)(tensor.layout_name()) {
        let message = format!("{} cannot hold the layout {:?}", format.title, tensor.layout_name());
        Some(advised(Error::new(Code::BadLayout, message), tensor))
    } else if let Some(dtype) = dtypes(tensor, casts).find(|&dtype| !format.holds_in(tensor.layout())(dtype))
    {
        Some(Error::new(Code::BadDtype, format!("{} cannot hold {}", format.title, dtype.name())))
    } else if let Some(error) = other_components(catalog, tensor, format) {
        Some(error)
    } else if let Some(error) = lost_dtype(tensor, format) {
        Some(error)
    } else if tensor.layout() == Layout::Dense && tensor.dtype().is_none() {
        Some(Error::new(Code::BadDtype, "the type of its elements is unknown"))
    } else if tensor.components().iter().any(|part| !part.is_decodable()) {
        Some(Error::new(Code::UnsupportedEncoding, "its encoding cannot be decoded"))
    } else if !format.tensor_attributes
        && attributes.as_deref().is_some_and(|own| has_own(tensor.layout_name(), own))
    {
        Some(no_attributes(format))
    } else if let Err(error) = announced(catalog, tensor, name, wanted) {
        Some(error)
    } else if let Some(error) = reserved(name, format) {
        Some(error)
    } else if let Some(dtype) = tensor.data().and_then(|data| casts.component(tensor, data))
        && !format.profiles
        && !fills_bytes(tensor, dtype)
    {
        let message = format!(
            "{} cannot hold a shape whose elements of {} do not fill whole bytes",
            format.title,
            dtype.name()
        );
        Some(Error::new(Code::BadShape, message))
    } else {
        None
    };
    let problem = problem.or_else(|| entry(tensor, wanted).err());
    problem.map(|error| error.tensor(tensor.name()))
}

fn no_attributes(format: &WriteFormat) -> Error {
    Error::new(Code::InvalidArg, format!("{} has no attributes of a tensor", format.title))
}

/// Rejects a name that a format reserves.
fn reserved(name: &str, format: &WriteFormat) -> Option<Error> {
    let is_reserved = matches!(format.names, Names::Except(reserved) if reserved == name);
    is_reserved.then(|| {
        Error::new(Code::InvalidArg, format!("{} reserves this name for its metadata", format.title))
    })
}

/// Adds advice for a tensor with an unsupported layout, if it can be stored as floats.
fn advised(error: Error, tensor: Tensor<'_>) -> Error {
    if can_dequantize(tensor.layout_name()) {
        error.hint("dequantize", " (option dequantize stores its elements as floats)")
    } else {
        error
    }
}

/// Fails if a tensor cannot be held as blocks of a type.
fn quantized(
    catalog: &Catalog,
    tensor: Tensor<'_>,
    name: &str,
    target: &quantize::Target,
    wanted: Target<'_>,
) -> Result<()> {
    let Target { format, canonical, casts } = wanted;
    let layout = &*target.layout;
    if !(format.holds_layout)(layout) {
        let message = format!("{} cannot hold the layout {layout:?}", format.title);
        return Err(Error::new(Code::BadLayout, message));
    }
    if tensor.components().iter().any(|part| !part.is_decodable()) {
        return Err(Error::new(Code::UnsupportedEncoding, "its encoding cannot be decoded"));
    }
    if let Some(error) = reserved(name, format) {
        return Err(error);
    }
    quantize::check(tensor, target.kind, casts)?;
    let attributes = casts.attributes(tensor);
    let attributes = attributes.as_deref();
    if !format.tensor_attributes && attributes.is_some_and(|own| has_own(layout, own)) {
        return Err(no_attributes(format));
    }
    (format.check_announced)(&TensorHeader {
        name,
        shape: tensor.shape(),
        layout,
        attributes,
        roles: &[catalog.label(Label::DATA)],
        canonical,
    })?;
    let length = quantize::length(tensor, target.kind)?;
    let components = vec![Component::raw(Label::DATA, Some(DType::Uint8), 0, length)];
    // The catalog of the source may not have the label of the layout; `layout` is its name.
    let mut written = NewTensor {
        name,
        shape: tensor.shape(),
        layout: Layout::Other(Label::DATA),
        dtype: None,
        components,
        attributes: None,
    };
    check::entry(format, layout, attributes, &mut written)
}

/// Fails if a quantized tensor cannot be held as a dense tensor of `dtype`.
fn dequantized(
    catalog: &Catalog,
    tensor: Tensor<'_>,
    name: &str,
    dtype: DType,
    wanted: Target<'_>,
) -> Result<()> {
    let Target { format, canonical, casts } = wanted;
    if !(format.holds)(dtype) {
        return Err(Error::new(Code::BadDtype, format!("{} cannot hold {}", format.title, dtype.name())));
    }
    if tensor.components().iter().any(|part| !part.is_decodable()) {
        return Err(Error::new(Code::UnsupportedEncoding, "its encoding cannot be decoded"));
    }
    if let Some(error) = reserved(name, format) {
        return Err(error);
    }
    if casts.scaling(tensor).is_none() {
        dequantize::check(tensor)?;
    }
    let remaining = casts.attributes(tensor);
    if remaining.is_some() && !format.tensor_attributes {
        return Err(no_attributes(format));
    }
    let (role, attributes) = (catalog.label(Label::DATA), remaining.as_deref());
    let announced =
        TensorHeader { name, shape: tensor.shape(), layout: "dense", attributes, roles: &[role], canonical };
    (format.check_announced)(&announced)?;
    let (shape, layout) = (tensor.shape(), Layout::Dense);
    let components = vec![Component::raw(Label::DATA, Some(dtype), 0, dequantize::length(tensor, dtype)?)];
    let mut written = NewTensor { name, shape, layout, dtype: Some(dtype), components, attributes: None };
    check::entry(format, "dense", attributes, &mut written)
}

/// Rejects components other than those of the layout if the target does not support them.
fn other_components(catalog: &Catalog, tensor: Tensor<'_>, format: &'static WriteFormat) -> Option<Error> {
    let roles = tensor.other_components().map(|part| format!("{:?}", catalog.label(part.role)));
    let roles: Vec<_> = roles.filter(|_| !format.other_components).take(NAMED).collect();
    let message = || {
        let (layout, roles) = (tensor.layout_name(), roles.join(", "));
        format!("{} cannot hold components other than those of the layout {layout:?}: {roles}", format.title)
    };
    (!roles.is_empty()).then(|| Error::new(Code::BadLayout, message()))
}

/// Rejects the dtype of elements of a layout that the target does not define, if the target records only those of
/// components.
fn lost_dtype(tensor: Tensor<'_>, format: &'static WriteFormat) -> Option<Error> {
    let (name, layout) = (format.title, tensor.layout_name());
    let is_lost =
        format.dtypes == RecordedDtypes::OfComponents && matches!(tensor.layout(), Layout::Other(_));
    let dtype = tensor.dtype().filter(|_| is_lost)?.name();
    let message = format!("{name} keeps no dtype of the layout {layout:?}, {dtype}; version 1.0 keeps it");
    Some(advised(Error::new(Code::BadLayout, message), tensor))
}

/// Maximum number of components named in an error.
const NAMED: usize = 8;

/// Checks the requirements that only this format has.
fn announced(catalog: &Catalog, tensor: Tensor<'_>, name: &str, wanted: Target<'_>) -> Result<()> {
    let roles: Vec<&str> = tensor.components().iter().map(|part| catalog.label(part.role)).collect();
    (wanted.format.check_announced)(&TensorHeader {
        name,
        shape: tensor.shape(),
        layout: tensor.layout_name(),
        attributes: wanted.casts.attributes(tensor).as_deref(),
        roles: &roles,
        canonical: wanted.canonical,
    })
}

/// Returns whether the elements fill whole bytes. Only version 2 pads the last byte of a packed dtype.
fn fills_bytes(tensor: Tensor<'_>, dtype: DType) -> bool {
    product(tensor.shape()).is_none_or(|elements| bytes_of(elements, dtype.bits()).is_some())
}

/// Checks the index entry like the writer, if all lengths are known.
fn entry(tensor: Tensor<'_>, Target { format, casts, .. }: Target<'_>) -> Result<()> {
    let sparse = matches!(tensor.layout(), Layout::SparseCsr | Layout::SparseCoo);
    let parts = tensor.components();
    if tensor.layout() == Layout::Dense && parts.len() == 1 && casts.attributes(tensor).is_none() {
        // The source has checked the same rules.
        return Ok(());
    }
    let indices = if sparse { sparse_parts(tensor)?.split_off(1) } else { Vec::new() };
    let all: Vec<DType> = indices.iter().filter_map(|part| part.dtype).collect();
    let written = parts.iter().map(|part| {
        let (dtype, length) = (casts.component(tensor, part), part.byte_length()?);
        let (dtype, length) = match part.dtype {
            Some(own) if sparse && part.role != Label::VALUES && tensor.is_own(part) => {
                let (elements, index) =
                    (length / own.element_bytes() as u64, IndexTypes::Source.dtype(format, &all, own));
                (Some(index), bytes_of(elements, index.bits())?)
            }
            own => (dtype, cast_length(own, dtype, length).ok()?),
        };
        Some(Component::raw(part.role, dtype, 0, length))
    });
    let Some(components) = written.collect::<Option<Vec<_>>>() else { return Ok(()) };
    let (name, shape, layout) = (tensor.name(), tensor.shape(), tensor.layout());
    let dtype = casts.tensor(tensor);
    let mut written = NewTensor { name, shape, layout, dtype, components, attributes: None };
    check::entry(format, tensor.layout_name(), casts.attributes(tensor).as_deref(), &mut written)
}

/// Returns the dtypes that the target must support. Excludes those of index arrays, which become unsigned integers that
/// every target supports.
fn dtypes<'a>(tensor: Tensor<'a>, casts: &'a Casts) -> impl Iterator<Item = DType> + 'a {
    let sparse = matches!(tensor.layout(), Layout::SparseCsr | Layout::SparseCoo);
    let indices = move |part: &Component| sparse && part.role != Label::VALUES && tensor.is_own(part);
    let parts = tensor.components().iter().filter(move |part| !indices(part));
    parts.filter_map(move |part| casts.component(tensor, part))
}

/// Returns why the format cannot hold a file's own attributes.
pub fn attribute_refusal(
    attributes: &Attributes,
    format: &'static WriteFormat,
    canonical: bool,
) -> Option<Error> {
    let values = match format.values_of(attributes) {
        Ok(values) => values,
        Err(error) => return Some(error),
    };
    let held = is_held(&values, format, canonical);
    let message = || format!("{} cannot hold the metadata of the file", format.title);
    if held && is_too_many(&values) {
        return Some(without_attributes(too_many()));
    }
    (!held).then(|| without_attributes(Error::new(Code::InvalidArg, message())))
}

/// Fails for the first attribute that a writer of the format rejects, and for more than readers accept.
pub fn check_attributes(
    attributes: &Attributes,
    format: &'static WriteFormat,
    canonical: bool,
) -> Result<()> {
    let values = format.values_of(attributes)?;
    (format.check_attributes)(&values, canonical)?;
    if is_too_many(&values) { Err(too_many()) } else { Ok(()) }
}

fn is_too_many(values: &[(Value, Value)]) -> bool {
    count(values) > u64::from(ATTRIBUTE_VALUES)
}

fn too_many() -> Error {
    let message = format!("the metadata has more values than the {ATTRIBUTE_VALUES} that readers accept");
    Error::new(Code::Limit, message)
}

fn without_attributes(error: Error) -> Error {
    error.hint("copyMetadata", "; copyMetadata: false omits it")
}

/// Returns whether the format can hold attributes, however many there are.
pub(super) fn is_held(values: &[(Value, Value)], format: &'static WriteFormat, canonical: bool) -> bool {
    let text_only = || values.iter().all(|(key, value)| key.is_text() && value.is_text());
    values.is_empty()
        || match format.attributes {
            FileAttributes::Any => (format.check_attributes)(values, canonical).is_ok(),
            FileAttributes::Text => text_only(),
            FileAttributes::None => false,
        }
}

/// Counts attribute values like [`Limits::max_attribute_values`](crate::limits::Limits).
fn count(entries: &[(Value, Value)]) -> u64 {
    fn of(value: &Value) -> u64 {
        match value {
            Value::Array(items) => 3 + items.iter().map(of).sum::<u64>(),
            Value::Map(entries) => 3 + count(entries),
            Value::Tag(_, value) => 3 + of(value),
            _ => 1,
        }
    }
    entries.iter().map(|(key, value)| of(key) + of(value)).sum()
}
