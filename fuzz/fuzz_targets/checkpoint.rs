//! The files next to the weights of a checkpoint: its configuration, and those of each kind of tokenizer. The input is one of them, as bytes or
//! as a valid one whose JSON is mutated.
#![no_main]

use std::collections::HashSet;

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::DType;
use ztensor_gguf::checkpoint::{Content, Files, MetadataOverrides, Tensor, plan};

const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2,
    "num_hidden_layers": 1, "vocab_size": 264, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}, "quantization_config": {"quant_method": "fp8",
    "weight_block_size": [4, 4]}}"#;
const XLM: &str = r#"{"architectures": ["XLMRobertaModel"], "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2,
    "num_hidden_layers": 1, "vocab_size": 8, "max_position_embeddings": 10, "pad_token_id": 1}"#;
const PAIRS: &str = r#"{"added_tokens": [{"id": 3, "content": "<|end|>", "special": true}], "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}}, {"Sequence": {"id": "A"}}],
    "pair": []}, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b", ["a", "b"]]}}"#;
const UNIGRAMS: &str = r#"{"added_tokens": [{"id": 0, "content": "<s>", "special": true}],
    "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
    "model": {"type": "Unigram", "unk_id": 3, "vocab": [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0], ["<unk>", 0.0], ["a", -1.5]]}}"#;
const SETTINGS: &str = r#"{"tokenizer_class": "Qwen2Tokenizer", "bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": true,
    "chat_template": [{"name": "default", "template": "x"}, {"name": "tool use", "template": "y"}],
    "added_tokens_decoder": {"3": {"content": "<|end|>", "special": true}}, "additional_special_tokens": ["<x>"]}"#;
const TEKKEN: &str = r#"{"config": {"version": "v7", "default_vocab_size": 264, "default_num_special_tokens": 22},
    "vocab": [{"rank": 0, "token_bytes": "AA==", "token_str": null}], "special_tokens": [{"rank": 0, "token_str": "<unk>"}]}"#;
const VOCABULARY: &str = r#"{"a": 0, "b": 1, "ab": 2}"#;
const MERGES: &str = "#version: 0.2\na b\n";

/// Folders of checkpoints: files and their contents. The first is the configuration.
const FOLDERS: &[&[(&str, &str)]] = &[
    &[("config.json", LLAMA), ("tokenizer.json", PAIRS), ("tokenizer_config.json", SETTINGS)],
    &[
        ("config.json", LLAMA),
        ("vocab.json", VOCABULARY),
        ("merges.txt", MERGES),
        ("tokenizer_config.json", SETTINGS),
        ("added_tokens.json", r#"{"<|end|>": 3}"#),
    ],
    &[
        ("config.json", LLAMA),
        ("tekken.json", TEKKEN),
        ("additional_chat_templates/tools.jinja", "{{ messages }}"),
    ],
    &[("config.json", LLAMA), ("tokenizer.model", ""), ("generation_config.json", r#"{"temperature": 0.5}"#)],
    &[
        ("config.json", XLM),
        ("tokenizer.json", UNIGRAMS),
        ("tokenizer_config.json", SETTINGS),
        ("modules.json", r#"[{"type": "x.Pooling", "path": "1_Pooling"}]"#),
        ("1_Pooling/config.json", r#"{"pooling_mode_mean_tokens": true}"#),
    ],
    &[("config.json", XLM), ("sentencepiece.bpe.model", "")],
];

struct Folder<'f> {
    files: &'f [(&'f str, &'f str)],
    changed: &'f str,
    bytes: &'f [u8],
}

impl Files for Folder<'_> {
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>> {
        let bytes = if path == self.changed {
            self.bytes
        } else {
            let Some((_, text)) = self.files.iter().find(|(name, _)| *name == path) else { return Ok(None) };
            text.as_bytes()
        };
        if bytes.len() as u64 > max {
            return Err(Error::new(Code::Limit, "too large"));
        }
        Ok(Some(bytes.to_vec()))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut names: Vec<_> = self
            .files
            .iter()
            .filter_map(|(name, _)| name.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }

    fn name(&self) -> &str {
        "model"
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&[folder, file], rest)) = input.split_first_chunk() else { return };
    let files = FOLDERS[usize::from(folder) % FOLDERS.len()];
    let (changed, text) = files[usize::from(file) % files.len()];
    check(&Folder { files, changed, bytes: rest });
    if let Ok(root) = serde_json::from_str::<serde_json::Value>(text)
        && let Ok(root) = ztensor_fuzz::mutate::json(&root, &mut Unstructured::new(rest))
    {
        check(&Folder { files, changed, bytes: &serde_json::to_vec(&root).expect("memory") });
    }
});

const TENSORS: &[(&str, &[u64], DType)] = &[
    ("model.embed_tokens.weight", &[264, 8], DType::BFloat16),
    ("model.layers.0.self_attn.q_proj.weight", &[8, 8], DType::Float8E4M3Fn),
    ("model.layers.0.self_attn.q_proj.weight_scale_inv", &[2, 2], DType::Float32),
    ("model.norm.weight", &[8], DType::Float32),
];
const EMBEDDING: &[(&str, &[u64], DType)] = &[
    ("embeddings.word_embeddings.weight", &[8, 8], DType::Float32),
    ("embeddings.position_embeddings.weight", &[10, 8], DType::Float32),
];

fn check(folder: &Folder<'_>) {
    let rows = if folder.files[0].1 == XLM { EMBEDDING } else { TENSORS };
    let tensors: Vec<Tensor<'_>> = rows
        .iter()
        .zip(0..)
        .map(|(&(name, shape, dtype), position)| Tensor { name, shape, dtype, position })
        .collect();
    let plan = match plan(folder, &MetadataOverrides::default(), &tensors) {
        Ok(plan) => plan,
        Err(error) => {
            assert_ne!(error.code(), Code::Internal, "{error}");
            return;
        }
    };
    let mut names = HashSet::new();
    for planned in &plan.tensors {
        assert!(names.insert(&planned.name), "{:?} occurs twice", planned.name);
        let Content::Pieces(pieces) = &planned.content else { continue };
        let mut made = 0;
        for piece in pieces {
            let held = product(rows[piece.source].1).expect("small");
            piece
                .view
                .runs(|start| {
                    assert!(start + piece.view.run() <= held, "{planned:?}");
                    Ok(())
                })
                .expect("runs");
            made += piece.view.elements();
        }
        assert_eq!(Some(made), product(&planned.shape), "{planned:?}");
    }
    let keys: HashSet<&String> = plan.metadata.iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), plan.metadata.len(), "a key occurs twice");
}
