//! The pieces of `SentencePiece` out of `tokenizer.json`, which has pairs of them in the order in which they are joined: what newer versions of
//! transformers save of Gemma.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ztensor_core::error::Result;

use super::super::plan::Model;
use super::special::listed;
use super::tokens::{BYTE, CONTROL, NORMAL, SPACE, Tokens, USER_DEFINED, added, looks_special};
use super::{has_byte_fallback, is_byte, vocabulary};

impl Model<'_> {
    /// Describes the tokens of `tokenizer.json` as those of `tokenizer.model`; returns false if it has no such tokens. llama.cpp joins the
    /// pieces with the highest score first, so that the scores follow from the order of the pairs.
    pub fn pieces_as_pairs(&mut self) -> Result<bool> {
        let Some(document) = self.json("tokenizer.json")? else { return Ok(false) };
        let root = document.root();
        if !has_byte_fallback(&root) {
            return Ok(false);
        }
        let held = vocabulary(&document)?;
        let added = added(&root)?;
        let largest =
            held.iter().map(|(number, _)| *number).chain(added.iter().map(|token| token.number)).max();
        let count = match self.config.uint(&["vocab_size"])?.filter(|&count| count > 0) {
            Some(count) => count,
            None => largest.map_or(0, |largest| largest.saturating_add(1)),
        };
        let merges = document.large("model.merges").map(listed).transpose();
        let merges = merges.map_err(|error| document.text.named(&error))?.unwrap_or_default();
        let mut ranks = HashMap::with_capacity(merges.len());
        for (rank, pair) in merges.iter().enumerate() {
            if let Some((left, right)) = pair.split_once(' ') {
                ranks.entry(format!("{left}{right}")).or_insert(rank);
            }
        }
        let mut tokens = Tokens::unused(count, -10_000.0)?;
        for (number, text) in held {
            let kind = if is_byte(&text) { BYTE } else { NORMAL };
            // GGUF stores scores as float32; a vocabulary has fewer pairs than it holds exactly.
            #[allow(clippy::cast_precision_loss)]
            let score = ranks.get(&*text).map_or(-1000.0, |&rank| -(rank as f32));
            tokens.set(number as usize, text.into_owned(), score, kind);
        }
        for token in added {
            let is_control = token.special || looks_special(token.text);
            // Spaces of tokens that users define are spaces in llama.cpp.
            let (text, kind) = if is_control {
                (token.text.to_owned(), CONTROL)
            } else {
                (token.text.replace(SPACE, " "), USER_DEFINED)
            };
            tokens.set(token.number as usize, text, -1000.0, kind);
        }
        self.as_pieces(tokens)?;
        Ok(true)
    }
}
