//! Plans of checkpoints against what llama.cpp's converter makes of them. `interop/checkpoints.py fixtures` writes the files of
//! `checkpoints/`: configurations of transformers, small tokenizers, and the keys and tensors of the reference.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, io};

use ciborium::Value as Json;
use ztensor_core::convert::quantize::joined_block;
use ztensor_core::convert::scaled::ScaledAxis;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::kernels::cast::cast;
use ztensor_core::kernels::widen::to_float32;
use ztensor_core::model::DType;
use ztensor_core::syntax::json::Reader;
use ztensor_gguf::checkpoint::{
    Blocks, Content, Element, Files, MetadataOverrides, Plan, Planned, Tensor, classes, plan,
};
use ztensor_gguf::value::{Array, Value};

/// Files in memory, and others of a folder.
#[derive(Clone, Default)]
struct MemoryFolder {
    files: BTreeMap<String, Vec<u8>>,
    folder: Option<PathBuf>,
    name: String,
}

impl MemoryFolder {
    fn with(mut self, name: &str, text: &str) -> Self {
        self.files.insert(name.to_owned(), text.as_bytes().to_vec());
        self
    }
}

impl Files for MemoryFolder {
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = format!("{folder}/");
        Ok(self.files.keys().filter_map(|path| path.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>> {
        let bytes = match (self.files.get(path), &self.folder) {
            (Some(bytes), _) => bytes.clone(),
            (None, None) => return Ok(None),
            (None, Some(folder)) => match fs::read(folder.join(path)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(Error::io("read", &error)),
            },
        };
        if bytes.len() as u64 > max {
            return Err(Error::new(Code::Limit, "too large"));
        }
        Ok(Some(bytes))
    }
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/checkpoints"))
}

fn get<'j>(json: &'j Json, key: &str) -> &'j Json {
    let entries = json.as_map().expect("an object");
    &entries.iter().find(|(name, _)| name.as_text() == Some(key)).unwrap_or_else(|| panic!("no {key}")).1
}

fn list(json: &Json) -> &[Json] {
    json.as_array().expect("a list")
}

fn text(json: &Json) -> &str {
    json.as_text().expect("a text")
}

fn number(json: &Json) -> u64 {
    json.as_integer().and_then(|number| number.try_into().ok()).expect("a number")
}

/// Spells a value as JSON, for files whose contents are part of a fixture.
fn spelled(json: &Json) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    match json {
        Json::Null => "null".to_owned(),
        Json::Bool(flag) => flag.to_string(),
        Json::Integer(number) => i128::from(*number).to_string(),
        Json::Float(number) => format!("{number:?}"),
        Json::Text(text) => format!("{text:?}"),
        Json::Array(items) => format!("[{}]", join(items.iter().map(spelled).collect())),
        Json::Map(entries) => {
            let parts = entries.iter().map(|(key, value)| format!("{}: {}", spelled(key), spelled(value)));
            format!("{{{}}}", join(parts.collect()))
        }
        other => panic!("{other:?}"),
    }
}

struct Source {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
}

impl Source {
    /// Returns the element at an index: what `countable` in the script writes.
    fn element(&self, at: u64) -> f32 {
        let number = (at * 37 + 11 * self.name.len() as u64) % 251;
        let number = u8::try_from(number).expect("below 251");
        match self.dtype {
            DType::Uint8 => number.into(),
            DType::Int8 => number.cast_signed().into(),
            dtype => rounded(f32::from(number) - 125.0, dtype),
        }
    }

    fn byte(&self, at: u64) -> u8 {
        u8::try_from((at * 37 + 11 * self.name.len() as u64) % 251).expect("below 251")
    }
}

/// Returns the nearest number of a dtype.
fn rounded(number: f32, dtype: DType) -> f32 {
    let mut stored = vec![0; dtype.element_bytes()];
    cast(DType::Float32, dtype, &number.to_le_bytes(), &mut stored).expect("a cast");
    let mut widened = [0; 4];
    to_float32(dtype, &stored, &mut widened).expect("a number");
    f32::from_ne_bytes(widened)
}

/// Returns the index of the factor of an element.
fn factor_of(axes: &[ScaledAxis], element: u64) -> u64 {
    let (mut left, mut number) = (element, 0);
    for axis in axes.iter().rev() {
        number += left % axis.extent / axis.block * axis.stride;
        left /= axis.extent;
    }
    number
}

fn fixture(name: &str) -> Json {
    let json = fs::read_to_string(folder().join(name)).expect("a fixture");
    let mut left = 1 << 20;
    Reader::new(&json, 0).value(&mut left).expect("JSON")
}

fn sources(fixture: &Json) -> Vec<Source> {
    let source = |row: &Json| {
        let row = list(row);
        let dtype = match text(&row[1]) {
            "F32" => DType::Float32,
            "F16" => DType::Float16,
            "BF16" => DType::BFloat16,
            "U8" => DType::Uint8,
            "F8_E4M3" => DType::Float8E4M3Fn,
            "I8" => DType::Int8,
            other => panic!("{other}"),
        };
        Source { name: text(&row[0]).to_owned(), dtype, shape: list(&row[2]).iter().map(number).collect() }
    };
    list(get(fixture, "sources")).iter().map(source).collect()
}

