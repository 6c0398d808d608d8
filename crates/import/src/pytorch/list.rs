//! Adds the tensors found to a catalog: their bytes, and how they are read.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use ciborium::Value as Plain;
use ztensor_core::checked::{MAX_EXACT, end_within, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::kernels::cast::cast;
use ztensor_core::kernels::swap::swap_bytes;
use ztensor_core::layouts;
use ztensor_core::model::{
    Attributes, Blob, Builder, ByteOrder, Component, DType, Data, Entries, Label, Layout, NewTensor, Signs,
    View,
};

use super::element_type::{ElementType, stored_as};
use super::tensor::{Quantized, Scales, Sparse, Storage, Strided, Tensor};
use crate::damage::Damage;
use crate::names::Names;
use crate::pickle::Pickle;
use crate::pickle::ndarray::{Array, Raw};

const RULE: &str = "torch._utils";
/// Maximum views of one storage that are verified with it: each load of a view hashes the whole storage.
const HASHED_PARTS: u32 = 16;

/// Maximum bytes that are copied from a pickle, as a multiple of its own.
const COPIES: u64 = 4;

/// The locations of the bytes of a checkpoint.
pub struct Context<'a> {
    pub pickle: &'a Pickle,
    /// The offset of the pickle in the file, if it is stored there uncompressed.
    pub offset: Option<u64>,
    /// The byte order of the storages.
    pub byte_order: ByteOrder,
    /// The decoded bytes of storages, by key.
    pub storages: &'a HashMap<&'a str, Blob>,
}

