//! gpt-oss, with experts in MXFP4 as published or in a wider type.
#![forbid(unsafe_code)]

use super::config::Assumed::Number;
use super::config::Defaults;
use super::decoder::{ATTENTION, COMPUTED, EDGES, HEAD_SIZES, MEDIA, MORE_PARAMETERS, PARAMETERS};
use super::plan::Architecture;
use super::row::{Change, Parameter, Row, needed, rows};

const TENSORS: &[Row] = rows! {
    "model.layers.{}.post_attention_layernorm" => "blk.{}.post_attention_norm";
    "model.layers.{}.self_attn.sinks" => "blk.{}.attn_sinks.weight";
    "model.layers.{}.mlp.router" => "blk.{}.ffn_gate_inp";
    "model.layers.{}.mlp.experts.down_proj" => "blk.{}.ffn_down_exps.weight": Change::Transpose;
    "model.layers.{}.mlp.experts.down_proj_bias" => "blk.{}.ffn_down_exps.bias";
    "model.layers.{}.mlp.experts.down_proj_blocks" => "blk.{}.ffn_down_exps.weight": Change::Blocks(None);
    "model.layers.{}.mlp.experts.down_proj_scales" => "blk.{}.ffn_down_exps.weight": Change::Scales;
    "model.layers.{}.mlp.experts.gate_up_proj" =>
        "blk.{}.ffn_gate_exps.weight": Change::TransposeEverySecond(0),
        "blk.{}.ffn_up_exps.weight": Change::TransposeEverySecond(1);
    "model.layers.{}.mlp.experts.gate_up_proj_bias" =>
        "blk.{}.ffn_gate_exps.bias": Change::EverySecond(0),
        "blk.{}.ffn_up_exps.bias": Change::EverySecond(1);
    "model.layers.{}.mlp.experts.gate_up_proj_blocks" =>
        "blk.{}.ffn_gate_exps.weight": Change::Blocks(Some(0)),
        "blk.{}.ffn_up_exps.weight": Change::Blocks(Some(1));
    "model.layers.{}.mlp.experts.gate_up_proj_scales" =>
        "blk.{}.ffn_gate_exps.weight": Change::Scales,
        "blk.{}.ffn_up_exps.weight": Change::Scales;
};

const LAST: &[Parameter] = &[
    needed("attention.sliding_window", &["sliding_window"]),
    needed("expert_feed_forward_length", &["intermediate_size"]),
];

const DEFAULTS: Defaults = &[
    ("max_position_embeddings", Number(131_072.0)),
    ("hidden_size", Number(2880.0)),
    ("intermediate_size", Number(2880.0)),
    ("num_hidden_layers", Number(36.0)),
    ("num_attention_heads", Number(64.0)),
    ("num_key_value_heads", Number(8.0)),
    ("rms_norm_eps", Number(1e-5)),
    ("head_dim", Number(64.0)),
    ("num_local_experts", Number(128.0)),
    ("num_experts_per_tok", Number(4.0)),
    ("sliding_window", Number(128.0)),
    ("vocab_size", Number(201_088.0)),
    ("rope_theta", Number(150_000.0)),
];

pub const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &["GptOssForCausalLM"],
    name: "gpt-oss",
    defaults: DEFAULTS,
    parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES, LAST],
    tensors: &[EDGES, ATTENTION, TENSORS],
    left_out: &[COMPUTED, MEDIA],
    derived: |_| Ok(()),
    tokenizer: |model| model.byte_pairs(),
}];
