//! BERT, XLM-RoBERTa and nomic-embed, for embeddings.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use super::config::Assumed::Number;
use super::config::Defaults;
use super::decoder::{HEAD_SIZES, MORE_PARAMETERS, PARAMETERS};
use super::plan::{Architecture, Model};
use super::row::{Change, Ignored, Match, Row, rows};

const HEAD: &str = "part of a head that embeddings do not use";

const LEFT_OUT: &[Ignored] = &[
    Ignored { name: Match::Is("embeddings.position_ids"), reason: "computed when the model runs" },
    Ignored { name: Match::Starts("pooler.dense."), reason: HEAD },
    Ignored { name: Match::Starts("cls.predictions"), reason: HEAD },
    Ignored { name: Match::Starts("cls.seq_relationship"), reason: HEAD },
];

const BERT: &[Row] = rows! {
    "embeddings.word_embeddings" => "token_embd";
    "embeddings.token_type_embeddings" => "token_types";
    "embeddings.LayerNorm" => "token_embd_norm";
    "encoder.layer.{}.attention.self.query" => "blk.{}.attn_q";
    "encoder.layer.{}.attention.self.key" => "blk.{}.attn_k";
    "encoder.layer.{}.attention.self.value" => "blk.{}.attn_v";
    "encoder.layer.{}.attention.output.dense" => "blk.{}.attn_output";
    "encoder.layer.{}.attention.output.LayerNorm" => "blk.{}.attn_output_norm";
    "encoder.layer.{}.intermediate.dense" => "blk.{}.ffn_up";
    "encoder.layer.{}.output.dense" => "blk.{}.ffn_down";
    "encoder.layer.{}.output.LayerNorm" => "blk.{}.layer_output_norm";
};

const POSITIONS: &[Row] = rows! { "embeddings.position_embeddings" => "position_embd"; };
const XLM_POSITIONS: &[Row] =
    rows! { "embeddings.position_embeddings" => "position_embd": Change::Positions; };

const NOMIC: &[Row] = rows! {
    "embeddings.word_embeddings" => "token_embd";
    "embeddings.token_type_embeddings" => "token_types";
    "emb_ln" => "token_embd_norm";
    "encoder.layers.{}.attn.Wqkv" => "blk.{}.attn_qkv";
    "encoder.layers.{}.attn.out_proj" => "blk.{}.attn_output";
    "encoder.layers.{}.norm1" => "blk.{}.attn_output_norm";
    "encoder.layers.{}.mlp.fc11" => "blk.{}.ffn_up";
    "encoder.layers.{}.mlp.fc12" => "blk.{}.ffn_gate";
    "encoder.layers.{}.mlp.fc2" => "blk.{}.ffn_down";
    "encoder.layers.{}.norm2" => "blk.{}.layer_output_norm";
};

const DEFAULTS: Defaults = &[
    ("max_position_embeddings", Number(512.0)),
    ("layer_norm_eps", Number(1e-12)),
    ("type_vocab_size", Number(2.0)),
    ("vocab_size", Number(30_522.0)),
];

const XLM_DEFAULTS: Defaults = &[
    ("max_position_embeddings", Number(512.0)),
    ("layer_norm_eps", Number(1e-12)),
    ("type_vocab_size", Number(2.0)),
    ("vocab_size", Number(30_522.0)),
    ("pad_token_id", Number(1.0)),
];

const NOMIC_DEFAULTS: Defaults = &[("type_vocab_size", Number(2.0))];

pub const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &["BertModel", "BertForMaskedLM"],
        name: "bert",
        defaults: DEFAULTS,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
        tensors: &[POSITIONS, BERT],
        left_out: &[LEFT_OUT],
        derived: encoder,
        tokenizer,
    },
    Architecture {
        classes: &["XLMRobertaModel"],
        name: "bert",
        defaults: XLM_DEFAULTS,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
        tensors: &[XLM_POSITIONS, BERT],
        left_out: &[LEFT_OUT],
        derived: xlm_roberta,
        tokenizer: |model| model.unigrams(),
    },
    Architecture {
        classes: &["NomicBertModel"],
        name: "nomic-bert",
        defaults: NOMIC_DEFAULTS,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
        tensors: &[NOMIC],
        left_out: &[LEFT_OUT],
        derived: nomic,
        tokenizer,
    },
];

fn encoder(model: &mut Model<'_>) -> Result<()> {
    model.metadata.own("attention.causal", false);
    model.pooling()
}

/// Positions begin after the number of the padding token.
fn xlm_roberta(model: &mut Model<'_>) -> Result<()> {
    if model.config.value(&["lora_adaptations"]).is_some_and(|node| node.is_truthy()) {
        return Err(unsupported("lora_adaptations"));
    }
    let positions = model.config.needed(&["max_position_embeddings"])?;
    model.metadata.own("context_length", positions.saturating_sub(model.first_position()?));
    encoder(model)
}

/// The settings that llama.cpp implements, and no others.
fn nomic(model: &mut Model<'_>) -> Result<()> {
    let config = &model.config;
    let wanted = [
        ("activation_function", "swiglu"),
        ("causal", "false"),
        ("qkv_proj_bias", "false"),
        ("mlp_fc1_bias", "false"),
        ("mlp_fc2_bias", "false"),
        ("prenorm", "false"),
        ("rotary_emb_interleaved", "false"),
    ];
    for (key, value) in wanted {
        let Some(node) = config.value(&[key]) else { continue };
        let same = match value {
            "false" => !node.flag()?,
            text => node.text()? == text,
        };
        if !same {
            return Err(unsupported(key));
        }
    }
    if config.float(&["rotary_emb_fraction"])?.is_some_and(|part| part < 1.0) {
        return Err(unsupported("rotary_emb_fraction"));
    }
    for key in ["moe_every_n_layers", "rotary_emb_scale_base"] {
        if config.value(&[key]).is_some_and(|node| node.is_truthy()) {
            return Err(unsupported(key));
        }
    }
    // The model was trained for 2048 tokens; 8192 are an extrapolation that llama.cpp does otherwise.
    let trained = config.uint(&["max_trained_positions"])?.unwrap_or(2048);
    let positions = config.needed(&["n_positions"])?;
    model.metadata.own("context_length", positions.min(trained));
    encoder(model)
}

fn unsupported(key: &str) -> Error {
    let message = format!("'config.json' has a value of {key:?} that llama.cpp does not implement");
    Error::new(Code::UnsupportedEncoding, message)
}

fn tokenizer(model: &mut Model<'_>) -> Result<()> {
    let types = model.config.uint(&["type_vocab_size"])?.unwrap_or(1);
    model.metadata.set("tokenizer.ggml.token_type_count", types);
    model.word_pieces()
}
