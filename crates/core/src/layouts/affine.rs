//! `tflite.quantized/1`: integers with one scale and zero point for all of them, or one for each index of a dimension.
#![forbid(unsafe_code)]

use super::parameters::{Parameters, bad, exactly, sized, typed};
use crate::checked::{bytes_of, product};
use crate::error::{Code, Error, Result};
use crate::model::{Attributes, Component, DType, Label};

/// The attributes that are parameters of the layout.
pub const PARAMETERS: [&str; 2] = ["type", "quantized_dimension"];

const RULE: &str = "TFLite: QuantizationParameters";

/// The packing of codes in `data`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codes {
    Of(DType),
    /// Packed from the low bits up.
    Packed {
        bits: u32,
        signed: bool,
    },
}

/// A tensor's parameters, which satisfy all metadata rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Affine {
    pub codes: Codes,
    /// The dimension whose indices have separate scales; 0 if there is one scale.
    pub axis: usize,
    pub scales: u64,
    /// The number of zero points: 1 if all scales share it.
    pub zeros: u64,
    /// Bytes of `data`.
    pub bytes: u64,
}

impl Affine {
    /// Reads and checks a tensor's entry.
    pub fn read(shape: &[u64], attributes: &Attributes, components: &[Component]) -> Result<Self> {
        Self::checked(shape, attributes, components).map_err(|error| error.rule(RULE))
    }

    fn checked(shape: &[u64], attributes: &Attributes, components: &[Component]) -> Result<Self> {
        let roles = [(Label::DATA, "data"), (Label::SCALES, "scales"), (Label::ZEROS, "zeros")];
        let [data, scales, zeros] = exactly(components, roles)?;
        let values = attributes.values()?;
        let parameters = Parameters::new(&values);
        let codes = match (parameters.text("type")?, data.dtype) {
            ("INT4", Some(DType::Uint8)) => Codes::Packed { bits: 4, signed: true },
            ("UINT4", Some(DType::Uint8)) => Codes::Packed { bits: 4, signed: false },
            ("INT2", Some(DType::Uint8)) => Codes::Packed { bits: 2, signed: true },
            (_, Some(dtype)) if dtype.is_index() => Codes::Of(dtype),
            (name, _) => return Err(bad(format!("codes of type {name} are not integers"))),
        };
        let bits = match codes {
            Codes::Of(dtype) => dtype.bits(),
            Codes::Packed { bits, .. } => bits,
        };
        let elements = product(shape).ok_or_else(|| bad("the product of the dimensions exceeds a u64"))?;
        let bytes = u64::try_from((u128::from(elements) * u128::from(bits)).div_ceil(8));
        let bytes = bytes.map_err(|_| bad("the tensor has more than 2^64 bytes"))?;
        sized(data, "data", Some(bytes), Code::BadShape)?;
        typed(scales, "scales", "float32", |dtype| dtype == DType::Float32)?;
        typed(zeros, "zeros", "int64", |dtype| dtype == DType::Int64)?;
        let count = |component: &Component, width: u64| component.byte_length().unwrap_or_default() / width;
        let (scale_count, zero_count) = (count(scales, 4), count(zeros, 8));
        sized(scales, "scales", bytes_of(scale_count, 32), Code::BadShape)?;
        sized(zeros, "zeros", bytes_of(zero_count, 64), Code::BadShape)?;
        let axis = parameters.uint("quantized_dimension")?;
        let along = usize::try_from(axis).ok().and_then(|axis| shape.get(axis)).copied();
        if scale_count != 1 && along != Some(scale_count) {
            let message = format!(
                "{scale_count} scales are neither 1 nor as many as dimension {axis} of the shape {shape:?} requires"
            );
            return Err(Error::new(Code::BadShape, message).component("scales"));
        }
        if zero_count != 1 && zero_count != scale_count {
            let message = format!("{zero_count} zero points for {scale_count} scales");
            return Err(Error::new(Code::BadShape, message).component("zeros"));
        }
        let axis = usize::try_from(axis).unwrap_or_default();
        Ok(Self { codes, axis, scales: scale_count, zeros: zero_count, bytes })
    }
}
