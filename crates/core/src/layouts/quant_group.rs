//! `zt.quant_group/1`: codes packed into words. Each group along one axis has a scale and, optionally, a zero point.
#![forbid(unsafe_code)]

use super::parameters::{Parameters, bad, exactly, sized, typed};
use crate::checked::{bytes_of, product};
use crate::error::{Code, Result};
use crate::model::{Attributes, Component, DType, Label};

/// The attributes that are parameters of the layout.
pub const PARAMETERS: [&str; 6] = ["bits", "group_size", "axis", "packing", "scale_form", "zero_point"];

const ATTRIBUTES: &str = "zt.quant_group/1 Attributes";
const SIZES: &str = "zt.quant_group/1 Sizes";
const VALIDATION: &str = "zt.quant_group/1 Validation";

/// The interpretation of `scales`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScaleForm {
    F32Factors,
    F16Factors,
    /// The byte `b` is 2^(b - 127).
    E8M0Exponent,
}

/// The value subtracted from each code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZeroPoint {
    None,
    Implied(i128),
    /// The component `zeros`, packed exactly like `data`.
    Packed,
    /// The component `zeros`, one element per group.
    Plain,
}

/// The parameters of a tensor, which satisfy all metadata rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuantGroup {
    /// Bits of a code: 2, 4 or 8.
    pub bits: u32,
    /// Codes that share a scale, along `axis`; 0 means one scale for each index of `axis`.
    pub group_size: u64,
    pub axis: usize,
    /// The unsigned type of the words of `data`.
    pub word: DType,
    /// Whether the code of the lowest index is in a word's high bits.
    pub msb_first: bool,
    pub per_word: u64,
    pub scale_form: ScaleForm,
    pub zero_point: ZeroPoint,
    /// Elements of `scales`.
    pub scales: u64,
}

impl QuantGroup {
    /// Reads and checks a tensor's entry.
    pub fn read(shape: &[u64], attributes: &Attributes, components: &[Component]) -> Result<Self> {
        let values = attributes.values()?;
        let parameters = Parameters::new(&values);
        let (bits, group_size, axis) =
            Self::numbers(parameters, shape).map_err(|error| error.rule(ATTRIBUTES))?;
        let (word, msb_first, per_word) =
            packing(parameters, bits).map_err(|error| error.rule("zt.quant_group/1 packing"))?;
        let scale_form = scale_form(parameters).map_err(|error| error.rule("zt.quant_group/1 scale_form"))?;
        let zero_point = zero_point(parameters).map_err(|error| error.rule("zt.quant_group/1 zero_point"))?;
        let roles = [(Label::DATA, "data"), (Label::SCALES, "scales"), (Label::ZEROS, "zeros")];
        let (data, scales, zeros) = match zero_point {
            ZeroPoint::Packed | ZeroPoint::Plain => {
                exactly(components, roles).map(|[data, scales, zeros]| (data, scales, Some(zeros)))
            }
            _ => exactly(components, [roles[0], roles[1]]).map(|[data, scales]| (data, scales, None)),
        }
        .map_err(|error| error.rule("zt.quant_group/1 Parts"))?;
        check_types(word, scale_form, data, scales).map_err(|error| error.rule(VALIDATION))?;

        let sizes = Sizes::of(shape, group_size, axis).map_err(|error| error.rule(VALIDATION))?;
        let check = || {
            let width = u64::from(word.bits() / 8);
            let packed = |codes: u64| {
                codes.is_multiple_of(per_word).then(|| (codes / per_word).checked_mul(width)).flatten()
            };
            sized(data, "data", packed(sizes.codes), Code::BadShape)?;
            let scale_bytes = scales.dtype.map_or(1, |dtype| dtype.element_bytes() as u64);
            let found = scales.byte_length().unwrap_or_default() / scale_bytes;
            // "One scale per row of axis" and "groups × lanes" differ if the group size is 0: both are accepted.
            let count = if group_size == 0 && found == sizes.along { sizes.along } else { sizes.groups };
            sized(scales, "scales", count.checked_mul(scale_bytes), Code::BadShape)?;
            match (zero_point, zeros) {
                (ZeroPoint::Packed, Some(zeros)) => {
                    typed(zeros, "zeros", "of the type of data", |dtype| Some(dtype) == data.dtype)?;
                    sized(zeros, "zeros", packed(count), Code::BadShape)?;
                }
                (ZeroPoint::Plain, Some(zeros)) => {
                    // An unknown type has no size to check.
                    if let Some(dtype) = zeros.dtype {
                        sized(zeros, "zeros", bytes_of(count, dtype.bits()), Code::BadShape)?;
                    }
                }
                _ => {}
            }
            Ok(count)
        };
        let scales = check().map_err(|error: crate::error::Error| error.rule(SIZES))?;
        Ok(Self { bits, group_size, axis, word, msb_first, per_word, scale_form, zero_point, scales })
    }

