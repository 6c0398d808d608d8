//! Mixtures: which block type each tensor of a model gets, by the rules of llama.cpp (`llama-quantize`). The rules are facts of
//! `src/llama-quant.cpp` at the version that docs/formats/gguf.md names.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::arrange::Arrange;
use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, Result};

use super::value::VALUE;

/// A file type of llama.cpp.
struct Mixture {
    name: &'static str,
    /// The value of `general.file_type`.
    number: u32,
    /// The type of tensors without a rule.
    default: &'static str,
}

const fn mixture(name: &'static str, number: u32, default: &'static str) -> Mixture {
    Mixture { name, number, default }
}

const MIXTURES: [Mixture; 33] = [
    mixture("f32", 0, "float32"),
    mixture("f16", 1, "float16"),
    mixture("bf16", 32, "bfloat16"),
    mixture("q4_0", 2, "q4_0"),
    mixture("q4_1", 3, "q4_1"),
    mixture("q5_0", 8, "q5_0"),
    mixture("q5_1", 9, "q5_1"),
    mixture("q8_0", 7, "q8_0"),
    mixture("q2_k", 10, "q2_k"),
    mixture("q2_k_s", 21, "q2_k"),
    mixture("q3_k_s", 11, "q3_k"),
    mixture("q3_k_m", 12, "q3_k"),
    mixture("q3_k_l", 13, "q3_k"),
    mixture("q4_k_s", 14, "q4_k"),
    mixture("q4_k_m", 15, "q4_k"),
    mixture("q5_k_s", 16, "q5_k"),
    mixture("q5_k_m", 17, "q5_k"),
    mixture("q6_k", 18, "q6_k"),
    mixture("iq1_s", 24, "iq1_s"),
    mixture("iq1_m", 31, "iq1_m"),
    mixture("iq2_xxs", 19, "iq2_xxs"),
    mixture("iq2_xs", 20, "iq2_xs"),
    mixture("iq2_s", 28, "iq2_xs"),
    mixture("iq2_m", 29, "iq2_s"),
    mixture("iq3_xxs", 23, "iq3_xxs"),
    mixture("iq3_xs", 22, "iq3_s"),
    mixture("iq3_s", 26, "iq3_s"),
    mixture("iq3_m", 27, "iq3_s"),
    mixture("iq4_nl", 25, "iq4_nl"),
    mixture("iq4_xs", 30, "iq4_xs"),
    mixture("tq1_0", 36, "tq1_0"),
    mixture("tq2_0", 37, "tq2_0"),
    mixture("mxfp4_moe", 38, "mxfp4"),
];
/// Names that llama-quantize takes for another.
const ALIASES: [(&str, &str); 3] = [("q3_k", "q3_k_m"), ("q4_k", "q4_k_m"), ("q5_k", "q5_k_m")];

/// Returns the value of `general.file_type` for a model most of which has one type: a dtype or the layout of blocks. It is that of the
/// mixture that llama.cpp takes for such a model.
pub fn file_type(kind: &str) -> Option<u32> {
    let name = kind.strip_prefix("gguf.").and_then(|rest| rest.strip_suffix("/1")).unwrap_or(kind);
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    let found = MIXTURES.iter().find(|mixture| mixture.name == name);
    found.or_else(|| MIXTURES.iter().find(|mixture| mixture.default == name)).map(|mixture| mixture.number)
}

/// The types of the tensors of a model.
#[derive(Debug)]
pub struct Choice {
    /// The value of `general.file_type`.
    pub file_type: u32,
    /// The type of each tensor: a dtype or a block type. `None` if it stays as it is.
    pub types: Vec<Option<&'static str>>,
    /// The tensors whose rows are not whole blocks of the type that the rules ask for, and that type.
    pub fallbacks: Vec<(usize, &'static str)>,
    /// The order in which llama.cpp writes the tensors: by layer, then by name.
    pub order: Vec<usize>,
}

/// Returns the names of all mixtures.
pub fn names() -> impl Iterator<Item = &'static str> {
    MIXTURES.iter().map(|mixture| mixture.name)
}

/// Returns the values of `general.file_type` with the names that llama.cpp prints for them.
pub fn numbered() -> Vec<(u32, String)> {
    MIXTURES.iter().map(|mixture| (mixture.number, mixture.name.to_uppercase())).collect()
}

