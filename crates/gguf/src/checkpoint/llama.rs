//! Llama, Mistral and Mixtral.
#![forbid(unsafe_code)]

use ztensor_core::error::Result;

use super::config::Assumed::{HeadSize, Number, Same};
use super::config::Defaults;
use super::decoder::{
    COMPUTED, EDGES, FEED_FORWARD, FEED_FORWARD_NORM, HEAD_SIZES, MEDIA, MORE_PARAMETERS, PARAMETERS,
};
use super::plan::{Architecture, Model};
use super::rope::THETA;
use super::row::{Change, Heads, Row, rows};

const ATTENTION: &[Row] = rows! {
    "model.layers.{}.self_attn.q_proj" => "blk.{}.attn_q": Change::Interleave(Heads::Query);
    "model.layers.{}.self_attn.k_proj" => "blk.{}.attn_k": Change::Interleave(Heads::Key);
    "model.layers.{}.self_attn.v_proj" => "blk.{}.attn_v";
    "model.layers.{}.self_attn.o_proj" => "blk.{}.attn_output";
};

const EXPERTS: &[Row] = rows! {
    "model.layers.{}.block_sparse_moe.gate" => "blk.{}.ffn_gate_inp";
    "model.layers.{}.block_sparse_moe.experts.{}.w1" => "blk.{}.ffn_gate_exps";
    "model.layers.{}.block_sparse_moe.experts.{}.w2" => "blk.{}.ffn_down_exps";
    "model.layers.{}.block_sparse_moe.experts.{}.w3" => "blk.{}.ffn_up_exps";
};

const TENSORS: &[&[Row]] = &[EDGES, ATTENTION, FEED_FORWARD_NORM, FEED_FORWARD, EXPERTS];

const LLAMA: Defaults = &[
    ("max_position_embeddings", Number(2048.0)),
    ("num_key_value_heads", Same("num_attention_heads")),
    ("rms_norm_eps", Number(1e-6)),
    ("head_dim", HeadSize),
    ("vocab_size", Number(32_000.0)),
    THETA,
];

const MISTRAL: Defaults = &[
    ("max_position_embeddings", Number(131_072.0)),
    ("num_key_value_heads", Number(8.0)),
    ("rms_norm_eps", Number(1e-6)),
    ("head_dim", HeadSize),
    ("vocab_size", Number(32_000.0)),
    THETA,
];

const MIXTRAL: Defaults = &[
    ("max_position_embeddings", Number(131_072.0)),
    ("num_key_value_heads", Number(8.0)),
    ("rms_norm_eps", Number(1e-5)),
    ("num_local_experts", Number(8.0)),
    ("num_experts_per_tok", Number(2.0)),
    ("vocab_size", Number(32_000.0)),
    ("rope_theta", Number(1_000_000.0)),
];

const fn architecture(classes: &'static [&'static str], defaults: Defaults) -> Architecture {
    Architecture {
        classes,
        name: "llama",
        defaults,
        parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
        tensors: TENSORS,
        left_out: &[COMPUTED, MEDIA],
        derived,
        tokenizer,
    }
}

pub const ARCHITECTURES: &[Architecture] = &[
    architecture(&["LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"], LLAMA),
    architecture(&["MistralForCausalLM"], MISTRAL),
    architecture(&["MixtralForCausalLM"], MIXTRAL),
];

fn derived(model: &mut Model<'_>) -> Result<()> {
    let tokens = model.config.needed(&["vocab_size"])?;
    let size = match model.config.uint(&["head_dim"])? {
        Some(size) => size,
        None => model.config.head_size()?,
    };
    if let Some(divisors) = model.rope.llama3(size)? {
        model.compute("rope_freqs.weight", divisors);
    }
    model.metadata.own("vocab_size", tokens);
    model.metadata.own("rope.dimension_count", size);
    Ok(())
}

fn tokenizer(model: &mut Model<'_>) -> Result<()> {
    if model.json("tokenizer.json")?.is_none() && model.tekken()? {
        return Ok(());
    }
    if let Some(settings) = model.json("tokenizer_config.json")?
        && let Some(prefix) = settings.root().set("add_prefix_space")
    {
        model.metadata.set("tokenizer.ggml.add_space_prefix", prefix.flag()?);
    }
    if !model.sentence_pieces()? && !model.byte_fallback("llama")? {
        model.byte_pairs()?;
    }
    // The end of a turn of CodeLlama, and no token before the text of Granite: known by the size of their vocabularies.
    match model.config.needed(&["vocab_size"])? {
        32_016 => model.metadata.set("tokenizer.ggml.eot_token_id", 32_010_u32),
        49_152 => model.metadata.set("tokenizer.ggml.add_bos_token", false),
        _ => {}
    }
    Ok(())
}
