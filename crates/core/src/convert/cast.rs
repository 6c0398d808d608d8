//! Casts during conversion.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::scaling::Scaling;
use super::target::{Quantizing, Target};
use crate::checked::bytes_of;
use crate::error::{Code, Error, Result};
use crate::kernels::cast::{can_cast, cast_from};
use crate::kernels::dequantize::{can_dequantize, only_parameters, without_parameters};
use crate::model::{Attributes, Component, DType, Label, Layout, Tensor};
use crate::write::Writer;
use crate::write::sparse::Array;

/// How tensors change during conversion: the dtypes of their elements, and whether they lose their attributes.
#[derive(Clone, Default)]
pub struct Casts {
    /// The dtypes to cast, each with its target. Others stay.
    pairs: Vec<(DType, DType)>,
    /// Casts of single tensors by their ordinals, which take precedence.
    singles: HashMap<u32, (DType, DType)>,
    /// The dtype that the elements of quantized tensors get.
    dequantized: Option<DType>,
    /// The block types of tensors that are quantized, by their ordinals.
    pub(super) quantized: HashMap<usize, Quantizing>,
    /// How the elements of tensors are multiplied, by their ordinals.
    pub(super) scaled: HashMap<usize, Arc<Scaling>>,
    /// Ordinals of quantized tensors that stay as they are.
    kept: HashSet<usize>,
    /// Ordinals of tensors that lose their attributes, except for parameters of their layouts.
    bare: HashSet<usize>,
    /// Whether all of them do.
    all_bare: bool,
}

impl Casts {
    /// Fails with `ZT_BAD_DTYPE` if a cast is not possible, and with `ZT_INVALID_ARG` if a dtype occurs twice.
    pub fn new(pairs: Vec<(DType, DType)>) -> Result<Self> {
        for (at, &(from, to)) in pairs.iter().enumerate() {
            if !can_cast(from, to) {
                let message = format!("{} cannot be cast to {}", from.name(), to.name());
                return Err(Error::new(Code::BadDtype, message));
            }
            if pairs.iter().take(at).any(|&(earlier, _)| earlier == from) {
                return Err(Error::new(Code::InvalidArg, format!("{} is cast twice", from.name())));
            }
        }
        Ok(Self { pairs, ..Self::default() })
    }

    /// Casts a single tensor, instead of its dtype; to its own dtype, it stays as it is. Fails with `ZT_BAD_DTYPE` if the cast is not
    /// possible.
    pub fn cast_single(&mut self, ordinal: u32, from: DType, to: DType) -> Result<()> {
        if !can_cast(from, to) {
            let message = format!("{} cannot be cast to {}", from.name(), to.name());
            return Err(Error::new(Code::BadDtype, message));
        }
        self.singles.insert(ordinal, (from, to));
        Ok(())
    }

    /// Converts quantized tensors to dense tensors of `dtype`. Fails with `ZT_BAD_DTYPE` unless it is float32, float16
    /// or bfloat16.
    pub fn dequantizing(self, dtype: DType) -> Result<Self> {
        if !matches!(dtype, DType::Float32 | DType::Float16 | DType::BFloat16) {
            let message =
                format!("quantized tensors become float32, float16 or bfloat16, not {}", dtype.name());
            return Err(Error::new(Code::BadDtype, message));
        }
        Ok(Self { dequantized: Some(dtype), ..self })
    }

    /// Drops the attributes of all tensors, except the parameters of layouts that are neither dense nor sparse.
    #[must_use]
    pub fn without_attributes(self) -> Self {
        Self { all_bare: true, ..self }
    }

    /// Keeps a quantized tensor as it is, whatever the others become.
    pub fn keep(&mut self, ordinal: usize) {
        self.kept.insert(ordinal);
    }

    /// Sets whether one tensor loses its attributes.
    pub fn set_bare(&mut self, tensor: Tensor<'_>, is_bare: bool) {
        if is_bare {
            self.bare.insert(tensor.ordinal());
        } else {
            self.bare.remove(&tensor.ordinal());
        }
    }

