//! Messages of one tensor (`Tensor.fbs`), with strides.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::checked::{exact, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::layouts;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Blob, Builder, Component, DType, Data, Label, Layout, NewTensor, Strided, View};

use super::dtypes::{self, Element, Type};
use super::message::{Body, Buffer, Message};
use super::schema::Metadata;
use crate::flatbuffer::{Flat, Table};
use crate::limits::FLATBUFFER_NAME_BYTES;

const RULE: &str = "Arrow Columnar Format: Tensor message";

/// Type and shape, which begin both dense and sparse tensors.
pub struct Head {
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub attributes: Metadata,
}

impl Head {
    /// Returns `None`, after a warning, if the elements are not numbers.
    pub fn read(message: &mut Message<'_>, builder: &mut Builder, name: &str) -> Result<Option<Self>> {
        let (flat, table) = (&mut message.flat, message.header);
        let Type::Plain(Element::Of(dtype)) = dtypes::read(flat, table, 0)? else {
            let message = format!("{name:?} has elements that are not numbers");
            builder.warn("ZT_WARN_SKIPPED", message, None, None);
            return Ok(None);
        };
        let (mut shape, mut names) = (Vec::new(), Vec::new());
        let limits: Limits = *builder.limits();
        for position in flat.positions(table, 2, 4)? {
            let dim = flat.table_at(position)?;
            let size = flat.i64(dim, 0)?;
            let size = u64::try_from(size)
                .map_err(|_| flat.error(Code::BadShape, dim.at, format!("a dimension is {size}")))?;
            limits.push_dim(&mut shape, size)?;
            names.push(flat.text(dim, 1, FLATBUFFER_NAME_BYTES)?.unwrap_or_default());
        }
        let mut attributes = Metadata::new();
        if names.iter().any(|name| !name.is_empty()) {
            let names = names.into_iter().map(Value::Text).collect();
            attributes.push((Value::from("dim_names"), Value::Array(names)));
        }
        Ok(Some(Self { dtype, shape, attributes }))
    }
}

/// Returns the buffer described by a struct in a field of a table.
pub fn buffer(flat: &mut Flat<'_>, table: Table, field: u16, body: Body) -> Result<Buffer> {
    match flat.position(table, field, 16)? {
        Some(position) => body.buffer(flat.array(position)?),
        None => Err(flat.error(Code::BadIndex, table.at, "a tensor does not state the location of its data")),
    }
}

/// Returns the strides in bytes, or `None` if the elements are in row-major order or the list is missing.
pub fn strides(flat: &mut Flat<'_>, table: Table, field: u16) -> Result<Option<Vec<u64>>> {
    let Some(vector) = flat.vector(table, field, 8)?.filter(|vector| vector.count > 0) else {
        return Ok(None);
    };
    let mut strides = Vec::new();
    for position in vector.positions() {
        let stride = i64::from_le_bytes(flat.array(position)?);
        let stride = u64::try_from(stride)
            .map_err(|_| flat.error(Code::BadIndex, position, format!("a stride is {stride}")))?;
        strides.push(stride);
    }
    Ok(Some(strides))
}

/// Returns the component whose elements are in a buffer, with optional strides.
pub fn component(
    role: Label,
    dtype: DType,
    shape: &[u64],
    strides: Option<Vec<u64>>,
    buffer: Buffer,
) -> Result<Component> {
    let width = u64::from(dtype.bits() / 8);
    let bytes = product(shape).and_then(|elements| elements.checked_mul(width));
    let bytes = bytes.ok_or_else(|| Error::new(Code::Limit, "a tensor has more than 2^64 bytes"))?;
    exact(bytes, "the number of bytes")?;
    let mut wanted = width;
    let mut row_major: Vec<u64> = Vec::new();
    for &dim in shape.iter().rev() {
        row_major.push(wanted);
        wanted = wanted.saturating_mul(dim.max(1));
    }
    row_major.reverse();
    let other = match strides {
        Some(strides) if strides.len() != shape.len() => {
            let message = format!("{} strides for {} dimensions", strides.len(), shape.len());
            return Err(Error::new(Code::BadIndex, message));
        }
        Some(strides) => {
            let differs = |((stride, wanted), dim): ((&u64, &u64), &u64)| *dim > 1 && stride != wanted;
            let differs = bytes > 0 && strides.iter().zip(&row_major).zip(shape).any(differs);
            differs.then_some(strides)
        }
        None => None,
    };
    let view = other.map(|strides| {
        let loops = shape.iter().copied().zip(strides).collect();
        Strided { start: 0, run: width, loops }
    });
    let needed = view.as_ref().map_or(Some(bytes), Strided::end).unwrap_or(u64::MAX);
    if needed > buffer.length {
        let message = format!("the shape {shape:?} needs {needed} bytes, its buffer has {}", buffer.length);
        return Err(Error::new(Code::BadShape, message).at(buffer.at));
    }
    let stored = if view.is_some() { buffer.length } else { bytes };
    let mut component = Component::new(role, Some(dtype), Data::Blob(Blob::raw(buffer.at, stored)));
    if let Some(view) = view {
        component.view = View::Strided(Box::new(view));
    }
    Ok(component)
}

/// Adds the tensor of a message.
pub fn add(message: &mut Message<'_>, builder: &mut Builder, name: &str) -> Result<()> {
    let at = message.at;
    dense(message, builder, name).map_err(|error| error.tensor(name).rule(RULE).at(at))
}

fn dense(message: &mut Message<'_>, builder: &mut Builder, name: &str) -> Result<()> {
    let Some(head) = Head::read(message, builder, name)? else { return Ok(()) };
    let (flat, table) = (&mut message.flat, message.header);
    let strides = strides(flat, table, 3)?;
    let buffer = buffer(flat, table, 4, message.body)?;
    let Head { dtype, shape, attributes } = head;
    let mut components = builder.no_components();
    components.push(component(Label::DATA, dtype, &shape, strides, buffer)?);
    let attributes = Some(attributes.into());
    let mut tensor =
        NewTensor { name, shape: &shape, layout: Layout::Dense, dtype: Some(dtype), components, attributes };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)
}
