//! Adds the arrays of a pickle to a catalog, large ones put together from the slices that protocols 2 and 3 divide them into.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ciborium::Value as Plain;
use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::layouts;
use ztensor_core::model::{
    Attributes, Blob, Builder, Component, DType, Data, Label, Layout, NewTensor, Piece, Strided, View,
};

use super::meanings::{Parameter, SPLITS};
use crate::damage::Damage;
use crate::names::Names;
use crate::pickle::ndarray::{Array, Raw};
use crate::pickle::{Node, Pickle, Value};

const RULE: &str = "paddle.framework.io_utils: _unpack_saved_dict";
/// The key of the parameters' own names.
pub const NAMES: &str = "StructuredToParameterName@@";

/// Adds tensors under their paths, with a suffix for duplicates.
pub fn add(
    builder: &mut Builder,
    damage: &mut Damage,
    pickle: &Pickle,
    tensors: Vec<(String, Parameter<'_>)>,
) -> Result<()> {
    let splits = splits(pickle)?;
    let mut slices: HashMap<&str, (usize, usize)> = HashMap::new();
    for (nth, split) in splits.iter().enumerate() {
        for (part, name) in split.slices.iter().enumerate() {
            if slices.insert(name, (nth, part)).is_some() {
                return Err(split.refusal(format!("{name:?} is used as a slice twice")));
            }
        }
    }
    let mut list = List { pickle, inline: pickle.byte_length().saturating_mul(2), names: Names::default() };
    // An array takes the position of its last slice.
    let mut gathered: Vec<Vec<Option<Array<'_>>>> =
        splits.iter().map(|split| vec![None; split.slices.len()]).collect();
    let mut missing: Vec<usize> = splits.iter().map(|split| split.slices.len()).collect();
    for (path, parameter) in tensors {
        let Some(&(nth, part)) = slices.get(&*path) else {
            let added = list.add(builder, &path, &parameter);
            damage.of_item(builder, added)?;
            continue;
        };
        let (Some(split), Some(parts), Some(missing)) =
            (splits.get(nth), gathered.get_mut(nth), missing.get_mut(nth))
        else {
            continue;
        };
        if let Some(slot) = parts.get_mut(part).filter(|slot| slot.is_none()) {
            *slot = Some(parameter.array);
            *missing -= 1;
        }
        if *missing == 0 {
            let parts: Vec<_> = std::mem::take(parts).into_iter().flatten().collect();
            let joined = list.joined(builder, split, &parts);
            damage.of_item(builder, joined)?;
        }
    }
    for (split, missing) in splits.iter().zip(missing) {
        if missing > 0 || split.slices.is_empty() {
            return Err(split.refusal(format!("{missing} of its {} slices are missing", split.slices.len())));
        }
    }
    Ok(())
}

/// An array that was split into slices.
struct Split<'p> {
    name: &'p str,
    shape: Vec<u64>,
    slices: Vec<&'p str>,
}

impl Split<'_> {
    fn refusal(&self, why: String) -> Error {
        Error::new(Code::BadIndex, why).tensor(self.name).rule(RULE)
    }
}

fn splits(pickle: &Pickle) -> Result<Vec<Split<'_>>> {
    let malformed = || Error::new(Code::BadIndex, format!("{SPLITS:?} is malformed")).rule(RULE);
    let Some(found) = entry(pickle, pickle.root(), SPLITS) else { return Ok(Vec::new()) };
    let Some(Node::Dict(entries)) = pickle.node(found) else { return Err(malformed()) };
    let mut splits = Vec::new();
    for &[name, about] in entries.as_chunks::<2>().0 {
        let split = || {
            let shape = pickle.items(entry(pickle, about, "OriginShape")?)?.iter();
            let shape =
                shape.map(|dim| if let Value::Int(dim) = *dim { u64::try_from(dim).ok() } else { None });
            let slices = pickle.items(entry(pickle, about, "slices")?)?.iter();
            Some(Split {
                name: pickle.text(name)?,
                shape: shape.collect::<Option<_>>()?,
                slices: slices.map(|&slice| pickle.text(slice)).collect::<Option<_>>()?,
            })
        };
        splits.push(split().ok_or_else(malformed)?);
    }
    Ok(splits)
}

/// Returns the value of a key in a dict, the last one if it was set again.
fn entry(pickle: &Pickle, dict: Value, key: &str) -> Option<Value> {
    let Node::Dict(entries) = pickle.node(dict)? else { return None };
    entries
        .as_chunks::<2>()
        .0
        .iter()
        .rev()
        .find(|[name, _]| pickle.text(*name) == Some(key))
        .map(|pair| pair[1])
}

struct List<'p> {
    pickle: &'p Pickle,
    /// Bytes that may still be copied from the pickle, which may refer to them repeatedly.
    inline: u64,
    names: Names,
}

