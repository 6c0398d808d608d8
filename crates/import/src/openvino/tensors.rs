//! Adds `Const` layers to the catalog.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::checked::{end_within, exact, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::layouts::{self, exact as packed};
use ztensor_core::model::{Attributes, Blob, Builder, Catalog, Component, Data, Label, Layout, NewTensor};
use ztensor_core::sources::siblings::Neighbor;

use super::details;
use super::dtypes::{self, ElementType};
use crate::damage;
use crate::limits::{OPENVINO_NAME_BYTES, OPENVINO_TENSOR_BYTES};
use crate::names::Names;

/// The extension of a data file.
pub const DATA: &str = "bin";
const RULE: &str = "OpenVINO IR: Const";

/// The attributes of `<data>`.
#[derive(Default)]
pub struct Constant {
    pub kind: Option<String>,
    pub shape: Option<String>,
    pub offset: Option<String>,
    pub size: Option<String>,
}

pub struct Tensors<'i> {
    pub builder: Builder,
    input: &'i Input<'i>,
    names: Names,
    /// Bytes that tensors may still take in addition to their data.
    left: u64,
    /// The data file and its name, once a constant has requested it.
    data: Option<(String, Neighbor)>,
}

impl<'i> Tensors<'i> {
    /// `left`: bytes that tensors may take in addition to their data.
    pub fn new(builder: Builder, input: &'i Input<'i>, left: u64) -> Self {
        Self { builder, input, names: Names::default(), left, data: None }
    }

    pub fn finish(self) -> Catalog {
        self.builder.finish()
    }

    /// Adds the constant of the layer at `at`, named `name` with the prefix `path`.
    pub fn add(&mut self, path: &str, name: &str, constant: &Constant, at: u64) -> Result<()> {
        if name.len() > OPENVINO_NAME_BYTES {
            let message = format!("the name of a layer has more than {OPENVINO_NAME_BYTES} bytes");
            return Err(Error::new(Code::Limit, message).at(at).rule(RULE));
        }
        let name = format!("{path}{name}");
        let taken = OPENVINO_TENSOR_BYTES.saturating_add(path.len() as u64);
        self.left = self.left.checked_sub(taken).ok_or_else(|| {
            let message = "the model has more constants than maxIndexBytes allows: each counts as 64 bytes and its path";
            Error::new(Code::Limit, message).at(at)
        })?;
        let added = self.constant(&name, constant).map_err(|error| error.at(at).rule(RULE));
        damage::recover(&mut self.builder, &name, added).map_err(|error| error.tensor(&name)).map(drop)
    }

    fn constant(&mut self, name: &str, constant: &Constant) -> Result<()> {
        let bad = |message: &str| Error::new(Code::BadIndex, message);
        let kind = constant.kind.as_deref().ok_or_else(|| bad("the constant has no element_type"))?;
        if kind == dtypes::TEXT {
            let message = format!("{name:?} contains strings: it is not a tensor");
            self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
            return Ok(());
        }
        let number = |text: &Option<String>, what: &str| {
            let number = text.as_deref().and_then(dtypes::number);
            number.ok_or_else(|| bad(&format!("the constant's {what} is not a 64-bit number")))
        };
        let (offset, size) = (number(&constant.offset, "offset")?, number(&constant.size, "size")?);
        let shape = self.shape(constant.shape.as_deref().ok_or_else(|| bad("the constant has no shape"))?)?;
        let known = dtypes::kind(kind);
        let length = match known {
            Some(known) => needed(known, &shape, size)?,
            None => size,
        };
        let name = &*self.names.unique(&mut self.builder, name);
        let dtype = known.and_then(|kind| kind.dtype);
        let width = dtype.map(|dtype| u64::from(dtype.bits() / 8)).filter(|&width| width > 0);
        let data = match (self.data(offset, length), width) {
            // If the file is truncated, the elements present are used.
            (Err(error), Some(width)) if error.code() == Code::Truncated => {
                self.builder.warn(damage::warning_of(error.code()), error.message(), Some(name), None);
                let neighbor = self.data.as_ref().map(|(_, neighbor)| neighbor);
                let (file, total) = neighbor.map_or((0, None), |found| (found.file, found.length));
                Data::short_slice(file, &shape, width, offset, total.unwrap_or_default())
            }
            (data, _) => data?,
        };
        let mut attributes = None;
        if dtype.is_none() {
            let message = format!("{kind} has no dtype here; the bytes can be read");
            self.builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
            attributes = Some(Attributes::from(vec![(Value::from("element_type"), Value::from(kind))]));
        }
        let mut components = self.builder.no_components();
        components.push(Component::new(Label::DATA, dtype, data));
        let mut tensor =
            NewTensor { name, shape: &shape, layout: Layout::Dense, dtype, components, attributes };
        // Elements smaller than a byte need not fill the last one.
        match dtype {
            Some(dtype) if dtype.bits() < 8 => packed::dense(&mut tensor),
            _ => layouts::check(&mut tensor),
        }?;
        self.builder.add_tensor(tensor)
    }

    fn shape(&self, text: &str) -> Result<Vec<u64>> {
        let mut shape = Vec::new();
        for size in details::sizes(text) {
            let size = dtypes::number(size)
                .ok_or_else(|| Error::new(Code::BadShape, format!("a dimension is {size:?}")))?;
            self.builder.limits().push_dim(&mut shape, size)?;
        }
        Ok(shape)
    }

    /// Locates bytes of the data file. A file that cannot be read is reported once and affects only its data.
    fn data(&mut self, offset: u64, length: u64) -> Result<Data> {
        if length == 0 {
            return Ok(Data::Blob(Blob::raw(0, 0)));
        }
        exact(offset.saturating_add(length), "the end of the data")?;
        if self.data.is_none() {
            let own = self.input.own_name().unwrap_or_default();
            let stem = own.rsplit_once('.').map_or(own, |(stem, _)| stem);
            let name = format!("{stem}.{DATA}");
            let neighbor = self.input.sibling(&name)?;
            if let Some(problem) = &neighbor.problem {
                let message = format!(
                    "the data of constants is in {name:?}, which cannot be read: {}",
                    problem.message()
                );
                self.builder.warn("ZT_WARN_INCOMPLETE_SET", message, None, None);
            }
            self.data = Some((name, neighbor));
        }
        let Some((name, neighbor)) = &self.data else {
            return Err(Error::new(Code::Internal, "the file of data was lost"));
        };
        if let Some(total) = neighbor.length
            && end_within(offset, length, total).is_none()
        {
            let message =
                format!("{length} bytes at offset {offset} of {name:?} extend past its {total} bytes");
            return Err(Error::new(Code::Truncated, message));
        }
        Ok(Data::Blob(Blob { file: neighbor.file, ..Blob::raw(offset, length) }))
    }
}

/// Returns the bytes of a constant, of which `size` are present. OpenVINO accepts more than the shape needs and ignores the rest.
fn needed(kind: &ElementType, shape: &[u64], size: u64) -> Result<u64> {
    let needed = product(shape).and_then(|elements| kind.bytes_of(elements));
    let needed =
        needed.ok_or_else(|| Error::new(Code::Limit, "the constant has more than 2^64 bytes").of_item())?;
    exact(needed, "the number of bytes")?;
    if size < needed {
        let message =
            format!("the shape {shape:?} of {} needs {needed} bytes, but the constant has {size}", kind.name);
        return Err(Error::new(Code::BadShape, message));
    }
    Ok(needed)
}
