//! Tokens and their types.
#![forbid(unsafe_code)]

use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ztensor_core::error::{Code, Error, Result};

use super::super::json::Node;
use crate::limits;

/// The types of tokens (`enum llama_token_type`).
pub const NORMAL: i32 = 1;
pub const UNKNOWN: i32 = 2;
pub const CONTROL: i32 = 3;
pub const USER_DEFINED: i32 = 4;
pub const UNUSED: i32 = 5;
pub const BYTE: i32 = 6;

/// Bytes in JSON. Padding may be missing.
pub const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What `SentencePiece` writes for a space.
pub const SPACE: &str = "\u{2581}";

/// Tokens by number, with their scores and types.
#[derive(Default)]
pub struct Tokens {
    pub texts: Vec<String>,
    pub scores: Vec<f32>,
    pub types: Vec<i32>,
}

impl Tokens {
    /// Placeholders for the tokens of a vocabulary.
    pub fn unused(count: u32, score: f32) -> Result<Self> {
        within(count)?;
        let mut tokens = Self::default();
        for number in 0..count {
            tokens.push(format!("[PAD{number}]"), score, UNUSED);
        }
        Ok(tokens)
    }

    pub fn push(&mut self, text: String, score: f32, kind: i32) {
        self.texts.push(text);
        self.scores.push(score);
        self.types.push(kind);
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns texts, scores and types.
    pub fn into_rows(self) -> impl Iterator<Item = (String, f32, i32)> {
        let scored = self.texts.into_iter().zip(self.scores);
        scored.zip(self.types).map(|((text, score), kind)| (text, score, kind))
    }

    /// Replaces a token, unless there is none with this number.
    pub fn set(&mut self, number: usize, text: String, score: f32, kind: i32) {
        if let (Some(held), Some(score_held), Some(kind_held)) =
            (self.texts.get_mut(number), self.scores.get_mut(number), self.types.get_mut(number))
        {
            (*held, *score_held, *kind_held) = (text, score, kind);
        }
    }
}

pub fn within(count: u32) -> Result<()> {
    if count <= limits::CHECKPOINT_TOKENS {
        return Ok(());
    }
    let message = format!("a vocabulary of {count} tokens, more than {}", limits::CHECKPOINT_TOKENS);
    Err(Error::new(Code::Limit, message))
}

/// Returns whether a token controls the model, though it is not marked as such: some checkpoints omit the mark.
pub fn looks_special(text: &str) -> bool {
    let within = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || within("<|", "|>")
        || within("<\u{ff5c}", "\u{ff5c}>")
        || within("<unused", ">")
}

/// A token of `added_tokens`.
pub struct Added<'d> {
    pub number: u32,
    pub text: &'d str,
    pub special: bool,
}

pub fn added<'d>(root: &Node<'d>) -> Result<Vec<Added<'d>>> {
    let Some(list) = root.set("added_tokens") else { return Ok(Vec::new()) };
    let items = list.items()?.map(|token| {
        let number = token.get("id").ok_or_else(|| token.wrong("an object with \"id\""))?.uint()?;
        let text = token.get("content").ok_or_else(|| token.wrong("an object with \"content\""))?.text()?;
        let special = token.set("special").is_some_and(|flag| flag.is_truthy());
        Ok(Added { number, text, special })
    });
    items.collect()
}

/// Returns bytes as byte-level tokens spell them: those that are no visible characters of Latin-1 as characters from U+0100 on.
pub fn spelled(bytes: &[u8]) -> String {
    let spell = |byte: u8| match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        0..=0x20 => char::from_u32(0x100 + u32::from(byte)).unwrap_or_default(),
        0x7f..=0xa0 => char::from_u32(0x121 + u32::from(byte) - 0x7f).unwrap_or_default(),
        0xad => '\u{143}',
    };
    bytes.iter().copied().map(spell).collect()
}