fn files(fixture: &Json) -> MemoryFolder {
    let tokenizer = folder().join("tokenizers").join(text(get(fixture, "tokenizer")));
    let held = MemoryFolder { folder: Some(tokenizer), ..MemoryFolder::default() };
    let held = held.with("config.json", &spelled(get(fixture, "config")));
    match get(fixture, "modules") {
        Json::Null => held,
        modules => held
            .with("modules.json", &spelled(modules))
            .with("1_Pooling/config.json", "{\"pooling_mode_mean_tokens\": true}"),
    }
}

fn planned(files: &dyn Files, sources: &[Source]) -> Result<Plan> {
    planned_with(files, &MetadataOverrides::default(), sources)
}

fn planned_with(files: &dyn Files, given: &MetadataOverrides, sources: &[Source]) -> Result<Plan> {
    // The reference reads a file in the order of the names.
    let position = |name: &str| sources.iter().filter(|source| source.name.as_str() < name).count();
    let tensors: Vec<Tensor<'_>> = sources
        .iter()
        .map(|source| Tensor {
            name: &source.name,
            shape: &source.shape,
            dtype: source.dtype,
            position: position(&source.name),
        })
        .collect();
    plan(files, given, &tensors)
}

fn crc(bytes: &[u8]) -> u64 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    u64::from(crc.sum())
}

/// Returns the type and the data of a tensor, widened to float32. `products` is the dtype of elements that have factors.
fn data(planned: &Planned, sources: &[Source], products: DType) -> (&'static str, Vec<u8>) {
    let mut made = Vec::new();
    match &planned.content {
        Content::Values(values) => {
            made.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            ("f32", made)
        }
        Content::Blocks(Blocks { blocks, scales, view }) => {
            view.runs(|start| {
                for at in start..start + view.run() {
                    let block: Vec<u8> =
                        (16 * at..16 * at + 16).map(|at| sources[*blocks].byte(at)).collect();
                    made.extend(joined_block(
                        sources[*scales].byte(at),
                        block.as_slice().try_into().expect("16"),
                    ));
                }
                Ok(())
            })
            .expect("runs");
            ("mxfp4", made)
        }
        Content::Pieces(pieces) => {
            let mut kind = "f32";
            for piece in pieces {
                let source = &sources[piece.source];
                let dtype = if piece.factors.is_some() { products } else { source.dtype };
                if planned.element == Element::AsSource {
                    kind = match dtype {
                        DType::Float16 => "f16",
                        DType::BFloat16 => "bf16",
                        _ => "f32",
                    };
                }
                let run = piece.view.run();
                let element = |at: u64| match &piece.factors {
                    None => source.element(at) + piece.add,
                    Some(factors) => {
                        let factor = sources[factors.source].element(factor_of(&factors.axes, at));
                        rounded(source.element(at) * factor, dtype)
                    }
                };
                piece
                    .view
                    .runs(|start| {
                        let elements = (start..start + run).map(element);
                        made.extend(elements.flat_map(f32::to_le_bytes));
                        Ok(())
                    })
                    .expect("runs");
            }
            (kind, made)
        }
    }
}

/// Returns the types of a value, and the value as the fixtures have it.
fn described(value: &Value) -> (Vec<&'static str>, Json) {
    let of = |array: &Array| -> Vec<Json> {
        match array {
            Array::String(items) => items.iter().map(|item| Json::from(item.as_str())).collect(),
            Array::Int32(items) => items.iter().map(|&item| Json::from(item)).collect(),
            Array::Float32(items) => items.iter().map(|&item| Json::from(item)).collect(),
            Array::Bool(items) => items.iter().map(|&item| Json::from(item)).collect(),
            Array::Uint8(items) => items.iter().map(|&item| Json::from(item)).collect(),
            other => panic!("an array of {}", other.kind().name()),
        }
    };
    let spelled = |item: &Json| match item {
        Json::Text(text) => text.clone(),
        Json::Float(number) => format!("{number:.3}"),
        Json::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Json::Integer(number) => i128::from(*number).to_string(),
        other => panic!("{other:?}"),
    };
    match value {
        Value::Array(array) => {
            let items = of(array);
            let kinds = vec!["array", array.kind().name()];
            if items.len() <= 16 {
                return (kinds, Json::Array(items));
            }
            let all: Vec<String> = items.iter().map(spelled).collect();
            let (count, sum) = (items.len() as u64, crc(all.join("\n").as_bytes()));
            (kinds, Json::Map(vec![("count".into(), count.into()), ("crc32".into(), sum.into())]))
        }
        Value::Uint32(number) => (vec!["uint32"], (*number).into()),
        Value::Int32(number) => (vec!["int32"], (*number).into()),
        Value::Float32(number) => (vec!["float32"], (*number).into()),
        Value::Bool(flag) => (vec!["bool"], (*flag).into()),
        Value::String(text) => (vec!["string"], text.as_str().into()),
        other => panic!("{}", other.kind().name()),
    }
}

