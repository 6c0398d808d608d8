//! Attribute values from JavaScript. Maps and arrays arrive as tagged objects, which the wrapper creates.

use ciborium::Value;
use napi::bindgen_prelude::{BigInt, FromNapiValue, Object, Uint8Array, Unknown};
use napi::{JsValue, Result, ValueType};
use ztensor_core::edit::AttributeChanges;
use ztensor_core::model::{Attributes, Entries};
use ztensor_handover::{bigint_value, number_value};

use crate::js::error::misuse;

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
        ValueType::Number => number_value(FromNapiValue::from_unknown(value)?),
        ValueType::BigInt => {
            let BigInt { sign_bit, words } = BigInt::from_unknown(value)?;
            bigint_value(sign_bit, &words)
        }
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
