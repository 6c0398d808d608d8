//! Compares a tensor that another program has written with what a conversion writes.
#![forbid(unsafe_code)]

use super::Casts;
use crate::arrange::Arrange;
use crate::error::Result;
use crate::formats::WriteFormat;
use crate::model::{Attributes, Catalog, Component, Layout, Tensor};

/// Returns whether a written tensor has the attributes of the conversion, and no components that it does not write. Names, shapes and dtypes
/// are not compared.
pub fn is_as_planned(
    (catalog, tensor): (&Catalog, Tensor<'_>),
    (written, found): (&Catalog, Tensor<'_>),
    casts: &Casts,
    format: &WriteFormat,
) -> Result<bool> {
    let none = Attributes::default();
    let wanted = casts.attributes(tensor).filter(|_| format.tensor_attributes);
    let differences = wanted.as_deref().unwrap_or(&none).differences(found.attributes().unwrap_or(&none))?;
    let is_decoded = casts.dequantized(tensor).is_some() || casts.quantized(tensor).is_some();
    let kept = compared(tensor).filter(|_| !is_decoded);
    let kept = kept.map(|part| (catalog.label(part.role), casts.component(tensor, part)));
    let others = compared(found).map(|part| (written.label(part.role), part.dtype));
    let (mut kept, mut others): (Vec<_>, Vec<_>) = (kept.collect(), others.collect());
    // A role is in a tensor once.
    kept.arrange_by_key(|&(role, _)| role);
    others.arrange_by_key(|&(role, _)| role);
    let mut pairs = kept.iter().zip(&others);
    // A component without a dtype gets one in formats that need it.
    let are_same = pairs.all(|((role, dtype), (other_role, other_dtype))| {
        role == other_role && (dtype.is_none() || dtype == other_dtype)
    });
    Ok(differences.is_empty() && kept.len() == others.len() && are_same)
}

/// The components that a layout does not define.
fn compared(tensor: Tensor<'_>) -> impl Iterator<Item = &Component> {
    let is_other = matches!(tensor.layout(), Layout::Other(_));
    tensor.components().iter().filter(move |&part| is_other || !tensor.is_own(part))
}