#[test]
fn plans_equal_what_the_reference_writes() {
    let mut names: Vec<String> = fs::read_dir(folder())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name != "tokenizers")
        .collect();
    names.sort();
    assert_eq!(names.len(), 34);
    for name in names {
        let fixture = fixture(&name);
        let sources = sources(&fixture);
        let plan = planned(&files(&fixture), &sources).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut expected: BTreeMap<&str, (Vec<&str>, &Json)> = list(get(&fixture, "metadata"))
            .iter()
            .map(|row| {
                let row = list(row);
                (text(&row[0]), (list(&row[1]).iter().map(text).collect(), &row[2]))
            })
            .collect();
        for (key, value) in &plan.metadata {
            let (kinds, value) = described(value);
            let (wanted_kinds, wanted) = expected
                .remove(key.as_str())
                .unwrap_or_else(|| panic!("{name}: {key} is not in the reference"));
            assert_eq!(kinds, wanted_kinds, "{name}: {key}");
            assert_eq!(&value, wanted, "{name}: {key}");
        }
        assert!(expected.is_empty(), "{name}: missing {expected:?}");
        let order: Vec<&str> = list(get(&fixture, "tensors")).iter().map(|row| text(&list(row)[0])).collect();
        let ours: Vec<&str> = plan.tensors.iter().map(|planned| planned.name.as_str()).collect();
        assert_eq!(ours, order, "{name}");
        let mut tensors: BTreeMap<&str, &[Json]> =
            list(get(&fixture, "tensors")).iter().map(|row| (text(&list(row)[0]), list(row))).collect();
        for planned in &plan.tensors {
            let key = &planned.name;
            let row = tensors
                .remove(key.as_str())
                .unwrap_or_else(|| panic!("{name}: {key} is not in the reference"));
            let shape: Vec<u64> = list(&row[1]).iter().map(number).collect();
            let (kind, data) = data(planned, &sources, plan.dtype);
            assert_eq!((&planned.shape, kind), (&shape, text(&row[2])), "{name}: {key}");
            assert_eq!(crc(&data), number(&row[3]), "{name}: {key}");
        }
        assert!(tensors.is_empty(), "{name}: missing {:?}", tensors.keys());
    }
}

/// A checkpoint of Llama without layers, which takes few lines.
fn small() -> (MemoryFolder, Vec<Source>) {
    let config = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2,
        "num_hidden_layers": 1, "vocab_size": 4}"#;
    let tokenizer = r#"{"added_tokens": [{"id": 3, "content": "<|end|>", "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}"#;
    let held = MemoryFolder::default().with("config.json", config).with("tokenizer.json", tokenizer);
    let rows: [(&str, &[u64]); 4] = [
        ("model.embed_tokens.weight", &[4, 8]),
        ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", &[4]),
        ("model.norm.weight", &[8]),
    ];
    let source = |(name, shape): (&str, &[u64])| Source {
        name: name.to_owned(),
        dtype: DType::Float32,
        shape: shape.to_vec(),
    };
    (held, rows.into_iter().map(source).collect())
}

fn changed(held: &MemoryFolder, file: &str, from: &str, to: &str) -> MemoryFolder {
    let before = String::from_utf8(held.files[file].clone()).expect("UTF-8");
    assert!(before.contains(from), "{from}");
    held.clone().with(file, &before.replacen(from, to, 1))
}

#[test]
fn tensors_without_a_name_in_gguf_are_listed_with_a_reason() {
    let (held, sources) = small();
    let plan = planned(&held, &sources).unwrap();
    assert_eq!(plan.tensors.len(), 3);
    let name = "model.layers.0.self_attn.rotary_emb.inv_freq".to_owned();
    assert_eq!(plan.left_out, [(name, "computed when the model runs")]);
}

#[test]
fn experts_are_stacked_by_number() {
    let fixture = fixture("mixtral.json");
    let mut sources = sources(&fixture);
    sources.reverse();
    let plan = planned(&files(&fixture), &sources).unwrap();
    let stacked = plan.tensors.iter().find(|planned| planned.name == "blk.1.ffn_up_exps.weight").unwrap();
    let Content::Pieces(pieces) = &stacked.content else { panic!("{stacked:?}") };
    let experts: Vec<&str> = pieces.iter().map(|piece| sources[piece.source].name.as_str()).collect();
    let wanted = (0..4).map(|expert| format!("model.layers.1.block_sparse_moe.experts.{expert}.w3.weight"));
    assert_eq!(experts, wanted.collect::<Vec<_>>());
}

#[test]
fn other_architectures_are_refused_by_name() {
    let (held, sources) = small();
    let other = changed(&held, "config.json", "LlamaForCausalLM", "MambaForCausalLM");
    let error = planned(&other, &sources).unwrap_err();
    assert_eq!(error.code(), Code::UnsupportedEncoding);
    for part in ["\"MambaForCausalLM\"", "Qwen3MoeForCausalLM", "option rename"] {
        assert!(error.message().contains(part), "{part} in {error}");
    }
    assert!(classes().any(|class| class == "GptOssForCausalLM"));
    let long = changed(&held, "config.json", "LlamaForCausalLM", &"x".repeat(10_000));
    assert!(planned(&long, &sources).unwrap_err().message().contains("option rename"));
    let none = changed(&held, "config.json", "\"architectures\"", "\"others\"");
    assert_eq!(planned(&none, &sources).unwrap_err().code(), Code::UnsupportedEncoding);
}

