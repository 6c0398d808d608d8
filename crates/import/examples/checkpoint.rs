//! Plans the GGUF file of a checkpoint of one safetensors file and writes `plan.json` and `plan.bin`, the data of its tensors, to its folder:
//! `cargo run --example checkpoint FOLDER…`. `interop/checkpoints.py` compares them with what llama.cpp's converter writes.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use half::{bf16, f16};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::DType;
use ztensor_core::syntax::json::{Reader, Unique};
use ztensor_import::gguf::checkpoint::{Blocks, Content, Element, Files, Planned, Tensor, plan};
use ztensor_import::gguf::value::{Array, Value};

struct Folder(PathBuf);

impl Files for Folder {
    fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>> {
        match fs::read(self.0.join(path)) {
            Ok(bytes) if bytes.len() as u64 > most => {
                Err(Error::new(Code::Limit, format!("'{path}' is too large")))
            }
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &error)),
        }
    }
}

struct Entry {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    data: Vec<u8>,
}

/// Reads a safetensors file.
fn entries(bytes: &[u8]) -> Result<Vec<Entry>> {
    let (length, rest) = bytes.split_first_chunk::<8>().expect("a length");
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).expect("a length"));
    let mut reader = Reader::new(std::str::from_utf8(header).expect("UTF-8"), 8);
    let mut entries = Vec::new();
    reader.object("a header", Unique::Here, |reader, name| {
        if *name == "__metadata__" {
            return reader.skip();
        }
        let (mut dtype, mut shape, mut range) = (DType::Uint8, Vec::new(), Vec::new());
        reader.object("a tensor", Unique::Here, |reader, key| match &**key {
            "dtype" => {
                dtype = match &*reader.string("a dtype")? {
                    "F32" => DType::Float32,
                    "F16" => DType::Float16,
                    "BF16" => DType::BFloat16,
                    "I64" => DType::Int64,
                    _ => DType::Uint8,
                };
                Ok(())
            }
            "shape" => reader.array("a shape", |reader| {
                shape.push(reader.uint("a dimension")?);
                Ok(())
            }),
            _ => reader.array("a range", |reader| {
                range.push(usize::try_from(reader.uint("an offset")?).expect("an offset"));
                Ok(())
            }),
        })?;
        entries.push(Entry { name: name.to_string(), dtype, shape, data: data[range[0]..range[1]].to_vec() });
        Ok(())
    })?;
    Ok(entries)
}

fn float(entry: &Entry, at: u64) -> f32 {
    let at = usize::try_from(at).expect("an index");
    let two = || [entry.data[2 * at], entry.data[2 * at + 1]];
    match entry.dtype {
        DType::Float32 => f32::from_le_bytes(entry.data[4 * at..4 * at + 4].try_into().expect("four bytes")),
        DType::Float16 => f16::from_le_bytes(two()).to_f32(),
        DType::BFloat16 => bf16::from_le_bytes(two()).to_f32(),
        other => panic!("numbers of {}", other.name()),
    }
}

/// Returns the type that is written, and the data.
fn data(planned: &Planned, entries: &[Entry]) -> Result<(&'static str, Vec<u8>)> {
    let mut made = Vec::new();
    let mut kind = "f32";
    match &planned.content {
        Content::Values(values) => made.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Content::Blocks(Blocks { blocks, scales, view }) => {
            kind = "mxfp4";
            view.runs(|start| {
                for at in start..start + view.run() {
                    let at = usize::try_from(at).expect("an index");
                    let block = entries[*blocks].data[16 * at..16 * at + 16].try_into().expect("16 bytes");
                    made.extend(Blocks::block(entries[*scales].data[at], block));
                }
                Ok(())
            })?;
        }
        Content::Pieces(pieces) => {
            for piece in pieces {
                let entry = &entries[piece.source];
                if planned.element == Element::AsSource {
                    kind = match entry.dtype {
                        DType::Float16 => "f16",
                        DType::BFloat16 => "bf16",
                        _ => "f32",
                    };
                }
                piece.view.runs(|start| {
                    for at in start..start + piece.view.run() {
                        let value = float(entry, at) + piece.add;
                        match kind {
                            "f16" => made.extend(f16::from_f32(value).to_le_bytes()),
                            "bf16" => made.extend(bf16::from_f32(value).to_le_bytes()),
                            _ => made.extend(value.to_le_bytes()),
                        }
                    }
                    Ok(())
                })?;
            }
        }
    }
    Ok((kind, made))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() || b" ._-".contains(&byte) => quoted.push(byte.into()),
            _ => write!(quoted, "\\u{unit:04x}").expect("memory"),
        }
    }
    quoted + "\""
}

