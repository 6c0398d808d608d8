//! Free-form attribute values on their way to JavaScript. Maps and arrays cross as tagged objects, from
//! which the wrapper builds null-prototype objects, Maps and arrays.

use ciborium::Value;
use ciborium::value::Integer;
use napi::bindgen_prelude::{
    Array, BigInt, FromNapiValue, JsValue, Null, Object, ToNapiValue, Uint8Array, Uint8ArraySlice, Unknown,
};
use napi::{Env, Result, ValueType};
use ztensor_core::model::Attributes;

use crate::error::misuse;

/// Integers up to here are numbers, beyond they are bigints.
const MAX_NUMBER: i128 = (1 << 53) - 1;
/// RFC 8949 §3.4.3: an unsigned and a negative integer of any size.
const POSITIVE_BIGNUM: u64 = 2;
const NEGATIVE_BIGNUM: u64 = 3;
/// Larger ones stay the bytes that they are: no bigint of every runtime holds them.
const BIGNUM_BYTES: usize = 1 << 16;

/// `{ map: [key, value, key, value, …] }`.
pub fn attributes<'env>(env: &'env Env, attributes: &Attributes) -> Result<Unknown<'env>> {
    let mut flat = env.create_array(0)?;
    for (key, value) in attributes {
        flat.insert(to_js(env, key)?)?;
        flat.insert(to_js(env, value)?)?;
    }
    tagged(env, "map", flat)
}

fn tagged<'env>(env: &'env Env, tag: &str, items: Array<'env>) -> Result<Unknown<'env>> {
    let mut object = Object::new(env)?;
    object.set(tag, items)?;
    Ok(object.to_unknown())
}

fn to_js<'env>(env: &'env Env, value: &Value) -> Result<Unknown<'env>> {
    match value {
        Value::Integer(integer) => integer_to_js(env, i128::from(*integer)),
        Value::Float(float) => float.into_unknown(env),
        Value::Text(text) => text.as_str().into_unknown(env),
        Value::Bool(flag) => flag.into_unknown(env),
        // V8's own memory, which it moves by itself: what a class of the binding generator keeps goes with the thread.
        Value::Bytes(bytes) => Ok(Uint8ArraySlice::copy_from(env, bytes)?.to_unknown()),
        Value::Array(items) => {
            let mut array = env.create_array(0)?;
            for item in items {
                array.insert(to_js(env, item)?)?;
            }
            tagged(env, "list", array)
        }
        Value::Map(entries) => attributes(env, entries),
        Value::Tag(tag @ (POSITIVE_BIGNUM | NEGATIVE_BIGNUM), inner)
            if inner.as_bytes().is_some_and(|bytes| bytes.len() <= BIGNUM_BYTES) =>
        {
            let bytes = inner.as_bytes().map_or(&[][..], Vec::as_slice);
            bignum(env, *tag == NEGATIVE_BIGNUM, bytes)
        }
        Value::Tag(_, inner) => to_js(env, inner),
        _ => Null.into_unknown(env),
    }
}

fn integer_to_js(env: &Env, value: i128) -> Result<Unknown<'_>> {
    if value.abs() <= MAX_NUMBER {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // within 2^53
        return (value as f64).into_unknown(env);
    }
    let magnitude = value.unsigned_abs();
    #[allow(clippy::cast_possible_truncation)] // the two halves
    let words = vec![magnitude as u64, (magnitude >> 64) as u64];
    BigInt { sign_bit: value < 0, words }.into_unknown(env)
}

/// A negative bignum stands for -1 - n.
fn bignum<'env>(env: &'env Env, negative: bool, bytes: &[u8]) -> Result<Unknown<'env>> {
    let mut words: Vec<u64> = bytes
        .rchunks(8)
        .map(|word| word.iter().fold(0, |value, &byte| (value << 8) | u64::from(byte)))
        .collect();
    if negative {
        let mut carry = true;
        for word in &mut words {
            (*word, carry) = word.overflowing_add(u64::from(carry));
        }
        if carry {
            words.push(1);
        }
    }
    if words.is_empty() {
        words.push(0);
    }
    BigInt { sign_bit: negative, words }.into_unknown(env)
}

/// Attributes from the wrapper's `{ map: [key, value, …] }`. It has checked kinds and depth.
pub fn from_js_map(value: Unknown<'_>) -> Result<Attributes> {
    match from_js(value)? {
        Value::Map(entries) => Ok(entries),
        _ => Err(misuse("attributes that are no map")),
    }
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
            let flat =
                object.get::<Vec<Unknown<'_>>>("map")?.ok_or_else(|| misuse("an attribute of no kind"))?;
            let values = flat.into_iter().map(from_js).collect::<Result<Vec<_>>>()?;
            Value::Map(values.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
        }
        _ => return Err(misuse("an attribute of no kind")),
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

/// Bigints of up to 64 bits are integers, larger ones bignums (RFC 8949 §3.4.3).
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