/// Chooses the types of the tensors of a model. `attributes` are its metadata, of which the architecture, and the numbers of layers, heads
/// and experts are used. `tensors` are names and shapes, outermost dimension first.
///
/// Fails with `ZT_INVALID_ARG` for an unknown mixture, and for a model whose layers cannot be counted.
pub fn choose(
    name: &str,
    attributes: &[(Value, Value)],
    tensors: &[(&str, &[u64])],
    has_importance: bool,
) -> Result<Choice> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    let mixture = MIXTURES.iter().find(|mixture| mixture.name == name).ok_or_else(|| {
        let all: Vec<_> = names().collect();
        wrong(format!("there is no mixture {name:?}; known are {}", all.join(", ")))
    })?;
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    let name_of = |at: usize| tensors.get(at).map_or("", |&(name, _)| name);
    order.arrange_by(|&a, &b| (layer_of(name_of(a)), name_of(a)).cmp(&(layer_of(name_of(b)), name_of(b))));
    let mut rules = Rules::new(mixture, attributes, tensors, has_importance);
    let mut types = vec![None; tensors.len()];
    let mut fallbacks = Vec::new();
    for &at in &order {
        let (Some(&(name, shape)), Some(slot)) = (tensors.get(at), types.get_mut(at)) else { continue };
        if !is_quantized(name, shape) {
            continue;
        }
        let wanted = rules.of(name, shape).map_err(|error| error.tensor(name))?;
        let row = shape.last().copied().unwrap_or(1);
        let chosen = fallback(wanted, row);
        if chosen != wanted {
            fallbacks.push((at, wanted));
        }
        *slot = Some(chosen);
    }
    Ok(Choice { file_type: mixture.number, types, fallbacks, order })
}

fn wrong(message: String) -> Error {
    Error::new(Code::InvalidArg, message)
}

/// Parts of names of tensors that are small or sensitive, and are never quantized.
const NEVER: [&str; 37] = [
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
    // Not parts, but whole names.
    "position_embd.weight",
    "token_types.weight",
];

/// Returns whether llama.cpp quantizes a tensor: matrices and stacks of them whose names end in "weight", with exceptions.
pub fn is_quantized(name: &str, shape: &[u64]) -> bool {
    is_matrix(shape) && name.ends_with("weight") && !NEVER.iter().any(|part| name.contains(part))
}

/// Returns whether a rule quantizes a tensor whose name its pattern matches: matrices and stacks of them, whatever their names. The
/// exceptions of llama.cpp are quantized only by a pattern that names them.
pub fn is_quantized_by(pattern: &str, name: &str, shape: &[u64]) -> bool {
    is_matrix(shape) && !NEVER.iter().any(|part| name.contains(part) && !pattern.contains(part))
}

/// Outer dimensions of 1 do not count.
fn is_matrix(shape: &[u64]) -> bool {
    shape.iter().skip_while(|&&dim| dim == 1).count() >= 2
}

/// The number of elements of a block; 1 for a dtype.
fn block(kind: &str) -> u64 {
    super::value_types::Type::named(kind).map_or(1, |blocks| blocks.elements)
}

/// Returns the type for rows that are not whole blocks of the wanted one.
pub fn fallback(wanted: &'static str, row: u64) -> &'static str {
    if row.is_multiple_of(block(wanted)) {
        return wanted;
    }
    let smaller = match wanted {
        "iq1_s" | "iq1_m" | "iq2_xxs" | "iq2_xs" | "iq2_s" | "iq3_xxs" | "iq3_s" | "iq4_xs" => "iq4_nl",
        "q2_k" | "q3_k" | "tq1_0" | "tq2_0" => "q4_0",
        "q4_k" => "q5_0",
        "q5_k" => "q5_1",
        "q6_k" => "q8_0",
        other => other,
    };
    if row.is_multiple_of(block(smaller)) { smaller } else { "float16" }
}

/// Returns the number of the layer in `blk.N.`, or -1.
fn layer_of(name: &str) -> i64 {
    let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = name.strip_prefix("blk.").and_then(|rest| rest.get(..digits(rest))?.parse().ok());
    number.unwrap_or(-1)
}

/// What a tensor does in the model, as far as the rules distinguish.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Output,
    TokenEmbedding,
    /// Values of the attention, alone or fused with others.
    Value,
    Key,
    Query,
    AttentionOutput,
    Up,
    Gate,
    Down,
    Other,
}

