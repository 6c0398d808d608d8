//! Encodes new values of metadata: in the requested type, else in that of the old value if the new one fits, else in the type that gguf-py
//! infers.
#![forbid(unsafe_code)]

use std::ops::RangeInclusive;

use ciborium::Value;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Setting;

use super::super::metadata::{ARRAY, Pair, STRING, width};
use super::super::window::Spelling;

const FLOAT32: u32 = 6;
const BOOL: u32 = 7;
const FLOAT64: u32 = 12;
/// The types of integers in the order of preference.
const INTEGERS: [u32; 4] = [5, 4, 11, 10];
/// The types by number.
const NAMES: [(&str, u32); 12] = [
    ("uint8", 0),
    ("int8", 1),
    ("uint16", 2),
    ("int16", 3),
    ("uint32", 4),
    ("int32", 5),
    ("float32", FLOAT32),
    ("bool", BOOL),
    ("string", STRING),
    ("uint64", 10),
    ("int64", 11),
    ("float64", FLOAT64),
];

/// Appends the type and the value.
pub fn put(setting: &Setting, old: Option<&Pair<'_>>, spelling: Spelling, to: &mut Vec<u8>) -> Result<()> {
    let Setting { key, value, .. } = setting;
    let refused = |what: &str| Error::new(Code::InvalidArg, format!("{key:?}: {what}"));
    if let Some(name) = &setting.kind {
        let kind = NAMES.iter().find(|(known, _)| known == name).map(|&(_, kind)| kind).ok_or_else(|| {
            let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
            refused(&format!("there is no type {name:?} in GGUF; the types are {}", names.join(", ")))
        })?;
        let encoded = typed(value, kind, spelling)?;
        to.extend(encoded.ok_or_else(|| refused(&format!("the value does not fit the type {name}")))?);
        return Ok(());
    }
    if let Some(encoded) = old.map(|old| as_before(value, old, spelling)).transpose()?.flatten() {
        to.extend(encoded);
        return Ok(());
    }
    let kind = inferred(value).map_err(&refused)?;
    let encoded = typed(value, kind, spelling)?;
    to.extend(encoded.ok_or_else(|| refused("no type of GGUF can hold the value"))?);
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
            if !range(kind).is_some_and(|range| range.contains(&value)) {
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

/// Returns the values of a type of integers; `None` for any other type.
fn range(kind: u32) -> Option<RangeInclusive<i128>> {
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

/// Infers the type of a value, or of the items of an array, like gguf-py. An integer beyond int32, for which that has no rule, gets the
/// first larger type that holds it. Fails with what is wrong.
fn inferred(value: &Value) -> std::result::Result<u32, &'static str> {
    let items = match value {
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    };
    if items.is_empty() {
        return Err("an empty array has no type: pass one, such as { type: 'string', value: [] }");
    }
    if items.iter().all(|item| matches!(item, Value::Text(_) | Value::Bytes(_))) {
        return Ok(STRING);
    }
    if items.iter().all(|item| matches!(item, Value::Bool(_))) {
        return Ok(BOOL);
    }
    if items.iter().all(|item| matches!(item, Value::Integer(_))) {
        let fits = |&kind: &u32| {
            let holds = |item: i128| range(kind).is_some_and(|range| range.contains(&item));
            items.iter().all(|item| item.as_integer().is_some_and(|item| holds(item.into())))
        };
        return INTEGERS.into_iter().find(fits).ok_or("no type of GGUF holds all of these integers");
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
