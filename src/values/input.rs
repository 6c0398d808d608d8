//! Attribute values from JavaScript. Maps and arrays arrive as tagged objects, which the wrapper creates.

use ciborium::Value;
use ciborium::value::Integer;
use napi::bindgen_prelude::{BigInt, FromNapiValue, Object, Uint8Array, Unknown};
use napi::{JsValue, Result, ValueType};
use ztensor_core::edit::AttributeChanges;
use ztensor_core::model::{Attributes, Entries};

use crate::js::error::misuse;

/// Whole numbers up to here are integers in the file.
const MAX_NUMBER: i128 = (1 << 53) - 1;
/// RFC 8949 §3.4.3: an unsigned and a negative integer of any size.
const POSITIVE_BIGNUM: u64 = 2;
const NEGATIVE_BIGNUM: u64 = 3;

/// Converts the wrapper's `{ map: [key, value, …] }` to attributes.
pub fn attributes(value: Unknown<'_>) -> Result<Attributes> {
    Ok(from_js_map(value)?.into())
}

/// Returns the keys and values of a `{ map: [key, value, …] }`. The wrapper has checked types and depth.
pub fn from_js_map(value: Unknown<'_>) -> Result<Entries> {
    match from_js(value)? {
        Value::Map(entries) => Ok(entries),
        _ => Err(misuse("attributes that are not a map")),
    }
}

/// Attributes to set, and a map whose keys are removed first: a key of both moves to the end.
pub fn changes(set: Unknown<'_>, unset: Unknown<'_>) -> Result<AttributeChanges> {
    let set = from_js_map(set)?.into_iter().map(|(key, value)| (key, Some(value)));
    let unset = from_js_map(unset)?.into_iter().map(|(key, _)| (key, None));
    Ok(unset.chain(set).collect())
}

fn from_js(value: Unknown<'_>) -> Result<Value> {
    Ok(match value.get_type()? {
        ValueType::String => Value::Text(FromNapiValue::from_unknown(value)?),
        ValueType::Boolean => Value::Bool(FromNapiValue::from_unknown(value)?),
        ValueType::Number => number_from_js(FromNapiValue::from_unknown(value)?),
        ValueType::BigInt => bigint_from_js(&BigInt::from_unknown(value)?),
        ValueType::Null | ValueType::Undefined => Value::Null,
        ValueType::Object if value.is_typedarray()? => {
            let bytes: Uint8Array = FromNapiValue::from_unknown(value)?;
            Value::Bytes(bytes.to_vec())
        }
        ValueType::Object => {
            let object: Object<'_> = FromNapiValue::from_unknown(value)?;
            if let Some(items) = object.get::<Vec<Unknown<'_>>>("list")? {
                return Ok(Value::Array(items.into_iter().map(from_js).collect::<Result<_>>()?));
            }
            let flat = object
                .get::<Vec<Unknown<'_>>>("map")?
                .ok_or_else(|| misuse("an attribute without a kind"))?;
            let values = flat.into_iter().map(from_js).collect::<Result<Vec<_>>>()?;
            Value::Map(values.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
        }
        _ => return Err(misuse("an attribute without a kind")),
    })
}

/// Whole numbers are integers in the file, except for negative zero.
fn number_from_js(value: f64) -> Value {
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // checked to be exact
    if value.fract() == 0.0 && value.abs() <= MAX_NUMBER as f64 && !(value == 0.0 && value.is_sign_negative())
    {
        return Value::Integer((value as i64).into());
    }
    Value::Float(value)
}

/// Converts bigints of up to 64 bits to integers, larger ones to bignums (RFC 8949 §3.4.3).
fn bigint_from_js(value: &BigInt) -> Value {
    let words: Vec<u64> = value.words.iter().copied().rev().skip_while(|&word| word == 0).collect();
    if let [] | [_] = words[..] {
        let magnitude = i128::from(words.first().copied().unwrap_or(0));
        let signed = if value.sign_bit { -magnitude } else { magnitude };
        if let Ok(integer) = Integer::try_from(signed) {
            return Value::Integer(integer);
        }
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    if value.sign_bit {
        // A negative bignum holds -1 - n.
        for byte in bytes.iter_mut().rev() {
            let (less, borrow) = byte.overflowing_sub(1);
            *byte = less;
            if !borrow {
                break;
            }
        }
    }
    let start = bytes.iter().take_while(|&&byte| byte == 0).count();
    let tag = if value.sign_bit { NEGATIVE_BIGNUM } else { POSITIVE_BIGNUM };
    Value::Tag(tag, Box::new(Value::Bytes(bytes.split_off(start))))
}