impl Role {
    fn of(name: &str) -> Self {
        const PARTS: [(&str, Role); 9] = [
            ("attn_qkv.weight", Role::Value),
            ("attn_kv_b.weight", Role::Value),
            ("attn_v.weight", Role::Value),
            ("attn_k.weight", Role::Key),
            ("attn_q.weight", Role::Query),
            ("attn_output.weight", Role::AttentionOutput),
            ("ffn_up", Role::Up),
            ("ffn_gate", Role::Gate),
            ("ffn_down", Role::Down),
        ];
        match name {
            "output.weight" => Self::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Self::TokenEmbedding,
            _ => PARTS.iter().find(|(part, _)| name.contains(part)).map_or(Self::Other, |&(_, role)| role),
        }
    }
}

/// The rules, and how many tensors of a role were seen.
#[allow(clippy::struct_excessive_bools)] // properties of the model, each of its own meaning
struct Rules<'m> {
    mixture: &'m Mixture,
    is_falcon: bool,
    /// 80 layers of grouped heads, whose value matrices are small.
    is_70b: bool,
    layers: u64,
    experts: u64,
    /// Query heads for each head of keys and values.
    grouped: u64,
    has_importance: bool,
    is_tied: bool,
    values: u64,
    values_seen: u64,
    down_seen: u64,
    gate_seen: u64,
    up_seen: u64,
}

impl<'m> Rules<'m> {
    fn new(
        mixture: &'m Mixture,
        attributes: &[(Value, Value)],
        tensors: &[(&str, &[u64])],
        has_importance: bool,
    ) -> Self {
        let architecture =
            find(attributes, "general.architecture").and_then(Value::as_text).unwrap_or_default();
        let number = |key: &str| uint(find(attributes, &format!("{architecture}.{key}"))?);
        let last = tensors.iter().map(|&(name, _)| layer_of(name)).max().unwrap_or(-1);
        let layers = number("block_count").unwrap_or_else(|| u64::try_from(last + 1).unwrap_or(0));
        let heads = number("attention.head_count").unwrap_or(0);
        let key_heads = number("attention.head_count_kv").unwrap_or(heads);
        let is_70b = match architecture {
            "llama" => layers == 80 && heads != key_heads,
            "qwen2" | "deci" | "olmo" => layers == 80,
            "jais2" => layers == 68,
            _ => false,
        };
        Self {
            mixture,
            is_falcon: architecture == "falcon",
            is_70b,
            layers,
            experts: number("expert_count").unwrap_or(0),
            grouped: heads.checked_div(key_heads).unwrap_or(0),
            has_importance,
            is_tied: !tensors.iter().any(|&(name, _)| Role::of(name) == Role::Output),
            values: tensors.iter().filter(|&&(name, _)| Role::of(name) == Role::Value).count() as u64,
            values_seen: 0,
            down_seen: 0,
            gate_seen: 0,
            up_seen: 0,
        }
    }

