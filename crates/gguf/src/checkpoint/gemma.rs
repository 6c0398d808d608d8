//! Gemma 2 to 4, the parts for text.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use super::config::Assumed::{Flag, Number};
use super::config::{Config, Defaults, HEADS, KEY_HEADS, LAYERS};
use super::decoder::{
    ATTENTION, COMPUTED, FEED_FORWARD, HEAD_NORMS, HEAD_SIZES, MEDIA, MORE_PARAMETERS, PARAMETERS,
};
use super::json::Node;
use super::plan::{Architecture, Model};
use super::rope::{MAX, THETA, too_large};
use super::row::{Change, Ignored, Match, Parameter, Row, needed, needed_float, rows, uint};
use crate::value::{Array, Value};

const NORMS: &[Row] = rows! {
    "model.norm" => "output_norm": Change::AddOne;
    "model.layers.{}.input_layernorm" => "blk.{}.attn_norm": Change::AddOne;
    "model.layers.{}.post_attention_layernorm" => "blk.{}.post_attention_norm": Change::AddOne;
    "model.layers.{}.pre_feedforward_layernorm" => "blk.{}.ffn_norm": Change::AddOne;
    "model.layers.{}.post_feedforward_layernorm" => "blk.{}.post_ffw_norm": Change::AddOne;
    "model.layers.{}.self_attn.q_norm" => "blk.{}.attn_q_norm": Change::AddOne;
    "model.layers.{}.self_attn.k_norm" => "blk.{}.attn_k_norm": Change::AddOne;
};

const GEMMA2_EDGES: &[Row] = rows! {
    "model.embed_tokens" => "token_embd";
};

const GEMMA3_EDGES: &[Row] = rows! {
    "model.embed_tokens" => "token_embd": Change::Vocabulary;
    "lm_head" => "output";
};

/// Norms of Gemma 4 multiply by the weight itself.
const GEMMA4: &[Row] = rows! {
    "model.embed_tokens" => "token_embd": Change::Vocabulary;
    "lm_head" => "output";
    "model.norm" => "output_norm";
    "model.embed_tokens_per_layer" => "per_layer_token_embd": Change::Vocabulary;
    "model.per_layer_model_projection" => "per_layer_model_proj";
    "model.per_layer_projection_norm" => "per_layer_proj_norm";
    "model.layers.{}.input_layernorm" => "blk.{}.attn_norm";
    "model.layers.{}.post_attention_layernorm" => "blk.{}.post_attention_norm";
    "model.layers.{}.pre_feedforward_layernorm" => "blk.{}.ffn_norm";
    "model.layers.{}.pre_feedforward_layernorm_2" => "blk.{}.pre_ffw_norm_2";
    "model.layers.{}.post_feedforward_layernorm" => "blk.{}.post_ffw_norm";
    "model.layers.{}.post_feedforward_layernorm_1" => "blk.{}.post_ffw_norm_1";
    "model.layers.{}.post_feedforward_layernorm_2" => "blk.{}.post_ffw_norm_2";
    "model.layers.{}.layer_scalar" => "blk.{}.layer_output_scale.weight";
    "model.layers.{}.per_layer_input_gate" => "blk.{}.inp_gate";
    "model.layers.{}.per_layer_projection" => "blk.{}.proj";
    "model.layers.{}.post_per_layer_input_norm" => "blk.{}.post_norm";
    "model.layers.{}.router.proj" => "blk.{}.ffn_gate_inp";
    "model.layers.{}.router.scale" => "blk.{}.ffn_gate_inp.scale";
    "model.layers.{}.router.per_expert_scale" => "blk.{}.ffn_down_exps.scale";
    "model.layers.{}.experts.gate_up_proj" => "blk.{}.ffn_gate_up_exps.weight";
    "model.layers.{}.experts.down_proj" => "blk.{}.ffn_down_exps.weight";
};

const TIED: &[Ignored] =
    &[Ignored { name: Match::Is("lm_head.weight"), reason: "the same as the embeddings of tokens" }];

