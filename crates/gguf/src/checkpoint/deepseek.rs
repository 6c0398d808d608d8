//! `DeepSeek` 2 and 3, whose attention compresses keys and values.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use super::config::Assumed::{Flag, Number};
use super::config::Defaults;
use super::decoder::{
    COMPUTED, EDGES, EXPERT_ROWS, FEED_FORWARD, FEED_FORWARD_NORM, MEDIA, MORE_PARAMETERS, PARAMETERS,
};
use super::plan::{Architecture, Model};
use super::rope::THETA;
use super::row::{Change, Ignored, Match, Row, rows};

const ATTENTION: &[Row] = rows! {
    "model.layers.{}.self_attn.q_proj" => "blk.{}.attn_q";
    "model.layers.{}.self_attn.q_a_proj" => "blk.{}.attn_q_a";
    "model.layers.{}.self_attn.q_a_layernorm" => "blk.{}.attn_q_a_norm";
    "model.layers.{}.self_attn.q_b_proj" => "blk.{}.attn_q_b";
    "model.layers.{}.self_attn.kv_a_proj_with_mqa" => "blk.{}.attn_kv_a_mqa";
    "model.layers.{}.self_attn.kv_a_layernorm" => "blk.{}.attn_kv_a_norm";
    "model.layers.{}.self_attn.kv_b_proj" =>
        "blk.{}.attn_k_b": Change::LatentKeys, "blk.{}.attn_v_b": Change::LatentValues;
    "model.layers.{}.self_attn.o_proj" => "blk.{}.attn_output";
};

const SHARED_EXPERTS: &[Row] = rows! {
    "model.layers.{}.mlp.gate.e_score_correction_bias" => "blk.{}.exp_probs_b.bias";
    "model.layers.{}.mlp.shared_experts.gate_proj" => "blk.{}.ffn_gate_shexp";
    "model.layers.{}.mlp.shared_experts.up_proj" => "blk.{}.ffn_up_shexp";
    "model.layers.{}.mlp.shared_experts.down_proj" => "blk.{}.ffn_down_shexp";
};

const V2: Defaults = &[
    ("max_position_embeddings", Number(2048.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("n_routed_experts", Number(64.0)),
    ("moe_intermediate_size", Number(1407.0)),
    ("first_k_dense_replace", Number(0.0)),
    ("kv_lora_rank", Number(512.0)),
    ("q_lora_rank", Number(1536.0)),
    ("qk_nope_head_dim", Number(128.0)),
    ("qk_rope_head_dim", Number(64.0)),
    ("v_head_dim", Number(128.0)),
    ("n_shared_experts", Number(2.0)),
    ("routed_scaling_factor", Number(1.0)),
    ("norm_topk_prob", Flag(false)),
    ("vocab_size", Number(102_400.0)),
    THETA,
];

const V3: Defaults = &[
    ("max_position_embeddings", Number(4096.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("n_routed_experts", Number(256.0)),
    ("num_experts_per_tok", Number(8.0)),
    ("n_group", Number(8.0)),
    ("topk_group", Number(4.0)),
    ("moe_intermediate_size", Number(2048.0)),
    ("first_k_dense_replace", Number(3.0)),
    ("kv_lora_rank", Number(512.0)),
    ("q_lora_rank", Number(1536.0)),
    ("qk_nope_head_dim", Number(128.0)),
    ("qk_rope_head_dim", Number(64.0)),
    ("v_head_dim", Number(128.0)),
    ("n_shared_experts", Number(1.0)),
    ("routed_scaling_factor", Number(2.5)),
    ("norm_topk_prob", Flag(true)),
    ("vocab_size", Number(129_280.0)),
    THETA,
];

const fn architecture(classes: &'static [&'static str], defaults: Defaults) -> Architecture {
    Architecture {
        classes,
        name: "deepseek2",
        defaults,
        parameters: &[PARAMETERS, MORE_PARAMETERS],
        tensors: &[EDGES, ATTENTION, FEED_FORWARD_NORM, FEED_FORWARD, EXPERT_ROWS, SHARED_EXPERTS],
        left_out: &[COMPUTED, MEDIA, LEFT_OUT],
        derived,
        tokenizer: |model| model.byte_pairs(),
    }
}

const LEFT_OUT: &[Ignored] = &[
    Ignored { name: Match::Tied("lm_head.weight"), reason: "the same as the embeddings of tokens" },
    Ignored {
        name: Match::LaterLayer("model.layers."),
        reason: "predicts several tokens at once, which this architecture does not do in GGUF",
    },
];

pub const ARCHITECTURES: &[Architecture] =
    &[architecture(&["DeepseekV2ForCausalLM"], V2), architecture(&["DeepseekV3ForCausalLM"], V3)];

fn derived(model: &mut Model<'_>) -> Result<()> {
    let Model { config, metadata, rope, .. } = model;
    let need = |key: &str| config.needed(&[key]);
    let rank = need("kv_lora_rank")?;
    let rotated = need("qk_rope_head_dim")?;
    let added = |a: u32, b: u32| {
        let message = "'config.json' has sizes of heads whose sum exceeds 4294967295";
        a.checked_add(b).ok_or_else(|| Error::new(Code::BadIndex, message))
    };
    // All queries share one head of keys, which is as wide as the compressed ones.
    metadata.own("attention.head_count_kv", 1_u32);
    metadata.own("attention.key_length", added(rank, rotated)?);
    metadata.own("attention.value_length", rank);
    metadata.own("leading_dense_block_count", need("first_k_dense_replace")?);
    metadata.own("vocab_size", need("vocab_size")?);
    if let Some(rank) = config.uint(&["q_lora_rank"])? {
        metadata.own("attention.q_lora_rank", rank);
    }
    metadata.own("attention.kv_lora_rank", rank);
    metadata.own("attention.key_length_mla", added(need("qk_nope_head_dim")?, rotated)?);
    metadata.own("attention.value_length_mla", need("v_head_dim")?);
    metadata.own("expert_feed_forward_length", need("moe_intermediate_size")?);
    metadata.own("expert_shared_count", config.uint(&["n_shared_experts"])?.unwrap_or_default());
    if let Some(scale) = config.float(&["routed_scaling_factor"])? {
        metadata.own_float("expert_weights_scale", scale);
    }
    if config.flag("norm_topk_prob")? {
        metadata.own("expert_weights_norm", true);
    }
    metadata.own("rope.dimension_count", rotated);
    if let Some(scale) = rope.get("mscale_all_dim") {
        // The factor is llama.cpp's, for files of the past.
        metadata.own_float("rope.scaling.yarn_log_multiplier", 0.1 * scale.float()?);
    }
    Ok(())
}
