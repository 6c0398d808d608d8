//! `zt.mx/1`: elements of 4 or 8 bits in blocks along one axis. Each block has a power of two as its scale.
#![forbid(unsafe_code)]

use super::parameters::{Parameters, bad, exactly, sized, typed, uint};
use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::model::{Attributes, Component, DType, Label};

/// The attributes that are parameters of the layout.
pub const PARAMETERS: [&str; 3] = ["scale_form", "block_size", "axis"];

/// A tensor's parameters, which satisfy all metadata rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mx {
    pub block_size: u64,
    pub axis: usize,
    /// The type of the elements; `None` if unknown. The size is then not checked.
    pub dtype: Option<DType>,
}

impl Mx {
    /// Reads and checks a tensor's entry.
    pub fn read(shape: &[u64], attributes: &Attributes, components: &[Component]) -> Result<Self> {
        let (block_size, axis) =
            numbers(shape, attributes).map_err(|error| error.rule("zt.mx/1 Attributes"))?;
        let roles = [(Label::DATA, "data"), (Label::SCALES, "scales")];
        let [data, scales] = exactly(components, roles).map_err(|error| error.rule("zt.mx/1 Parts"))?;
        typed(scales, "scales", "float8_e8m0fnu", |dtype| dtype == DType::Float8E8M0Fnu)
            .map_err(|error| error.rule("zt.mx/1 Parts"))?;
        if data.dtype.is_some() {
            typed(data, "data", "float4_e2m1fn, float8_e4m3fn, float8_e5m2 or int8", |dtype| {
                matches!(dtype, DType::Float4E2M1Fn | DType::Float8E4M3Fn | DType::Float8E5M2 | DType::Int8)
            })
            .map_err(|error| error.rule("zt.mx/1 Element types"))?;
        }
        let sizes = || {
            let elements =
                product(shape).ok_or_else(|| bad("the product of the dimensions exceeds a u64"))?;
            if let Some(dtype) = data.dtype {
                let bytes = super::packed::byte_length(elements, dtype.bits());
                sized(data, "data", bytes, Code::BadShape)?;
            }
            sized(scales, "scales", Some(elements / block_size), Code::BadShape)
        };
        sizes().map_err(|error: Error| error.rule("zt.mx/1 Sizes"))?;
        Ok(Self { block_size, axis, dtype: data.dtype })
    }
}

fn numbers(shape: &[u64], attributes: &Attributes) -> Result<(u64, usize)> {
    let values = attributes.values()?;
    let parameters = Parameters::new(&values);
    if parameters.text("scale_form")? != "e8m0_exponent" {
        return Err(bad("the attribute \"scale_form\" must be \"e8m0_exponent\""));
    }
    let block_size = parameters.uint("block_size")?;
    let axis = match parameters.get("axis") {
        None => shape.len().checked_sub(1),
        Some(value) => uint(value).and_then(|axis| usize::try_from(axis).ok()),
    };
    let along = axis.and_then(|axis| Some((axis, *shape.get(axis)?)));
    let Some((axis, along)) = along else {
        return Err(bad(format!("the axis must be one of the {} dimensions", shape.len())));
    };
    if block_size < 2 || !along.is_multiple_of(block_size) {
        let message = format!("blocks of {block_size} do not divide the {along} indices of axis {axis}");
        return Err(bad(message));
    }
    Ok((block_size, axis))
}
