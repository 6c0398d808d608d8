//! Free-form attribute values on their way to JavaScript. Maps and arrays cross as tagged objects, from
//! which the wrapper builds null-prototype objects, Maps and arrays.

use ciborium::Value;
use napi::bindgen_prelude::{Array, BigInt, JsValue, Null, Object, ToNapiValue, Uint8Array, Unknown};
use napi::{Env, Result};
use ztensor_core::catalog::Attributes;

/// Integers up to here are numbers, beyond they are bigints.
const MAX_NUMBER: i128 = (1 << 53) - 1;
/// RFC 8949 §3.4.3: an unsigned and a negative integer of any size.
const POSITIVE_BIGNUM: u64 = 2;
const NEGATIVE_BIGNUM: u64 = 3;

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
        Value::Bytes(bytes) => Uint8Array::from(bytes.as_slice()).into_unknown(env),
        Value::Array(items) => {
            let mut array = env.create_array(0)?;
            for item in items {
                array.insert(to_js(env, item)?)?;
            }
            tagged(env, "list", array)
        }
        Value::Map(entries) => attributes(env, entries),
        Value::Tag(tag @ (POSITIVE_BIGNUM | NEGATIVE_BIGNUM), inner) if inner.is_bytes() => {
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