#[test]
fn values_of_another_type_are_refused_with_their_file_and_key() {
    let (held, sources) = small();
    let cases = [
        (
            "config.json",
            "\"num_hidden_layers\": 1",
            "\"num_hidden_layers\": 1152921504606846976",
            Code::BadIndex,
            "num_hidden_layers",
        ),
        (
            "config.json",
            "\"num_hidden_layers\": 1",
            "\"num_hidden_layers\": 4000000000",
            Code::Limit,
            "layers",
        ),
        (
            "config.json",
            "\"num_hidden_layers\": 1",
            "\"num_hidden_layers\": -1",
            Code::BadIndex,
            "num_hidden_layers",
        ),
        (
            "config.json",
            "\"num_hidden_layers\": 1",
            "\"num_hidden_layers\": \"1\"",
            Code::BadIndex,
            "num_hidden_layers",
        ),
        ("config.json", "\"num_hidden_layers\": 1,", "", Code::BadIndex, "n_layers"),
        ("config.json", "\"vocab_size\": 4", "\"vocab_size\": 4294967295", Code::Limit, "vocabulary"),
        ("config.json", "\"vocab_size\": 4", "\"vocab_size\": 2", Code::BadIndex, "token 3"),
        (
            "config.json",
            "\"vocab_size\": 4",
            "\"vocab_size\": 4, \"rms_norm_eps\": \"x\"",
            Code::BadIndex,
            "rms_norm_eps",
        ),
        (
            "config.json",
            "\"num_attention_heads\": 2",
            "\"num_attention_heads\": 0",
            Code::BadShape,
            "multiple of 0",
        ),
        (
            "config.json",
            "\"num_attention_heads\": 2",
            "\"num_attention_heads\": 3",
            Code::BadShape,
            "multiple of 3",
        ),
        (
            "config.json",
            "\"vocab_size\": 4",
            "\"vocab_size\": 4, \"quantization_config\": {\"quant_method\": \"gptq\"}",
            Code::UnsupportedEncoding,
            "gptq",
        ),
        (
            "config.json",
            "\"vocab_size\": 4",
            "\"vocab_size\": 4, \"rope_scaling\": {\"rope_type\": \"llama3\"}, \"head_dim\": 4294967295",
            Code::Limit,
            "heads",
        ),
        ("config.json", "[\"LlamaForCausalLM\"]", "\"LlamaForCausalLM\"", Code::BadIndex, "architectures"),
        ("tokenizer.json", "\"a\": 0", "\"a\": -1", Code::BadIndex, "vocab"),
        ("tokenizer.json", "\"vocab\"", "\"words\"", Code::BadIndex, "vocab"),
        ("tokenizer.json", "\"id\": 3", "\"id\": \"3\"", Code::BadIndex, "id"),
        ("tokenizer.json", "\"merges\": [\"a b\"]", "\"merges\": [[\"a\"]]", Code::BadIndex, "merges"),
        (
            "tokenizer.json",
            "\"use_regex\": true",
            "\"use_regex\": false",
            Code::UnsupportedEncoding,
            "tokenizer.ggml.pre",
        ),
    ];
    for (file, from, to, code, part) in cases {
        let error = planned(&changed(&held, file, from, to), &sources).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), code, "{to}: {error}");
        assert!(error.to_string().contains(part), "{to}: {error}");
        if code == Code::BadIndex {
            assert!(error.to_string().contains(&format!("'{file}'")), "{to}: {error}");
        }
    }
}

#[test]
fn a_pre_tokenizer_that_is_set_need_not_be_recognized() {
    let (held, sources) = small();
    let unknown = changed(&held, "tokenizer.json", "\"use_regex\": true", "\"use_regex\": false");
    let key = || Json::from("tokenizer.ggml.pre");
    let typed = Json::Map(vec![("type".into(), "string".into()), ("value".into(), "bloom".into())]);
    for value in [Json::from("bloom"), typed] {
        let given = MetadataOverrides::new(vec![(key(), value)]);
        let plan = planned_with(&unknown, &given, &sources).unwrap();
        let pre = plan.metadata.iter().find(|(key, _)| key == "tokenizer.ggml.pre").map(|(_, value)| value);
        assert_eq!(pre, Some(&Value::from("bloom")));
    }
    let other = MetadataOverrides::new(vec![(key(), Json::from(1))]);
    assert_eq!(planned_with(&unknown, &other, &sources).unwrap_err().code(), Code::UnsupportedEncoding);
}

/// The value of a key of the metadata of `small` with these files instead of `tokenizer.json`.
fn separate(files: &[(&str, &str)]) -> Result<Plan> {
    let (mut held, sources) = small();
    held.files.remove("tokenizer.json");
    planned(&files.iter().fold(held, |held, (name, text)| held.with(name, text)), &sources)
}

fn value<'p>(plan: &'p Plan, key: &str) -> Option<&'p Value> {
    plan.metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