fn value(value: &Value) -> String {
    fn list<T>(items: &[T], each: impl Fn(&T) -> String) -> String {
        format!("[{}]", items.iter().map(each).collect::<Vec<_>>().join(", "))
    }
    match value {
        Value::String(text) => quoted(text),
        Value::Float32(number) => format!("{number:?}"),
        Value::Float64(number) => format!("{number:?}"),
        Value::Bool(flag) => flag.to_string(),
        Value::Uint8(number) => number.to_string(),
        Value::Int8(number) => number.to_string(),
        Value::Uint16(number) => number.to_string(),
        Value::Int16(number) => number.to_string(),
        Value::Uint32(number) => number.to_string(),
        Value::Int32(number) => number.to_string(),
        Value::Uint64(number) => number.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::Array(Array::String(items)) => list(items, |text| quoted(text)),
        Value::Array(Array::Int32(items)) => list(items, i32::to_string),
        Value::Array(Array::Float32(items)) => list(items, |number| format!("{number:?}")),
        Value::Array(Array::Bool(items)) => list(items, bool::to_string),
        Value::Array(other) => panic!("an array of {}", other.kind().name()),
    }
}

fn run(folder: &Path) -> Result<()> {
    let bytes = fs::read(folder.join("model.safetensors")).map_err(|error| Error::io("read", &error))?;
    let entries = entries(&bytes)?;
    let tensors: Vec<Tensor<'_>> = entries
        .iter()
        .map(|entry| Tensor { name: &entry.name, shape: &entry.shape, dtype: entry.dtype })
        .collect();
    let plan = plan(&Folder(folder.to_owned()), &tensors)?;
    let (mut json, mut all) = (String::from("{\"metadata\": [\n"), Vec::new());
    for (at, (key, held)) in plan.metadata.iter().enumerate() {
        let kinds = match held {
            Value::Array(items) => format!("[\"array\", {}]", quoted(items.kind().name())),
            other => format!("[{}]", quoted(other.kind().name())),
        };
        let comma = if at == 0 { "" } else { ",\n" };
        write!(json, "{comma}[{}, {kinds}, {}]", quoted(key), value(held)).expect("memory");
    }
    json.push_str("],\n\"tensors\": [\n");
    for (at, planned) in plan.tensors.iter().enumerate() {
        let (kind, made) = data(planned, &entries)?;
        let comma = if at == 0 { "" } else { ",\n" };
        let (start, end) = (all.len(), all.len() + made.len());
        let (name, shape) = (quoted(&planned.name), &planned.shape);
        write!(json, "{comma}{{\"name\": {name}, \"shape\": {shape:?}, \"type\": \"{kind}\", \"start\": {start}, \"end\": {end}}}")
            .expect("memory");
        all.extend(made);
    }
    json.push_str("],\n\"left_out\": [");
    let left_out =
        plan.left_out.iter().map(|(name, reason)| format!("[{}, {}]", quoted(name), quoted(reason)));
    json.push_str(&left_out.collect::<Vec<_>>().join(",\n"));
    json.push_str("]}\n");
    fs::write(folder.join("plan.json"), json).map_err(|error| Error::io("write", &error))?;
    fs::write(folder.join("plan.bin"), all).map_err(|error| Error::io("write", &error))
}

fn main() {
    for folder in env::args().skip(1) {
        if let Err(error) = run(Path::new(&folder)) {
            println!("{folder}: {} {error}", error.code().name());
        }
    }
}