    /// Returns the type of a tensor, whatever its rows. Call it in the order of llama.cpp.
    fn of(&mut self, name: &str, shape: &[u64]) -> Result<&'static str> {
        let default = self.mixture.default;
        if block(default) == 1 {
            return Ok(default);
        }
        let role = Role::of(name);
        let is_low =
            matches!(self.mixture.name, "iq1_s" | "iq1_m" | "iq2_xxs" | "iq2_xs" | "iq2_s" | "iq2_m");
        Ok(match role {
            _ if role == Role::Output || self.is_tied && role == Role::TokenEmbedding => self.output(shape),
            _ if self.mixture.name == "mxfp4_moe" => {
                let matrices = shape.len().checked_sub(2).and_then(|outer| product(shape.get(..outer)?));
                let stacked = shape.len() > 2 && matrices != Some(1);
                if stacked { "mxfp4" } else { "q8_0" }
            }
            Role::TokenEmbedding => match self.mixture.name {
                "iq2_xxs" | "iq2_xs" | "iq1_s" | "iq1_m" => "q2_k",
                "iq2_s" | "iq2_m" | "iq3_xxs" => "iq3_s",
                "tq1_0" | "tq2_0" => "q4_k",
                _ => default,
            },
            role if is_low => self.low(role),
            Role::Value => self.value(),
            Role::Key => match self.mixture.name {
                _ if self.experts == 8 => "q8_0",
                "iq3_xs" => "iq3_xxs",
                "iq3_xxs" => "iq2_s",
                _ => default,
            },
            Role::Query => match self.mixture.name {
                "iq3_xs" => "iq3_xxs",
                "iq3_xxs" => "iq2_s",
                _ => default,
            },
            Role::Down => self.down(name)?,
            Role::AttentionOutput => self.attention_output(),
            Role::Gate => {
                let layer = self.layer(name, self.gate_seen)?;
                self.gate_seen += 1;
                self.inner(layer)
            }
            Role::Up => {
                let layer = self.layer(name, self.up_seen)?;
                self.up_seen += 1;
                self.inner(layer)
            }
            Role::Output | Role::Other => default,
        })
    }

    /// The number of the layer. Matrices of experts are not in the order of layers, so it is taken from the name.
    fn layer(&self, name: &str, seen: u64) -> Result<u64> {
        if self.experts <= 1 {
            return Ok(seen);
        }
        let named = u64::try_from(layer_of(name)).ok().filter(|&layer| layer < self.layers);
        named.ok_or_else(|| {
            let message = format!(
                "the name of a tensor of experts states no layer from 0 to {} (block_count)",
                self.layers
            );
            wrong(message)
        })
    }

    fn output(&self, shape: &[u64]) -> &'static str {
        let default = self.mixture.default;
        let row = shape.last().copied().unwrap_or(1);
        match self.mixture.name {
            "mxfp4_moe" => "q8_0",
            _ if self.is_falcon || !row.is_multiple_of(block(default)) => "q8_0",
            "iq2_xxs" | "iq2_xs" | "iq3_xxs" | "iq1_s" | "iq2_s" | "iq2_m" | "iq1_m" => "q5_k",
            "q8_0" => "q8_0",
            _ => "q6_k",
        }
    }

    /// Mixtures of about two bits.
    fn low(&mut self, role: Role) -> &'static str {
        let name = self.mixture.name;
        let is_larger = matches!(name, "iq2_s" | "iq2_m");
        let raised = if is_larger { "iq3_s" } else { "q2_k" };
        match role {
            Role::Value => {
                self.values_seen += 1;
                if self.grouped >= 4 || self.experts >= 4 { "q4_k" } else { raised }
            }
            Role::Key if self.experts == 8 => "q4_k",
            Role::Down => {
                let is_early = self.down_seen < self.layers / 8;
                self.down_seen += 1;
                if is_early { raised } else { self.mixture.default }
            }
            Role::AttentionOutput if self.experts == 8 => "q5_k",
            Role::AttentionOutput if matches!(name, "iq1_s" | "iq1_m") => "iq2_xxs",
            Role::AttentionOutput if is_larger => "iq3_s",
            _ => self.mixture.default,
        }
    }

    fn value(&mut self) -> &'static str {
        let (seen, grouped) = (self.values_seen, self.grouped >= 4);
        self.values_seen += 1;
        let mut kind = match self.mixture.name {
            "q2_k" | "q2_k_s" | "iq3_xxs" | "iq3_xs" | "iq3_s" if grouped => "q4_k",
            "q2_k" => "q3_k",
            "iq3_xxs" if self.has_importance => "iq3_xxs",
            "iq3_xxs" => "iq3_s",
            "q3_k_m" if seen < 2 => "q5_k",
            "q3_k_m" | "iq3_m" => "q4_k",
            "q3_k_l" => "q5_k",
            "iq4_nl" | "iq4_xs" if grouped => "q5_k",
            "q4_k_m" | "q5_k_m" if needs_more_bits(seen, self.values) => "q6_k",
            "q4_k_s" if seen < 4 => "q5_k",
            _ => self.mixture.default,
        };
        if self.is_70b && matches!(kind, "q3_k" | "q4_k") {
            kind = "q5_k";
        }
        if self.experts == 8 { "q8_0" } else { kind }
    }

    fn down(&mut self, name: &str) -> Result<&'static str> {
        let (layer, layers) = (self.layer(name, self.down_seen)?, self.layers);
        self.down_seen += 1;
        let (is_early, more) = (layer < layers / 8, needs_more_bits(layer, layers));
        Ok(match self.mixture.name {
            "q2_k" => "q3_k",
            "q2_k_s" if is_early => "q4_k",
            "iq3_xxs" if !self.has_importance => {
                if is_early {
                    "q4_k"
                } else {
                    "q3_k"
                }
            }
            "q3_k_m" if layer < layers / 16 => "q5_k",
            "q3_k_m" if !self.is_falcon || more => "q4_k",
            "iq3_m" if is_early || self.experts == 8 && more => "q4_k",
            "q3_k_l" if self.is_falcon => "q4_k",
            "q3_k_l" => "q5_k",
            "q4_k_m" if self.is_falcon && layer < layers / 16 => "q6_k",
            "q4_k_m" if self.is_falcon && more => "q5_k",
            "q4_k_m" | "q5_k_m" if more && !(self.is_falcon && self.mixture.name == "q4_k_m") => "q6_k",
            "iq4_nl" | "iq4_xs" if is_early && !self.has_importance => "q5_k",
            "q4_k_s" if is_early && !self.is_falcon => "q5_k",
            "q4_0" if is_early && self.has_importance => "q4_1",
            "q5_0" if is_early && self.has_importance => "q5_1",
            _ => self.mixture.default,
        })
    }

    fn attention_output(&self) -> &'static str {
        let default = self.mixture.default;
        match self.mixture.name {
            "q3_k_l" if self.is_falcon => "q4_k",
            _ if self.is_falcon => default,
            "q2_k" | "iq3_xs" | "iq3_xxs" | "q3_k_s" | "q3_k_m" | "iq4_nl" | "q4_k_s" | "q4_k_m"
            | "iq3_s" | "iq3_m" | "iq4_xs"
                if self.experts == 8 =>
            {
                "q5_k"
            }
            _ if self.experts == 8 => default,
            "q2_k" => "q3_k",
            "iq3_xxs" => "iq3_s",
            "q3_k_m" | "iq3_m" => "q4_k",
            "q3_k_l" => "q5_k",
            _ => default,
        }
    }

    /// The inner matrices of the feed-forward network.
    fn inner(&self, layer: u64) -> &'static str {
        let is_middle = layer >= self.layers / 8 && layer < 7 * self.layers / 8;
        if self.mixture.name == "iq3_xs" && is_middle { "iq3_xxs" } else { self.mixture.default }
    }
}

