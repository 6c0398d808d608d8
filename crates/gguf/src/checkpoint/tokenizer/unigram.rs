//! Unigrams of `SentencePiece` as XLM-RoBERTa has them: `sentencepiece.bpe.model`, or `tokenizer.json`.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use base64::Engine as _;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::JSON_DEPTH;
use ztensor_core::syntax::json::Reader;

use super::super::json::{Document, Node};
use super::super::plan::Model;
use super::sentencepiece::{self, Normalizer};
use super::special::Special;
use super::specials;
use super::tokens::{BASE64, CONTROL, NORMAL, Tokens, UNKNOWN, USER_DEFINED, added};
use crate::limits;
use crate::value::{Array, Value};

const FILE: &str = "sentencepiece.bpe.model";

/// The first tokens of fairseq, which `SentencePiece` has in another order.
const FIRST: [(&str, i32); 4] = [("<s>", CONTROL), ("<pad>", CONTROL), ("</s>", CONTROL), ("<unk>", UNKNOWN)];

impl Model<'_> {
    /// Describes unigrams.
    pub fn unigrams(&mut self) -> Result<()> {
        let (tokens, normalizer) = match self.files.read(FILE, limits::CHECKPOINT_TEXT_BYTES)? {
            Some(bytes) => self.model_pieces(&bytes)?,
            None => self.json_pieces()?,
        };
        let count = tokens.len();
        let types = self.config.uint(&["type_vocab_size"])?.unwrap_or(1);
        self.metadata.set("tokenizer.ggml.model", "t5");
        self.metadata.set("tokenizer.ggml.pre", "default");
        self.scored(tokens);
        self.metadata.set("tokenizer.ggml.add_space_prefix", normalizer.adds_prefix);
        self.metadata.set("tokenizer.ggml.token_type_count", types);
        self.metadata.set("tokenizer.ggml.remove_extra_whitespaces", normalizer.removes_spaces);
        self.metadata
            .set("tokenizer.ggml.precompiled_charsmap", Value::Array(Array::Uint8(normalizer.characters)));
        Special::read(self, Some(count))?.describe(self);
        Ok(())
    }

    fn model_pieces(&self, bytes: &[u8]) -> Result<(Tokens, Normalizer)> {
        let model = sentencepiece::read(FILE, bytes)?;
        if !model.is_unigram {
            let message = format!(
                "'{FILE}' is not of unigrams, the only ones that are supported for this architecture"
            );
            return Err(Error::new(Code::UnsupportedEncoding, message));
        }
        let held = u32::try_from(model.pieces.len()).unwrap_or(u32::MAX);
        let count = self.config.uint(&["vocab_size"])?.unwrap_or_default().max(held);
        let filled = Tokens::unused(count, -10_000.0)?;
        let mut tokens = Tokens::default();
        for (text, kind) in FIRST {
            tokens.push(text.to_owned(), 0.0, kind);
        }
        let pieces = model.pieces.into_iter().map(|piece| (piece.text, piece.score, piece.kind));
        let unused = filled.into_rows().skip(held as usize);
        // All but the first three, one further, so that the last one has no number.
        for (text, score, kind) in pieces.chain(unused).skip(3) {
            if tokens.len() < count.max(4) as usize {
                tokens.push(text, score, kind);
            }
        }
        Ok((tokens, model.normalizer))
    }

    fn json_pieces(&self) -> Result<(Tokens, Normalizer)> {
        let document = self.tokenizer()?;
        let root = document.root();
        let model = root.get("model").ok_or_else(|| root.wrong("an object with \"model\""))?;
        if model.get("type").and_then(|kind| kind.if_text()) != Some("Unigram") {
            let message = "'tokenizer.json' has no unigrams, the only tokenizer that is supported for this architecture";
            return Err(Error::new(Code::UnsupportedEncoding, message));
        }
        let settings = self.json("tokenizer_config.json")?;
        let setting = |key: &str| {
            settings.as_ref().and_then(|settings| settings.root().set(key).map(|node| node.is_truthy()))
        };
        let characters = charsmap(&root)?;
        let normalizer = Normalizer {
            characters,
            adds_prefix: setting("add_prefix_space").unwrap_or(true),
            removes_spaces: setting("clean_up_tokenization_spaces").unwrap_or(false),
        };
        let specials = specials(settings.as_deref(), "xlm-roberta")?;
        let added = added(&root)?;
        let unknown = settings
            .as_ref()
            .and_then(|settings| settings.root().get("unk_token")?.if_text().map(str::to_owned));
        let unknown = unknown.and_then(|text| added.iter().find(|token| token.text == text));
        let unknown = match (unknown, model.set("unk_id")) {
            (Some(token), _) => token.number,
            (None, Some(node)) => node.uint()?,
            (None, None) => 3,
        };
        let held = scored(&document)?;
        let base = u32::try_from(held.len()).unwrap_or(u32::MAX);
        let count = self.config.uint(&["vocab_size"])?.unwrap_or_default().max(base);
        let mut tokens = Tokens::unused(count, -10_000.0)?;
        // The first one of a number counts.
        let added: HashMap<u32, &str> = added.iter().rev().map(|token| (token.number, token.text)).collect();
        for (number, (text, score)) in (0..).zip(held) {
            let added = added.get(&number).copied();
            let text = added.map_or(text, str::to_owned);
            let kind = if number == unknown {
                UNKNOWN
            } else if specials.contains(text.as_str()) {
                CONTROL
            } else if added.is_some() {
                USER_DEFINED
            } else {
                NORMAL
            };
            tokens.set(number as usize, text, score, kind);
        }
        Ok((tokens, normalizer))
    }
}

