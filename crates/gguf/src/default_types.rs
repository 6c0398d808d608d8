//! The types of numbers under the keys of the specification, as gguf-py writes them (`gguf_writer.py` of gguf 0.19).
#![forbid(unsafe_code)]

use super::value::ValueType;

pub const UINT8: u32 = ValueType::Uint8.number();

/// Keys whose numbers are float32, without the name of the architecture that they begin with.
const FLOATS: [&str; 31] = [
    "activation_sparsity_scale",
    "attention.clamp_kqv",
    "attention.group_norm_epsilon",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.max_alibi_bias",
    "attention.output_scale",
    "attention.scale",
    "attention.temperature_scale",
    "attn_logit_softcapping",
    "embedding_scale",
    "expert_group_scale",
    "expert_weights_scale",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_log_multiplier",
    "router_logit_softcapping",
    "swiglu_clamp_exp",
    "swiglu_clamp_shexp",
    "audio.attention.layer_norm_epsilon",
    "vision.attention.layer_norm_epsilon",
];
const OTHER_FLOATS: [&str; 11] = [
    "clip.vision.image_mean",
    "clip.vision.image_std",
    "general.sampling.min_p",
    "general.sampling.mirostat_eta",
    "general.sampling.mirostat_tau",
    "general.sampling.penalty_repeat",
    "general.sampling.temp",
    "general.sampling.top_p",
    "general.sampling.xtc_probability",
    "general.sampling.xtc_threshold",
    "tokenizer.ggml.scores",
];
/// Keys whose integers are int32.
const SIGNED: [&str; 3] =
    ["general.sampling.mirostat", "general.sampling.penalty_last_n", "general.sampling.top_k"];

/// What the types of numbers depend on.
#[derive(Clone, Copy)]
pub struct Model<'a> {
    /// `general.architecture`, which many keys begin with; empty if there is none.
    pub architecture: &'a str,
}

impl Model<'_> {
    /// Returns the type of numbers under a key of the specification, as gguf-py and llama.cpp use them: llama.cpp accepts no other type.
    /// Other keys, and keys of other architectures than the model's, have none.
    pub fn default_type(self, key: &str) -> Option<ValueType> {
        if SIGNED.contains(&key) {
            return Some(ValueType::Int32);
        }
        let (first, rest) = key.split_once('.')?;
        let is_own = first == "clip" || !self.architecture.is_empty() && first == self.architecture;
        if OTHER_FLOATS.contains(&key) || key.starts_with("xielu.") || is_own && FLOATS.contains(&rest) {
            return Some(ValueType::Float32);
        }
        (is_own || matches!(first, "general" | "tokenizer")).then_some(ValueType::Uint32)
    }
}