    /// Returns the dtype that the elements of a quantized tensor get if it becomes dense.
    pub fn dequantized(&self, tensor: Tensor<'_>) -> Option<DType> {
        if self.quantized.contains_key(&tensor.ordinal()) || self.kept.contains(&tensor.ordinal()) {
            return None;
        }
        match self.scaling(tensor) {
            Some(scaling) => {
                let dequantized = self.dequantized.filter(|_| self.single(tensor, scaling.dtype).is_none());
                Some(dequantized.unwrap_or_else(|| self.target(tensor, scaling.dtype)))
            }
            None => self.dequantized.filter(|_| can_dequantize(tensor.layout_name())),
        }
    }

    /// Returns whether [`Self::dequantizing`] changes a tensor, unless it is quantized otherwise.
    pub fn would_dequantize(&self, tensor: Tensor<'_>) -> bool {
        match self.scaling(tensor) {
            Some(scaling) => self.dequantized.is_some() && self.single(tensor, scaling.dtype).is_none(),
            None => self.dequantized.is_some() && can_dequantize(tensor.layout_name()),
        }
    }

    /// Returns the attributes that a tensor keeps. If it is dequantized, the parameters of its layout are not among them.
    pub fn attributes<'a>(&'a self, tensor: Tensor<'a>) -> Option<Cow<'a, Attributes>> {
        if let Some(target) = self.quantized(tensor) {
            let is_bare = self.all_bare || self.bare.contains(&tensor.ordinal());
            return Some(target.attributes(tensor, !is_bare));
        }
        let is_dequantized = self.dequantized(tensor).is_some();
        let has_parameters = matches!(tensor.layout(), Layout::Other(_)) && !is_dequantized;
        if self.all_bare || self.bare.contains(&tensor.ordinal()) {
            if has_parameters { only_parameters(tensor) } else { None }
        } else if is_dequantized {
            without_parameters(tensor)
        } else {
            tensor.attributes().map(Cow::Borrowed)
        }
    }

    /// Returns the dtype that elements of `dtype` of a tensor are converted to.
    pub fn target(&self, tensor: Tensor<'_>, dtype: DType) -> DType {
        if let Some(to) = self.single(tensor, dtype) {
            return to;
        }
        self.pairs.iter().find(|&&(from, _)| from == dtype).map_or(dtype, |&(_, to)| to)
    }

    /// Returns the dtype that elements of `dtype` of this very tensor are converted to.
    fn single(&self, tensor: Tensor<'_>, dtype: DType) -> Option<DType> {
        let single = u32::try_from(tensor.ordinal()).ok().and_then(|ordinal| self.singles.get(&ordinal));
        single.filter(|&&(from, _)| from == dtype).map(|&(_, to)| to)
    }

    /// Returns the dtype that a component is converted to. Elements of dense tensors and values of sparse ones are
    /// cast. Components of other layouts are not, because only the layout defines the meaning of their bytes.
    pub fn component(&self, tensor: Tensor<'_>, part: &Component) -> Option<DType> {
        let elements = match tensor.layout() {
            Layout::Dense => part.role == Label::DATA,
            Layout::SparseCsr | Layout::SparseCoo => part.role == Label::VALUES,
            Layout::Other(_) => false,
        };
        if elements { part.dtype.map(|dtype| self.target(tensor, dtype)) } else { part.dtype }
    }

    /// Returns the dtype that a tensor is converted to.
    pub fn tensor(&self, tensor: Tensor<'_>) -> Option<DType> {
        if self.quantized(tensor).is_some() {
            return None;
        }
        if let Some(dtype) = self.dequantized(tensor) {
            return Some(dtype);
        }
        match tensor.layout() {
            Layout::Dense | Layout::SparseCsr | Layout::SparseCoo => {
                tensor.dtype().map(|dtype| self.target(tensor, dtype))
            }
            Layout::Other(_) => tensor.dtype(),
        }
    }

    /// Quantizes single tensors, which takes precedence over casts and over dequantization.
    pub fn quantize(&mut self, ordinal: usize, target: &Arc<Target>, importance: Option<Arc<[f32]>>) {
        self.quantized.insert(ordinal, Quantizing { target: Arc::clone(target), importance });
    }

    /// Returns the block type that a tensor is quantized to. A tensor that has this type already is copied.
    pub fn quantized(&self, tensor: Tensor<'_>) -> Option<&Target> {
        let target = &*self.quantized.get(&tensor.ordinal())?.target;
        (tensor.layout_name() != &*target.layout).then_some(target)
    }

    /// Returns the weights of the columns of a tensor that is quantized.
    pub(super) fn importance(&self, tensor: Tensor<'_>) -> Option<&[f32]> {
        self.quantized.get(&tensor.ordinal())?.importance.as_deref()
    }

