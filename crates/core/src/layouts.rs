//! Requirements of layouts on the components of a tensor: checks of a catalog entry before any data is read and, in the
//! modules below, checks of the data itself. Depends only on the model.
#![forbid(unsafe_code)]

mod accumulate;
pub mod affine;
mod compress;
pub mod coo;
pub mod csr;
pub mod elements;
pub mod exact;
pub mod gguf;
pub mod indices;
pub mod mx;
mod packed;
mod parameters;
pub mod quant_group;
pub mod strict;

use ciborium::Value;

use crate::checked::{MAX_EXACT, bytes_of, product};
use crate::error::{Code, Error, Result};
use crate::model::{Attributes, Component, DType, Encoding, Label, Layout, NewTensor};

/// Returns the names of the attributes that are parameters of a layout, if they are known.
pub fn parameters(layout: &str) -> Option<&'static [&'static str]> {
    match layout {
        "zt.mx/1" => Some(&mx::PARAMETERS),
        "zt.quant_group/1" => Some(&quant_group::PARAMETERS),
        "tflite.quantized/1" => Some(&affine::PARAMETERS),
        layout => (layout.starts_with("gguf.") && layout.ends_with("/1")).then_some(&gguf::PARAMETERS[..]),
    }
}

/// Returns whether the elements of a layout that is neither dense nor sparse can be computed.
pub fn is_decoded(layout: &str) -> bool {
    let blocks = layout.strip_prefix("gguf.").map(|rest| rest.strip_suffix("/1"));
    blocks.map_or_else(
        || parameters(layout).is_some(),
        |kind| kind.is_some_and(|kind| gguf::DECODED.contains(&kind)),
    )
}

/// Returns whether there are attributes other than the parameters of a layout. Attributes that cannot be read count as
/// such.
pub fn has_own(layout: &str, attributes: &Attributes) -> bool {
    let parameters = parameters(layout).unwrap_or_default();
    let is_own = |(key, _): &(Value, Value)| !key.as_text().is_some_and(|key| parameters.contains(&key));
    attributes.values().map_or(true, |values| values.iter().any(is_own))
}

/// Checks a tensor's entry against its layout and sets the decoded lengths that follow from it.
pub fn check(tensor: &mut NewTensor<'_>) -> Result<()> {
    let name = tensor.name;
    let checked = match tensor.layout {
        Layout::Dense => dense(tensor),
        Layout::SparseCsr => csr_entry(tensor),
        Layout::SparseCoo => coo_entry(tensor),
        Layout::Other(_) => countable(tensor.shape).map(drop),
    };
    checked.map_err(|error| error.tensor(name))
}

/// Returns the number of elements of a shape, which must fit in a u64, but not in memory.
fn countable(shape: &[u64]) -> Result<u64> {
    product(shape).ok_or_else(|| {
        Error::new(Code::BadShape, format!("the product of the dimensions {shape:?} exceeds a u64"))
    })
}

fn component<'t>(
    components: &'t mut [Component],
    role: Label,
    name: &str,
    layout: &str,
) -> Result<&'t mut Component> {
    components.iter_mut().find(|component| component.role == role).ok_or_else(|| {
        Error::new(Code::BadLayout, format!("a {layout} tensor needs a component {name:?}")).component(name)
    })
}

fn dense(tensor: &mut NewTensor<'_>) -> Result<()> {
    let shape = tensor.shape;
    let data = component(&mut tensor.components, Label::DATA, "data", "dense")?;
    let Some(dtype) = data.dtype else { return countable(shape).map(drop) };
    let too_large = || {
        let message =
            format!("the shape {shape:?} of {} has more than 2^53 - 1 elements or bytes", dtype.name());
        Error::new(Code::Limit, message).of_item()
    };
    let elements = product(shape).filter(|&elements| elements <= MAX_EXACT).ok_or_else(too_large)?;
    let Some(bytes) = bytes_of(elements, dtype.bits()) else {
        if u128::from(elements) * u128::from(dtype.bits()) / 8 > u128::from(MAX_EXACT) {
            return Err(too_large());
        }
        let message = format!("the shape {shape:?} of {} does not fill whole bytes", dtype.name());
        return Err(Error::new(Code::BadShape, message));
    };
    if bytes > MAX_EXACT {
        return Err(too_large());
    }
    has_bytes(data, bytes, || format!("the shape {shape:?} of {} needs", dtype.name()))
        .map_err(|e| e.component("data"))
}

/// Requires that the component decodes to `bytes`: checked if its length is known, otherwise recorded.
fn has_bytes(component: &mut Component, bytes: u64, why: impl Fn() -> String) -> Result<()> {
    match component.byte_length() {
        Some(found) if found != bytes => {
            let message = format!("{} {bytes} bytes, but the data has {found}", why());
            Err(Error::new(Code::BadShape, message).at(component.offset()))
        }
        _ => {
            component.decodes_to(bytes);
            Ok(())
        }
    }
}