    fn numbers(parameters: Parameters<'_>, shape: &[u64]) -> Result<(u32, u64, usize)> {
        let bits = match parameters.uint("bits")? {
            2 => 2,
            3 => 3,
            4 => 4,
            5 => 5,
            6 => 6,
            8 => 8,
            other => return Err(bad(format!("codes have 2, 3, 4, 5, 6 or 8 bits, not {other}"))),
        };
        let axis = parameters.uint("axis")?;
        let axis = usize::try_from(axis).ok().filter(|&axis| axis < shape.len());
        let axis =
            axis.ok_or_else(|| bad(format!("the axis must be one of the {} dimensions", shape.len())))?;
        Ok((bits, parameters.uint("group_size")?, axis))
    }
}

fn packing(parameters: Parameters<'_>, bits: u32) -> Result<(DType, bool, u64)> {
    let packing = parameters.map("packing")?;
    let word = match packing.text("word")? {
        "u8" => DType::Uint8,
        "u16" => DType::Uint16,
        "u32" => DType::Uint32,
        "u64" => DType::Uint64,
        other => return Err(bad(format!("words are u8, u16, u32 or u64, not {other:?}"))),
    };
    let msb_first = match packing.text("order")? {
        "lsb_first" => false,
        "msb_first" => true,
        other => return Err(bad(format!("the order is lsb_first or msb_first, not {other:?}"))),
    };
    let per_word = packing.uint("per_word")?;
    if !word.bits().is_multiple_of(bits) || per_word != u64::from(word.bits() / bits) {
        let message = format!("{per_word} codes of {bits} bits do not fill a word of {} bits", word.bits());
        return Err(bad(message));
    }
    Ok((word, msb_first, per_word))
}

fn scale_form(parameters: Parameters<'_>) -> Result<ScaleForm> {
    match parameters.text("scale_form")? {
        "f32_factors" => Ok(ScaleForm::F32Factors),
        "f16_factors" => Ok(ScaleForm::F16Factors),
        "e8m0_exponent" => Ok(ScaleForm::E8M0Exponent),
        other => Err(bad(format!("{other:?} is not a scale form"))),
    }
}

fn zero_point(parameters: Parameters<'_>) -> Result<ZeroPoint> {
    let zero_point = parameters.map("zero_point")?;
    match zero_point.text("form")? {
        "none" => Ok(ZeroPoint::None),
        "implied" => zero_point.integer("value").map(ZeroPoint::Implied),
        "tensor" => match zero_point.text("packing")? {
            "same_as_data" => Ok(ZeroPoint::Packed),
            "plain" => Ok(ZeroPoint::Plain),
            other => Err(bad(format!("zeros are packed same_as_data or plain, not {other:?}"))),
        },
        other => Err(bad(format!("{other:?} is not a zero point form"))),
    }
}

fn check_types(word: DType, form: ScaleForm, data: &Component, scales: &Component) -> Result<()> {
    let signed = match word {
        DType::Uint8 => DType::Int8,
        DType::Uint16 => DType::Int16,
        DType::Uint32 => DType::Int32,
        _ => DType::Int64,
    };
    typed(data, "data", &format!("{} as the packing says, or its signed twin", word.name()), |dtype| {
        dtype == word || dtype == signed
    })?;
    match form {
        ScaleForm::E8M0Exponent => {
            typed(scales, "scales", "float8_e8m0fnu", |dtype| dtype == DType::Float8E8M0Fnu)
        }
        _ => typed(scales, "scales", "float64, float32, float16 or bfloat16", |dtype| {
            matches!(dtype, DType::Float64 | DType::Float32 | DType::Float16 | DType::BFloat16)
        }),
    }
    .map(drop)
}

/// Counts that follow from the shape.
struct Sizes {
    codes: u64,
    along: u64,
    /// Groups over all lanes.
    groups: u64,
}

impl Sizes {
    fn of(shape: &[u64], group_size: u64, axis: usize) -> Result<Self> {
        let beyond = || bad(format!("the product of the dimensions {shape:?} exceeds a u64"));
        let along = shape.get(axis).copied().unwrap_or(1);
        if group_size != 0 && !along.is_multiple_of(group_size) {
            return Err(bad(format!(
                "groups of {group_size} do not divide the {along} indices of axis {axis}"
            )));
        }
        let groups = along.checked_div(group_size).unwrap_or(along);
        let others: Vec<u64> =
            shape.iter().enumerate().filter(|&(dim, _)| dim != axis).map(|(_, &size)| size).collect();
        let groups = product(&others).and_then(|lanes| lanes.checked_mul(groups));
        // An empty axis has no lanes.
        let groups = if along == 0 { Some(0) } else { groups };
        Ok(Self { codes: product(shape).ok_or_else(beyond)?, along, groups: groups.ok_or_else(beyond)? })
    }
}
