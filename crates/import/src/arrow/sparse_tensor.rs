//! Messages of one sparse tensor (`SparseTensor.fbs`): COO and CSR as sparse tensors, CSC and CSF by their components.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::checked::end_within;
use ztensor_core::error::{Code, Result};
use ztensor_core::layouts;
use ztensor_core::model::{Blob, Builder, Component, DType, Data, Label, Layout, NewTensor};

use super::dtypes;
use super::message::{Body, Buffer, Message};
use super::tensor::{Head, buffer, component, strides};
use crate::flatbuffer::{Flat, Table};

const RULE: &str = "Arrow Columnar Format: SparseTensor message";
/// Rows, in `SparseMatrixIndexCSX.compressedAxis`.
const BY_ROWS: i16 = 0;

/// Adds the tensor of a message.
pub fn add(message: &mut Message<'_>, builder: &mut Builder, name: &str) -> Result<()> {
    let at = message.at;
    sparse(message, builder, name).map_err(|error| error.tensor(name).rule(RULE).at(at))
}

/// The index of a tensor.
struct Index {
    layout: Layout,
    components: Vec<Component>,
}

fn sparse(message: &mut Message<'_>, builder: &mut Builder, name: &str) -> Result<()> {
    let Some(mut head) = Head::read(message, builder, name)? else { return Ok(()) };
    let (flat, table, body) = (&mut message.flat, message.header, message.body);
    let count = flat.i64(table, 3)?;
    let count = u64::try_from(count)
        .map_err(|_| flat.error(Code::BadSparse, table.at, format!("it has {count} values")))?;
    let kind = flat.u8(table, 4)?;
    let Some(index) = flat.table(table, 5)? else {
        return Err(flat.error(Code::BadSparse, table.at, "it has no index"));
    };
    let values = buffer(flat, table, 6, body)?;
    let values = component(Label::VALUES, head.dtype, &[count], None, values)?;
    let mut reader = Reader { flat, body, table: index };
    let Index { layout, mut components } = match kind {
        1 => reader.coordinates(&mut head, count)?,
        2 => reader.compressed(&head, count, builder)?,
        3 => reader.fibers(&mut head, count, builder)?,
        other => {
            let message = format!("{name:?} has an index of type {other}, which is unknown");
            builder.warn("ZT_WARN_SKIPPED", message, None, None);
            return Ok(());
        }
    };
    components.insert(0, values);
    let Head { dtype, shape, attributes } = head;
    let is_known = !matches!(layout, Layout::Other(_));
    if !is_known {
        let message =
            format!("{:?} has no values here; its components can be read", builder.label(layout.label()));
        builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(name), None);
    }
    let attributes = Some(attributes.into());
    let dtype = is_known.then_some(dtype);
    let mut tensor = NewTensor { name, shape: &shape, layout, dtype, components, attributes };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)
}

struct Reader<'r, 's> {
    flat: &'r mut Flat<'s>,
    body: Body,
    table: Table,
}

impl Reader<'_, '_> {
    /// `SparseTensorIndexCOO`: a matrix with a row per value, which is read one dimension after another.
    fn coordinates(&mut self, head: &mut Head, count: u64) -> Result<Index> {
        let dtype = self.integer(0)?;
        let width = u64::from(dtype.bits() / 8);
        let rank = head.shape.len() as u64;
        let position = buffer(self.flat, self.table, 2, self.body)?;
        let strides =
            strides(self.flat, self.table, 1)?.unwrap_or_else(|| vec![rank.saturating_mul(width), width]);
        let &[of_value, of_dim] = &*strides else {
            let message = format!("its coordinates have {} strides, not 2", strides.len());
            return Err(self.flat.error(Code::BadSparse, self.table.at, message));
        };
        let coords = component(Label::COORDS, dtype, &[rank, count], Some(vec![of_dim, of_value]), position)?;
        let is_canonical = self.flat.u8(self.table, 3)? != 0;
        head.attributes.push((Value::from("is_canonical"), Value::from(is_canonical)));
        Ok(Index { layout: Layout::SparseCoo, components: vec![coords] })
    }

