//! `SparseTensorProto`: values and their positions.
#![forbid(unsafe_code)]

use ztensor_core::error::{Error, Result};
use ztensor_core::layouts;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Component, DType, Label, Layout, NewTensor, View};

use super::tensor::{Proto, push_dim};
use super::tensors::Tensors;
use crate::damage;
use crate::protobuf::{Field, Run, Value, Walker};

#[derive(Default)]
pub struct Sparse {
    /// Their name is that of the tensor.
    pub values: Proto,
    indices: Proto,
    shape: Vec<u64>,
    /// The first error in it, not counting its parts.
    wrong: Option<Error>,
}

impl Sparse {
    pub fn read(walker: &mut Walker<'_>, run: Run, limits: &Limits) -> Result<Self> {
        let (mut message, mut sparse) = (run, Self::default());
        while let Some(field) = damage::noted(walker.next(&mut message), &mut sparse.wrong)?.flatten() {
            // If it is invalid only the name is needed, which is that of its values.
            if sparse.wrong.is_none() || field.number == 1 {
                let read = sparse.field(walker, &field, limits);
                damage::noted(read, &mut sparse.wrong)?;
            }
        }
        Ok(sparse)
    }

    fn field(&mut self, walker: &mut Walker<'_>, field: &Field, limits: &Limits) -> Result<()> {
        match (field.number, field.value) {
            (1, Value::Bytes(run)) => self.values = Proto::read(walker, run, limits)?,
            (2, Value::Bytes(run)) => self.indices = Proto::read(walker, run, limits)?,
            (3, Value::Varint(dim)) => push_dim(&mut self.shape, dim, limits)?,
            (3, Value::Bytes(mut dims)) => {
                while dims.at < dims.end {
                    let dim = walker.varint(&mut dims)?;
                    push_dim(&mut self.shape, dim, limits)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the first error in it or in its parts.
    pub fn take_wrong(&mut self) -> Option<Error> {
        let Self { values, indices, wrong, .. } = self;
        wrong.take().or_else(|| values.wrong.take()).or_else(|| indices.wrong.take())
    }

    /// Adds it as `sparse_coo`, or by its components if its positions are not coordinates.
    pub fn add(&self, tensors: &mut Tensors<'_>, name: &str) -> Result<()> {
        let name = &*tensors.unique(name);
        let mut values = tensors.component(Label::VALUES, name, &self.values)?;
        let mut indices = tensors.component(Label::COORDS, name, &self.indices)?;
        let dtype = values.dtype.filter(|dtype| dtype.bits() >= 8);
        let is_coo = dtype.is_some() && self.arrange(&mut indices);
        let (layout, dtype) = if is_coo {
            (Layout::SparseCoo, dtype)
        } else {
            let builder = &mut tensors.builder;
            indices.role = Label::INDICES;
            values.dtype = dtype;
            let message = "its indices are positions in the flat tensor, or its values have no dtype here: \
                           it has no values, and its components can be read";
            builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(name), None);
            (Layout::Other(builder.intern("onnx.sparse/1")), None)
        };
        let mut components = tensors.builder.no_components();
        components.extend([values, indices]);
        let (shape, attributes) = (&*self.shape, None);
        let mut tensor = NewTensor { name, shape, layout, dtype, components, attributes };
        layouts::check(&mut tensor)?;
        tensors.builder.add_tensor(tensor)
    }

    /// Coordinates are stored value by value and read dimension by dimension. Returns whether there are any.
    fn arrange(&self, indices: &mut Component) -> bool {
        let rank = self.shape.len() as u64;
        match (indices.dtype, &*self.indices.shape) {
            (Some(DType::Int64), &[_]) => rank == 1,
            (Some(DType::Int64), &[count, dims]) if dims == rank && rank > 0 => {
                if rank > 1 && count > 0 {
                    indices.view = View::records(0, rank * 8, rank, 8, count);
                }
                true
            }
            _ => false,
        }
    }
}
