//! Dense, CSR and COO as defined by zTensor 2 and its profiles: exactly these components, of exactly these types and sizes.
#![forbid(unsafe_code)]

use super::parameters::{bad, exactly, sized, typed};
use crate::checked::{bytes_of, product};
use crate::error::{Code, Error, Result};
use crate::model::{Component, DType, DataRule, Label, NewTensor};

pub const CSR: &str = "zt.sparse_csr/1 Validation";
pub const COO: &str = "zt.sparse_coo/1 Validation";

/// Returns the bytes of `elements` packed elements.
fn size(dtype: DType, elements: u64) -> Option<u64> {
    super::packed::byte_length(elements, dtype.bits())
}

/// Requires a single component `data`, of the size that the shape determines. The size of an unknown type is not
/// checked.
pub fn dense(tensor: &mut NewTensor<'_>) -> Result<()> {
    exactly(&tensor.components, [(Label::DATA, "data")])?;
    let elements = product(tensor.shape).unwrap_or(u64::MAX);
    let Some(data) = tensor.components.first_mut() else { return Ok(()) };
    let Some(dtype) = data.dtype else { return Ok(()) };
    sized(data, "data", size(dtype, elements), Code::BadShape)?;
    data.rule = element_rule(dtype, elements);
    Ok(())
}

/// Returns the rule for `elements` elements of a type (Appendix A).
pub fn element_rule(dtype: DType, elements: u64) -> Option<DataRule> {
    match dtype {
        DType::Bool => Some(DataRule::Bool),
        DType::Float4E2M1Fn if !elements.is_multiple_of(2) => Some(DataRule::LastNibble),
        _ => None,
    }
}

fn index(component: &Component, role: &str) -> Result<(DType, u64)> {
    let wanted = "plain uint32 or uint64";
    let dtype = typed(component, role, wanted, |dtype| matches!(dtype, DType::Uint32 | DType::Uint64))?;
    let width = dtype.element_bytes() as u64;
    let bytes = component.byte_length().unwrap_or_default();
    if !bytes.is_multiple_of(width) {
        let message = format!("{bytes} bytes of {role} are not a whole number of {} elements", dtype.name());
        return Err(Error::new(Code::BadSparse, message).component(role));
    }
    Ok((dtype, bytes / width))
}

fn has_values(values: &Component, nnz: u64) -> Result<()> {
    match values.dtype {
        Some(dtype) => sized(values, "values", size(dtype, nnz), Code::BadSparse),
        None => Ok(()),
    }
}

/// Sets the data rules of components.
fn promise(components: &mut [Component], nnz: u64, index: Label, rule: DataRule) {
    for component in components {
        if component.role == Label::VALUES {
            component.rule = component.dtype.and_then(|dtype| element_rule(dtype, nnz));
        } else if component.role == index {
            component.rule = Some(rule);
        }
    }
}

/// Checks an entry against `zt.sparse_csr/1`.
pub fn csr(tensor: &mut NewTensor<'_>) -> Result<()> {
    let &[rows, _] = tensor.shape else {
        return Err(bad(format!("the layout requires 2 dimensions, but the shape is {:?}", tensor.shape)));
    };
    let roles = [(Label::VALUES, "values"), (Label::INDICES, "indices"), (Label::INDPTR, "indptr")];
    let [values, indices, indptr] = exactly(&tensor.components, roles)?;
    let (dtype, nnz) = index(indices, "indices")?;
    typed(indptr, "indptr", &format!("{}, as indices is", dtype.name()), |found| found == dtype)?;
    let pointers = rows.checked_add(1).and_then(|count| bytes_of(count, dtype.bits()));
    sized(indptr, "indptr", pointers, Code::BadSparse)?;
    has_values(values, nnz)?;
    promise(&mut tensor.components, nnz, Label::INDICES, DataRule::RisingColumns);
    Ok(())
}

/// Checks an entry against `zt.sparse_coo/1`.
pub fn coo(tensor: &mut NewTensor<'_>) -> Result<()> {
    let rank = tensor.shape.len() as u64;
    if rank == 0 {
        return Err(bad("the layout needs at least one dimension"));
    }
    let [values, coords] =
        exactly(&tensor.components, [(Label::VALUES, "values"), (Label::COORDS, "coords")])?;
    let (_, count) = index(coords, "coords")?;
    if !count.is_multiple_of(rank) {
        let message = format!("coords has {count} elements, which is not a multiple of the rank {rank}");
        return Err(Error::new(Code::BadSparse, message).component("coords"));
    }
    has_values(values, count / rank)?;
    promise(&mut tensor.components, count / rank, Label::COORDS, DataRule::UniqueCells);
    Ok(())
}