impl List<'_> {
    fn add(&mut self, builder: &mut Builder, path: &str, parameter: &Parameter<'_>) -> Result<()> {
        let Parameter { name, array } = parameter;
        let data = self.data(array).map_err(|error| error.tensor(path))?;
        let mut component = Component::new(Label::DATA, array.dtype, data);
        component.byte_order = array.byte_order;
        if array.fortran
            && array.shape.len() > 1
            && let Some(dtype) = array.dtype
        {
            let width = u64::from(dtype.bits() / 8);
            let mut stride = width;
            let loops = array.shape.iter().map(|&dim| {
                let here = (dim, stride);
                // At most the number of bytes present, which `data` has checked.
                stride = stride.saturating_mul(dim);
                here
            });
            let strided = Strided { start: 0, run: width, loops: loops.collect() };
            if !array.shape.contains(&0) {
                component.view = View::Strided(Box::new(strided));
            }
        }
        self.tensor(builder, path, *name, array, &array.shape, component)
    }

    /// Adds the array formed by these slices.
    fn joined(&mut self, builder: &mut Builder, split: &Split<'_>, slices: &[Array<'_>]) -> Result<()> {
        let Some(first) = slices.first() else { return Ok(()) };
        let mut elements = 0_u64;
        let mut data = Vec::new();
        for slice in slices {
            let [count] = *slice.shape else { return Err(split.refusal("a slice is not flat".to_owned())) };
            if (slice.spelling, slice.byte_order) != (first.spelling, first.byte_order) {
                return Err(split.refusal("its slices have different types".to_owned()));
            }
            elements = elements.saturating_add(count);
            data.push(self.data(slice).map_err(|error| error.tensor(split.name))?);
        }
        if product(&split.shape) != Some(elements) {
            let message = format!(
                "the slices have {elements} elements, which does not match the shape {:?}",
                split.shape
            );
            return Err(Error::new(Code::BadShape, message).tensor(split.name).rule(RULE));
        }
        let data = join(data).map_err(|error| error.tensor(split.name).rule(RULE))?;
        let mut component = Component::new(Label::DATA, first.dtype, data);
        component.byte_order = first.byte_order;
        self.tensor(builder, split.name, None, first, &split.shape, component)
    }

    /// Returns the bytes of an array. Fails with `ZT_BAD_SHAPE` if they do not match its shape.
    fn data(&mut self, array: &Array<'_>) -> Result<Data> {
        let Some(raw) = &array.data else { return Ok(Data::Inline(Box::default())) };
        let length = raw.length();
        if let Some(dtype) = array.dtype {
            let needed = product(&array.shape).and_then(|all| all.checked_mul(u64::from(dtype.bits() / 8)));
            if needed != Some(length) {
                let message = format!(
                    "the shape {:?} of {} does not match the {length} bytes of the array",
                    array.shape,
                    dtype.name()
                );
                return Err(Error::new(Code::BadShape, message));
            }
        }
        if let Raw::At(span) = raw {
            return Ok(Data::Blob(Blob::raw(span.start, length)));
        }
        self.inline = self.inline.checked_sub(length).ok_or_else(|| {
            Error::new(Code::Limit, "arrays share the bytes of the pickle too often to be copied")
        })?;
        Ok(Data::Inline(raw.bytes(self.pickle).into()))
    }

    fn tensor(
        &mut self,
        builder: &mut Builder,
        path: &str,
        own: Option<&str>,
        array: &Array<'_>,
        shape: &[u64],
        component: Component,
    ) -> Result<()> {
        let name = self.names.unique(builder, path);
        warn(builder, &name, array.dtype, array.spelling);
        let attributes = own.map(|own| Attributes::from(vec![(Plain::from("name"), Plain::from(own))]));
        let (layout, dtype) = (Layout::Dense, array.dtype);
        let components = vec![component];
        let mut tensor = NewTensor { name: &name, shape, layout, dtype, components, attributes };
        layouts::check(&mut tensor)?;
        builder.add_tensor(tensor)
    }
}

fn warn(builder: &mut Builder, name: &str, dtype: Option<DType>, spelling: &str) {
    match dtype {
        None => {
            let message =
                format!("{spelling:?} is not a zTensor dtype: the bytes can be read, but not the values");
            builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
        }
        Some(DType::Uint16) => {
            let message = "uint16 may be bfloat16, which Paddle saves in the same way: the file does not distinguish them";
            builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
        }
        Some(_) => {}
    }
}

/// Joins consecutive data, all of it in the file or all of it copied.
fn join(parts: Vec<Data>) -> Result<Data> {
    let mut pieces = Vec::new();
    let mut copied = Vec::new();
    for part in parts {
        match part {
            Data::Blob(blob) => pieces.push(Piece { run: blob.stored, blob }),
            Data::Inline(bytes) => copied.extend_from_slice(&bytes),
            _ => {}
        }
    }
    match (&*pieces, &*copied) {
        (_, []) => Data::pieces(1, pieces),
        ([], _) => Ok(Data::Inline(copied.into())),
        _ => Err(Error::new(Code::BadIndex, "its slices are encoded in two ways")),
    }
}
