//! The table `SparsityParameters`: levels of a tree, each dense or compressed.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::error::{Code, Result};
use ztensor_core::model::{Builder, Component, DType};

use crate::flatbuffer::{Flat, Table};

/// Maximum levels: dimensions of a tensor plus block dimensions.
const LEVELS: usize = 128;

/// Adds the components `segments.N` and `indices.N` of each compressed level, and the numbers of all levels as attributes.
pub fn read(
    flat: &mut Flat<'_>,
    table: Table,
    builder: &mut Builder,
    components: &mut Vec<Component>,
    attributes: &mut Vec<(Value, Value)>,
) -> Result<()> {
    for (field, name) in [(0, "traversal_order"), (1, "block_map")] {
        let mut numbers = Vec::new();
        for position in flat.positions(table, field, 4)?.take(LEVELS) {
            numbers.push(Value::from(i32::from_le_bytes(flat.array(position)?)));
        }
        attributes.push((Value::from(name), Value::Array(numbers)));
    }
    let (mut formats, mut sizes) = (Vec::new(), Vec::new());
    for (level, position) in flat.positions(table, 2, 4)?.enumerate() {
        let metadata = flat.table_at(position)?;
        if level >= LEVELS {
            return Err(flat
                .error(Code::Limit, metadata.at, format!("more than {LEVELS} levels of sparsity"))
                .of_item());
        }
        let is_dense = flat.u8(metadata, 0)? == 0;
        formats.push(Value::from(if is_dense { "DENSE" } else { "SPARSE_CSR" }));
        sizes.push(Value::from(flat.i32(metadata, 1)?));
        for (field, role) in [(2, "segments"), (4, "indices")] {
            let dtype = match flat.u8(metadata, field)? {
                1 => DType::Int32,
                2 => DType::Uint16,
                3 => DType::Uint8,
                _ if is_dense => continue,
                number => {
                    let message =
                        format!("the {role} of the sparse level {level} have the unsupported type {number}");
                    return Err(flat.error(Code::BadLayout, metadata.at, message));
                }
            };
            let numbers = flat.table(metadata, field + 1)?;
            let vector = match numbers {
                Some(numbers) => flat.vector(numbers, 0, u64::from(dtype.bits() / 8))?,
                None => None,
            };
            let Some(vector) = vector else {
                let message = format!("level {level} has no {role}");
                return Err(flat.error(Code::BadLayout, metadata.at, message));
            };
            let role = builder.intern(&format!("{role}.{level}"));
            components.push(Component::raw(role, Some(dtype), vector.at, vector.byte_length()));
        }
    }
    attributes.push((Value::from("dim_formats"), Value::Array(formats)));
    attributes.push((Value::from("dense_sizes"), Value::Array(sizes)));
    Ok(())
}
