//! `config.json`, with the values that transformers assumes for missing keys.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};

use super::json::Node;

/// The value of a missing key.
#[derive(Clone, Copy)]
pub enum Assumed {
    Number(f64),
    Flag(bool),
    /// The value of another key.
    Same(&'static str),
    /// `hidden_size` by `num_attention_heads`.
    HeadSize,
}

pub type Defaults = &'static [(&'static str, Assumed)];

pub struct Config<'d> {
    /// Innermost first: the text part of a model for several media, then the file.
    scopes: Vec<Node<'d>>,
    defaults: Defaults,
}

/// What a key has: in the file, or assumed.
enum Found<'d> {
    Value(Node<'d>),
    Assumed(Assumed),
}

impl<'d> Config<'d> {
    pub fn new(root: &Node<'d>, defaults: Defaults) -> Self {
        let inner = root.get("text_config").filter(Node::is_object);
        let scopes = inner.into_iter().chain([root.clone()]).collect();
        Self { scopes, defaults }
    }

    /// Returns the value of the first of the keys that the file has; `None` if it is null or missing.
    pub fn value(&self, keys: &[&str]) -> Option<Node<'d>> {
        let found = keys.iter().find_map(|key| self.scopes.iter().find_map(|scope| scope.get(key)));
        found.filter(|node| !node.is_null())
    }

    /// Like `value`, but what the file has at its root comes before the text part.
    pub fn outer(&self, key: &str) -> Option<Node<'d>> {
        self.scopes.iter().rev().find_map(|scope| scope.set(key))
    }

    fn found(&self, keys: &[&str]) -> Option<Found<'d>> {
        let held = keys.iter().find_map(|key| self.scopes.iter().find_map(|scope| scope.get(key)));
        let assumed = self.defaults.iter().find(|(name, _)| keys.contains(name)).map(|&(_, assumed)| assumed);
        match held {
            None => assumed.map(Found::Assumed),
            // Null is a value for transformers, which replaces it only where the value follows from others.
            Some(node) if node.is_null() && keys == KEY_HEADS => {
                Some(Found::Assumed(Assumed::Same(HEADS[0])))
            }
            Some(node) if node.is_null() => {
                assumed.filter(|assumed| !matches!(assumed, Assumed::Number(_))).map(Found::Assumed)
            }
            Some(node) => Some(Found::Value(node)),
        }
    }

    pub fn uint(&self, keys: &[&str]) -> Result<Option<u32>> {
        match self.found(keys) {
            Some(Found::Value(node)) => node.uint().map(Some),
            // Whole numbers of the tables.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some(Found::Assumed(Assumed::Number(number))) => Ok(Some(number as u32)),
            None | Some(Found::Assumed(Assumed::Flag(_))) => Ok(None),
            Some(Found::Assumed(Assumed::Same(key))) => self.uint(&[key]),
            Some(Found::Assumed(Assumed::HeadSize)) => self.head_size().map(Some),
        }
    }

    pub fn float(&self, keys: &[&str]) -> Result<Option<f64>> {
        match self.found(keys) {
            Some(Found::Value(node)) => node.float().map(Some),
            Some(Found::Assumed(Assumed::Number(number))) => Ok(Some(number)),
            _ => Ok(None),
        }
    }

    pub fn flag(&self, key: &str) -> Result<bool> {
        match self.found(&[key]) {
            Some(Found::Value(node)) => node.flag(),
            Some(Found::Assumed(Assumed::Flag(flag))) => Ok(flag),
            _ => Ok(false),
        }
    }

    /// Returns an integer without which no file can be written.
    pub fn needed(&self, keys: &[&str]) -> Result<u32> {
        self.uint(keys)?.ok_or_else(|| missing(keys))
    }

    /// Returns `hidden_size` by `num_attention_heads`.
    pub fn head_size(&self) -> Result<u32> {
        let heads = self.needed(HEADS)?;
        let width = self.needed(&["hidden_size", "n_embd"])?;
        width.checked_div(heads).ok_or_else(|| {
            Error::new(
                Code::BadIndex,
                "'config.json' has 0 as \"num_attention_heads\", not a number of heads",
            )
        })
    }
}

/// The keys of the number of query heads, and of key and value heads.
pub const HEADS: &[&str] = &["num_attention_heads", "n_head", "n_heads"];
pub const KEY_HEADS: &[&str] = &["num_key_value_heads", "n_kv_heads"];
pub const EXPERTS: &[&str] = &["num_local_experts", "num_experts", "n_routed_experts"];
pub const LAYERS: &[&str] = &["n_layers", "num_hidden_layers", "n_layer", "num_layers"];

pub fn missing(keys: &[&str]) -> Error {
    let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
    let message = format!("'config.json' does not have {}, which GGUF needs", names.join(" or "));
    Error::new(Code::BadIndex, message)
}