    /// `SparseMatrixIndexCSX`: by rows or by columns.
    fn compressed(&mut self, head: &Head, count: u64, builder: &mut Builder) -> Result<Index> {
        let &[rows, columns] = &*head.shape else {
            let message = format!("a matrix has 2 dimensions, not {}", head.shape.len());
            return Err(self.flat.error(Code::BadSparse, self.table.at, message));
        };
        let by_rows = self.flat.i16(self.table, 0)? == BY_ROWS;
        let (pointers, indices) = (self.integer(1)?, self.integer(3)?);
        let lines = if by_rows { rows } else { columns }.saturating_add(1);
        let position = buffer(self.flat, self.table, 2, self.body)?;
        let indptr = component(Label::INDPTR, pointers, &[lines], None, position)?;
        let position = buffer(self.flat, self.table, 4, self.body)?;
        let indices = component(Label::INDICES, indices, &[count], None, position)?;
        let layout =
            if by_rows { Layout::SparseCsr } else { Layout::Other(builder.intern("arrow.sparse_csc/1")) };
        Ok(Index { layout, components: vec![indices, indptr] })
    }

    /// `SparseTensorIndexCSF`: pointers and indices of each level of a tree.
    fn fibers(&mut self, head: &mut Head, count: u64, builder: &mut Builder) -> Result<Index> {
        let (pointers, indices) = (self.integer(0)?, self.integer(2)?);
        let leaves = self.flat.vector(self.table, 3, 16)?.and_then(|levels| levels.positions().last());
        let leaves: [u8; 16] =
            leaves.map(|position| self.flat.array(position)).transpose()?.unwrap_or_default();
        // Arrow C++ writes the number of indices where the specification requires their size in bytes.
        let counts = leaves.last_chunk::<8>().map(|&length| u64::from_le_bytes(length)) == Some(count);
        let mut components = Vec::new();
        for (field, dtype, role) in [(1, pointers, "indptr"), (3, indices, "indices")] {
            let width = u64::from(dtype.bits() / 8);
            for (at, position) in self.flat.positions(self.table, field, 16)?.enumerate() {
                if at >= head.shape.len() {
                    let message = format!("it has more {role} than the {} dimensions", head.shape.len());
                    return Err(self.flat.error(Code::BadSparse, self.table.at, message));
                }
                let Buffer { at: offset, length } = self.body.buffer(self.flat.array(position)?)?;
                let bytes = length.saturating_mul(if counts { width } else { 1 });
                if !bytes.is_multiple_of(width) || end_within(offset, bytes, self.body.end()).is_none() {
                    let message = format!(
                        "{role} {at} has {bytes} bytes of {}, which is outside its body",
                        dtype.name()
                    );
                    return Err(self.flat.error(Code::BadSparse, self.table.at, message));
                }
                let role = builder.intern(&format!("{role}.{at}"));
                components.push(Component::new(role, Some(dtype), Data::Blob(Blob::raw(offset, bytes))));
            }
        }
        let mut order = Vec::new();
        for position in self.flat.positions(self.table, 4, 4)? {
            if order.len() >= head.shape.len() {
                let message = "the axis order has more axes than the shape";
                return Err(self.flat.error(Code::BadSparse, self.table.at, message));
            }
            order.push(Value::from(i32::from_le_bytes(self.flat.array(position)?)));
        }
        head.attributes.push((Value::from("axis_order"), Value::Array(order)));
        Ok(Index { layout: Layout::Other(builder.intern("arrow.sparse_csf/1")), components })
    }

    /// Returns the dtype of indices, whose table `Int` is in a field.
    fn integer(&mut self, field: u16) -> Result<DType> {
        let dtype = match self.flat.table(self.table, field)? {
            Some(table) => dtypes::integer(self.flat, table)?,
            None => None,
        };
        dtype.ok_or_else(|| self.flat.error(Code::BadSparse, self.table.at, "its indices are not integers"))
    }
}
