//! The table `Model`: subgraphs, buffers and metadata.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::model::{Builder, Catalog};

use super::graph::{Buffers, Graph};
use super::tensors::Tensors;
use crate::damage;
use crate::flatbuffer::{Flat, Table};
use crate::limits::{FLATBUFFER_NAME_BYTES, TFLITE_METADATA_BYTES};

const RULE: &str = "TFLite schema: Model";
/// The only schema version of models with this identifier; TFLite rejects others too.
const VERSION: u32 = 3;

pub fn read(input: &Input<'_>, mut flat: Flat<'_>, mut builder: Builder) -> Result<Catalog> {
    let model = flat.root().map_err(|error| error.rule(RULE))?;
    let version = flat.u32(model, 0)?;
    if version != VERSION {
        let message = format!("the model has schema version {version}, only version {VERSION} is supported");
        return Err(Error::new(Code::UnsupportedVersion, message).at(model.at).rule(RULE));
    }
    builder.set_version(version.to_string());
    let buffers = Buffers { positions: flat.vector(model, 4, 4)?, total: input.length() };
    let mut attributes = Vec::new();
    let description = flat.text(model, 3, FLATBUFFER_NAME_BYTES);
    let description = damage::recover(&mut builder, "description", description)?.flatten();
    if let Some(description) = description.filter(|text| !text.is_empty()) {
        attributes.push((Value::from("description"), Value::Text(description)));
    }
    let metadata = metadata(&mut flat, model, buffers, &mut builder);
    let metadata = damage::recover(&mut builder, "metadata", metadata)?.unwrap_or_default();
    if !metadata.is_empty() {
        attributes.push((Value::from("metadata"), Value::Map(metadata)));
    }
    let signatures = signatures(&mut flat, model, &mut builder);
    let signatures = damage::recover(&mut builder, "signatures", signatures)?.unwrap_or_default();
    if !signatures.is_empty() {
        attributes.push((Value::from("signatures"), Value::Map(signatures)));
    }
    builder.set_attributes(attributes.into());
    let mut tensors = Tensors::new(builder, buffers);
    for (index, position) in flat.positions(model, 2, 4)?.enumerate() {
        let graph = flat.table_at(position)?;
        let path = match (index, flat.text(graph, 4, FLATBUFFER_NAME_BYTES)?) {
            (0, _) => String::new(),
            (_, Some(name)) if !name.is_empty() => format!("{name}."),
            _ => format!("subgraph{index}."),
        };
        let graph = Graph { path, tensors: flat.vector(graph, 0, 4)? };
        for (number, position) in graph.tensors.iter().flat_map(|all| all.positions()).enumerate() {
            let tensor = flat.table_at(position)?;
            tensors.add(&mut flat, tensor, &graph, number)?;
        }
    }
    Ok(tensors.finish())
}

/// Reads named buffers: strings, and small ones as bytes.
fn metadata(
    flat: &mut Flat<'_>,
    model: Table,
    buffers: Buffers,
    builder: &mut Builder,
) -> Result<Vec<(Value, Value)>> {
    let mut entries = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for position in flat.positions(model, 6, 4)? {
        let entry = flat.table_at(position)?;
        let name = flat.text(entry, 0, FLATBUFFER_NAME_BYTES)?.unwrap_or_default();
        let index = flat.u32(entry, 1)?;
        let Some(run) = buffers.find(flat, index)? else { continue };
        let too_many = entries.len() >= builder.limits().max_attribute_values as usize;
        if run.length > TFLITE_METADATA_BYTES || too_many || !seen.insert(name.clone()) {
            let message =
                format!("the metadata {name:?} of {} bytes is too large for an attribute", run.length);
            builder.warn("ZT_WARN_SKIPPED", message, None, None);
            continue;
        }
        let bytes = flat.run(run.at, run.length)?;
        entries.push((Value::Text(name), text_or_bytes(bytes)));
    }
    Ok(entries)
}

/// Reads the names of inputs and outputs, by signature key.
fn signatures(flat: &mut Flat<'_>, model: Table, builder: &mut Builder) -> Result<Vec<(Value, Value)>> {
    let max = u64::from(builder.limits().max_attribute_values);
    let (mut entries, mut listed) = (Vec::new(), 0);
    let mut seen = std::collections::HashSet::new();
    for position in flat.positions(model, 7, 4)? {
        let signature = flat.table_at(position)?;
        let key = flat.text(signature, 2, FLATBUFFER_NAME_BYTES)?.unwrap_or_default();
        let mut arguments = Vec::new();
        for (field, what) in [(0, "inputs"), (1, "outputs")] {
            let mut names = Vec::new();
            for position in flat.positions(signature, field, 4)? {
                let argument = flat.table_at(position)?;
                let name = flat.text(argument, 0, FLATBUFFER_NAME_BYTES)?.unwrap_or_default();
                listed += 1;
                if listed < max {
                    names.push(Value::Text(name));
                }
            }
            arguments.push((Value::from(what), Value::Array(names)));
        }
        listed += 3;
        if listed < max && seen.insert(key.clone()) {
            entries.push((Value::Text(key), Value::Map(arguments)));
        } else {
            let message = format!("the signature {key:?} is omitted from the attributes");
            builder.warn("ZT_WARN_SKIPPED", message, None, None);
        }
    }
    Ok(entries)
}

/// Strings are zero-padded.
fn text_or_bytes(bytes: Vec<u8>) -> Value {
    let is_plain =
        |text: &str| text.chars().all(|character| !character.is_control() || "\t\r\n".contains(character));
    let text = std::str::from_utf8(&bytes).map(|text| text.trim_end_matches('\0'));
    match text {
        Ok(text) if is_plain(text) => Value::from(text),
        _ => Value::Bytes(bytes),
    }
}
