//! Conversion of flat attributes to JavaScript.

use napi::bindgen_prelude::{BigInt, Float64ArraySlice, ToNapiValue, Uint8ArraySlice, Unknown};
use napi::{Env, JsString, Result};
use napi_derive::napi;
use ztensor_core::error::Result as CoreResult;
use ztensor_core::model::Attributes;
use ztensor_handover::{Bigint, Extent, number};

/// `tape` holds the number of keys and values, and then, alternately for each of them, a mark and its operands.
#[napi(object, object_from_js = false)]
pub struct FlatAttributes<'env> {
    pub tape: Float64ArraySlice<'env>,
    /// Concatenated texts.
    pub texts: Vec<JsString<'env>>,
    /// Concatenated byte strings: a buffer for each would take some 200 bytes, and a microsecond.
    pub bytes: Uint8ArraySlice<'env>,
    /// Bigints.
    #[napi(ts_type = "Array<bigint>")]
    pub others: Vec<Unknown<'env>>,
}

pub fn to_js<'env>(
    env: &'env Env,
    attributes: Option<&Attributes>,
) -> Result<CoreResult<FlatAttributes<'env>>> {
    match ztensor_handover::FlatAttributes::of(attributes) {
        Ok(flat) => hand_over(flat, env).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

/// What an outline has of each value.
#[napi(object, object_to_js = false)]
pub struct OutlineRequest {
    /// Maximum number of keys.
    pub keys: u32,
    /// Maximum number of items of a list.
    pub items: u32,
    /// UTF-16 units of a text that is no key: of a longer one at least as many.
    pub units: u32,
}

/// The beginnings of attributes.
#[napi(object, object_from_js = false)]
pub struct AttributeOutline<'env> {
    pub attributes: FlatAttributes<'env>,
    /// The number of all keys.
    pub keys: f64,
}

/// The beginnings of attributes: of long lists the first items and the number of the others, of long texts the first characters.
pub fn outline<'env>(
    env: &'env Env,
    attributes: &Attributes,
    request: &OutlineRequest,
) -> Result<CoreResult<AttributeOutline<'env>>> {
    let &OutlineRequest { keys, items, units } = request;
    match ztensor_handover::FlatAttributes::outline(attributes, Extent { keys, items, units }) {
        Ok((flat, keys)) => {
            hand_over(flat, env).map(|attributes| Ok(AttributeOutline { attributes, keys: number(keys) }))
        }
        Err(error) => Ok(Err(error)),
    }
}

fn hand_over(flat: ztensor_handover::FlatAttributes, env: &Env) -> Result<FlatAttributes<'_>> {
    let texts = flat.texts.iter().map(|text| string(env, text)).collect::<Result<_>>()?;
    let bigint = |Bigint { is_negative, words }| BigInt { sign_bit: is_negative, words }.into_unknown(env);
    let others = flat.bigints.into_iter().map(bigint).collect::<Result<_>>()?;
    // Uses memory of V8, which moves it itself: memory owned by a class of the binding generator disappears with the thread.
    let bytes = Uint8ArraySlice::copy_from(env, flat.bytes)?;
    Ok(FlatAttributes { tape: Float64ArraySlice::copy_from(env, flat.tape)?, texts, bytes, others })
}

fn string<'env>(env: &'env Env, text: &str) -> Result<JsString<'env>> {
    if text.is_ascii() {
        return env.create_string_latin1(text);
    }
    env.create_string_utf16(text.encode_utf16().collect::<Vec<_>>())
}