#[test]
fn byte_pairs_of_two_files_are_read() {
    let settings = r#"{"tokenizer_class": "GPT2TokenizerFast", "eos_token": "<|end|>",
        "added_tokens_decoder": {"3": {"content": "<|end|>", "special": true}}}"#;
    let (vocabulary, merges) = (r#"{"a": 0, "b": 1, "ab": 2}"#, "#version: 0.2\na b\n");
    let both = [("vocab.json", vocabulary), ("merges.txt", merges)];
    let plan = separate(&[both[0], both[1], ("tokenizer_config.json", settings)]).unwrap();
    assert_eq!(value(&plan, "tokenizer.ggml.pre"), Some(&Value::from("gpt-2")));
    let texts = ["a", "b", "ab", "<|end|>"].map(str::to_owned).to_vec();
    assert_eq!(value(&plan, "tokenizer.ggml.tokens"), Some(&Value::Array(Array::String(texts))));
    let types = Value::Array(Array::Int32(vec![1, 1, 1, 3]));
    assert_eq!(value(&plan, "tokenizer.ggml.token_type"), Some(&types));
    let joined = Value::Array(Array::String(vec!["a b".to_owned()]));
    assert_eq!(value(&plan, "tokenizer.ggml.merges"), Some(&joined));
    let added = r#"{"mine": 3}"#;
    let other = settings.replace("added_tokens_decoder", "other");
    let plan = separate(&[both[0], both[1], ("tokenizer_config.json", &other), ("added_tokens.json", added)]);
    let types = Value::Array(Array::Int32(vec![1, 1, 1, 4]));
    assert_eq!(value(&plan.unwrap(), "tokenizer.ggml.token_type"), Some(&types));
}

