//! Writes GGUF version 3, little-endian: the header, typed metadata, tensor infos, and data at multiples of the alignment
//! (`docs/gguf.md` of ggml-org/ggml).
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::checked::{index, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{
    Alignment, Assembler, Checkpoint, FileAttributes, HeaderBound, Index, Sharding, TensorHeader,
    WriteFormat, WriteSettings,
};
use ztensor_core::layouts;
use ztensor_core::model::{Attributes, Catalog, DType, Layout, NewTensor, SetPart};

use super::default_types::Model;
use super::encode_value::put_attribute;
use super::metadata::PADDING;
use super::model;
use super::value::{VALUE, ValueType};
use super::value_types::{Blocks, Type};
use super::window::Spelling;
use crate::limits::GGUF_INDEX_BYTES;

use super::{ALIGNMENT, ALIGNMENT_KEY, MAGIC, MAX_KEY, MAX_NAME, NAME};

const VERSION: u32 = 3;
const SPELLING: Spelling = Spelling { big_endian: false, short: false };
/// Magic, version, and the numbers of tensors and of metadata entries.
const HEADER_BYTES: u64 = 24;
/// The key of the version of the block types, and the only version there is since 2023.
pub const QUANTIZATION: (&str, u32) = ("general.quantization_version", 2);
/// Keys of a model in several files. They describe the files that were read, not those that are written.
const SPLIT: [&str; 3] = ["split.no", "split.count", "split.tensors.count"];
const RESERVED: [&str; 4] = [SPLIT[0], SPLIT[1], SPLIT[2], PADDING];
/// The maximum number of dimensions (`GGML_MAX_DIMS`).
const MAX_RANK: usize = 4;

pub static WRITE_FORMAT: WriteFormat = WriteFormat {
    format: NAME,
    title: "GGUF",
    readers: &["llama.cpp", "gguf for Python", "ztensor"],
    index: Index::First(put),
    holds: |dtype| Type::number_of(Type::Plain(dtype)).is_some(),
    holds_layout: |layout| layout == "dense" || blocks_of(layout).is_some(),
    attributes: FileAttributes::Any,
    typed_attributes: true,
    reserved: &RESERVED,
    alignment: Some(Alignment {
        min: 8,
        default: ALIGNMENT,
        powers_of_two: true,
        attribute: Some(ALIGNMENT_KEY),
    }),
    shards: Sharding::Checkpoint(&Checkpoint {
        ending: NAME,
        is_indexed: false,
        stated: |part| Ok(vec![(HEADER_BYTES, split_entries(part)?)]),
        position: &SPLIT,
    }),
    check_packed: Some(super::check_packed),
    check_settings,
    check_announced,
    check_entry,
    check_attributes: |attributes, _| metadata(attributes).map(drop),
    header: Some(&HeaderBound {
        max: GGUF_INDEX_BYTES,
        // Their bytes are checked where they are set: to encode a vocabulary once more would cost more than it tells.
        of_attributes: |_| Ok(0),
        // The length of the name, the name, the number of dimensions, the type and the offset.
        of_tensor: |name| name.len() as u64 + 24,
        too_long,
    }),
    model: Some(&model::RULES),
    ..WriteFormat::DENSE
};

/// Returns the block type of a layout, or `None` for a layout that GGUF does not have.
fn blocks_of(layout: &str) -> Option<Blocks> {
    Type::named(layout.strip_prefix("gguf.")?.strip_suffix("/1")?)
}

fn check_settings(asked: &WriteSettings<'_>) -> Result<()> {
    metadata(&asked.attributes.values()?).map(drop)
}

/// Checks what ggml requires of names and shapes.
fn check_announced(announced: &TensorHeader<'_>) -> Result<()> {
    let length = announced.name.len();
    if length > MAX_NAME {
        let message = format!("the name has {length} bytes, more than the {MAX_NAME} that ggml holds");
        return Err(Error::new(Code::InvalidArg, message).hint("rename", " (option rename shortens names)"));
    }
    if announced.name.contains('\0') {
        let message = "the name has a NUL, where llama.cpp ends it";
        return Err(Error::new(Code::InvalidArg, message).hint("rename", " (option rename changes names)"));
    }
    let shape = announced.shape;
    let wrong = |message: String| Err(Error::new(Code::BadShape, message));
    if shape.len() > MAX_RANK {
        return wrong(format!("{} dimensions, more than the {MAX_RANK} that ggml has", shape.len()));
    }
    if shape.contains(&0) {
        return wrong(format!("the shape {shape:?} has no elements, and ggml reads no such tensor"));
    }
    Ok(())
}

/// Checks that rows are whole blocks, beyond the rules of the layout.
fn check_entry(tensor: &mut NewTensor<'_>, layout: &str, _: Option<&Attributes>) -> Result<()> {
    layouts::check(tensor)?;
    let shape = tensor.shape;
    let wrong = |message: String| Err(Error::new(Code::BadShape, message));
    let Some(blocks) = blocks_of(layout) else { return Ok(()) };
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(blocks.elements) {
        let Blocks { name, elements, .. } = blocks;
        return wrong(format!(
            "rows of {row} elements are not a multiple of the {elements} in a block of {name}"
        ));
    }
    let bytes = product(shape).and_then(|count| (count / blocks.elements).checked_mul(blocks.bytes));
    let [data] = tensor.components.as_slice() else {
        return Err(Error::new(Code::BadLayout, "a tensor of blocks has one component, \"data\""));
    };
    if data.dtype != Some(DType::Uint8) || bytes != data.byte_length() {
        let length = data.byte_length().unwrap_or_default();
        return wrong(format!(
            "{length} bytes of {} for the shape {shape:?}, instead of {} bytes of uint8",
            blocks.name,
            bytes.unwrap_or_default()
        ));
    }
    Ok(())
}

/// Writes a file.
fn put(catalog: &Catalog, file: &mut dyn Assembler) -> Result<()> {
    let mut attributes = catalog.attributes.values()?.into_owned();
    let is_first = catalog.part.is_none_or(|part| part.number == 0);
    // The other files of a set have only what is needed to read them.
    attributes.retain(|(key, _)| is_first || key.as_text() == Some(ALIGNMENT_KEY));
    let Metadata { alignment, mut bytes, mut count, has_version } = metadata(&attributes)?;
    if let Some(part) = catalog.part {
        bytes = [split_entries(part)?, bytes].concat();
        count += SPLIT.len() as u64;
    }
    let blobs: Vec<_> = catalog.blobs();
    if is_first && !has_version && catalog.iter().any(|tensor| matches!(tensor.layout(), Layout::Other(_))) {
        text(&mut bytes, QUANTIZATION.0);
        bytes.extend(ValueType::Uint32.number().to_le_bytes());
        bytes.extend(QUANTIZATION.1.to_le_bytes());
        count += 1;
    }
    let mut head = Vec::with_capacity(bytes.len() + 96 * blobs.len());
    head.extend(MAGIC);
    head.extend(VERSION.to_le_bytes());
    head.extend((blobs.len() as u64).to_le_bytes());
    head.extend(count.to_le_bytes());
    head.append(&mut bytes);
    let mut offset = 0_u64;
    for (tensor, blob) in &blobs {
        let kind = match (blocks_of(tensor.layout_name()), tensor.dtype()) {
            (Some(blocks), _) => Type::number_of(Type::Blocks(blocks)),
            (None, dtype) => dtype.and_then(|dtype| Type::number_of(Type::Plain(dtype))),
        };
        let kind = kind.ok_or_else(|| {
            Error::new(Code::Internal, "a tensor that GGUF does not hold").tensor(tensor.name())
        })?;
        text(&mut head, tensor.name());
        let rank = u32::try_from(tensor.shape().len()).unwrap_or(u32::MAX);
        head.extend(rank.to_le_bytes());
        // ggml counts dimensions from the innermost.
        tensor.shape().iter().rev().for_each(|dim| head.extend(dim.to_le_bytes()));
        head.extend(kind.to_le_bytes());
        head.extend(offset.to_le_bytes());
        offset += blob.stored_length().next_multiple_of(alignment);
    }
    readable(head.len())?;
    head.resize(head.len().next_multiple_of(index(alignment, "the alignment")?), 0);
    file.expect(head.len() as u64 + offset);
    file.bytes(&head)?;
    for (_, blob) in &blobs {
        file.blob(blob)?;
        // ggml reads every tensor, the last included, with its padding.
        let length = blob.stored_length();
        let padding = length.next_multiple_of(alignment) - length;
        file.bytes(&vec![0; index(padding, "the padding")?])?;
    }
    Ok(())
}

/// Encodes the position of a file in its set. These entries come first, so that their offset is the same in every file.
fn split_entries(part: SetPart) -> Result<Vec<u8>> {
    let short = |number: u64| u16::try_from(number).map(u16::to_le_bytes);
    let (Ok(number), Ok(count), Ok(tensors)) =
        (short(part.number), short(part.count), i32::try_from(part.tensors.unwrap_or(0)))
    else {
        let message = format!("a set of {} files, more than GGUF counts", part.count);
        return Err(Error::new(Code::Limit, message).option("maxShardBytes"));
    };
    let [number_key, count_key, tensors_key] = SPLIT;
    let mut bytes = Vec::new();
    for (key, value) in [(number_key, number), (count_key, count)] {
        text(&mut bytes, key);
        bytes.extend(ValueType::Uint16.number().to_le_bytes());
        bytes.extend(value);
    }
    text(&mut bytes, tensors_key);
    bytes.extend(ValueType::Int32.number().to_le_bytes());
    bytes.extend(tensors.to_le_bytes());
    Ok(bytes)
}

/// Encoded metadata.
struct Metadata {
    alignment: u64,
    bytes: Vec<u8>,
    count: u64,
    /// Whether it has the version of the block types.
    has_version: bool,
}

/// Encodes keys and values. A value is a string, a boolean, a number, bytes, or a list of strings, booleans or numbers; or it states its
/// type as `{ "type": "uint32", "value": 7 }`. Fails with `ZT_INVALID_ARG` for any other value.
fn metadata(attributes: &[(Value, Value)]) -> Result<Metadata> {
    let of_option =
        |error: Error| if error.code() == Code::InvalidArg { error.option("metadata") } else { error };
    encoded(attributes).map_err(of_option)
}

fn encoded(attributes: &[(Value, Value)]) -> Result<Metadata> {
    let text_of = |wanted: &str| {
        let found = attributes.iter().find(|(key, _)| key.as_text() == Some(wanted));
        found.and_then(|(_, value)| value.as_text()).unwrap_or_default()
    };
    let described = Model { architecture: text_of(model::ARCHITECTURE) };
    let mut encoded = Metadata { alignment: ALIGNMENT, bytes: Vec::new(), count: 0, has_version: false };
    for (key, given) in attributes {
        let key = key.as_text().ok_or_else(|| wrong("a key of GGUF metadata must be a string"))?;
        if SPLIT.contains(&key) {
            continue;
        }
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(wrong(&format!(
                "a key of GGUF metadata has 1 to {MAX_KEY} bytes, not {}",
                key.len()
            )));
        }
        if key.contains('\0') {
            return Err(wrong(&format!(
                "the key {key:?} of GGUF metadata has a NUL, where llama.cpp ends it"
            )));
        }
        let in_key = |error: Error| wrong(&format!("metadata {key:?}: {}", error.message()));
        let alignment = (key == ALIGNMENT_KEY).then(|| alignment_of(given).map_err(in_key)).transpose()?;
        encoded.alignment = alignment.unwrap_or(encoded.alignment);
        // As a uint32, whatever type the source has: readers accept no other.
        let number = alignment.map(Value::from);
        let value = number.as_ref().unwrap_or(given);
        text(&mut encoded.bytes, key);
        put_attribute(key, value, described, SPELLING, &mut encoded.bytes).map_err(in_key)?;
        readable(encoded.bytes.len())?;
        encoded.count += 1;
        encoded.has_version |= key == QUANTIZATION.0;
    }
    Ok(encoded)
}

/// Fails if so many bytes before the data of a file are more than are read of one.
fn readable(bytes: usize) -> Result<()> {
    if bytes as u64 <= GGUF_INDEX_BYTES { Ok(()) } else { Err(too_long()) }
}

fn too_long() -> Error {
    let message = format!(
        "metadata and tensor infos have more than {GGUF_INDEX_BYTES} bytes, more than are read of a GGUF file"
    );
    Error::new(Code::Limit, message)
}

/// Appends a string: its length, and its bytes.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn alignment_of(value: &Value) -> Result<u64> {
    let stated = value.as_map().and_then(|entries| {
        let found = entries.iter().find(|(key, _)| key.as_text() == Some(VALUE));
        found.map(|(_, value)| value)
    });
    let alignment = stated.unwrap_or(value).as_integer().and_then(|integer| u64::try_from(integer).ok());
    let fits = |&alignment: &u64| alignment.is_power_of_two() && (8..=1 << 24).contains(&alignment);
    alignment.filter(fits).ok_or_else(|| wrong("an alignment must be a power of two from 8 to 2^24"))
}

fn wrong(message: &str) -> Error {
    Error::new(Code::InvalidArg, message)
}
