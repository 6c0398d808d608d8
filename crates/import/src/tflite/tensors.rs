//! Adds `Tensor` tables to the catalog: dense, quantized, or by components.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::checked::{exact, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::layouts;
use ztensor_core::layouts::affine::Affine;
use ztensor_core::model::{
    Attributes, Blob, Builder, Catalog, Component, DType, Data, Label, Layout, NewTensor,
};

use super::dtypes::ElementType;
use super::graph::{Buffers, Graph, Run, kind};
use super::sparsity;
use crate::damage;
use crate::flatbuffer::{Flat, Table};
use crate::names::Names;

const RULE: &str = "TFLite schema: Tensor";
const QUANTIZATION: &str = "TFLite schema: QuantizationParameters";

pub struct Tensors {
    builder: Builder,
    names: Names,
    buffers: Buffers,
}

/// Scales and zero points.
struct Quantization {
    scales: Component,
    zeros: Component,
    axis: i32,
    other: Option<Other>,
}

/// An unsupported kind of quantization.
struct Other {
    layout: &'static str,
    /// Its attributes.
    attributes: Vec<(Value, Value)>,
}

impl Tensors {
    pub fn new(builder: Builder, buffers: Buffers) -> Self {
        Self { builder, names: Names::default(), buffers }
    }

    pub fn finish(self) -> Catalog {
        self.builder.finish()
    }

    /// Adds a tensor that has data; others are computed by the model.
    pub fn add(&mut self, flat: &mut Flat<'_>, tensor: Table, graph: &Graph, number: usize) -> Result<()> {
        let name = graph.name(flat, tensor, number)?;
        let added = self.constant(flat, tensor, graph, &name);
        let added = added.map_err(|error| error.at(tensor.at).rule(RULE));
        damage::recover(&mut self.builder, &name, added).map_err(|error| error.tensor(&name)).map(drop)
    }

    fn constant(&mut self, flat: &mut Flat<'_>, tensor: Table, graph: &Graph, name: &str) -> Result<()> {
        let index = flat.u32(tensor, 2)?;
        if flat.u32(tensor, 10)? != 0 {
            let message = format!("the data of {name:?} is in an external buffer, which is not supported");
            self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
            return Ok(());
        }
        // Buffer 0 is empty in any model.
        let Some(run) = self.buffers.find(flat, index)?.filter(|_| index > 0) else { return Ok(()) };
        let mut shape = Vec::new();
        for position in flat.positions(tensor, 0, 4)? {
            let dim = i32::from_le_bytes(flat.array(position)?);
            let size = u64::try_from(dim)
                .map_err(|_| Error::new(Code::BadShape, format!("a dimension is {dim}")))?;
            self.builder.limits().push_dim(&mut shape, size)?;
        }
        let (number, kind) = kind(flat, tensor)?;
        if let Some(kind) = kind.filter(|kind| kind.bits == 0) {
            let what = if kind.is_text() { "strings" } else { "no values" };
            let message = format!("{name:?} has {what}: it is not a tensor");
            self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
            return Ok(());
        }
        let name = &*self.names.unique(&mut self.builder, name);
        let quantization = match flat.table(tensor, 4)? {
            Some(table) => quantization(flat, table, graph).map_err(|error| error.rule(QUANTIZATION))?,
            None => None,
        };
        let sparsity = flat.table(tensor, 6)?;
        let component = Component::new(
            Label::DATA,
            kind.and_then(|kind| kind.dtype),
            Data::Blob(Blob::raw(run.at, run.length)),
        );
        let mut attributes = Vec::new();
        let name_of = kind.map_or_else(|| number.to_string(), |kind| kind.name.to_owned());
        if let Some(table) = sparsity {
            let mut components = vec![component];
            if let Some(quantization) = quantization {
                attributes.push((Value::from("quantized_dimension"), Value::from(quantization.axis)));
                components.extend([quantization.scales, quantization.zeros]);
            }
            attributes.push((Value::from("type"), Value::from(name_of)));
            sparsity::read(flat, table, &mut self.builder, &mut components, &mut attributes)?;
            return self.parts(name, &shape, "tflite.sparse/1", components, attributes);
        }
        check_length(kind, &shape, run)?;
        let has_integers = kind.is_some_and(|kind| kind.dtype.is_none_or(DType::is_index));
        match quantization.filter(|_| has_integers) {
            Some(quantization) => {
                attributes.push((Value::from("type"), Value::from(name_of)));
                self.quantized(name, &shape, component, quantization, attributes)
            }
            None => self.dense(name, &shape, component, name_of),
        }
    }

    fn dense(&mut self, name: &str, shape: &[u64], component: Component, kind: String) -> Result<()> {
        let dtype = component.dtype;
        let mut attributes = None;
        if dtype.is_none() {
            let message = format!("{kind} has no dtype here; the bytes can be read");
            self.builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
            attributes = Some(Attributes::from(vec![(Value::from("type"), Value::from(kind))]));
        }
        let mut components = self.builder.no_components();
        components.push(component);
        let mut tensor = NewTensor { name, shape, layout: Layout::Dense, dtype, components, attributes };
        layouts::check(&mut tensor)?;
        self.builder.add_tensor(tensor)
    }

