//! What llama.cpp needs of a file to run it as a model.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashSet;

use ciborium::Value;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{ModelKeys, ModelRules};
use ztensor_core::model::DType;

use super::mixture;
use super::value::VALUE;

/// The key of the architecture.
pub const ARCHITECTURE: &str = "general.architecture";
/// The key of the type of most elements.
pub const FILE_TYPE: &str = "general.file_type";
/// The key of the version of the block types, and the only version there is since 2023.
pub const QUANTIZATION: (&str, u32) = ("general.quantization_version", 2);
const TOKENIZER: &str = "tokenizer.ggml.model";
const TOKENS: &str = "tokenizer.ggml.tokens";
/// The tokenizer of a model without vocabulary.
const NO_VOCABULARY: &str = "no_vocab";
const LLAMA_CPP: &str = "llama.cpp";

pub static RULES: ModelRules = ModelRules {
    check,
    is_read_by: |reader, attributes, names| {
        reader != LLAMA_CPP || is_read_by_llama_cpp(attributes) && is_whole(attributes, names)
    },
    is_float32,
    unsupported: |dtype| {
        (dtype == DType::Float64)
            .then_some("llama.cpp computes with no tensors of float64: cast to float32 or narrower")
    },
    checkpoints: &["safetensors", "pytorch"],
    type_key: FILE_TYPE,
    type_number: mixture::file_type,
    implied: Some(QUANTIZATION),
    keys: ModelKeys {
        name: "general.name",
        architecture: ARCHITECTURE,
        context_length: "{}.context_length",
        vocabulary_size: "{}.vocab_size",
        tokens: TOKENS,
        chat_template: "tokenizer.chat_template",
        license: "general.license",
    },
    mixtures: mixture::numbered,
    tied: ["token_embd.weight", "output.weight"],
};

/// Returns the value of a key, also if it is in the form that states its type.
fn value_of<'a>(attributes: &'a [(Value, Value)], wanted: &str) -> Option<&'a Value> {
    match &attributes.iter().find(|(key, _)| key.as_text() == Some(wanted))?.1 {
        Value::Map(entries) => Some(&entries.iter().find(|(name, _)| name.as_text() == Some(VALUE))?.1),
        value => Some(value),
    }
}

/// Returns whether a key has a text that is not empty.
fn has_text(attributes: &[(Value, Value)], wanted: &str) -> bool {
    value_of(attributes, wanted).and_then(Value::as_text).is_some_and(|text| !text.is_empty())
}

/// Returns the number of layers that the metadata states.
fn layers(attributes: &[(Value, Value)]) -> Option<u64> {
    let architecture = value_of(attributes, ARCHITECTURE)?.as_text()?;
    let count = value_of(attributes, &format!("{architecture}.block_count"))?.as_integer()?;
    u64::try_from(count).ok()
}

/// llama.cpp needs an architecture, a number of layers, and a tokenizer, whose tokens are a list.
fn is_read_by_llama_cpp(attributes: &[(Value, Value)]) -> bool {
    let tokens = value_of(attributes, TOKENS);
    layers(attributes).is_some()
        && has_text(attributes, TOKENIZER)
        && (tokens.is_some_and(Value::is_array)
            || tokens.is_none()
                && value_of(attributes, TOKENIZER).and_then(Value::as_text) == Some(NO_VOCABULARY))
}

