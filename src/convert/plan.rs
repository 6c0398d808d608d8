//! The plan of a conversion: the result for each tensor and for the attributes, from the index alone.

use std::sync::Arc;

use ciborium::Value;
use napi::bindgen_prelude::{Object, Uint32Array, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::convert::{Conversion, LeftOut, Plan, PlanRequest as Request};
use ztensor_core::edit::AttributeChanges;
use ztensor_core::error::Result as CoreResult;
use ztensor_core::model::Catalog;
use ztensor_core::work::lanes::Lane;
use ztensor_gguf::quantization::{self, Matrix, Quantization};

use super::{NativeConversion, locked, named};
use crate::js::control::Control;
use crate::js::error::NativeError;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::values::arguments::format;
use crate::values::formats::FORMATS;
use crate::values::input;
use ztensor_handover::number;

/// What to make of the tensors of a selection.
#[napi(object, object_to_js = false)]
#[allow(clippy::struct_excessive_bools)] // options, each of its own meaning
pub struct PlanRequest<'env> {
    pub write_format: String,
    pub canonical: bool,
    /// Whether attributes that the target cannot hold are a reason to refuse a tensor.
    pub strict: bool,
    /// Whether the attributes of the file are written, without those that the target cannot hold.
    pub copies: bool,
    /// Casts of single tensors, which take precedence over those of dtypes: parallel lists of ordinals, dtypes and new dtypes.
    pub cast: Uint32Array,
    pub from: Uint32Array,
    pub to: Uint32Array,
    /// Attributes instead of those of the source, and changes of either.
    pub own: Option<Unknown<'env>>,
    pub set: Unknown<'env>,
    pub unset: Unknown<'env>,
    /// Whether the attributes need not say which model it is.
    pub is_any: bool,
    pub quantize: Option<QuantizeRequest>,
    /// Why the source is not converted as a checkpoint.
    pub lack: Option<String>,
}

/// Which types to quantize tensors to: a mixture of llama.cpp, or rules.
#[napi(object, object_to_js = false)]
pub struct QuantizeRequest {
    pub mixture: Option<String>,
    /// Alternately a pattern of names and a type; the first that matches counts.
    pub rules: Vec<String>,
    pub requantize: bool,
    /// The path of an importance matrix, and the path to record.
    pub imatrix: Option<Vec<String>>,
}

/// What a conversion will do.
#[allow(clippy::struct_excessive_bools)] // JavaScript reads each by its name
#[napi(object, object_from_js = false)]
pub struct ConversionPlan {
    pub tensors: u32,
    /// Their stored bytes.
    pub bytes: f64,
    /// Number of tensors whose data must be checked, and their stored bytes.
    pub inspected: u32,
    pub inspected_bytes: f64,
    /// Whether the sizes of all tensors in the target are known.
    pub is_sized: bool,
    /// Whether the target can hold the file's own attributes.
    pub attributes: bool,
    /// What it does not hold of them, if they are written.
    pub left_out: Option<LeftOutAttributes>,
    /// The programs that can use the file.
    pub readers: Vec<String>,
    /// Ordinals of tensors that stay float32, whatever the others are cast to.
    pub float32: Uint32Array,
    pub quantized: Option<Quantized>,
    /// Whether the source is a file of the format, and the attributes say which model it is.
    pub is_copy: bool,
    /// Whether a tensor is dequantized because of the option, or would be if it were not quantized.
    pub dequantizes: bool,
    /// The first of the keys to remove that does not exist, as a message names it.
    pub missing: Option<String>,
    /// The attribute of the type of most elements, if it is not that of the source.
    pub stated_type: Option<StatedAttribute>,
}

/// The types that were chosen.
#[napi(object, object_from_js = false)]
pub struct Quantized {
    /// The attributes that state a mixture.
    pub stated: Vec<StatedAttribute>,
    /// Names of types and the number of tensors that get them.
    pub types: Vec<TypeCount>,
    /// Tensors whose rows are not whole blocks of the wanted type.
    pub fallbacks: Vec<TypeFallback>,
    /// Quantized tensors for which the importance matrix has no weights.
    pub unweighted: Vec<String>,
    /// The ordinals of all tensors that get a type, or have it already.
    pub ordinals: Uint32Array,
}

#[napi(object, object_from_js = false)]
pub struct TypeCount {
    pub r#type: String,
    pub tensors: u32,
}

#[napi(object, object_from_js = false)]
pub struct TypeFallback {
    pub tensor: String,
    pub wanted: String,
    pub r#type: String,
}

