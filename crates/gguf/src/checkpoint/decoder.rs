//! What most decoders of text have in common: the tensors of Llama, and the parameters of all.
#![forbid(unsafe_code)]

use super::config::{EXPERTS, HEADS, KEY_HEADS, LAYERS};
use super::row::{Ignored, Match, Parameter, Row, float, list, rows, uint};

pub const EDGES: &[Row] = rows! {
    "model.embed_tokens" => "token_embd";
    "model.norm" => "output_norm";
    "lm_head" => "output";
    "model.layers.{}.input_layernorm" => "blk.{}.attn_norm";
};

pub const ATTENTION: &[Row] = rows! {
    "model.layers.{}.self_attn.q_proj" => "blk.{}.attn_q";
    "model.layers.{}.self_attn.k_proj" => "blk.{}.attn_k";
    "model.layers.{}.self_attn.v_proj" => "blk.{}.attn_v";
    "model.layers.{}.self_attn.o_proj" => "blk.{}.attn_output";
};

pub const HEAD_NORMS: &[Row] = rows! {
    "model.layers.{}.self_attn.q_norm" => "blk.{}.attn_q_norm";
    "model.layers.{}.self_attn.k_norm" => "blk.{}.attn_k_norm";
};

/// The norm before the feed-forward part, in models that have one there.
pub const FEED_FORWARD_NORM: &[Row] = rows! {
    "model.layers.{}.post_attention_layernorm" => "blk.{}.ffn_norm";
};

pub const FEED_FORWARD: &[Row] = rows! {
    "model.layers.{}.mlp.gate_proj" => "blk.{}.ffn_gate";
    "model.layers.{}.mlp.up_proj" => "blk.{}.ffn_up";
    "model.layers.{}.mlp.down_proj" => "blk.{}.ffn_down";
};

pub const EXPERT_ROWS: &[Row] = rows! {
    "model.layers.{}.mlp.gate" => "blk.{}.ffn_gate_inp";
    "model.layers.{}.mlp.experts.{}.gate_proj" => "blk.{}.ffn_gate_exps";
    "model.layers.{}.mlp.experts.{}.up_proj" => "blk.{}.ffn_up_exps";
    "model.layers.{}.mlp.experts.{}.down_proj" => "blk.{}.ffn_down_exps";
};

pub const PARAMETERS: &[Parameter] = &[
    uint("block_count", LAYERS),
    uint(
        "context_length",
        &[
            "max_position_embeddings",
            "n_ctx",
            "n_positions",
            "max_length",
            "max_sequence_length",
            "model_max_length",
        ],
    ),
    uint("embedding_length", &["hidden_size", "n_embd", "dim"]),
    list(
        "feed_forward_length",
        &[
            "prefix_dense_intermediate_size",
            "dense_intermediate_size",
            "intermediate_size",
            "n_inner",
            "hidden_dim",
        ],
    ),
    list("attention.head_count", HEADS),
    list("attention.head_count_kv", KEY_HEADS),
];

/// Those that follow the rotary embedding.
pub const MORE_PARAMETERS: &[Parameter] = &[
    float("attention.layer_norm_rms_epsilon", &["rms_norm_eps", "norm_eps"]),
    float("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"]),
    uint("expert_count", EXPERTS),
    uint("expert_used_count", &["num_experts_per_tok", "num_experts_per_token", "top_k_experts"]),
    uint("expert_group_count", &["n_group"]),
    uint("expert_group_used_count", &["topk_group"]),
];

pub const HEAD_SIZES: &[Parameter] =
    &[uint("attention.key_length", &["head_dim"]), uint("attention.value_length", &["head_dim"])];

const ENCODER: &str = "part of a vision or audio encoder; GGUF has these in a file of its own";
const DERIVED: &str = "computed when the model runs";

pub const COMPUTED: &[Ignored] = &[
    Ignored { name: Match::Ends(".attention.masked_bias"), reason: DERIVED },
    Ignored { name: Match::Ends(".attention.bias"), reason: DERIVED },
    Ignored { name: Match::Ends(".rotary_emb.inv_freq"), reason: DERIVED },
];

pub const MEDIA: &[Ignored] = &[
    Ignored { name: Match::Contains("vision_"), reason: ENCODER },
    Ignored { name: Match::Contains("vision."), reason: ENCODER },
    Ignored { name: Match::Contains("visual."), reason: ENCODER },
    Ignored { name: Match::Contains("audio_"), reason: ENCODER },
    Ignored { name: Match::Contains("audio."), reason: ENCODER },
    Ignored { name: Match::Contains("projector."), reason: ENCODER },
    Ignored { name: Match::Contains("patch_embed"), reason: ENCODER },
    Ignored { name: Match::Contains("image_newline"), reason: ENCODER },
];
