//! Encodes values of metadata: in the requested type, else in that of the old value if the new one fits, else in the type that llama.cpp
//! expects of the key, else in the type that gguf-py infers.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Setting;

use super::default_types::{Model, UINT8};
use super::metadata::{ARRAY, Pair, STRING, width};
use super::value::{TYPE, VALUE, ValueType};
use super::window::Spelling;

const FLOAT32: u32 = ValueType::Float32.number();
const BOOL: u32 = ValueType::Bool.number();
const FLOAT64: u32 = ValueType::Float64.number();
/// The types of integers in the order of preference.
const INTEGERS: [u32; 4] = [
    ValueType::Int32.number(),
    ValueType::Uint32.number(),
    ValueType::Int64.number(),
    ValueType::Uint64.number(),
];

/// Appends the type and the value of an edit.
pub fn put_setting(
    setting: &Setting,
    old: Option<&Pair<'_>>,
    model: Model<'_>,
    spelling: Spelling,
    to: &mut Vec<u8>,
) -> Result<()> {
    let Setting { key, value, kind, .. } = setting;
    let named = |error: Error| error.reworded(format!("{key:?}: {}", error.message()));
    if kind.is_none()
        && let Some(encoded) = old.map(|old| as_before(value, old, spelling)).transpose()?.flatten()
    {
        to.extend(encoded);
        return Ok(());
    }
    put(key, value, kind.as_deref(), model, spelling, to).map_err(named)
}

/// Appends the type and the value of an attribute: a string, a boolean, a number, bytes, or a list of strings, booleans or numbers; or
/// `{ "type": "uint32", "value": 7 }`.
pub fn put_attribute(
    key: &str,
    value: &Value,
    model: Model<'_>,
    spelling: Spelling,
    to: &mut Vec<u8>,
) -> Result<()> {
    let Value::Map(entries) = value else { return put(key, value, None, model, spelling, to) };
    let member = |name: &str| {
        let found = entries.iter().find(|(key, _)| key.as_text() == Some(name));
        found.map(|(_, value)| value)
    };
    match (member(TYPE).and_then(Value::as_text), member(VALUE), entries.len()) {
        (Some(kind), Some(value), 2) => put(key, value, Some(kind), model, spelling, to),
        _ => Err(refused(NO_MAP)),
    }
}

const NO_MAP: &str =
    "GGUF has no maps and no null; a value with a type of GGUF is { type: 'uint32', value: 5 }";

fn refused(what: &str) -> Error {
    Error::new(Code::InvalidArg, what)
}

fn put(
    key: &str,
    value: &Value,
    kind: Option<&str>,
    model: Model<'_>,
    spelling: Spelling,
    to: &mut Vec<u8>,
) -> Result<()> {
    // Bytes are an array of uint8, unless they are a string that is not UTF-8.
    let bytes = value.as_bytes().filter(|_| kind != Some(ValueType::String.name()));
    let array = bytes.map(|bytes| Value::Array(bytes.iter().map(|&byte| byte.into()).collect()));
    let value = array.as_ref().unwrap_or(value);
    let number = match kind {
        Some(name) => {
            let known = ValueType::named(name).filter(|&kind| kind != ValueType::Array);
            let known = known.map(ValueType::number).ok_or_else(|| {
                let all = ValueType::ALL.into_iter().filter(|&kind| kind != ValueType::Array);
                let names: Vec<_> = all.map(ValueType::name).collect();
                refused(&format!("there is no type {name:?} in GGUF; the types are {}", names.join(", ")))
            });
            known?
        }
        None if array.is_some() => UINT8,
        None => inferred(value, model.default_type(key)).map_err(refused)?,
    };
    let encoded = typed(value, number, spelling)?;
    to.extend(encoded.ok_or_else(|| match kind {
        Some(name) => refused(&format!("the value does not fit the type {name}")),
        None => refused("no type of GGUF can hold the value"),
    })?);
    Ok(())
}

/// Encodes a value in the type of the old one; `None` if it does not fit.
fn as_before(value: &Value, old: &Pair<'_>, spelling: Spelling) -> Result<Option<Vec<u8>>> {
    match (old.kind, value) {
        (ARRAY, Value::Array(_)) => {
            let kind = old.value.get(..4).map(|bytes| spelling.u32(bytes)).filter(|&kind| kind != ARRAY);
            kind.map_or(Ok(None), |kind| typed(value, kind, spelling))
        }
        (ARRAY, _) | (_, Value::Array(_)) => Ok(None),
        (kind, _) => typed(value, kind, spelling),
    }
}

