//! The tensors of a plan as a catalog of the checkpoint's own files: names, shapes and the order of elements are those of GGUF, and the bytes
//! stay where they are. A conversion then copies, casts or quantizes them like any others.
#![forbid(unsafe_code)]

use std::sync::Arc;
use ztensor_core::arrange::Arrange;

use ciborium::Value as Cbor;
use ztensor_core::checked::product;
use ztensor_core::convert::Conversion;
use ztensor_core::convert::quantize::{SPLIT_MXFP4, Target};
use ztensor_core::convert::scaled::{SCALED, Scaling};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::kernels::quantize::BlockEncoder;
use ztensor_core::kernels::widen::to_float32;
use ztensor_core::limits::Limits;
use ztensor_core::model::{
    self, Attributes, Blob, Builder, Catalog, Component, Container, DType, Data, Label, Layout, NewTensor,
    Strided,
};
use ztensor_core::read::Reading;

use super::{
    Axis, Blocks, Content, Element, Files, MetadataOverrides, Piece, Plan, Planned, Tensor, View, plan,
};
use crate::value::{Array, TYPE, VALUE, Value};

/// Most elements of a tensor that is computed, and not only copied: norms, and factors of the rotary embedding.
const MAX_COMPUTED: u64 = 1 << 22;

/// A checkpoint as GGUF has it.
pub struct Derived {
    /// The tensors, and the metadata as attributes that state their types.
    pub catalog: Catalog,
    /// Tensors that are stored as float32, whatever the type of the others: ordinals, and their dtypes in the catalog.
    pub float32: Vec<(u32, DType)>,
    /// Ordinals of tensors of [`SCALED`], and how they are multiplied.
    pub scaled: Vec<(usize, Scaling)>,
    /// Ordinals of tensors of [`SPLIT_MXFP4`].
    pub mxfp4: Vec<usize>,
    /// Names of tensors that GGUF does not have, and why.
    pub left_out: Vec<(String, &'static str)>,
    /// What else GGUF does not have, and peculiarities of the files.
    pub lost: Vec<String>,
    pub warnings: Vec<String>,
}

/// The tensors of a checkpoint that a conversion writes.
pub struct Selected {
    pub catalog: Arc<Catalog>,
    /// Names of tensors that GGUF does not have, and why.
    pub left_out: Vec<(String, &'static str)>,
    /// What else GGUF does not have, and peculiarities of the files.
    pub lost: Vec<String>,
    pub warnings: Vec<String>,
}

impl Derived {
    /// Selects all tensors for a conversion, with the types that programs need.
    pub fn select(self, conversion: &mut Conversion) -> Result<Selected> {
        let Self { catalog, float32, scaled, mxfp4, left_out, lost, warnings } = self;
        let ordinals: Vec<u32> = (0..).take(catalog.len()).collect();
        Arc::make_mut(&mut conversion.selection).add(&ordinals, Vec::new());
        let casts = Arc::make_mut(&mut conversion.casts);
        for (ordinal, dtype) in float32 {
            casts.cast_single(ordinal, dtype, DType::Float32)?;
            conversion.float32.push(ordinal);
        }
        // llama.cpp computes with no matrices of float64.
        for (ordinal, tensor) in (0..).zip(catalog.iter()) {
            let double = DType::Float64;
            if tensor.dtype() == Some(double) && casts.target(tensor, double) == double {
                casts.cast_single(ordinal, double, DType::Float32)?;
            }
        }
        for (ordinal, scaling) in scaled {
            casts.scale(ordinal, Arc::new(scaling))?;
        }
        if let Some(kind) = BlockEncoder::of("mxfp4") {
            let target = Arc::new(Target::new(kind));
            for ordinal in mxfp4 {
                casts.quantize(ordinal, &target, None);
            }
        }
        let catalog = Arc::new(catalog);
        conversion.derived = Some(Arc::clone(&catalog));
        Ok(Selected { catalog, left_out, lost, warnings })
    }
}

/// Derives the GGUF file of an open checkpoint. `files` are those next to the weights. Fails like [`plan`], and with `ZT_BAD_LAYOUT` for
/// tensors that are not dense.
pub fn derive(reading: Reading<'_>, files: &dyn Files, given: &MetadataOverrides) -> Result<Derived> {
    let mut tensors = Vec::with_capacity(reading.catalog.len());
    for tensor in reading.catalog.iter() {
        let dtype = tensor.dtype().filter(|_| tensor.layout() == Layout::Dense);
        let dtype = dtype.ok_or_else(|| {
            let message = "only dense tensors of a checkpoint become GGUF";
            Error::new(Code::BadLayout, message).tensor(tensor.name())
        })?;
        tensors.push(Tensor {
            name: tensor.name(),
            shape: tensor.shape(),
            dtype,
            position: tensor.ordinal(),
        });
    }
    if reading.catalog.container.name() == "safetensors" {
        // The reference reads files one after the other, each in the order of the names.
        let file =
            |ordinal| reading.catalog.tensor(ordinal).and_then(model::Tensor::data).map(Component::file);
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        order.arrange_by_key(|&ordinal| (file(ordinal), tensors.get(ordinal).map(|tensor| tensor.name)));
        for (position, ordinal) in order.into_iter().enumerate() {
            if let Some(tensor) = tensors.get_mut(ordinal) {
                tensor.position = position;
            }
        }
    }
    let mut plan = plan(files, given, &tensors)?;
    let mut builder = Builder::new(Container::named(crate::FORMAT.name), &Limits::default());
    let metadata: Vec<_> = std::mem::take(&mut plan.metadata)
        .into_iter()
        .map(|(key, value)| (Cbor::Text(key), cbor(value)))
        .chain(given.name.clone().map(|name| ("general.name".into(), Cbor::Text(name))))
        .collect();
    builder.set_attributes(Attributes::from(metadata));
    let (mut float32, mut scaled, mut mxfp4) = (Vec::new(), Vec::new(), Vec::new());
    for (ordinal, planned) in plan.tensors.iter().enumerate() {
        let named = |error: Error| error.tensor(&planned.name);
        if let Content::Blocks(Blocks { blocks, scales, view }) = &planned.content {
            let components = split(reading, *blocks, *scales, view).map_err(named)?;
            let layout = Layout::from_label(builder.intern(SPLIT_MXFP4));
            mxfp4.push(ordinal);
            builder.add_tensor(NewTensor {
                name: &planned.name,
                shape: &planned.shape,
                layout,
                dtype: None,
                components,
                attributes: None,
            })?;
            continue;
        }
        let (component, factors) = component(reading, planned, plan.dtype).map_err(named)?;
        let dtype = if factors.is_some() { Some(plan.dtype) } else { component.dtype };
        let (layout, components) = match factors {
            None => (Layout::Dense, vec![component]),
            Some((scaling, factors)) => {
                scaled.push((ordinal, scaling));
                (Layout::from_label(builder.intern(SCALED)), vec![component, factors])
            }
        };
        if let (Element::Float32, Some(dtype)) = (planned.element, dtype) {
            float32.push((u32::try_from(ordinal).unwrap_or(u32::MAX), dtype));
        }
        builder.add_tensor(NewTensor {
            name: &planned.name,
            shape: &planned.shape,
            layout,
            dtype,
            components,
            attributes: None,
        })?;
    }
    let Plan { left_out, lost, warnings, .. } = plan;
    Ok(Derived { catalog: builder.finish(), float32, scaled, mxfp4, left_out, lost, warnings })
}

/// A value in the form that states its type.
fn cbor(value: Value) -> Cbor {
    let kind = match &value {
        Value::Array(array) => array.kind(),
        one => one.kind(),
    };
    macro_rules! list {
        ($items:expr, $convert:expr) => {
            Cbor::Array($items.into_iter().map($convert).collect())
        };
    }
    let plain = match value {
        Value::Uint8(value) => value.into(),
        Value::Int8(value) => value.into(),
        Value::Uint16(value) => value.into(),
        Value::Int16(value) => value.into(),
        Value::Uint32(value) => value.into(),
        Value::Int32(value) => value.into(),
        Value::Uint64(value) => value.into(),
        Value::Int64(value) => value.into(),
        Value::Float32(value) => f64::from(value).into(),
        Value::Float64(value) => value.into(),
        Value::Bool(value) => value.into(),
        Value::String(value) => value.into(),
        Value::Array(Array::Uint8(items)) => list!(items, Cbor::from),
        Value::Array(Array::Int8(items)) => list!(items, Cbor::from),
        Value::Array(Array::Uint16(items)) => list!(items, Cbor::from),
        Value::Array(Array::Int16(items)) => list!(items, Cbor::from),
        Value::Array(Array::Uint32(items)) => list!(items, Cbor::from),
        Value::Array(Array::Int32(items)) => list!(items, Cbor::from),
        Value::Array(Array::Uint64(items)) => list!(items, Cbor::from),
        Value::Array(Array::Int64(items)) => list!(items, Cbor::from),
        Value::Array(Array::Float32(items)) => list!(items, |item| f64::from(item).into()),
        Value::Array(Array::Float64(items)) => list!(items, Cbor::from),
        Value::Array(Array::Bool(items)) => list!(items, Cbor::from),
        Value::Array(Array::String(items)) => list!(items, Cbor::from),
    };
    let text = |text: &str| Cbor::Text(text.to_owned());
    Cbor::Map(vec![(text(TYPE), text(kind.name())), (text(VALUE), plain)])
}

/// The component of a planned tensor. If its elements have factors, also how they are multiplied, and the component of the factors;
/// `dtype` is that of the products.
fn component(
    reading: Reading<'_>,
    planned: &Planned,
    dtype: DType,
) -> Result<(Component, Option<(Scaling, Component)>)> {
    let pieces = match &planned.content {
        Content::Values(values) => return Ok((computed(values), None)),
        Content::Blocks(_) => return Err(Error::new(Code::Internal, "blocks are no elements")),
        Content::Pieces(pieces) => pieces,
    };
    let parts =
        pieces.iter().map(|piece| part(reading, piece.source, &piece.view)).collect::<Result<Vec<_>>>()?;
    let Some((first, others)) = parts.split_first() else {
        return Err(Error::new(Code::Internal, "a tensor of nothing"));
    };
    if others.iter().any(|part| part.dtype != first.dtype) {
        let message = "the tensors that are stacked have different dtypes; cast the checkpoint first";
        return Err(Error::new(Code::BadDtype, message));
    }
    let joined = if others.is_empty() { first.clone() } else { join(&parts)? };
    if let Some(factors) = factors(reading, pieces, dtype)? {
        return Ok((joined, Some(factors)));
    }
    let add = pieces.first().map_or(0.0, |piece| piece.add);
    if pieces.iter().any(|piece| piece.add.to_bits() != add.to_bits()) {
        return Err(Error::new(Code::Internal, "pieces that are changed differently"));
    }
    Ok((if add == 0.0 { joined } else { added(reading, planned, &joined, add)? }, None))
}

/// How the pieces of a tensor are multiplied, and the component of their factors; `None` if they have none.
fn factors(reading: Reading<'_>, pieces: &[Piece], dtype: DType) -> Result<Option<(Scaling, Component)>> {
    let Some(first) = pieces.first().filter(|_| pieces.iter().any(|piece| piece.factors.is_some())) else {
        return Ok(None);
    };
    let different = || Error::new(Code::BadLayout, "the tensors that are stacked have different factors");
    let Some(axes) = first.factors.as_ref().map(|factors| factors.axes.clone()) else {
        return Err(different());
    };
    let mut parts = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let factors = piece.factors.as_ref().filter(|factors| factors.axes == axes).ok_or_else(different)?;
        if piece.view != first.view {
            return Err(different());
        }
        let shape = reading.catalog.tensor(factors.source).map(model::Tensor::shape).unwrap_or_default();
        parts.push(part(reading, factors.source, &View::of(shape)?)?);
    }
    let length = parts.first().map(Component::stored_length).unwrap_or_default();
    let width = parts.first().and_then(|part| part.dtype).map_or(1, DType::element_bytes) as u64;
    let same = parts.iter().all(|part| part.stored_length() == length);
    if !same || parts.iter().any(|part| part.dtype != parts.first().and_then(|first| first.dtype)) {
        return Err(different());
    }
    let mut scales = match parts.as_slice() {
        [one] => one.clone(),
        _ => join(&parts)?,
    };
    scales.role = Label::SCALES;
    let scaling = Scaling { dtype, order: first.view.strided(1)?, axes, factors: length / width };
    Ok(Some((scaling, scales)))
}

/// The components of MXFP4 in two tensors of bytes. `view` counts scales, and blocks of 16 bytes.
fn split(reading: Reading<'_>, blocks: usize, scales: usize, view: &View) -> Result<Vec<Component>> {
    let mut wide = view.clone();
    wide.axes.iter_mut().for_each(|axis| axis.stride = axis.stride.saturating_mul(16));
    wide.offset = wide.offset.saturating_mul(16);
    wide.axes.push(Axis { extent: 16, stride: 1 });
    let mut data = part(reading, blocks, &wide)?;
    let mut scales = part(reading, scales, view)?;
    if [&data, &scales].iter().any(|part| part.dtype != Some(DType::Uint8)) {
        return Err(Error::new(Code::BadDtype, "blocks and scales of MXFP4 must be uint8"));
    }
    (data.role, scales.role) = (Label::DATA, Label::SCALES);
    Ok(vec![data, scales])
}

fn computed(values: &[f32]) -> Component {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Component::inline(Label::DATA, Some(DType::Float32), bytes)
}

/// Elements of a tensor of the checkpoint, where they are.
fn part(reading: Reading<'_>, source: usize, view: &View) -> Result<Component> {
    let tensor =
        reading.catalog.tensor(source).ok_or_else(|| Error::new(Code::Internal, "no such tensor"))?;
    let named = |error: Error| error.tensor(tensor.name());
    let data = tensor.data().ok_or_else(|| named(Error::new(Code::BadLayout, "it has no data")))?;
    let dtype = data.dtype;
    let width = dtype.map_or(1, DType::element_bytes) as u64;
    let too_large = || named(Error::new(Code::Limit, "its offsets exceed 64 bits"));
    let bytes = |elements: u64| elements.checked_mul(width).ok_or_else(too_large);
    let (offset, length) = data.plain_range().ok_or_else(|| {
        let message =
            "its elements are compressed, or not in order; convert the checkpoint to safetensors first";
        named(Error::new(Code::UnsupportedEncoding, message))
    })?;
    let blob = |offset: u64, length: u64| Blob { file: data.file(), ..Blob::raw(offset, length) };
    if view.run() == view.elements() {
        let start = offset.checked_add(bytes(view.offset)?).ok_or_else(too_large)?;
        let taken = bytes(view.elements())?;
        if bytes(view.offset)?.checked_add(taken).is_none_or(|end| end > length) {
            return Err(named(Error::new(Code::BadShape, "the planned elements exceed the tensor")));
        }
        return Ok(Component::new(Label::DATA, dtype, Data::Blob(blob(start, taken))));
    }
    let strided = view.strided(width).map_err(named)?;
    if strided.end().is_none_or(|end| end > length) {
        return Err(named(Error::new(Code::BadShape, "the planned elements exceed the tensor")));
    }
    let mut component = Component::new(Label::DATA, dtype, Data::Blob(blob(offset, length)));
    component.view = model::View::Strided(Box::new(strided));
    Ok(component)
}

/// Parts one after the other: whole runs, or the same view of each.
fn join(parts: &[Component]) -> Result<Component> {
    let different = || Error::new(Code::BadShape, "the tensors that are stacked have different shapes");
    let first = parts.first().ok_or_else(different)?;
    let blobs: Option<Vec<Blob>> = parts.iter().map(|part| part.blob().cloned()).collect();
    let blobs = blobs.ok_or_else(|| Error::new(Code::Internal, "a part that is not in a file"))?;
    let length = first.stored_length();
    let is_same = parts.iter().all(|part| part.view == first.view && part.stored_length() == length);
    let is_whole = parts.iter().all(|part| part.view == model::View::Whole);
    let pieces = blobs.into_iter().map(|blob| model::Piece { run: blob.stored, blob }).collect();
    let mut joined = Component::new(first.role, first.dtype, Data::pieces(1, pieces)?);
    match &first.view {
        _ if is_whole => {}
        model::View::Strided(strided) if is_same => {
            let loops =
                [(parts.len() as u64, length)].into_iter().chain(strided.loops.iter().copied()).collect();
            joined.view = model::View::Strided(Box::new(Strided { loops, ..(**strided).clone() }));
        }
        _ => return Err(different()),
    }
    Ok(joined)
}

/// Elements as float32 with a number added.
fn added(reading: Reading<'_>, planned: &Planned, component: &Component, add: f32) -> Result<Component> {
    let elements = product(&planned.shape).filter(|&elements| elements <= MAX_COMPUTED);
    let elements = elements.ok_or_else(|| {
        let message = format!("{:?} elements are more than are computed for a tensor", planned.shape);
        Error::new(Code::Limit, message)
    })?;
    let tensor = reading.catalog.iter().next().ok_or_else(|| Error::new(Code::Internal, "no tensors"))?;
    let bytes = reading.component(tensor, component)?;
    let mut floats = vec![0; 4 * usize::try_from(elements).unwrap_or_default()];
    to_float32(component.dtype.unwrap_or(DType::Float32), &bytes, &mut floats)?;
    let sums = floats.as_chunks::<4>().0.iter().map(|&bytes| f32::from_ne_bytes(bytes) + add);
    Ok(computed(&sums.collect::<Vec<f32>>()))
}