#[test]
fn byte_pairs_of_two_files_that_are_malformed_are_refused() {
    let settings = ("tokenizer_config.json", r#"{"tokenizer_class": "Qwen2Tokenizer"}"#);
    let (vocabulary, merges) = (("vocab.json", r#"{"a": 0, "b": 1, "ab": 2}"#), ("merges.txt", "a b"));
    assert!(separate(&[settings, vocabulary, merges]).is_ok());
    let cases: [(&[(&str, &str)], Code); 6] = [
        (&[vocabulary, merges], Code::UnsupportedEncoding),
        (&[settings, vocabulary], Code::NotFound),
        (&[settings, merges], Code::NotFound),
        (&[settings, ("vocab.json", "[]"), merges], Code::BadIndex),
        (&[settings, ("vocab.json", r#"{"a": 4294967296}"#), merges], Code::BadIndex),
        (&[settings, ("vocab.json", r#"{"a": 4}"#), merges], Code::BadIndex),
    ];
    for (files, code) in cases {
        assert_eq!(separate(files).unwrap_err().code(), code, "{files:?}");
    }
}

/// `small` with other keys in its configuration.
fn configured(more: &str) -> Result<Plan> {
    let (held, sources) = small();
    planned(
        &changed(&held, "config.json", "\"vocab_size\": 4", &format!("\"vocab_size\": 4, {more}")),
        &sources,
    )
}

#[test]
fn keys_of_the_configuration_are_written_or_listed() {
    let sections = Value::Array(Array::Int32(vec![2, 3, 3, 0]));
    let written: [(&str, &str, Option<Value>); 8] = [
        (r#""is_causal": false"#, "llama.attention.causal", Some(false.into())),
        (r#""is_causal": true"#, "llama.attention.causal", None),
        (r#""is_causal": null"#, "llama.attention.causal", None),
        (
            r#""rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}"#,
            "llama.rope.dimension_sections",
            Some(sections),
        ),
        (
            r#""rope_parameters": {"mrope_section": [1, 1, 1, 1, 9]}"#,
            "llama.rope.dimension_sections",
            Some(Value::Array(Array::Int32(vec![1; 4]))),
        ),
        (r#""dense_intermediate_size": 24"#, "llama.feed_forward_length", Some(24_u32.into())),
        (r#""moe_router_activation_func": "sigmoid""#, "llama.expert_gating_func", Some(2_u32.into())),
        (r#""expert_selection_fn": "softmax""#, "llama.expert_gating_func", Some(1_u32.into())),
    ];
    for (more, key, wanted) in written {
        let plan = configured(more).unwrap();
        assert_eq!(value(&plan, key), wanted.as_ref(), "{more}");
        assert!(plan.lost.is_empty() && plan.warnings.is_empty(), "{more}");
    }
    for kind in [r#""type": "dynamic", "factor": 2.0"#, r#""rope_type": "linear""#, r#""rope_type": "x""#] {
        let plan = configured(&format!("\"rope_scaling\": {{{kind}}}")).unwrap();
        assert!(matches!(plan.lost.as_slice(), [one] if one.contains("left out")), "{kind}: {:?}", plan.lost);
    }
}

#[test]
fn json_is_read_as_python_reads_it() {
    let plan = configured(r#""unused": [NaN, Infinity, -Infinity]"#).unwrap();
    assert!(plan.warnings.is_empty());
    let plan = configured(r#""max_position_embeddings": 7, "max_position_embeddings": 9"#).unwrap();
    assert_eq!(value(&plan, "llama.context_length"), Some(&9_u32.into()));
    assert!(
        matches!(plan.warnings.as_slice(), [one] if one.contains("'config.json'") && one.contains("max_position"))
    );
    let (held, sources) = small();
    let twice = changed(&held, "tokenizer.json", "\"ab\": 2", "\"ab\": 1, \"ab\": 2");
    let plan = planned(&twice, &sources).unwrap();
    let tokens = ["a", "b", "ab", "<|end|>"].map(str::to_owned).to_vec();
    assert_eq!(value(&plan, "tokenizer.ggml.tokens"), Some(&Value::Array(Array::String(tokens))));
    assert!(matches!(plan.warnings.as_slice(), [one] if one.contains("'tokenizer.json'")));
    for file in ["tokenizer_config.json", "generation_config.json"] {
        let more = held.clone().with(file, "{\"x\": NaN, \"y\": 1, \"y\": -Infinity}");
        let plan = planned(&more, &sources).unwrap();
        assert!(matches!(plan.warnings.as_slice(), [one] if one.contains(file)), "{file}");
    }
}

#[test]
fn templates_of_a_folder_are_added_to_the_one_beside_it() {
    let (held, sources) = small();
    let held = held
        .with("tokenizer_config.json", "{}")
        .with("chat_template.jinja", "{{ main }}")
        .with("additional_chat_templates/tool_use.jinja", "{{ tools }}")
        .with("additional_chat_templates/rag-v2.jinja", "{{ documents }}")
        .with("additional_chat_templates/notes.txt", "none");
    let plan = planned(&held, &sources).unwrap();
    for (key, wanted) in [("", "{{ main }}"), (".tool_use", "{{ tools }}"), (".rag_v2", "{{ documents }}")] {
        let key = format!("tokenizer.chat_template{key}");
        assert_eq!(value(&plan, &key), Some(&Value::from(wanted)), "{key}");
    }
    let names = ["rag_v2", "tool_use"].map(str::to_owned).to_vec();
    assert_eq!(value(&plan, "tokenizer.chat_templates"), Some(&Value::Array(Array::String(names))));
}

/// A Qwen 3 without layers, whose tokens include the answers of a reranker.
fn answering(more: &str, is_untied: bool) -> (MemoryFolder, Vec<Source>) {
    let (held, sources) = small();
    let held = changed(&held, "config.json", "LlamaForCausalLM", "Qwen3ForCausalLM");
    let held = changed(&held, "config.json", "\"vocab_size\": 4", &format!("\"vocab_size\": 6, {more}"));
    let held = changed(&held, "tokenizer.json", "\"ab\": 2", "\"ab\": 2, \"yes\": 4, \"no\": 5");
    let source = |name: &str, shape: &[u64]| Source {
        name: name.to_owned(),
        dtype: DType::Float32,
        shape: shape.to_vec(),
    };
    let sources = sources
        .into_iter()
        .filter(|source| !source.name.contains("embed"))
        .chain([source("model.embed_tokens.weight", &[6, 8])]);
    (held, sources.chain(is_untied.then(|| source("lm_head.weight", &[6, 8]))).collect())
}

#[test]
fn a_reranker_gets_the_rows_of_its_answers() {
    let card = "---\nlicense: x\n---\n# Qwen3-Reranker-0.6B\n";
    for (is_tied, head) in [(true, "token_embd.weight"), (false, "output.weight")] {
        let (held, sources) = answering(&format!("\"tie_word_embeddings\": {is_tied}"), !is_tied);
        let default = planned(&held, &sources).unwrap();
        assert!(default.tensors.iter().all(|planned| planned.name != "cls.output.weight"));
        assert_eq!(value(&default, "qwen3.pooling_type"), None);
        let by_folder = MemoryFolder { name: "My-Qwen3-Reranker-4B".to_owned(), ..held.clone() };
        for held in [held.clone().with("README.md", card), by_folder] {
            let plan = planned(&held, &sources).unwrap();
            let output = plan.tensors.iter().find(|planned| planned.name == "cls.output.weight").unwrap();
            assert_eq!(output.shape, [2, 8]);
            let Content::Pieces(pieces) = &output.content else { panic!("{output:?}") };
            let rows: Vec<u64> = pieces.iter().map(|piece| piece.view.offset / 8).collect();
            assert_eq!(rows, [4, 5], "yes and no");
            let has = |name: &str| plan.tensors.iter().any(|planned| planned.name == name);
            assert_eq!((has("token_embd.weight"), has("output.weight")), (true, false), "{head}");
            assert_eq!(value(&plan, "qwen3.pooling_type"), Some(&4_u32.into()));
            let labels = ["yes", "no"].map(str::to_owned).to_vec();
            assert_eq!(
                value(&plan, "qwen3.classifier.output_labels"),
                Some(&Value::Array(Array::String(labels)))
            );
            let names = Value::Array(Array::String(vec!["rerank".to_owned()]));
            assert_eq!(value(&plan, "tokenizer.chat_templates"), Some(&names));
            assert!(value(&plan, "tokenizer.chat_template.rerank").is_some());
        }
        let without = changed(&held, "tokenizer.json", "\"yes\": 4, ", "").with("README.md", card);
        let error = planned(&without, &sources).unwrap_err();
        assert!(error.code() == Code::NotFound && error.message().contains("\"yes\""), "{error}");
    }
}

#[test]
fn gemma_without_pieces_has_those_of_its_pairs() {
    let (held, sources) = small();
    let held = changed(&held, "config.json", "LlamaForCausalLM", "Gemma2ForCausalLM");
    let held = changed(&held, "config.json", "\"vocab_size\": 4", "\"vocab_size\": 9");
    let tokenizer = r#"{"added_tokens": [{"id": 0, "content": "<pad>", "special": true},
            {"id": 6, "content": "<turn>", "special": true}, {"id": 7, "content": "\u2581x", "special": false}],
        "decoder": {"type": "Sequence"},
        "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<pad>": 0, "<0x00>": 1, "a": 2, "b": 3, "ab": 4, "\u2581ab": 5},
            "merges": [["a", "b"], ["\u2581", "ab"]]}}"#;
    let held = held.with("tokenizer.json", tokenizer);
    let sources: Vec<Source> = sources
        .into_iter()
        .map(|mut source| {
            if source.name.contains("embed") {
                source.shape = vec![9, 8];
            }
            source
        })
        .collect();
    let plan = planned(&held, &sources).unwrap();
    assert_eq!(value(&plan, "tokenizer.ggml.model"), Some(&Value::from("llama")));
    let texts = ["<pad>", "<0x00>", "a", "b", "ab", "\u{2581}ab", "<turn>", " x", "[PAD8]"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(value(&plan, "tokenizer.ggml.tokens"), Some(&Value::Array(Array::String(texts))));
    let types = vec![3, 6, 1, 1, 1, 1, 3, 4, 5];
    assert_eq!(value(&plan, "tokenizer.ggml.token_type"), Some(&Value::Array(Array::Int32(types))));
    let Some(Value::Array(Array::Float32(scores))) = value(&plan, "tokenizer.ggml.scores") else { panic!() };
    // llama.cpp joins the pieces with the highest score first.
    assert!(scores[4] > scores[5] && scores[5] > scores[2]);
    assert_eq!(value(&plan, "tokenizer.ggml.add_space_prefix"), Some(&false.into()));
    let bytes = changed(&held, "tokenizer.json", "\"byte_fallback\": true", "\"byte_fallback\": false");
    assert_eq!(planned(&bytes, &sources).unwrap_err().code(), Code::NotFound);
}

/// Names, shapes and dtypes of tensors.
type Listed<'l> = &'l [(&'l str, &'l [u64], DType)];

#[test]
fn factors_that_do_not_fit_are_refused_by_name() {
    let with = |config: &str, rows: &[(&str, &[u64], DType)]| {
        let (held, mut sources) = small();
        let more = rows.iter().map(|&(name, shape, dtype)| Source {
            name: format!("model.layers.0.self_attn.{name}"),
            dtype,
            shape: shape.to_vec(),
        });
        sources.extend(more);
        let to = format!("\"vocab_size\": 4, \"quantization_config\": {config}");
        planned(&changed(&held, "config.json", "\"vocab_size\": 4", &to), &sources)
    };
    let fp8 = r#"{"quant_method": "fp8", "weight_block_size": [4, 4]}"#;
    let (small, float) = (DType::Float8E4M3Fn, DType::Float32);
    let weight = ("v_proj.weight", &[8, 8][..], small);
    let plan = with(fp8, &[weight, ("v_proj.weight_scale_inv", &[2, 2], float)]).unwrap();
    assert_eq!((plan.tensors.len(), plan.dtype), (4, DType::Float16));
    let activations =
        [weight, ("v_proj.weight_scale_inv", &[2, 2], float), ("v_proj.input_scale", &[], float)];
    assert_eq!(with(fp8, &activations).unwrap().left_out.len(), 2);
    let channels = r#"{"quant_method": "compressed-tensors", "format": "float-quantized",
        "config_groups": {"a": {"weights": {"strategy": "channel"}}}}"#;
    assert!(with(channels, &[weight, ("v_proj.weight_scale", &[8, 1], float)]).is_ok());
    assert!(
        with(
            r#"{"quant_method": "modelopt", "quant_algo": "FP8"}"#,
            &[weight, ("v_proj.weight_scale", &[], float)]
        )
        .is_ok()
    );
    let cases: [(&str, Listed<'_>, Code); 8] = [
        (fp8, &[weight, ("v_proj.weight_scale_inv", &[2, 1], float)], Code::BadShape),
        (fp8, &[weight, ("v_proj.weight_scale_inv", &[2], float)], Code::BadShape),
        (fp8, &[weight, ("v_proj.weight_scale_inv", &[2, 2], DType::Uint8)], Code::BadDtype),
        (fp8, &[("v_proj.weight_scale_inv", &[2, 2], float)], Code::Incomplete),
        (fp8, &[weight], Code::UnsupportedEncoding),
        (
            r#"{"quant_method": "fp8", "weight_block_size": [0, 4]}"#,
            &[weight, ("v_proj.weight_scale_inv", &[2, 2], float)],
            Code::BadIndex,
        ),
        (r#"{"quant_method": "modelopt", "quant_algo": "NVFP4"}"#, &[weight], Code::UnsupportedEncoding),
        (
            r#"{"quant_method": "compressed-tensors", "format": "pack-quantized"}"#,
            &[weight],
            Code::UnsupportedEncoding,
        ),
    ];
    for (config, rows, code) in cases {
        let error = with(config, rows).unwrap_err();
        assert_eq!(error.code(), code, "{config} {rows:?}: {error}");
    }
}

#[test]
fn missing_files_and_files_that_are_not_json_are_refused() {
    let (held, sources) = small();
    let without = |file: &str| {
        let mut held = held.clone();
        held.files.remove(file);
        planned(&held, &sources).map(|_| ()).unwrap_err()
    };
    for file in ["config.json", "tokenizer.json"] {
        let error = without(file);
        assert_eq!(error.code(), Code::NotFound, "{error}");
        assert!(error.message().contains(file), "{error}");
    }
    let deep = "[".repeat(100_000);
    let texts = [
        ("", Code::BadIndex),
        ("[]", Code::BadIndex),
        ("{} {}", Code::BadIndex),
        ("{\"a\": 1", Code::BadIndex),
    ];
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        for (text, code) in texts {
            let error = planned(&held.clone().with(file, text), &sources).map(|_| ()).unwrap_err();
            assert_eq!(
                (error.code(), error.message().contains(file)),
                (code, true),
                "{file} {text}: {error}"
            );
        }
        let error =
            planned(&held.clone().with(file, &format!("{{\"a\": {deep}")), &sources).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), Code::Limit, "{file}: {error}");
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() {
    let with = |name: &str, shape: &[u64], dtype: DType| {
        let (held, mut sources) = small();
        sources.push(Source { name: name.to_owned(), dtype, shape: shape.to_vec() });
        planned(&held, &sources).map(|_| ()).unwrap_err()
    };
    let float = DType::Float32;
    let cases: [(&str, &[u64], DType, Code); 7] = [
        ("model.layers.0.self_attn.x_proj.weight", &[8, 8], float, Code::UnsupportedEncoding),
        ("model.layers.1.self_attn.q_proj.weight", &[8, 8], float, Code::BadIndex),
        (
            "model.layers.99999999999999999999.self_attn.q_proj.weight",
            &[8, 8],
            float,
            Code::UnsupportedEncoding,
        ),
        ("model.layers.0.self_attn.k_proj.weight", &[7, 8], float, Code::BadShape),
        ("model.layers.0.self_attn.k_proj.weight", &[1 << 40, 1 << 40], float, Code::BadShape),
        ("model.layers.0.self_attn.v_proj.weight", &[8, 8], DType::Float8E4M3Fn, Code::UnsupportedEncoding),
        ("model.layers.0.block_sparse_moe.experts.1.w1.weight", &[8, 8], float, Code::Incomplete),
    ];
    for (name, shape, dtype, code) in cases {
        let error = with(name, shape, dtype);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.tensor_name().is_some(), "{error}");
    }
    // Two names of one tensor.
    assert_eq!(with("embed_tokens.weight", &[4, 8], float).code(), Code::BadIndex);
}

#[test]
fn the_folder_of_the_pooling_is_next_to_the_weights() {
    let json = fixture("bert.json");
    let (held, sources) = (files(&json), sources(&json));
    for path in ["../secrets", "/etc", "a/../../b", "", "a\\\\..\\\\b"] {
        let modules = format!("[{{\"type\": \"x.Pooling\", \"path\": \"{path}\"}}]");
        let error = planned(&held.clone().with("modules.json", &modules), &sources).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), Code::BadIndex, "{path}: {error}");
    }
    // A system call would only report an invalid path.
    for control in ["\\u0000", "a\\u0000b", "a\\nb"] {
        let modules = format!("[{{\"type\": \"x.Pooling\", \"path\": \"{control}\"}}]");
        let error = planned(&held.clone().with("modules.json", &modules), &sources).map(|_| ()).unwrap_err();
        assert!(error.code() == Code::BadIndex && error.message().contains("modules.json"), "{error}");
    }
    let modules = "[{\"type\": \"x.Pooling\", \"path\": \"nowhere\"}]";
    let error = planned(&held.with("modules.json", modules), &sources).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::NotFound, "{error}");
}

#[test]
fn damaged_files_do_not_panic() {
    for name in ["llama.json", "phi3.json", "gemma4.json", "deepseek-v3-published.json"] {
        let fixture = fixture(name);
        let (held, sources) = (files(&fixture), sources(&fixture));
        let folder = held.folder.clone().expect("a folder");
        for file in ["config.json", "tokenizer_config.json", "tokenizer.json", "tokenizer.model"] {
            let Some(bytes) = held.read(file, u64::MAX).unwrap() else { continue };
            let step = (bytes.len() / 6).max(1);
            for at in (0..bytes.len()).step_by(step) {
                for new in [b'0', b'"', b'}', 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] = new;
                    let mut held = MemoryFolder { folder: Some(folder.clone()), ..held.clone() };
                    held.files.insert(file.to_owned(), damaged);
                    let _ = planned(&held, &sources);
                }
                let mut held = held.clone();
                held.files.insert(file.to_owned(), bytes[..at].to_vec());
                let _ = planned(&held, &sources);
            }
        }
    }
}