/// Encodes the type and a value of it, or an array of such values; `None` if one does not fit.
fn typed(value: &Value, kind: u32, spelling: Spelling) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let Value::Array(items) = value else {
        spelling.put(kind.into(), 4, &mut bytes);
        return Ok(scalar(value, kind, spelling, &mut bytes)?.then_some(bytes));
    };
    spelling.put(ARRAY.into(), 4, &mut bytes);
    spelling.put(kind.into(), 4, &mut bytes);
    spelling.put_count(items.len() as u64, &mut bytes)?;
    for item in items {
        if !scalar(item, kind, spelling, &mut bytes)? {
            return Ok(None);
        }
    }
    Ok(Some(bytes))
}

/// Appends a value without its type. Returns whether it fits.
fn scalar(value: &Value, kind: u32, spelling: Spelling, to: &mut Vec<u8>) -> Result<bool> {
    match (kind, value) {
        (STRING, Value::Text(text)) => spelling.put_text(text.as_bytes(), to)?,
        (STRING, Value::Bytes(bytes)) => spelling.put_text(bytes, to)?,
        (BOOL, Value::Bool(value)) => to.push(u8::from(*value)),
        (FLOAT32, _) => {
            let Some(wide) = float(value) else { return Ok(false) };
            #[allow(clippy::cast_possible_truncation)] // rounded to the type that was asked for
            let narrow = wide as f32;
            if wide.is_finite() && !narrow.is_finite() {
                return Ok(false);
            }
            spelling.put(narrow.to_bits().into(), 4, to);
        }
        (FLOAT64, _) => {
            let Some(value) = float(value) else { return Ok(false) };
            spelling.put(value.to_bits(), 8, to);
        }
        (STRING | BOOL, _) => return Ok(false),
        (_, Value::Integer(value)) => {
            let (value, width) = (i128::from(*value), width(kind).unwrap_or_default());
            if range(kind).is_none_or(|range| !range.contains(&value)) {
                return Ok(false);
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            // the lowest bytes of a value in range
            spelling.put(value as u64, usize::try_from(width).unwrap_or_default(), to);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns a number as a float, unless it is an integer that no float equals.
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        Value::Integer(value) => {
            let value = i128::from(*value);
            #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // checked to be exact
            Some(value as f64).filter(|&float| float as i128 == value)
        }
        _ => None,
    }
}

/// Returns the values of a type of integers.
fn range(kind: u32) -> Option<std::ops::RangeInclusive<i128>> {
    Some(match kind {
        0 => 0..=u8::MAX.into(),
        1 => i8::MIN.into()..=i8::MAX.into(),
        2 => 0..=u16::MAX.into(),
        3 => i16::MIN.into()..=i16::MAX.into(),
        4 => 0..=u32::MAX.into(),
        5 => i32::MIN.into()..=i32::MAX.into(),
        10 => 0..=u64::MAX.into(),
        11 => i64::MIN.into()..=i64::MAX.into(),
        _ => return None,
    })
}

/// Infers the type of a value, or of the items of an array: that of the key, if it fits, else like gguf-py. An integer beyond int32, for
/// which that has no rule, gets the first larger type that holds it. Fails with what is wrong.
fn inferred(value: &Value, default: Option<ValueType>) -> std::result::Result<u32, &'static str> {
    let (items, default) = match value {
        // Arrays of integers are int32 in gguf-py, whatever their key.
        Value::Array(items) => (items.as_slice(), default.filter(|&kind| kind == ValueType::Float32)),
        one => (std::slice::from_ref(one), default),
    };
    if items.is_empty() {
        return Err("an empty array has no type: pass one, such as { type: 'string', value: [] }");
    }
    if items.iter().all(Value::is_text) {
        return Ok(STRING);
    }
    if items.iter().all(|item| matches!(item, Value::Bool(_))) {
        return Ok(BOOL);
    }
    let is_float = default == Some(ValueType::Float32);
    if !is_float && items.iter().all(|item| matches!(item, Value::Integer(_))) {
        let fits = |&kind: &u32| {
            let Some(range) = range(kind) else { return false };
            items.iter().all(|item| item.as_integer().is_some_and(|item| range.contains(&item.into())))
        };
        let default = default.map(ValueType::number);
        return default
            .into_iter()
            .chain(INTEGERS)
            .find(fits)
            .ok_or("no type of GGUF holds all of these integers");
    }
    if items.iter().all(|item| float(item).is_some()) {
        let overflows = |&item: &f64| item.is_finite() && item.abs() > f32::MAX.into();
        let is_large = items.iter().filter_map(float).any(|item| overflows(&item));
        return Ok(if is_large { FLOAT64 } else { FLOAT32 });
    }
    if items.iter().any(|item| matches!(item, Value::Array(_))) {
        return Err("GGUF writers do not nest arrays");
    }
    if items.iter().any(|item| matches!(item, Value::Null | Value::Map(_) | Value::Tag(..))) {
        return Err("GGUF has text, booleans, integers of up to 64 bits, floats, and arrays of one of these");
    }
    Err("the items of an array must have one type")
}