const GEMMA2_PARAMETERS: &[Parameter] = &[
    needed("context_length", &["max_position_embeddings"]),
    needed("embedding_length", &["hidden_size"]),
    needed("block_count", LAYERS),
    needed("feed_forward_length", &["intermediate_size"]),
    needed("attention.head_count", HEADS),
    needed("attention.head_count_kv", KEY_HEADS),
    needed_float("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    needed("attention.key_length", &["head_dim"]),
    needed("attention.value_length", &["head_dim"]),
    needed_float("attn_logit_softcapping", &["attn_logit_softcapping"]),
    needed_float("final_logit_softcapping", &["final_logit_softcapping"]),
    needed("attention.sliding_window", &["sliding_window"]),
];

const GEMMA2: Defaults = &[
    ("max_position_embeddings", Number(8192.0)),
    ("num_attention_heads", Number(8.0)),
    ("num_key_value_heads", Number(4.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("head_dim", Number(256.0)),
    ("attn_logit_softcapping", Number(50.0)),
    ("final_logit_softcapping", Number(30.0)),
    ("sliding_window", Number(4096.0)),
    ("vocab_size", Number(256_000.0)),
    THETA,
];

const GEMMA3: Defaults = &[
    ("max_position_embeddings", Number(131_072.0)),
    ("hidden_size", Number(2304.0)),
    ("intermediate_size", Number(9216.0)),
    ("num_hidden_layers", Number(26.0)),
    ("num_attention_heads", Number(8.0)),
    ("num_key_value_heads", Number(4.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("head_dim", Number(256.0)),
    ("sliding_window", Number(4096.0)),
    ("vocab_size", Number(262_208.0)),
    ("rope_theta", Number(1_000_000.0)),
    ("rope_local_base_freq", Number(10_000.0)),
];

const GEMMA4_DEFAULTS: Defaults = &[
    ("max_position_embeddings", Number(131_072.0)),
    ("hidden_size", Number(2304.0)),
    ("intermediate_size", Number(9216.0)),
    ("num_hidden_layers", Number(30.0)),
    ("num_attention_heads", Number(8.0)),
    ("num_key_value_heads", Number(4.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("head_dim", Number(256.0)),
    ("global_head_dim", Number(512.0)),
    ("sliding_window", Number(512.0)),
    ("vocab_size", Number(262_144.0)),
    ("num_kv_shared_layers", Number(0.0)),
    ("hidden_size_per_layer_input", Number(256.0)),
    ("use_double_wide_mlp", Flag(false)),
    ("rope_theta", Number(1_000_000.0)),
    ("rope_local_base_freq", Number(10_000.0)),
];

const WINDOW: &[Parameter] = &[uint("attention.sliding_window", &["sliding_window"])];

pub const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &["Gemma2ForCausalLM"],
        name: "gemma2",
        defaults: GEMMA2,
        parameters: &[GEMMA2_PARAMETERS],
        tensors: &[GEMMA2_EDGES, NORMS, ATTENTION, FEED_FORWARD],
        left_out: &[TIED, COMPUTED],
        derived: |_| Ok(()),
        tokenizer: pieces,
    },
    Architecture {
        classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
        name: "gemma3",
        defaults: GEMMA3,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
        tensors: &[GEMMA3_EDGES, NORMS, ATTENTION, FEED_FORWARD],
        left_out: &[COMPUTED, MEDIA],
        derived: sliding,
        tokenizer: pieces,
    },
    Architecture {
        classes: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"],
        name: "gemma4",
        defaults: GEMMA4_DEFAULTS,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
        tensors: &[GEMMA4, ATTENTION, HEAD_NORMS, FEED_FORWARD],
        left_out: &[COMPUTED, MEDIA],
        derived: gemma4,
        tokenizer: gemma4_tokenizer,
    },
];

fn pieces(model: &mut Model<'_>) -> Result<()> {
    if !model.sentence_pieces()? && !model.pieces_as_pairs()? {
        let message = "the folder of the weights has neither 'tokenizer.model' nor a 'tokenizer.json' of its pieces, which this architecture \
                       needs; add the file";
        return Err(Error::new(Code::NotFound, message));
    }
    model.metadata.set("tokenizer.ggml.add_space_prefix", false);
    Ok(())
}

fn sliding(model: &mut Model<'_>) -> Result<()> {
    if let Some(cap) = model.config.value(&["final_logit_softcapping"]).filter(Node::is_truthy) {
        let cap = cap.float()?;
        model.metadata.own_float("final_logit_softcapping", cap);
    }
    if model.config.uint(&["sliding_window_pattern"])? != Some(1) {
        model.metadata.parameters(&model.config, WINDOW)?;
    }
    Ok(())
}

/// Returns whether each layer attends to a window only.
fn windows(config: &Config<'_>, layers: u32) -> Result<Vec<bool>> {
    let Some(kinds) = config.value(&["layer_types"]) else {
        // transformers makes each sixth layer, and the last one, attend to everything.
        return Ok((1..=layers).map(|layer| layer % 6 != 0 && layer != layers).collect());
    };
    kinds.items()?.map(|kind| kind.text().map(|kind| kind == "sliding_attention")).collect()
}

/// Returns a value of the layers that attend to everything: of all of them, or of the first one in `per_layer_config`.
fn of_full(config: &Config<'_>, all: &[&str], key: &str, windows: &[bool]) -> Result<Option<u32>> {
    if let Some(node) = config.value(all) {
        return node.uint().map(Some);
    }
    if let Some(layers) = config.value(&["per_layer_config"]) {
        for (layer, settings) in layers.entries()? {
            let is_full = layer.parse::<usize>().ok().and_then(|layer| windows.get(layer)) == Some(&false);
            if let (true, Some(node)) = (is_full, settings.set(key)) {
                return node.uint().map(Some);
            }
        }
    }
    config.uint(all)
}

fn gemma4(model: &mut Model<'_>) -> Result<()> {
    sliding(model)?;
    let config = &model.config;
    let windows = windows(config, model.layers)?;
    let shared = config.uint(&["num_kv_shared_layers"])?.unwrap_or_default();
    let per_layer = config.uint(&["hidden_size_per_layer_input"])?.unwrap_or_default();
    let full = of_full(config, &["global_head_dim"], "head_dim", &windows)?.unwrap_or_default();
    let window = config.needed(&["head_dim"])?;
    let metadata = &mut model.metadata;
    metadata.own("attention.shared_kv_layers", shared);
    metadata.own("embedding_length_per_layer_input", per_layer);
    metadata.own("attention.sliding_window_pattern", windows.clone());
    metadata.own("attention.key_length", full);
    metadata.own("attention.value_length", full);
    metadata.own("attention.key_length_swa", window);
    metadata.own("attention.value_length_swa", window);
    if let Some(size) = config.uint(&["expert_intermediate_size", "moe_intermediate_size"])? {
        metadata.own("expert_feed_forward_length", size);
    }
    if config.flag("use_double_wide_mlp")? {
        let size = config.needed(&["intermediate_size"])?;
        let alone = model.layers.saturating_sub(shared);
        let sizes = (0..model.layers).map(|layer| if layer < alone { size } else { size.saturating_mul(2) });
        metadata.own(
            "feed_forward_length",
            Value::Array(Array::Int32(sizes.map(signed).collect::<Result<_>>()?)),
        );
    }
    let full_heads = of_full(config, &["num_global_key_value_heads"], "num_key_value_heads", &windows)?;
    if let (Some(full), Some(window)) = (full_heads, config.uint(KEY_HEADS)?) {
        let heads = windows.iter().map(|&is_window| signed(if is_window { window } else { full }));
        metadata.own("attention.head_count_kv", Value::Array(Array::Int32(heads.collect::<Result<_>>()?)));
    }
    metadata.own("rope.dimension_count", full);
    metadata.own("rope.dimension_count_swa", window);
    // Of each full head, only the first pairs are rotated: the others are given a divisor that makes the angle zero.
    if full > MAX {
        return Err(too_large(full));
    }
    let part = model.rope.partial()?.unwrap_or(0.25).clamp(0.0, 1.0);
    // At most `MAX` / 2.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rotated = (f64::from(full) * part / 2.0) as u32;
    let divisors = (0..full / 2).map(|pair| if pair < rotated { 1.0 } else { 1e30 }).collect();
    model.compute("rope_freqs.weight", divisors);
    Ok(())
}

fn signed(size: u32) -> Result<i32> {
    let message = "'config.json' has a size of a layer that exceeds 2147483647";
    i32::try_from(size).map_err(|_| Error::new(Code::BadIndex, message))
}

fn gemma4_tokenizer(model: &mut Model<'_>) -> Result<()> {
    if !model.byte_fallback("gemma4")? {
        let message = "the folder of the weights has no 'tokenizer.json' with byte fallback, which this architecture needs; add the file";
        return Err(Error::new(Code::NotFound, message));
    }
    model.metadata.set("tokenizer.ggml.add_space_prefix", false);
    model.metadata.set("tokenizer.ggml.add_bos_token", true);
    Ok(())
}
