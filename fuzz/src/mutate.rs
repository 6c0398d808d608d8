//! Mutates the numbers, names and lists of a decoded index, so that the result is still an index.

use arbitrary::{Result, Unstructured};
use ciborium::Value;

/// Words used by formats, which can replace each other.
const WORDS: &[&str] = &[
    "",
    "0",
    "dense",
    "raw",
    "zstd",
    "sparse_csr",
    "sparse_coo",
    "zt.sparse_csr/1",
    "quantized_group",
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "uint64",
    "int8",
    "bool",
    "complex64",
    "float8_e4m3fn",
    "F32",
    "F8_E4M3",
    "BF16",
    "F4",
    "data",
    "values",
    "indices",
    "indptr",
    "coords",
    "coo_indices",
    "csr_indptr",
    "offset",
    "length",
    "size",
    "dtype",
    "shape",
    "format",
    "type",
    "components",
    "encoding",
    "digest",
    "checksum",
    "sha256:00",
    "crc32c:0x00000000",
    "crc32c:00000000",
    "little",
    "big",
    "version",
    "1.0.0",
    "1.1.0",
    "1.2.0",
    "tensors",
    "objects",
    "attributes",
    "name",
    "layout",
    "data_offsets",
    "__metadata__",
    "uncompressed_length",
    "data_endianness",
];
/// Numbers at which arithmetic overflows or fails.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    16,
    63,
    64,
    65,
    255,
    256,
    4095,
    4096,
    1 << 16,
    1 << 20,
    (1 << 24) + 1,
    i32::MAX as u64,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];
/// Powers of 2 that are limits of exact JavaScript numbers, V8 sizes, or signed and unsigned 64-bit numbers.
const BORDERS: &[u32] = &[53, 60, 63, 64];

/// Returns a number at which arithmetic fails, or one close to a limit.
fn number(input: &mut Unstructured<'_>) -> Result<u64> {
    if input.ratio(1, 2)? {
        return Ok(*input.choose(NUMBERS)?);
    }
    let border = 1_i128 << *input.choose(BORDERS)?;
    let near = border + i128::from(input.int_in_range(-64_i8..=64)?);
    // A fraction of it, which multiplies up to it for multibyte elements or many dimensions.
    let part = near / i128::from(*input.choose(&[1_u8, 1, 2, 3, 4, 8, 16])?);
    Ok(u64::try_from(part).unwrap_or(u64::MAX))
}

/// Mutates one to four values.
pub fn value(root: &mut Value, input: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..input.int_in_range(1..=4)? {
        descend(root, 8, input)?;
    }
    Ok(())
}

/// Mutates a nested value, at most `depth` levels down.
fn descend(at: &mut Value, depth: u32, input: &mut Unstructured<'_>) -> Result<()> {
    if depth > 0 && input.ratio(3, 4)? {
        match at {
            Value::Map(entries) if !entries.is_empty() => {
                let one = input.int_in_range(0..=entries.len() - 1)?;
                return descend(&mut entries[one].1, depth - 1, input);
            }
            Value::Array(items) if !items.is_empty() => {
                let one = input.int_in_range(0..=items.len() - 1)?;
                return descend(&mut items[one], depth - 1, input);
            }
            Value::Tag(_, inner) => return descend(inner, depth - 1, input),
            _ => {}
        }
    }
    change(at, input)
}

fn change(at: &mut Value, input: &mut Unstructured<'_>) -> Result<()> {
    match at {
        Value::Integer(integer) => {
            let now = i128::from(*integer);
            let new = match input.int_in_range(0..=5)? {
                0 => now + 1,
                1 => now - 1,
                2 => now * 2,
                3 => -now - 1,
                _ => i128::from(number(input)?),
            };
            *integer = new.try_into().unwrap_or_else(|_| 0.into());
        }
        Value::Text(text) if input.ratio(3, 4)? => *text = (*input.choose(WORDS)?).to_owned(),
        Value::Map(entries) if !entries.is_empty() => {
            let (last, other) = (entries.len() - 1, input.int_in_range(0..=entries.len() - 1)?);
            let one = input.int_in_range(0..=last)?;
            match input.int_in_range(0..=4)? {
                0 => drop(entries.remove(one)),
                1 => entries.push(entries[one].clone()),
                2 => {
                    let taken = entries[other].1.clone();
                    entries[one].1 = taken;
                }
                3 => entries[one].0 = Value::Text((*input.choose(WORDS)?).to_owned()),
                _ => entries.push((Value::Text((*input.choose(WORDS)?).to_owned()), any(input)?)),
            }
        }
        Value::Array(items) if !items.is_empty() && input.ratio(3, 4)? => {
            let one = input.int_in_range(0..=items.len() - 1)?;
            match input.int_in_range(0..=2)? {
                0 => drop(items.remove(one)),
                1 => items.push(items[one].clone()),
                _ => items.push(any(input)?),
            }
        }
        _ => *at = any(input)?,
    }
    Ok(())
}