/// Returns whether each layer, and the embeddings of tokens, have tensors.
fn is_whole(attributes: &[(Value, Value)], names: &[Cow<'_, str>]) -> bool {
    let Some(layers) = layers(attributes) else { return false };
    let (mut found, mut has_embeddings) = (HashSet::new(), false);
    for name in names {
        has_embeddings |= name == "token_embd.weight";
        let part = name.strip_prefix("enc.").or_else(|| name.strip_prefix("dec.")).unwrap_or(name);
        let number = part.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
        found.extend(number.and_then(|number| number.parse::<u64>().ok()).filter(|&layer| layer < layers));
    }
    has_embeddings && found.len() as u64 == layers
}

fn check(attributes: &[(Value, Value)]) -> Result<()> {
    if has_text(attributes, ARCHITECTURE) {
        return Ok(());
    }
    let message = format!("the metadata has no {ARCHITECTURE:?}, and llama.cpp reads no such GGUF file");
    Err(Error::new(Code::InvalidArg, message))
}

/// Parts of names of matrices that are float32 in each model.
const ALWAYS: [&str; 17] = [
    "ffn_gate_inp.weight",
    "ffn_gate_inp_shexp.weight",
    "position_embd.weight",
    "token_types.weight",
    "ssm_conv1d.weight",
    "ssm_conv1d_q.weight",
    "ssm_conv1d_k.weight",
    "ssm_conv1d_v.weight",
    "shortconv.conv.weight",
    "time_mix_first.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "altup_correct_coef.weight",
    "altup_predict_coef.weight",
];

/// Returns whether a tensor of a model is float32: ggml has no kernels for other types of norms, biases, routers, and whatever has one axis.
/// Other names than those of llama.cpp say nothing.
fn is_float32(name: &str, shape: &[u64]) -> bool {
    let last = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).map_or(name, |(_, last)| last);
    let part = [".bias", ".scale", "_norm.weight"].iter().any(|ending| name.ends_with(ending));
    shape.len() <= 1 || part || ALWAYS.contains(&last)
}

/// Returns whether a tensor that is made from a checkpoint is float32: also if its name is not that of weights.
pub fn is_float32_weight(name: &str, shape: &[u64]) -> bool {
    is_float32(name, shape) || !name.ends_with(".weight")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_biases_and_routers_are_float32() {
        for name in [
            "blk.1.attn_norm.weight",
            "blk.0.attn_q.bias",
            "blk.0.ffn_gate_inp.weight",
            "blk.0.ffn_gate_exps.bias",
            "blk.0.ffn_down_exps.scale",
            "token_types.weight",
            "blk.3.ssm_conv1d.weight",
        ] {
            assert!(is_float32(name, &[2, 3]) && is_float32_weight(name, &[2, 3]), "{name}");
        }
        assert!(is_float32("blk.0.attn_q.weight", &[8]) && is_float32("rope_freqs.weight", &[8]));
        for name in
            ["blk.0.attn_q.weight", "blk.0.ffn_gate_exps.weight", "output.weight", "token_embd.weight"]
        {
            assert!(!is_float32(name, &[2, 3]) && !is_float32_weight(name, &[2, 3]), "{name}");
        }
        assert!(!is_float32("wte", &[2, 3]) && is_float32_weight("wte", &[2, 3]));
    }

    #[test]
    fn a_model_needs_an_architecture_a_tokenizer_and_all_layers() {
        let text = |key: &str, value: &str| (Value::from(key), Value::from(value));
        let typed = Value::Map(vec![text("type", "string"), text("value", "llama")]);
        for architecture in [Value::from("llama"), typed] {
            let attributes = [(Value::from(ARCHITECTURE), architecture.clone())];
            assert!(check(&attributes).is_ok());
            let names: Vec<Cow<'_, str>> =
                ["token_embd.weight", "blk.0.attn_q.weight", "blk.1.attn_q.weight"].map(Cow::from).into();
            assert!(!(RULES.is_read_by)(LLAMA_CPP, &attributes, &names));
            assert!((RULES.is_read_by)("gguf for Python", &attributes, &[]));
            let model = |layers: Value, tokens: Value| {
                vec![
                    (Value::from(ARCHITECTURE), architecture.clone()),
                    (Value::from("llama.block_count"), layers),
                    text(TOKENIZER, "gpt2"),
                    (Value::from(TOKENS), tokens),
                ]
            };
            let tokens = Value::Array(vec!["a".into()]);
            let whole = model(2.into(), tokens.clone());
            assert!((RULES.is_read_by)(LLAMA_CPP, &whole, &names));
            for part in [&names[1..], &names[..2]] {
                assert!(!(RULES.is_read_by)(LLAMA_CPP, &whole, part));
            }
            for other in
                [model(3.into(), tokens.clone()), model("2".into(), tokens), model(2.into(), "[]".into())]
            {
                assert!(!(RULES.is_read_by)(LLAMA_CPP, &other, &names));
            }
        }
        for attributes in [vec![], vec![text(ARCHITECTURE, "")], vec![text(TOKENIZER, "gpt2")]] {
            assert_eq!(check(&attributes).map_err(|error| error.code()), Err(Code::InvalidArg));
        }
    }
}