/// Returns whether llama.cpp quantizes a tensor to a type only with weights of importance: not embeddings and the output.
pub fn needs_importance(mixture: Option<&str>, name: &str, kind: &str) -> bool {
    let is_exempt = matches!(Role::of(name), Role::Output | Role::TokenEmbedding);
    let is_low = matches!(kind, "iq3_xxs" | "iq2_xxs" | "iq2_xs" | "iq2_s" | "iq1_m" | "iq1_s");
    !is_exempt && (is_low || kind == "q2_k" && mixture == Some("q2_k_s"))
}

/// Layers that get more bits: the first and last eighth, and every third between them.
fn needs_more_bits(layer: u64, layers: u64) -> bool {
    let first = layers / 8;
    layer < first || layer >= 7 * layers / 8 || (layer - first) % 3 == 2
}

fn find<'a>(attributes: &'a [(Value, Value)], key: &str) -> Option<&'a Value> {
    let (_, value) = attributes.iter().find(|(own, _)| own.as_text() == Some(key))?;
    let Value::Map(entries) = value else { return Some(value) };
    entries.iter().find(|(key, _)| key.as_text() == Some(VALUE)).map(|(_, value)| value)
}

/// A number, or the first of a list with one for each layer.
fn uint(value: &Value) -> Option<u64> {
    let one = value.as_array().map_or(Some(value), |items| items.first())?;
    one.as_integer().and_then(|integer| u64::try_from(integer).ok())
}