impl From<quantization::Quantized> for Quantized {
    fn from(quantized: quantization::Quantized) -> Self {
        let quantization::Quantized { stated, types, fallbacks, unweighted, ordinals } = quantized;
        let count = |(kind, tensors): (&str, u32)| TypeCount { r#type: kind.to_owned(), tensors };
        let named = |(tensor, wanted, kind): (String, &str, &str)| TypeFallback {
            tensor,
            wanted: wanted.to_owned(),
            r#type: kind.to_owned(),
        };
        Self {
            stated: stated.into_iter().map(|(key, value)| StatedAttribute::new(key, &value)).collect(),
            types: types.into_iter().map(count).collect(),
            fallbacks: fallbacks.into_iter().map(named).collect(),
            unweighted,
            ordinals: ordinals.into(),
        }
    }
}

/// An attribute that states what a conversion writes.
#[napi(object, object_from_js = false)]
pub struct StatedAttribute {
    pub key: String,
    pub text: Option<String>,
    /// An integer of 32 bits without a sign. An attribute without a text and a number is removed.
    pub number: Option<u32>,
}

impl StatedAttribute {
    pub fn new(key: &str, value: &Value) -> Self {
        let number = value.as_integer().and_then(|value| u32::try_from(value).ok());
        Self { key: key.to_owned(), text: value.as_text().map(str::to_owned), number }
    }
}

/// The attributes that a target does not hold.
#[napi(object, object_from_js = false)]
pub struct LeftOutAttributes {
    pub count: f64,
    /// The first keys.
    pub first: Vec<String>,
    /// Why the others are not written either: all of them are too many.
    pub refused: Option<NativeError>,
}

impl From<LeftOut> for LeftOutAttributes {
    fn from(LeftOut { count, first, refused }: LeftOut) -> Self {
        Self { count: number(count as u64), first, refused: refused.as_ref().map(NativeError::from) }
    }
}

/// A request in the types of the core.
fn request_of(request: PlanRequest<'_>) -> Result<(Request, Option<QuantizeRequest>)> {
    let casts = request.cast.iter().zip(request.from.iter()).zip(request.to.iter());
    let casts = casts.map(|((&ordinal, &from), &to)| Ok((ordinal, named(from)?, named(to)?)));
    let plan = Request {
        format: format(&request.write_format)?,
        canonical: request.canonical,
        strict: request.strict,
        copies: request.copies,
        casts: casts.collect::<Result<_>>()?,
        own: request.own.map(input::attributes).transpose()?,
        changes: input::changes(request.set, request.unset)?,
        is_any: request.is_any,
        lack: request.lack,
    };
    Ok((plan, request.quantize))
}

#[napi]
impl NativeConversion {
    /// Plans each tensor: casts, types of blocks, and what the target cannot hold. Rejects tensors whose total size far
    /// exceeds that of their file, and duplicate names. Fails with `ZT_INVALID_ARG` if the attributes do not say which model it is, unless
    /// `is_any` is set or the source has the format already.
    #[napi(ts_return_type = "Promise<ConversionPlan>", catch_unwind)]
    pub fn plan<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        request: PlanRequest<'_>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (source, (request, quantize)) = (file.reader(env, control, None)?, request_of(request)?);
        let lane = source.shared.or_remote(Lane::Long);
        let inner = Arc::clone(&self.inner);
        let job = move || {
            let inner = &mut locked(&inner).conversion;
            let choose = |inner: &mut Conversion, catalog: &Catalog, changes: &AttributeChanges| {
                quantize.map(|wanted| quantized(inner, catalog, wanted, changes)).transpose()
            };
            let held = source.shared.length;
            let plan = source.read(|reading| inner.plan(reading, FORMATS, held, request, choose))?;
            let Plan { examined, left_out, quantized, is_copy, dequantizes, missing, stated_type } = plan;
            let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            Ok(ConversionPlan {
                tensors: count(inner.selection.len()),
                bytes: number(examined.bytes),
                inspected: count(inner.inspected.1.len()),
                inspected_bytes: number(examined.inspected_bytes),
                is_sized: examined.is_sized,
                attributes: inner.attributes.is_none(),
                left_out: left_out.map(LeftOutAttributes::from),
                readers: inner.readers.iter().copied().map(str::to_owned).collect(),
                float32: inner.float32.clone().into(),
                quantized: quantized.map(Quantized::from),
                is_copy,
                dequantizes,
                missing,
                stated_type: stated_type.map(|(key, number)| StatedAttribute {
                    key: key.to_owned(),
                    text: None,
                    number,
                }),
            })
        };
        spawn(env, lane, control, job, |_, plan| Ok(plan))
    }
}

/// Chooses the types of tensors to quantize.
fn quantized(
    conversion: &mut Conversion,
    catalog: &Catalog,
    wanted: QuantizeRequest,
    changes: &AttributeChanges,
) -> CoreResult<quantization::Quantized> {
    let QuantizeRequest { mixture, rules, requantize, imatrix } = wanted;
    let imatrix = match imatrix.as_deref() {
        Some([path, name]) => Some(Matrix::open(path.into(), name.clone())?),
        _ => None,
    };
    let wanted = Quantization::new(mixture, &rules, requantize, imatrix)?;
    let casts = (Arc::make_mut(&mut conversion.casts), &*conversion.float32);
    quantization::choose(catalog, &wanted, changes, Arc::make_mut(&mut conversion.selection), casts)
}