/// Returns the number of elements of an array component, if its length is known.
fn elements(component: &Component, role: &str) -> Result<Option<u64>> {
    let Some(dtype) = component.dtype else { return Ok(None) };
    let Some(bytes) = component.byte_length() else { return Ok(None) };
    let bits = u128::from(bytes) * 8;
    if bits % u128::from(dtype.bits()) != 0 {
        let message = format!("{bytes} bytes are not a whole number of {} elements", dtype.name());
        return Err(Error::new(Code::BadSparse, message).component(role));
    }
    Ok(u64::try_from(bits / u128::from(dtype.bits())).ok())
}

fn index_dtype(component: &Component, role: &str) -> Result<DType> {
    match component.dtype {
        Some(dtype) if dtype.is_index() => Ok(dtype),
        other => {
            let found = other.map_or("of unknown type", DType::name);
            Err(Error::new(Code::BadDtype, format!("{role} must be integers, not {found}")).component(role))
        }
    }
}

/// Requires that the component holds `count` elements: checked if its length is known, otherwise recorded.
fn has_elements(component: &mut Component, role: &str, count: u64, why: &str) -> Result<()> {
    if let Some(found) = elements(component, role)? {
        if found != count {
            let message = format!("{role} has {found} elements, but {why} requires {count}");
            return Err(Error::new(Code::BadSparse, message).component(role));
        }
        return Ok(());
    }
    if component.is_whole_blob() && component.encoding() == Encoding::ZSTD {
        let bytes = component.dtype.and_then(|dtype| bytes_of(count, dtype.bits()));
        let bytes = bytes.filter(|&bytes| bytes <= MAX_EXACT).ok_or_else(|| {
            Error::new(Code::Limit, format!("{role} would have {count} elements, more than 2^53 - 1 bytes"))
                .of_item()
                .component(role)
        })?;
        component.decodes_to(bytes);
    }
    Ok(())
}

fn csr_entry(tensor: &mut NewTensor<'_>) -> Result<()> {
    let &[rows, _] = tensor.shape else {
        let message =
            format!("sparse_csr has 2 dimensions, the shape {:?} has {}", tensor.shape, tensor.shape.len());
        return Err(Error::new(Code::BadLayout, message));
    };
    countable(tensor.shape)?;
    let components = &mut tensor.components;
    let values = component(components, Label::VALUES, "values", "sparse_csr")?;
    let values_count = elements(values, "values")?;
    let indices = component(components, Label::INDICES, "indices", "sparse_csr")?;
    index_dtype(indices, "indices")?;
    let indices_count = elements(indices, "indices")?;
    if let Some(count) = values_count {
        has_elements(indices, "indices", count, "one index per value")?;
    }
    if let Some(count) = indices_count {
        let values = component(components, Label::VALUES, "values", "sparse_csr")?;
        has_elements(values, "values", count, "one value per index")?;
    }
    let indptr = component(components, Label::INDPTR, "indptr", "sparse_csr")?;
    index_dtype(indptr, "indptr")?;
    has_elements(indptr, "indptr", rows.saturating_add(1), "one pointer per row plus one")
}

fn coo_entry(tensor: &mut NewTensor<'_>) -> Result<()> {
    countable(tensor.shape)?;
    let rank = tensor.shape.len() as u64;
    let components = &mut tensor.components;
    let values = component(components, Label::VALUES, "values", "sparse_coo")?;
    let values_count = elements(values, "values")?;
    let coords = component(components, Label::COORDS, "coords", "sparse_coo")?;
    index_dtype(coords, "coords")?;
    let coords_count = elements(coords, "coords")?;
    if let Some(nnz) = values_count {
        let count = nnz.checked_mul(rank).filter(|&count| count <= MAX_EXACT).ok_or_else(|| {
            Error::new(
                Code::Limit,
                format!("{nnz} values of rank {rank} have more than 2^53 - 1 coordinates"),
            )
            .of_item()
        })?;
        has_elements(coords, "coords", count, "one coordinate per value and dimension")?;
    } else if let Some(count) = coords_count.filter(|_| rank > 0) {
        if !count.is_multiple_of(rank) {
            let message = format!("coords has {count} elements, which is not a multiple of the rank {rank}");
            return Err(Error::new(Code::BadSparse, message).component("coords"));
        }
        let values = component(components, Label::VALUES, "values", "sparse_coo")?;
        has_elements(values, "values", count / rank, "coords")?;
    }
    Ok(())
}