    /// Multiplies a tensor of [`SCALED`] by its factors. Fails with `ZT_INVALID_ARG` for axes or an order without elements.
    pub fn scale(&mut self, ordinal: usize, scaling: Arc<Scaling>) -> Result<()> {
        if scaling.axes.is_empty() || !can_cast(DType::Float32, scaling.dtype) {
            return Err(Error::new(
                Code::InvalidArg,
                "factors without axes, or of another dtype than floats",
            ));
        }
        self.scaled.insert(ordinal, scaling);
        Ok(())
    }

    /// Returns how a tensor of [`SCALED`] is multiplied.
    pub fn scaling(&self, tensor: Tensor<'_>) -> Option<&Scaling> {
        self.scaled.get(&tensor.ordinal()).map(|scaling| &**scaling)
    }
}

/// Returns the size after casting `length` bytes.
pub fn cast_length(from: Option<DType>, to: Option<DType>, length: u64) -> Result<u64> {
    let (Some(from), Some(to)) = (from, to) else { return Ok(length) };
    if from == to {
        return Ok(length);
    }
    let elements = length / from.element_bytes() as u64;
    bytes_of(elements, to.bits()).ok_or_else(|| Error::new(Code::Limit, "more bytes than 64 bits can count"))
}

/// The values of a sparse tensor, cast as they are read.
pub struct CastArray {
    array: Box<dyn Array>,
    to: DType,
}

impl CastArray {
    pub fn of(array: Box<dyn Array>, to: DType) -> Box<dyn Array> {
        if array.dtype() == to { array } else { Box::new(Self { array, to }) }
    }
}

impl Array for CastArray {
    fn dtype(&self) -> DType {
        self.to
    }

    fn length(&self) -> u64 {
        self.elements().saturating_mul(self.width())
    }

    fn elements(&self) -> u64 {
        self.array.elements()
    }

    fn read(&self, first: u64, count: u64) -> Result<Cow<'_, [u8]>> {
        let (from, bytes) = (self.array.dtype(), self.array.read(first, count)?);
        let mut output = vec![0; bytes.len() / from.element_bytes() * self.to.element_bytes()];
        cast_from(first, from, self.to, &bytes, &mut output)?;
        Ok(Cow::Owned(output))
    }
}

/// The number of elements cast at a time: their bytes stay in the second-level cache.
const ELEMENTS: usize = 32 << 10;

/// Passes elements to a writer, cast if requested.
pub struct Pushing<'w> {
    writer: &'w mut Writer,
    cast: Option<(DType, DType)>,
    /// Elements that were cast.
    done: u64,
    /// The first bytes of an incomplete element.
    begun: Vec<u8>,
    output: Vec<u8>,
}

impl<'w> Pushing<'w> {
    pub fn new(writer: &'w mut Writer, from: Option<DType>, to: Option<DType>) -> Self {
        let cast = from.zip(to).filter(|(from, to)| from != to);
        Self { writer, cast, done: 0, begun: Vec::new(), output: Vec::new() }
    }

    pub fn push(&mut self, mut piece: &[u8]) -> Result<()> {
        let Some((from, to)) = self.cast else { return self.pass(piece) };
        let width = from.element_bytes();
        if !self.begun.is_empty() {
            let (head, rest) = piece.split_at((width - self.begun.len()).min(piece.len()));
            self.begun.extend_from_slice(head);
            piece = rest;
            if self.begun.len() < width {
                return Ok(());
            }
            let element = std::mem::take(&mut self.begun);
            self.cast(from, to, &element)?;
        }
        let (whole, rest) = piece.split_at(piece.len() - piece.len() % width);
        self.begun.extend_from_slice(rest);
        whole.chunks(ELEMENTS * width).try_for_each(|block| self.cast(from, to, block))
    }

    fn cast(&mut self, from: DType, to: DType, block: &[u8]) -> Result<()> {
        let mut output = std::mem::take(&mut self.output);
        let count = block.len() / from.element_bytes();
        output.resize(count * to.element_bytes(), 0);
        cast_from(self.done, from, to, block, &mut output)?;
        self.done += count as u64;
        self.pass(&output)?;
        self.output = output;
        Ok(())
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.push(bytes)?;
        self.writer.flush_if_full()
    }
}
