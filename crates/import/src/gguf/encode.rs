//! Writes GGUF version 3, little-endian: the header, typed metadata, tensor infos, and data at multiples of the alignment
//! (`docs/gguf.md` of ggml-org/ggml).
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::checked::{index, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{
    Alignment, Announced, Asked, Assemble, Checkpoint, FileAttributes, Index, Sharding, WriteFormat,
};
use ztensor_core::layouts;
use ztensor_core::model::{Attributes, Catalog, DType, Layout, NewTensor, SetPart};

use super::value::{TYPE, VALUE, ValueType};
use super::value_types::{Blocks, Type};
use super::{ALIGNMENT, MAGIC, NAME};

const VERSION: u32 = 3;
/// Magic, version, and the numbers of tensors and of metadata entries.
const HEADER_BYTES: u64 = 24;
/// The key of the alignment of tensor data.
const ALIGNMENT_KEY: &str = "general.alignment";
/// The key of the version of the block types, and the only version there is since 2023.
const QUANTIZATION: (&str, u32) = ("general.quantization_version", 2);
/// Keys of a model in several files. They describe the files that were read, not those that are written.
const SPLIT: [&str; 3] = ["split.no", "split.count", "split.tensors.count"];
/// The dimensions and the bytes of a name that ggml has room for (`GGML_MAX_DIMS`, `GGML_MAX_NAME` with its final zero).
const MAX_RANK: usize = 4;
const MAX_NAME: usize = 63;
/// The length of a key in bytes, in the specification.
const MAX_KEY: usize = (1 << 16) - 1;

pub static WRITE_FORMAT: WriteFormat = WriteFormat {
    format: NAME,
    title: "GGUF",
    readers: &["llama.cpp", "gguf for Python", "this package"],
    index: Index::First(put),
    holds: |dtype| Type::number_of(Type::Plain(dtype)).is_some(),
    holds_layout: |layout| layout == "dense" || blocks_of(layout).is_some(),
    attributes: FileAttributes::Any,
    typed_attributes: true,
    alignment: Some(Alignment {
        least: 8,
        usual: ALIGNMENT,
        powers_of_two: true,
        attribute: Some(ALIGNMENT_KEY),
    }),
    shards: Sharding::Checkpoint(&Checkpoint {
        ending: NAME,
        is_indexed: false,
        stated: |part| Ok(vec![(HEADER_BYTES, place(part)?)]),
    }),
    check_settings,
    check_announced,
    check_entry,
    check_attributes: |attributes, _| metadata(attributes).map(drop),
    ..WriteFormat::DENSE
};

/// Returns the block type of a layout, or `None` for a layout that GGUF does not have.
fn blocks_of(layout: &str) -> Option<Blocks> {
    Type::named(layout.strip_prefix("gguf.")?.strip_suffix("/1")?)
}

fn check_settings(asked: &Asked<'_>) -> Result<()> {
    metadata(&asked.attributes.values()?).map(drop)
}

/// Checks what ggml requires of names and shapes.
fn check_announced(announced: &Announced<'_>) -> Result<()> {
    let length = announced.name.len();
    if length > MAX_NAME {
        let message = format!(
            "the name has {length} bytes, more than the {MAX_NAME} that ggml holds (option rename shortens names)"
        );
        return Err(Error::new(Code::InvalidArg, message));
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
fn put(catalog: &Catalog, file: &mut dyn Assemble) -> Result<()> {
    let mut attributes = catalog.attributes.values()?.into_owned();
    let is_first = catalog.part.is_none_or(|part| part.number == 0);
    // The other files of a set have only what is needed to read them.
    attributes.retain(|(key, _)| is_first || key.as_text() == Some(ALIGNMENT_KEY));
    let Metadata { alignment, mut bytes, mut count, has_version } = metadata(&attributes)?;
    if let Some(part) = catalog.part {
        bytes = [place(part)?, bytes].concat();
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

/// Encodes the position of a file in its set. Other files are read by the same keys, which come first, so that their offsets are known.
fn place(part: SetPart) -> Result<Vec<u8>> {
    let short = |number: u64| u16::try_from(number).map(u16::to_le_bytes);
    let (Ok(number), Ok(count), Ok(tensors)) =
        (short(part.number), short(part.count), i32::try_from(part.tensors.unwrap_or(0)))
    else {
        let message = format!("a set of {} files, more than GGUF counts (option maxShardBytes)", part.count);
        return Err(Error::new(Code::Limit, message));
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
    let text_of = |wanted: &str| {
        let found = attributes.iter().find(|(key, _)| key.as_text() == Some(wanted));
        found.and_then(|(_, value)| value.as_text()).unwrap_or_default()
    };
    let architecture = text_of("general.architecture");
    let mut encoded = Metadata { alignment: ALIGNMENT, bytes: Vec::new(), count: 0, has_version: false };
    for (key, value) in attributes {
        let key = key.as_text().ok_or_else(|| wrong("a key of GGUF metadata must be a string"))?;
        if SPLIT.contains(&key) {
            continue;
        }
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(wrong(&format!("a key of GGUF metadata has 1 to {MAX_KEY} bytes, not {}", key.len())));
        }
        let in_key = |error: Error| wrong(&format!("metadata {key:?}: {}", error.message()));
        text(&mut encoded.bytes, key);
        add(&mut encoded.bytes, value, usual_type(key, architecture)).map_err(in_key)?;
        if key == ALIGNMENT_KEY {
            encoded.alignment = alignment_of(value).map_err(in_key)?;
        }
        encoded.count += 1;
        encoded.has_version |= key == QUANTIZATION.0;
    }
    Ok(encoded)
}

/// Appends a string: its length, and its bytes.
fn text(out: &mut Vec<u8>, text: &str) {
    string(out, text.as_bytes());
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

/// Appends the type of a value, and the value. `usual` is the type of numbers under its key, if that is known.
fn add(out: &mut Vec<u8>, value: &Value, usual: Option<ValueType>) -> Result<()> {
    let (stated, value) = match typed_of(value)? {
        Some((kind, value)) => (Some(kind), value),
        None => (None, value),
    };
    let items = match value {
        Value::Array(items) => items,
        // Bytes are a list of uint8, unless they are a string that is not UTF-8.
        Value::Bytes(bytes) if stated != Some(ValueType::String) => {
            if stated.is_some_and(|kind| kind != ValueType::Uint8) {
                return Err(wrong("bytes have the type uint8, or string"));
            }
            begin_array(out, ValueType::Uint8, bytes.len());
            out.extend(bytes);
            return Ok(());
        }
        one => {
            let kind = match stated {
                Some(kind) => kind,
                None => inferred(std::slice::from_ref(one), usual)?,
            };
            out.extend(kind.number().to_le_bytes());
            return scalar(out, kind, one);
        }
    };
    let usual = usual.filter(|&kind| kind == ValueType::Float32);
    let kind = match stated {
        Some(kind) => kind,
        None if items.is_empty() => {
            return Err(wrong("the type of an empty list must be stated: { type: 'string', value: [] }"));
        }
        None => inferred(items, usual)?,
    };
    begin_array(out, kind, items.len());
    items.iter().try_for_each(|item| scalar(out, kind, item))
}

fn begin_array(out: &mut Vec<u8>, kind: ValueType, length: usize) {
    out.extend(ValueType::Array.number().to_le_bytes());
    out.extend(kind.number().to_le_bytes());
    out.extend((length as u64).to_le_bytes());
}

/// Returns the type and the value of `{ "type": …, "value": … }`, or `None` for a value that does not state its type.
fn typed_of(value: &Value) -> Result<Option<(ValueType, &Value)>> {
    let Value::Map(entries) = value else { return Ok(None) };
    let member = |name: &str| {
        let found = entries.iter().find(|(key, _)| key.as_text() == Some(name));
        found.map(|(_, value)| value)
    };
    let (Some(kind), Some(value), 2) = (member(TYPE), member(VALUE), entries.len()) else {
        return Err(wrong("GGUF has no maps; a value that states its type is { type: 'uint32', value: 7 }"));
    };
    let names = || ValueType::ALL.map(ValueType::name).join(", ");
    let known = kind.as_text().and_then(ValueType::named).filter(|&kind| kind != ValueType::Array);
    match known {
        Some(kind) => Ok(Some((kind, value))),
        None => Err(wrong(&format!("its type must be one of {} (a list has the type of its items)", names()))),
    }
}

/// Keys whose numbers are float32, without the name of the architecture that they begin with.
const FLOATS: [&str; 31] = [
    "activation_sparsity_scale",
    "attention.clamp_kqv",
    "attention.group_norm_epsilon",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.max_alibi_bias",
    "attention.output_scale",
    "attention.scale",
    "attention.temperature_scale",
    "attn_logit_softcapping",
    "embedding_scale",
    "expert_group_scale",
    "expert_weights_scale",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_log_multiplier",
    "router_logit_softcapping",
    "swiglu_clamp_exp",
    "swiglu_clamp_shexp",
    "audio.attention.layer_norm_epsilon",
    "vision.attention.layer_norm_epsilon",
];
const OTHER_FLOATS: [&str; 11] = [
    "clip.vision.image_mean",
    "clip.vision.image_std",
    "general.sampling.min_p",
    "general.sampling.mirostat_eta",
    "general.sampling.mirostat_tau",
    "general.sampling.penalty_repeat",
    "general.sampling.temp",
    "general.sampling.top_p",
    "general.sampling.xtc_probability",
    "general.sampling.xtc_threshold",
    "tokenizer.ggml.scores",
];
/// Keys whose integers are int32.
const SIGNED: [&str; 3] =
    ["general.sampling.mirostat", "general.sampling.penalty_last_n", "general.sampling.top_k"];

/// Returns the type of numbers under a key of the specification, as gguf-py and llama.cpp use them: llama.cpp accepts no other type. Other
/// keys, and keys of other architectures than the model's, have none.
fn usual_type(key: &str, architecture: &str) -> Option<ValueType> {
    if SIGNED.contains(&key) {
        return Some(ValueType::Int32);
    }
    let (first, rest) = key.split_once('.')?;
    let is_own = first == "clip" || !architecture.is_empty() && first == architecture;
    if OTHER_FLOATS.contains(&key) || key.starts_with("xielu.") || is_own && FLOATS.contains(&rest) {
        return Some(ValueType::Float32);
    }
    (is_own || matches!(first, "general" | "tokenizer")).then_some(ValueType::Uint32)
}

/// Infers the type of values: that of the key, or int32 for integers and float32 for other numbers, as in gguf-py. Integers beyond int32
/// are int64 or uint64.
fn inferred(values: &[Value], usual: Option<ValueType>) -> Result<ValueType> {
    let all = |is: fn(&Value) -> bool| values.iter().all(is);
    if all(Value::is_text) {
        return Ok(ValueType::String);
    }
    if all(Value::is_bool) {
        return Ok(ValueType::Bool);
    }
    if !all(|value| value.is_integer() || value.is_float()) {
        return Err(match values {
            [Value::Null] => wrong("GGUF has no null"),
            [_] => wrong("GGUF has no values of this kind"),
            _ => wrong("the items of a list must all be strings, booleans or numbers"),
        });
    }
    if !all(Value::is_integer) || usual == Some(ValueType::Float32) {
        return Ok(ValueType::Float32);
    }
    let fits = |kind: ValueType| values.iter().all(|value| scalar(&mut Vec::new(), kind, value).is_ok());
    let kinds = [usual, Some(ValueType::Int32), Some(ValueType::Int64), Some(ValueType::Uint64)];
    kinds.into_iter().flatten().find(|&kind| fits(kind)).ok_or_else(|| wrong("no integer type has all its values"))
}

/// Appends one value of a type.
fn scalar(out: &mut Vec<u8>, kind: ValueType, value: &Value) -> Result<()> {
    macro_rules! integer {
        ($type:ty) => {{
            let number = value.as_integer().and_then(|integer| <$type>::try_from(integer).ok());
            out.extend(number.ok_or_else(|| not_a(kind))?.to_le_bytes());
        }};
    }
    match kind {
        ValueType::Uint8 => integer!(u8),
        ValueType::Int8 => integer!(i8),
        ValueType::Uint16 => integer!(u16),
        ValueType::Int16 => integer!(i16),
        ValueType::Uint32 => integer!(u32),
        ValueType::Int32 => integer!(i32),
        ValueType::Uint64 => integer!(u64),
        ValueType::Int64 => integer!(i64),
        #[expect(clippy::cast_possible_truncation)] // rounded to nearest
        ValueType::Float32 => out.extend((number(value).ok_or_else(|| not_a(kind))? as f32).to_le_bytes()),
        ValueType::Float64 => out.extend(number(value).ok_or_else(|| not_a(kind))?.to_le_bytes()),
        ValueType::Bool => out.push(u8::from(value.as_bool().ok_or_else(|| not_a(kind))?)),
        ValueType::String => match value {
            Value::Text(value) => text(out, value),
            Value::Bytes(value) => string(out, value),
            _ => return Err(not_a(kind)),
        },
        ValueType::Array => return Err(wrong("GGUF has no lists of lists")),
    }
    Ok(())
}

fn number(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss)] // rounded to nearest
    value.as_float().or_else(|| value.as_integer().map(|integer| i128::from(integer) as f64))
}

fn alignment_of(value: &Value) -> Result<u64> {
    let stated = typed_of(value)?.map_or(value, |(_, value)| value);
    let alignment = stated.as_integer().and_then(|integer| u64::try_from(integer).ok());
    let fits = |&alignment: &u64| alignment.is_power_of_two() && (8..=1 << 24).contains(&alignment);
    alignment.filter(fits).ok_or_else(|| wrong("an alignment must be a power of two from 8 to 2^24"))
}

fn not_a(kind: ValueType) -> Error {
    wrong(&format!("the value is not {} {}", if kind.name().starts_with('i') { "an" } else { "a" }, kind.name()))
}

fn wrong(message: &str) -> Error {
    Error::new(Code::InvalidArg, message)
}
