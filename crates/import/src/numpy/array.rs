//! Converts an array to a tensor: contiguous elements after a header.
#![forbid(unsafe_code)]

use ztensor_core::checked::{MAX_EXACT, bytes_of, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::layouts;
use ztensor_core::model::{
    Blob, Builder, ByteOrder, Component, DType, Data, Label, Layout, NewTensor, Strided, View,
};

use super::header::{Elements, Header};

/// The suffix of array members.
pub const SUFFIX: &str = ".npy";
/// The name of an unnamed array.
pub const ARRAY: &str = "arr_0";

/// Adds an array as the tensor `name`. Its bytes are those of `blob` from `start` on.
pub fn add(builder: &mut Builder, name: &str, header: &Header, blob: Blob, start: u64) -> Result<()> {
    let held = blob.decoded.unwrap_or_default().saturating_sub(start);
    let (component, dtype) = match &header.elements {
        Elements::Of(dtype, order) => {
            let needed = byte_length(&header.shape, *dtype)?;
            if held > needed {
                let message = format!("{} bytes follow the array", held - needed);
                builder.warn("ZT_WARN_SKIPPED", message, Some(name), None);
            }
            (component(Label::DATA, header, *dtype, *order, blob, start)?, Some(*dtype))
        }
        Elements::Other(text, width) => {
            let needed = width.map(|width| product(&header.shape).and_then(|all| all.checked_mul(width)));
            // A size that overflows u64 exceeds any file.
            if let Some(needed) = needed.map(|needed| needed.unwrap_or(u64::MAX)) {
                check_held(header, text, needed, held, blob.offset)?;
            }
            builder.warn("ZT_WARN_UNKNOWN_TYPE", unknown(text), Some(name), None);
            let view = if start == 0 { View::Whole } else { View::range(start, held) };
            (Component { view, ..Component::new(Label::DATA, None, Data::Blob(blob)) }, None)
        }
    };
    let mut components = builder.no_components();
    components.push(component);
    let mut tensor =
        NewTensor { name, shape: &header.shape, layout: Layout::Dense, dtype, components, attributes: None };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)
}

/// Returns the elements of an array that has a dtype, stored in `blob` from `start` on.
pub fn component(
    role: Label,
    header: &Header,
    dtype: DType,
    byte_order: ByteOrder,
    mut blob: Blob,
    start: u64,
) -> Result<Component> {
    let (shape, width) = (&header.shape, u64::from(dtype.bits() / 8));
    let needed = byte_length(shape, dtype)?;
    let held = blob.decoded.unwrap_or_default().saturating_sub(start);
    check_held(header, dtype.name(), needed, held, blob.offset)?;
    let raw = start == 0 && blob.digest.is_none();
    if raw {
        (blob.stored, blob.decoded) = (needed, Some(needed));
    }
    let view = if header.fortran && shape.len() > 1 && needed > 0 {
        let mut stride = width;
        let loops = shape.iter().map(|&dim| {
            let here = (dim, stride);
            // At most `needed`.
            stride *= dim;
            here
        });
        View::Strided(Box::new(Strided { start, run: width, loops: loops.collect() }))
    } else if raw {
        View::Whole
    } else {
        View::range(start, needed)
    };
    Ok(Component { byte_order, view, ..Component::new(role, Some(dtype), Data::Blob(blob)) })
}

/// Rejects an array with fewer bytes than its shape needs.
fn check_held(header: &Header, kind: &str, needed: u64, held: u64, at: u64) -> Result<()> {
    if held >= needed {
        return Ok(());
    }
    let message =
        format!("the shape {:?} of {kind} needs {needed} bytes, but {held} follow the header", header.shape);
    Err(Error::new(Code::Truncated, message).at(at))
}

fn byte_length(shape: &[u64], dtype: DType) -> Result<u64> {
    let bytes = product(shape).and_then(|elements| bytes_of(elements, dtype.bits()));
    bytes.filter(|&bytes| bytes <= MAX_EXACT).ok_or_else(|| {
        let message = format!("the shape {shape:?} of {} has more than 2^53 - 1 bytes", dtype.name());
        Error::new(Code::Limit, message).of_item()
    })
}

/// Returns the message for an array whose elements are not numbers.
fn unknown(text: &str) -> String {
    let bare = text.trim_start_matches(['<', '>', '|', '=']);
    let guess = match bare {
        "V2" => ": it may be bfloat16, which NumPy saves without a name",
        "V1" => ": it may be a float8 of ml_dtypes, which NumPy saves without a name",
        _ if bare.starts_with('O') => ": pickled Python objects, which are never executed",
        _ => "",
    };
    format!("{text} has no zTensor dtype{guess}; the bytes can be read")
}
