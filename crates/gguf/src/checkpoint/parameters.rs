//! The parameters of a model in the metadata.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ztensor_core::error::{Code, Error, Result};

use super::config::{Config, missing};
use super::json::Node;
use super::row::{Parameter, ParameterType};
use crate::value::{Array, Value};

/// Keys and values in the order in which they were first set.
pub struct Metadata {
    architecture: &'static str,
    entries: Vec<(String, Value)>,
    /// Positions of entries by their keys: a tokenizer may have thousands of templates.
    places: HashMap<String, usize>,
}

impl Metadata {
    pub fn new(architecture: &'static str) -> Self {
        Self { architecture, entries: Vec::new(), places: HashMap::new() }
    }

    /// Sets a key; a value that it has is replaced. An empty text or array is not stored, as the reference does not store one.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        let is_empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if is_empty {
            return;
        }
        if let Some((_, held)) = self.places.get(key).and_then(|&at| self.entries.get_mut(at)) {
            *held = value;
        } else {
            self.places.insert(key.to_owned(), self.entries.len());
            self.entries.push((key.to_owned(), value));
        }
    }

    /// Sets a key of the architecture.
    pub fn own(&mut self, key: &str, value: impl Into<Value>) {
        self.set(&format!("{}.{key}", self.architecture), value);
    }

    pub fn own_float(&mut self, key: &str, value: f64) {
        // GGUF stores these as float32.
        #[allow(clippy::cast_possible_truncation)]
        self.own(key, value as f32);
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Inserts a key that is new.
    pub fn insert(&mut self, at: usize, key: &str, value: String) {
        self.entries.insert(at.min(self.entries.len()), (key.to_owned(), value.into()));
        self.places = self.entries.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
    }

    pub fn into_entries(self) -> Vec<(String, Value)> {
        self.entries
    }

    /// Sets the values of a table.
    pub fn parameters(&mut self, config: &Config<'_>, table: &[Parameter]) -> Result<()> {
        for Parameter { key, kind, from } in table {
            match kind {
                ParameterType::Uint => {
                    if let Some(value) = config.uint(from)? {
                        self.own(key, value);
                    }
                }
                ParameterType::NeededUint => self.own(key, config.needed(from)?),
                ParameterType::UintOrList => match config.value(from).filter(Node::is_list) {
                    Some(node) => self.own(key, Value::Array(Array::Int32(ints(&node)?))),
                    None => {
                        if let Some(value) = config.uint(from)? {
                            self.own(key, value);
                        }
                    }
                },
                ParameterType::Float => {
                    if let Some(value) = config.float(from)? {
                        self.own_float(key, value);
                    }
                }
                ParameterType::NeededFloat => {
                    let value = config.float(from)?.ok_or_else(|| missing(from))?;
                    self.own_float(key, value);
                }
            }
        }
        Ok(())
    }

    /// Whether each token attends to the later ones as well, which embeddings may do.
    pub fn causal(&mut self, config: &Config<'_>) {
        if config.value(&["is_causal"]).is_some_and(|node| node.is_false()) {
            self.own("attention.causal", false);
        }
    }

    /// How scores become weights of experts (`enum llama_expert_gating_func_type`).
    pub fn gating(&mut self, config: &Config<'_>) -> Result<()> {
        let keys = &[
            "score_function",
            "scoring_func",
            "score_func",
            "moe_router_activation",
            "moe_router_activation_func",
            "expert_selection_fn",
        ];
        let Some(node) = config.value(keys) else { return Ok(()) };
        let number = match node.text()? {
            "softmax" => 1_u32,
            "sigmoid" => 2,
            "sqrtsoftplus" => 4,
            _ => return Err(node.wrong("\"softmax\", \"sigmoid\" or \"sqrtsoftplus\"")),
        };
        self.own("expert_gating_func", number);
        Ok(())
    }

    /// How the vectors of the tokens become one (`enum llama_pooling_type`), as sentence-transformers describes it.
    pub fn pooling(&mut self, root: &Node<'_>) -> Result<()> {
        let is = |key: &str| root.get(key).is_some_and(|node| node.is_truthy());
        let mode = root.get("pooling_mode").and_then(|node| node.if_text());
        let number = match mode {
            _ if is("pooling_mode_mean_tokens") => 1_u32,
            _ if is("pooling_mode_cls_token") => 2,
            _ if is("pooling_mode_lasttoken") => 3,
            Some("mean") => 1,
            Some("cls") => 2,
            Some("lasttoken") => 3,
            _ => {
                let message = "the vectors of tokens are pooled by another way than the mean, the first or the last one";
                return Err(Error::new(Code::UnsupportedEncoding, message));
            }
        };
        self.own("pooling_type", number);
        Ok(())
    }
}

fn ints(list: &Node<'_>) -> Result<Vec<i32>> {
    list.items()?.map(|item| item.int()).collect()
}
