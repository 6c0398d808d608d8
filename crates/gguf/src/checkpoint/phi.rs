//! Phi 3 and 4, and their mixture of experts.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use super::config::Assumed::{Number, Same};
use super::config::{Defaults, HEADS, KEY_HEADS, LAYERS};
use super::decoder::{ATTENTION, COMPUTED, EDGES, FEED_FORWARD_NORM, MEDIA};
use super::plan::{Architecture, Model};
use super::rope::{MAX, THETA, too_large};
use super::row::{Parameter, Row, needed, needed_float, rows, uint};

const FUSED: &[Row] = rows! {
    "model.layers.{}.self_attn.qkv_proj" => "blk.{}.attn_qkv";
    "model.layers.{}.self_attn.o_proj" => "blk.{}.attn_output";
    "model.layers.{}.mlp.gate_up_proj" => "blk.{}.ffn_up";
    "model.layers.{}.mlp.down_proj" => "blk.{}.ffn_down";
};

const EXPERTS: &[Row] = rows! {
    "model.layers.{}.block_sparse_moe.gate" => "blk.{}.ffn_gate_inp";
    "model.layers.{}.block_sparse_moe.experts.{}.w1" => "blk.{}.ffn_gate_exps";
    "model.layers.{}.block_sparse_moe.experts.{}.w2" => "blk.{}.ffn_down_exps";
    "model.layers.{}.block_sparse_moe.experts.{}.w3" => "blk.{}.ffn_up_exps";
};

const CONTEXT: &[Parameter] = &[needed("context_length", &["n_positions", "max_position_embeddings"])];

const SIZES: &[Parameter] = &[
    needed("embedding_length", &["hidden_size", "n_embd"]),
    needed("feed_forward_length", &["intermediate_size"]),
    needed("block_count", LAYERS),
    needed("attention.head_count", HEADS),
    needed("attention.head_count_kv", KEY_HEADS),
    needed_float("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
];

const EXPERT_COUNTS: &[Parameter] = &[
    uint("expert_used_count", &["num_experts_per_tok", "num_experts_per_token"]),
    uint("expert_count", &["num_local_experts", "num_experts"]),
];

const PHI3: Defaults = &[
    ("max_position_embeddings", Number(4096.0)),
    ("original_max_position_embeddings", Number(4096.0)),
    ("num_key_value_heads", Same("num_attention_heads")),
    ("rms_norm_eps", Number(1e-5)),
    ("vocab_size", Number(32_064.0)),
    THETA,
];

const PHI_MOE: Defaults = &[
    ("max_position_embeddings", Number(131_072.0)),
    ("num_key_value_heads", Number(8.0)),
    ("rms_norm_eps", Number(1e-5)),
    ("num_local_experts", Number(16.0)),
    ("num_experts_per_tok", Number(2.0)),
    ("vocab_size", Number(32_064.0)),
    ("rope_theta", Number(1_000_000.0)),
];

pub const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &["Phi3ForCausalLM"],
        name: "phi3",
        defaults: PHI3,
        parameters: &[],
        tensors: &[EDGES, FUSED, FEED_FORWARD_NORM],
        left_out: &[COMPUTED, MEDIA],
        derived,
        tokenizer,
    },
    Architecture {
        classes: &["PhiMoEForCausalLM"],
        name: "phimoe",
        defaults: PHI_MOE,
        parameters: &[],
        tensors: &[EDGES, ATTENTION, FEED_FORWARD_NORM, EXPERTS],
        left_out: &[COMPUTED, MEDIA],
        derived: |model| {
            derived(model)?;
            model.metadata.parameters(&model.config, EXPERT_COUNTS)
        },
        tokenizer,
    },
];

fn derived(model: &mut Model<'_>) -> Result<()> {
    let heads = model.config.needed(HEADS)?;
    let width = model.config.needed(&["hidden_size", "n_embd"])?;
    // At most `u32`, since the part is at most one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rotated = (model.rope.partial()?.unwrap_or(1.0).clamp(0.0, 1.0) * f64::from(width)) as u32;
    model.config.head_size()?;
    let size = rotated.checked_div(heads).unwrap_or_default();
    if size > MAX {
        return Err(too_large(size));
    }
    let context = model.config.needed(&["n_positions", "max_position_embeddings"])?;
    let original = match model.rope.original()? {
        Some(original) => original,
        None => model.config.needed(&["original_max_position_embeddings"])?,
    };
    let long = model.rope.factors("long_factor", size)?;
    let short = model.rope.factors("short_factor", size)?;
    if let Some(long) = long {
        let short = short.ok_or_else(|| {
            Error::new(Code::BadIndex, "'config.json' has \"long_factor\" without \"short_factor\"")
        })?;
        let attention = attention(model.rope.kind()?, f64::from(context), f64::from(original))?;
        model.metadata.own_float("rope.scaling.attn_factor", attention);
        model.compute("rope_factors_long.weight", long);
        model.compute("rope_factors_short.weight", short);
    }
    model.metadata.parameters(&model.config, CONTEXT)?;
    model.metadata.own("rope.scaling.original_context_length", original);
    model.metadata.parameters(&model.config, SIZES)?;
    model.metadata.own("rope.dimension_count", size);
    if let Some(theta) = model.rope.theta()? {
        model.metadata.own_float("rope.freq_base", theta);
    }
    // llama.cpp recognizes Phi 4 by zero.
    let window = model.config.uint(&["sliding_window"])?.unwrap_or_default();
    model.metadata.own("attention.sliding_window", window);
    Ok(())
}

/// Returns what attention is multiplied by where the context is longer than in training.
fn attention(kind: Option<&str>, context: f64, original: f64) -> Result<f64> {
    let scale = context / original;
    match kind.map(str::to_ascii_lowercase).as_deref() {
        Some("su" | "longrope") if scale > 1.0 => Ok((1.0 + scale.ln() / original.ln()).sqrt()),
        Some("yarn") if scale > 1.0 => Ok(0.1 * scale.ln() + 1.0),
        Some("su" | "longrope" | "yarn") => Ok(1.0),
        kind => {
            let message = format!("the rotary embedding is scaled by {kind:?}, not \"longrope\" or \"yarn\"");
            Err(Error::new(Code::UnsupportedEncoding, message))
        }
    }
}

fn tokenizer(model: &mut Model<'_>) -> Result<()> {
    let settings = model.json("tokenizer_config.json")?;
    let class = settings.as_ref().and_then(|settings| settings.root().get("tokenizer_class"));
    if class.is_some_and(|class| class.if_text() == Some("GPT2Tokenizer")) {
        return model.byte_pairs();
    }
    if model.phi_pieces()? {
        return Ok(());
    }
    let message =
        "the folder of the weights has no 'tokenizer.model', which this architecture needs; add the file";
    Err(Error::new(Code::NotFound, message))
}