    fn quantized(
        &mut self,
        name: &str,
        shape: &[u64],
        mut component: Component,
        quantization: Quantization,
        mut attributes: Vec<(Value, Value)>,
    ) -> Result<()> {
        let Quantization { scales, zeros, axis, other } = quantization;
        // Packed codes are bytes.
        component.dtype = component.dtype.or(Some(DType::Uint8));
        if let Some(other) = other {
            attributes.extend(other.attributes);
            return self.parts(name, shape, other.layout, vec![component], attributes);
        }
        attributes.push((Value::from("quantized_dimension"), Value::from(axis)));
        let attributes = Attributes::from(attributes);
        let components = vec![component, scales, zeros];
        Affine::read(shape, &attributes, &components)?;
        let layout = Layout::Other(self.builder.intern("tflite.quantized/1"));
        let mut tensor =
            NewTensor { name, shape, layout, dtype: None, components, attributes: Some(attributes) };
        layouts::check(&mut tensor)?;
        self.builder.add_tensor(tensor)
    }

    /// Adds a tensor with an unsupported layout, by its components.
    fn parts(
        &mut self,
        name: &str,
        shape: &[u64],
        layout: &str,
        components: Vec<Component>,
        attributes: Vec<(Value, Value)>,
    ) -> Result<()> {
        let message = format!("{layout:?} is not supported: only its components can be read");
        self.builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(name), None);
        let layout = Layout::Other(self.builder.intern(layout));
        let attributes = Some(attributes.into());
        let mut tensor = NewTensor { name, shape, layout, dtype: None, components, attributes };
        layouts::check(&mut tensor)?;
        self.builder.add_tensor(tensor)
    }
}

/// Checks that the data has exactly the size required by the shape.
fn check_length(kind: Option<&ElementType>, shape: &[u64], run: Run) -> Result<()> {
    let Some(kind) = kind else { return Ok(()) };
    let bits = product(shape).map(|elements| u128::from(elements) * u128::from(kind.bits));
    let needed = bits.and_then(|bits| u64::try_from(bits.div_ceil(8)).ok());
    let needed =
        needed.ok_or_else(|| Error::new(Code::Limit, "the tensor has more than 2^64 bytes").of_item())?;
    exact(needed, "the number of bytes")?;
    if needed == run.length {
        return Ok(());
    }
    let message =
        format!("the shape {shape:?} of {} needs {needed} bytes, its buffer has {}", kind.name, run.length);
    Err(Error::new(Code::BadShape, message).at(run.at))
}

/// Returns `None` if there are neither scales nor a custom kind, in which case it only records a range observed in training.
fn quantization(flat: &mut Flat<'_>, table: Table, graph: &Graph) -> Result<Option<Quantization>> {
    let other = match flat.u8(table, 4)? {
        0 => None,
        2 => {
            let attributes = match flat.table(table, 5)? {
                Some(details) => blocks(flat, details, graph)?,
                None => Vec::new(),
            };
            Some(Other { layout: "tflite.blockwise/1", attributes })
        }
        3 => Some(Other { layout: "tflite.multi_axis/1", attributes: Vec::new() }),
        _ => Some(Other { layout: "tflite.custom/1", attributes: Vec::new() }),
    };
    let scales = flat.vector(table, 2, 4)?.filter(|scales| scales.count > 0);
    let zeros = flat.vector(table, 3, 8)?.filter(|zeros| zeros.count > 0);
    let axis = flat.i32(table, 6)?;
    if scales.is_none() && other.is_none() {
        return Ok(None);
    }
    let (at, bytes) = scales.map_or((0, 0), |scales| (scales.at, scales.byte_length()));
    let scales = Component::raw(Label::SCALES, Some(DType::Float32), at, bytes);
    let zeros = match zeros {
        Some(zeros) => Component::raw(Label::ZEROS, Some(DType::Int64), zeros.at, zeros.byte_length()),
        None => Component::inline(Label::ZEROS, Some(DType::Int64), vec![0; 8]),
    };
    Ok(Some(Quantization { scales, zeros, axis, other }))
}

/// `BlockwiseQuantization`: the length of a block, and the tensors that hold the scales and zero points.
fn blocks(flat: &mut Flat<'_>, details: Table, graph: &Graph) -> Result<Vec<(Value, Value)>> {
    let mut attributes = vec![(Value::from("block_size"), Value::from(flat.i32(details, 2)?))];
    let (scales, zeros) = (flat.i32(details, 0)?, flat.i32(details, 1)?);
    if let Some(name) = graph.name_of(flat, scales)? {
        attributes.push((Value::from("scales"), Value::Text(name)));
    }
    // If there are no zero points, their tensor number is 0 and omitted.
    if zeros != 0
        && let Some(name) = graph.name_of(flat, zeros)?
    {
        attributes.push((Value::from("zero_points"), Value::Text(name)));
    }
    Ok(attributes)
}