fn any(input: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match input.int_in_range(0..=8)? {
        0 => Value::Null,
        1 => Value::Bool(input.arbitrary()?),
        2 => Value::Float(input.arbitrary()?),
        3 => Value::Bytes(input.arbitrary()?),
        4 => Value::Text((*input.choose(WORDS)?).to_owned()),
        5 => Value::Array(vec![Value::Integer(number(input)?.into()); input.int_in_range(0..=70)?]),
        6 => Value::Map(Vec::new()),
        7 => Value::Tag(input.int_in_range(0..=40)?, Box::new(Value::Bytes(input.arbitrary()?))),
        _ => Value::Integer(number(input)?.into()),
    })
}

/// Adds components that the layout does not define: copies of an existing one, before, between and after the others,
/// whose fields may be changed after that.
pub fn components(root: &mut Value, input: &mut Unstructured<'_>) -> Result<()> {
    match root {
        Value::Map(entries) => {
            for (key, value) in entries {
                match value {
                    Value::Map(parts) if key.as_text() == Some("components") => add_components(parts, input)?,
                    Value::Map(parts) if key.as_text() == Some("parts") => {
                        add_components(parts, input)?;
                        // Version 2 requires the order of encoded keys: shorter ones first.
                        let order = |key: &Value| key.as_text().map(|text| (text.len(), text.to_owned()));
                        parts.sort_by_key(|(key, _)| order(key));
                    }
                    _ => components(value, input)?,
                }
            }
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| components(item, input))?,
        _ => {}
    }
    Ok(())
}

fn add_components(parts: &mut Vec<(Value, Value)>, input: &mut Unstructured<'_>) -> Result<()> {
    for at in 0..input.int_in_range(0..=2)? {
        if parts.is_empty() {
            return Ok(());
        }
        let (_, mut part) = parts[input.int_in_range(0..=parts.len() - 1)?].clone();
        if input.ratio(1, 2)? {
            change(&mut part, input)?;
        }
        let role = if input.ratio(1, 4)? { (*input.choose(WORDS)?).to_owned() } else { format!("other{at}") };
        let position = input.int_in_range(0..=parts.len())?;
        parts.insert(position, (Value::Text(role), part));
    }
    Ok(())
}

/// Mutates a JSON value by converting it to the other type.
pub fn json(root: &serde_json::Value, input: &mut Unstructured<'_>) -> Result<serde_json::Value> {
    let mut middle = to_cbor(root);
    value(&mut middle, input)?;
    Ok(to_json(&middle))
}

fn to_cbor(value: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => {
            number.as_u64().map_or(Value::Float(number.as_f64().unwrap_or(0.0)), |n| Value::Integer(n.into()))
        }
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(to_cbor).collect()),
        Json::Object(entries) => Value::Map(
            entries.iter().map(|(key, value)| (Value::Text(key.clone()), to_cbor(value))).collect(),
        ),
    }
}

fn to_json(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::Integer(integer) => match i128::from(*integer) {
            n @ 0.. => Json::from(u64::try_from(n).unwrap_or(u64::MAX)),
            n => Json::from(i64::try_from(n).unwrap_or(i64::MIN)),
        },
        Value::Float(value) => serde_json::Number::from_f64(*value).map_or(Json::Null, Json::Number),
        Value::Text(text) => Json::String(text.clone()),
        Value::Bytes(bytes) => Json::String(String::from_utf8_lossy(bytes).into_owned()),
        Value::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Map(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, value)| (key.as_text().unwrap_or_default().to_owned(), to_json(value)))
                .collect(),
        ),
        Value::Tag(_, inner) => to_json(inner),
        _ => Json::Null,
    }
}
