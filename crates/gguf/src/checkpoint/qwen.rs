//! Qwen 2 and 3, and their mixtures of experts.
#![forbid(unsafe_code)]

use ztensor_core::error::Result;

use super::config::Assumed::Number;
use super::config::Defaults;
use super::decoder::{
    ATTENTION, COMPUTED, EDGES, EXPERT_ROWS, FEED_FORWARD, FEED_FORWARD_NORM, HEAD_NORMS, HEAD_SIZES, MEDIA,
    MORE_PARAMETERS, PARAMETERS,
};
use super::plan::{Architecture, Model};
use super::rope::THETA;
use super::row::{Change, Parameter, Row, rows, uint};

/// Experts in one tensor, as transformers 5 has them in memory.
const FUSED_EXPERTS: &[Row] = rows! {
    "model.layers.{}.mlp.experts.gate_up_proj" =>
        "blk.{}.ffn_gate_exps.weight": Change::Half(0), "blk.{}.ffn_up_exps.weight": Change::Half(1);
    "model.layers.{}.mlp.experts.down_proj" => "blk.{}.ffn_down_exps.weight";
};

const SHARED_EXPERT: &[Row] = rows! {
    "model.layers.{}.mlp.shared_expert_gate" => "blk.{}.ffn_gate_inp_shexp";
    "model.layers.{}.mlp.shared_expert.gate_proj" => "blk.{}.ffn_gate_shexp";
    "model.layers.{}.mlp.shared_expert.up_proj" => "blk.{}.ffn_up_shexp";
    "model.layers.{}.mlp.shared_expert.down_proj" => "blk.{}.ffn_down_shexp";
};

const EXPERT_SIZES: &[Parameter] = &[
    uint("expert_feed_forward_length", &["moe_intermediate_size"]),
    uint("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
];

const DENSE: Defaults = &[
    ("max_position_embeddings", Number(32_768.0)),
    ("num_key_value_heads", Number(32.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("vocab_size", Number(151_936.0)),
    THETA,
];

const QWEN3: Defaults = &[
    ("max_position_embeddings", Number(32_768.0)),
    ("num_key_value_heads", Number(32.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("head_dim", Number(128.0)),
    ("vocab_size", Number(151_936.0)),
    THETA,
];

const QWEN2_MOE: Defaults = &[
    ("max_position_embeddings", Number(32_768.0)),
    ("num_key_value_heads", Number(16.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("num_experts", Number(60.0)),
    ("num_experts_per_tok", Number(4.0)),
    ("moe_intermediate_size", Number(1408.0)),
    ("shared_expert_intermediate_size", Number(5632.0)),
    ("vocab_size", Number(151_936.0)),
    THETA,
];

const QWEN3_MOE: Defaults = &[
    ("max_position_embeddings", Number(32_768.0)),
    ("num_key_value_heads", Number(4.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("num_experts", Number(128.0)),
    ("num_experts_per_tok", Number(8.0)),
    ("moe_intermediate_size", Number(768.0)),
    ("vocab_size", Number(151_936.0)),
    THETA,
];

pub const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &["Qwen2ForCausalLM", "Qwen2Model"],
        name: "qwen2",
        defaults: DENSE,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
        tensors: &[EDGES, ATTENTION, FEED_FORWARD_NORM, FEED_FORWARD],
        left_out: &[COMPUTED, MEDIA],
        derived: |model| model.pooling(),
        tokenizer,
    },
    Architecture {
        classes: &["Qwen3ForCausalLM", "Qwen3Model"],
        name: "qwen3",
        defaults: QWEN3,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
        tensors: &[EDGES, ATTENTION, HEAD_NORMS, FEED_FORWARD_NORM, FEED_FORWARD],
        left_out: &[COMPUTED, MEDIA],
        derived: |model| model.pooling().and_then(|()| model.reranker()),
        tokenizer,
    },
    Architecture {
        classes: &["Qwen2MoeForCausalLM"],
        name: "qwen2moe",
        defaults: QWEN2_MOE,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES, EXPERT_SIZES],
        tensors: &[EDGES, ATTENTION, FEED_FORWARD_NORM, EXPERT_ROWS, FUSED_EXPERTS, SHARED_EXPERT],
        left_out: &[COMPUTED, MEDIA],
        derived: |_| Ok(()),
        tokenizer: |model| model.byte_pairs(),
    },
    Architecture {
        classes: &["Qwen3MoeForCausalLM"],
        name: "qwen3moe",
        defaults: QWEN3_MOE,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES, EXPERT_SIZES],
        tensors: &[EDGES, ATTENTION, HEAD_NORMS, FEED_FORWARD_NORM, EXPERT_ROWS, FUSED_EXPERTS],
        left_out: &[COMPUTED, MEDIA],
        derived: |_| Ok(()),
        tokenizer: |model| model.byte_pairs(),
    },
];

fn tokenizer(model: &mut Model<'_>) -> Result<()> {
    if model.sentence_pieces()? { Ok(()) } else { model.byte_pairs() }
}