/// Returns the map of characters of a normalizer, or of the first part of one that has a map.
fn charsmap(root: &Node<'_>) -> Result<Vec<u8>> {
    let Some(normalizer) = root.set("normalizer") else { return Ok(Vec::new()) };
    let parts = match normalizer.set("normalizers") {
        Some(parts) => parts.items()?.collect(),
        None => vec![normalizer],
    };
    let Some(node) = parts.iter().find_map(|part| part.set("precompiled_charsmap")) else {
        return Ok(Vec::new());
    };
    BASE64.decode(node.text()?).map_err(|_| node.wrong("base64"))
}

/// Returns the texts and scores of `model.vocab`.
fn scored(document: &Document) -> Result<Vec<(String, f32)>> {
    let missing = || Error::new(Code::BadIndex, "'tokenizer.json' has no list \"model.vocab\"");
    let mut reader = document.large("model.vocab").ok_or_else(missing)?;
    let mut held = Vec::new();
    let read = reader.array("the vocabulary", |reader| {
        let (mut text, mut score) = (None, None);
        reader.array("a token and its score", |reader| pair(reader, &mut text, &mut score))?;
        let pair = text.zip(score).ok_or_else(|| reader.error("a token without score"))?;
        held.push(pair);
        Ok(())
    });
    read.map_err(|error| document.text.named(&error))?;
    Ok(held)
}

fn pair(reader: &mut Reader<'_>, text: &mut Option<String>, score: &mut Option<f32>) -> Result<()> {
    if text.is_none() {
        *text = Some(reader.string("a token")?.into_owned());
        return Ok(());
    }
    let mut left = JSON_DEPTH;
    let value = reader.value(&mut left)?;
    // GGUF stores scores as float32.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    let number = match value {
        ciborium::Value::Float(number) => Some(number as f32),
        ciborium::Value::Integer(number) => Some(i128::from(number) as f32),
        _ => None,
    };
    match (number, &score) {
        (Some(number), None) => {
            *score = Some(number);
            Ok(())
        }
        _ => Err(reader.error("a score is not one number")),
    }
}