/// Adds tensors under their paths, with a suffix for duplicates.
pub fn add(
    builder: &mut Builder,
    damage: &mut Damage,
    context: &Context<'_>,
    tensors: &[(String, Tensor<'_>)],
) -> Result<()> {
    let mut uses: HashMap<&str, u32> = HashMap::new();
    for part in tensors.iter().flat_map(|(_, tensor)| parts(tensor)) {
        *uses.entry(part.storage.key).or_default() += 1;
    }
    short_storages(builder, damage, context, tensors);
    let mut list = List { context, uses, inline: context.pickle.byte_length().saturating_mul(COPIES) };
    let mut names = Names::default();
    for (path, tensor) in tensors {
        let name = names.unique(builder, path);
        let added = list.add(builder, &name, tensor).map_err(|error| error.tensor(&name).rule(RULE));
        damage.of_item(builder, added)?;
    }
    Ok(())
}

/// Records storages that are shorter than stated by the pickle, each once.
fn short_storages(
    builder: &mut Builder,
    damage: &mut Damage,
    context: &Context<'_>,
    tensors: &[(String, Tensor<'_>)],
) {
    let mut seen = HashSet::new();
    for (path, tensor) in tensors {
        for Strided { storage, .. } in parts(tensor) {
            let Some(blob) = context.storages.get(storage.key) else { continue };
            let held = blob.decoded.unwrap_or_default();
            let message = match (storage.elements, storage.kind.unit()) {
                (None, _) => {
                    format!(
                        "the pickle does not state the number of elements of the storage {:?}",
                        storage.key
                    )
                }
                (Some(elements), Some(unit))
                    if elements.checked_mul(unit).is_none_or(|stated| stated > held) =>
                {
                    format!(
                        "the storage {:?} has {held} bytes, but the pickle states {elements} elements of {unit}: the file is truncated",
                        storage.key
                    )
                }
                _ => continue,
            };
            if !seen.insert(storage.key) {
                continue;
            }
            let error = Error::new(Code::OutOfBounds, message).at(blob.offset).rule(RULE);
            damage.note(builder, error.tensor(path));
        }
    }
}

/// Returns the storage views that a tensor consists of.
fn parts<'t, 'p>(tensor: &'t Tensor<'p>) -> Vec<&'t Strided<'p>> {
    match tensor {
        Tensor::Strided(strided) => vec![strided],
        Tensor::Quantized(Quantized { data, scales: Scales::Each { scales, zeros, .. } }) => {
            vec![data, scales, zeros]
        }
        Tensor::Quantized(quantized) => vec![&quantized.data],
        Tensor::Sparse(sparse) => sparse.indices.iter().chain([&sparse.values]).collect(),
        Tensor::Meta(..) | Tensor::Array(..) | Tensor::Cast(..) => Vec::new(),
    }
}

struct List<'a> {
    context: &'a Context<'a>,
    /// The number of tensor views of each storage.
    uses: HashMap<&'a str, u32>,
    /// Bytes that may still be copied from the pickle, which may refer to them repeatedly.
    inline: u64,
}

impl List<'_> {
    fn add(&mut self, builder: &mut Builder, name: &str, tensor: &Tensor<'_>) -> Result<()> {
        match tensor {
            Tensor::Strided(strided) => self.dense(builder, name, strided),
            Tensor::Array(array) => self.array(builder, name, array),
            Tensor::Cast(array, kind) => self.cast(builder, name, array, *kind),
            Tensor::Quantized(quantized) => self.quantized(builder, name, quantized),
            Tensor::Sparse(sparse) => self.sparse(builder, name, sparse),
            Tensor::Meta(kind, shape) => meta(builder, name, *kind, shape),
        }
    }

    fn dense(&self, builder: &mut Builder, name: &str, strided: &Strided<'_>) -> Result<()> {
        if strided.kind.bits == 0 && self.width(strided).is_none() {
            return self.unplaced(builder, name, strided);
        }
        let data = self.component(Label::DATA, strided)?;
        if data.dtype.is_none() {
            unknown(builder, name, strided.kind.name);
        }
        tensor(builder, name, &strided.shape, Layout::Dense, data.dtype, vec![data], Entries::new())
    }

    /// Adds a tensor of unknown type whose position in its storage is unknown.
    fn unplaced(&self, builder: &mut Builder, name: &str, strided: &Strided<'_>) -> Result<()> {
        let Strided { storage, kind, shape, .. } = strided;
        let blob = self.storage(storage)?;
        let message = format!(
            "{:?} is an unknown type: the bytes of the whole storage can be read, but not the values",
            kind.name
        );
        builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
        let components = vec![Component::new(builder.intern("storage"), None, Data::Blob(blob))];
        let layout = Layout::Other(builder.intern("torch.unknown/1"));
        tensor(builder, name, shape, layout, None, components, vec![text("dtype", kind.name)])
    }

    fn storage(&self, storage: &Storage<'_>) -> Result<Blob> {
        let missing = || Error::new(Code::BadIndex, format!("the file has no storage {:?}", storage.key));
        self.context.storages.get(storage.key).cloned().ok_or_else(missing)
    }

    /// Returns the bytes of an element of unknown type, derived from the storage if it counts such elements or if the tensor covers all of
    /// it.
    fn width(&self, part: &Strided<'_>) -> Option<u64> {
        let Strided { storage, kind, shape, strides, .. } = part;
        let held = self.context.storages.get(storage.key)?.decoded?;
        let elements = if storage.kind == *kind {
            storage.elements?
        } else {
            let is_alone = self.uses.get(storage.key) == Some(&1) && part.offset == 0 && storage.start == 0;
            product(shape).filter(|_| is_alone && contiguous(shape, strides))?
        };
        (elements > 0 && held % elements == 0 && held > 0).then(|| held / elements)
    }

    /// Returns elements of a storage. Fails with `ZT_OUT_OF_BOUNDS` if some are outside the storage.
    fn component(&self, role: Label, part: &Strided<'_>) -> Result<Component> {
        let Strided { storage, kind, shape, strides, conj, neg, .. } = part;
        let changed = *conj || *neg;
        if changed && !kind.has_signs() {
            let message = format!("elements of {} cannot be negated or conjugated", kind.name);
            return Err(Error::new(Code::BadDtype, message));
        }
        let mut blob = self.storage(storage)?;
        let held = blob.decoded.unwrap_or_default();
        let beyond = || {
            let message = format!(
                "the shape {shape:?} of {} with the strides {strides:?} from element {} on extends past the {held} bytes of its storage",
                kind.name, part.offset
            );
            Error::new(Code::OutOfBounds, message).at(blob.offset)
        };
        let elements = product(shape).filter(|&elements| elements <= MAX_EXACT).ok_or_else(|| {
            Error::new(Code::Limit, format!("the shape {shape:?} has more than 2^53 - 1 elements")).of_item()
        })?;
        let in_order = contiguous(shape, strides);
        let view = if elements == 0 {
            // It has no bytes, so its offset may be out of range.
            blob = Blob { offset: blob.offset, ..Blob::raw(blob.offset, 0) };
            View::Whole
        } else if (1..8).contains(&kind.bits) {
            // Elements that share bytes: only whole bytes can be addressed.
            let start = part.offset.checked_mul(kind.bits).ok_or_else(beyond)?;
            if !in_order || start % 8 > 0 || storage.start > 0 || changed {
                let message = format!(
                    "elements of {} share bytes, and this view does not begin and end at whole bytes",
                    kind.name
                );
                return Err(Error::new(Code::UnsupportedEncoding, message));
            }
            let length = kind.bytes(elements).ok_or_else(beyond)?;
            end_within(start / 8, length, held).ok_or_else(beyond)?;
            whole_or_range(start / 8, length, held)
        } else {
            let unknown = || {
                let message = format!("{:?} is an unknown type with an unknown element size", kind.name);
                Error::new(Code::BadDtype, message)
            };
            let width = kind.width().or_else(|| self.width(part)).ok_or_else(unknown)?;
            // The unit of the offset of a storage that is part of another.
            let unit = match storage.start {
                0 => Some(0),
                start => {
                    let unit = storage.kind.unit().or((storage.kind == *kind).then_some(width));
                    unit.and_then(|unit| start.checked_mul(unit))
                }
            };
            let start = unit
                .and_then(|start| start.checked_add(part.offset.checked_mul(width)?))
                .ok_or_else(beyond)?;
            if let Some(length) = (!changed && in_order).then(|| elements.checked_mul(width)).flatten() {
                end_within(start, length, held).ok_or_else(beyond)?;
                whole_or_range(start, length, held)
            } else {
                let loops =
                    shape.iter().zip(strides).map(|(&dim, stride)| Some((dim, stride.checked_mul(width)?)));
                let loops = loops.collect::<Option<Box<[_]>>>().ok_or_else(beyond)?;
                let strided = ztensor_core::model::Strided { start, run: width, loops };
                strided.end().filter(|&end| end <= held).ok_or_else(beyond)?;
                View::Strided(Box::new(strided))
            }
        };
        let shared = self.uses.get(storage.key).is_some_and(|&uses| uses > HASHED_PARTS);
        if shared && view != View::Whole {
            blob.digest = None;
        }
        let byte_order = self.context.byte_order;
        let signs =
            if view == View::Whole { Signs::default() } else { Signs { real: *neg, imaginary: conj != neg } };
        Ok(Component { byte_order, view, signs, ..Component::new(role, kind.dtype, Data::Blob(blob)) })
    }

    /// Adds a NumPy array, whose elements are in the pickle.
    fn array(&mut self, builder: &mut Builder, name: &str, array: &Array<'_>) -> Result<()> {
        let Some(raw) = &array.data else { return Ok(()) };
        let length = raw.bytes(self.context.pickle).len() as u64;
        let data = if let (Raw::At(span), Some(offset)) = (raw, self.context.offset) {
            Data::Blob(Blob::raw(offset.saturating_add(span.start), length))
        } else {
            self.charge(length)?;
            Data::Inline(raw.bytes(self.context.pickle).into())
        };
        let mut data = Component::new(Label::DATA, array.dtype, data);
        data.byte_order = array.byte_order;
        let Some(dtype) = array.dtype else {
            unknown(builder, name, array.spelling);
            return tensor(builder, name, &array.shape, Layout::Dense, None, vec![data], Entries::new());
        };
        let width = u64::from(dtype.bits() / 8);
        let needed = product(&array.shape).and_then(|elements| elements.checked_mul(width));
        if needed != Some(length) {
            let message = format!(
                "the shape {:?} of {} does not match the {length} bytes of the array",
                array.shape,
                dtype.name()
            );
            return Err(Error::new(Code::BadShape, message));
        }
        if array.fortran && array.shape.len() > 1 && length > 0 {
            let mut stride = width;
            let loops = array.shape.iter().map(|&dim| {
                let here = (dim, stride);
                // At most `length`.
                stride *= dim;
                here
            });
            let strided = ztensor_core::model::Strided { start: 0, run: width, loops: loops.collect() };
            data.view = View::Strided(Box::new(strided));
        }
        tensor(builder, name, &array.shape, Layout::Dense, Some(dtype), vec![data], Entries::new())
    }

    /// Counts bytes that are copied from the pickle.
    fn charge(&mut self, length: u64) -> Result<()> {
        self.inline = self.inline.checked_sub(length).ok_or_else(|| {
            Error::new(Code::Limit, "arrays refer to the same bytes of the pickle too often to be copied")
        })?;
        Ok(())
    }

    /// Adds a NumPy array with its elements converted to another type.
    fn cast(
        &mut self,
        builder: &mut Builder,
        name: &str,
        array: &Array<'_>,
        kind: ElementType<'_>,
    ) -> Result<()> {
        let Some(raw) = &array.data else { return Ok(()) };
        let (Some(from), Some(to)) = (array.dtype, kind.dtype) else {
            let message = format!("an array of {:?} cannot be read as {:?}", array.spelling, kind.name);
            return Err(Error::new(Code::BadDtype, message));
        };
        let bytes = raw.bytes(self.context.pickle);
        let elements = bytes.len() / from.element_bytes();
        let length = elements.saturating_mul(to.element_bytes());
        self.charge((bytes.len() as u64).saturating_add(length as u64))?;
        let mut given = bytes.to_vec();
        if array.byte_order == ByteOrder::Big {
            swap_bytes(&mut given, from.element_bytes());
        }
        let mut made = vec![0; length];
        cast(from, to, &given, &mut made)?;
        let made = Array {
            shape: array.shape.clone(),
            dtype: Some(to),
            byte_order: ByteOrder::Little,
            data: Some(Raw::Made(made.into())),
            ..*array
        };
        self.array(builder, name, &made)
    }

    fn quantized(&self, builder: &mut Builder, name: &str, quantized: &Quantized<'_>) -> Result<()> {
        let Quantized { data, scales } = quantized;
        let mut attributes = vec![text("dtype", data.kind.name)];
        let mut components =
            vec![Component { dtype: stored_as(data.kind), ..self.component(Label::DATA, data)? }];
        let scheme = match scales {
            Scales::One { scale, zero } => {
                let inline =
                    |role, dtype, bytes: [u8; 8]| Component::inline(role, Some(dtype), bytes.to_vec());
                components.push(inline(Label::SCALES, DType::Float64, scale.to_le_bytes()));
                components.push(inline(Label::ZEROS, DType::Int64, zero.to_le_bytes()));
                "per_tensor_affine"
            }
            Scales::Each { scales, zeros, axis } => {
                components.push(self.component(Label::SCALES, scales)?);
                components.push(self.component(Label::ZEROS, zeros)?);
                attributes.push(("axis".into(), Plain::from(*axis)));
                "per_channel_affine"
            }
        };
        composite(builder, name, &data.shape, scheme, components, attributes)
    }

    fn sparse(&self, builder: &mut Builder, name: &str, sparse: &Sparse<'_>) -> Result<()> {
        let Sparse { layout, shape, indices, values } = sparse;
        let one_row = values.shape.len() == 1;
        let is_coo = *layout == "sparse_coo"
            && one_row
            && indices.first().is_some_and(|coords| *coords.shape == [shape.len() as u64, values.shape[0]]);
        let is_csr = *layout == "sparse_csr" && one_row && shape.len() == 2;
        let roles: Vec<Label> = match *layout {
            "sparse_coo" => vec![Label::COORDS],
            "sparse_csr" if is_csr => vec![Label::INDPTR, Label::INDICES],
            "sparse_csr" | "sparse_bsr" => {
                vec![builder.intern("crow_indices"), builder.intern("col_indices")]
            }
            _ => vec![builder.intern("ccol_indices"), builder.intern("row_indices")],
        };
        let mut components = vec![self.component(Label::VALUES, values)?];
        for (part, role) in indices.iter().zip(roles) {
            components.push(self.component(role, part)?);
        }
        let dtype = values.kind.dtype;
        if dtype.is_some() && (is_coo || is_csr) {
            let layout = if is_coo { Layout::SparseCoo } else { Layout::SparseCsr };
            return tensor(builder, name, shape, layout, dtype, components, Entries::new());
        }
        let dims = values.shape.iter().map(|&dim| Plain::from(dim)).collect();
        let attributes = vec![text("dtype", values.kind.name), ("values_shape".into(), Plain::Array(dims))];
        composite(builder, name, shape, layout, components, attributes)
    }
}

/// Returns a view of a range of a storage.
fn whole_or_range(start: u64, length: u64, held: u64) -> View {
    if start == 0 && length == held { View::Whole } else { View::range(start, length) }
}

/// Adds a tensor with a PyTorch-specific layout, by its components.
fn composite(
    builder: &mut Builder,
    name: &str,
    shape: &[u64],
    layout: &str,
    components: Vec<Component>,
    attributes: Entries,
) -> Result<()> {
    let layout = format!("torch.{layout}/1");
    let message = format!("{layout:?} is not supported: only its components can be read");
    builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(name), None);
    let layout = Layout::Other(builder.intern(&layout));
    tensor(builder, name, shape, layout, None, components, attributes)
}

/// Adds a tensor whose data is not in the file.
fn meta(builder: &mut Builder, name: &str, kind: ElementType<'_>, shape: &[u64]) -> Result<()> {
    let message = "the tensor is on the device \"meta\": the file has no data for it";
    builder.warn("ZT_WARN_SKIPPED", message, Some(name), None);
    let layout = Layout::Other(builder.intern("torch.meta/1"));
    tensor(builder, name, shape, layout, None, Vec::new(), vec![text("dtype", kind.name)])
}

fn tensor(
    builder: &mut Builder,
    name: &str,
    shape: &[u64],
    layout: Layout,
    dtype: Option<DType>,
    components: Vec<Component>,
    attributes: Entries,
) -> Result<()> {
    let attributes = Some(Attributes::from(attributes));
    let mut tensor = NewTensor { name, shape, layout, dtype, components, attributes };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)
}

fn text(key: &str, value: &str) -> (Plain, Plain) {
    (key.into(), value.into())
}

fn unknown(builder: &mut Builder, name: &str, dtype: &str) {
    let message = format!("{dtype:?} is not a zTensor dtype: the bytes can be read, but not the values");
    builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
}

/// Returns whether the elements are contiguous and row-major.
fn contiguous(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = 1_u64;
    shape.iter().zip(strides).rev().all(|(&dim, &stride)| {
        let fits = dim == 1 || stride == expected;
        expected = expected.saturating_mul(dim);
        fits
    })
}
