//! `tokenizer.model` of `SentencePiece`: a message of Protocol Buffers (`sentencepiece_model.proto`).
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::work::Stop;

use super::super::json::Node;
use super::super::plan::Model;
use super::special::Special;
use super::tokens::{
    BYTE, CONTROL, NORMAL, SPACE, Tokens, UNKNOWN, UNUSED, USER_DEFINED, added, looks_special, within,
};
use crate::limits;
use ztensor_import::protobuf::{Value, Walker};
use ztensor_import::window::Run;

const FILE: &str = "tokenizer.model";

/// A model of `SentencePiece`.
pub struct PieceModel {
    pub pieces: Vec<Piece>,
    /// Whether pieces have probabilities, and are not pairs.
    pub is_unigram: bool,
    pub normalizer: Normalizer,
}

/// `ModelProto.normalizer_spec`: what happens to a text first.
pub struct Normalizer {
    /// A map of characters, compiled.
    pub characters: Vec<u8>,
    pub adds_prefix: bool,
    pub removes_spaces: bool,
}

/// Maximum bytes of a piece. `SentencePiece` makes them of 16 characters unless asked for more.
const PIECE_BYTES: u64 = 64 << 10;

/// A piece of `ModelProto.pieces`.
pub struct Piece {
    pub text: String,
    pub score: f32,
    pub kind: i32,
}

impl Model<'_> {
    /// Describes `tokenizer.model`; returns false if there is none.
    pub fn sentence_pieces(&mut self) -> Result<bool> {
        let Some(mut tokens) = self.pieces()? else { return Ok(false) };
        if let Some(document) = self.json("tokenizer_config.json")?
            && let Some(added) = document.root().set("added_tokens_decoder")
        {
            for (number, token) in added.entries()? {
                let (number, text) = numbered(number, &token)?;
                let special = token.set("special").is_some_and(|flag| flag.is_truthy());
                if special || looks_special(text) {
                    tokens.set(number, text.to_owned(), -1000.0, CONTROL);
                } else {
                    // Spaces of tokens that users define are spaces in llama.cpp.
                    tokens.set(number, text.replace(SPACE, " "), -1000.0, USER_DEFINED);
                }
            }
        }
        self.as_pieces(tokens)?;
        Ok(true)
    }

    /// Like `sentence_pieces`, but with all added tokens of Phi, whose spaces and types remain as they are.
    pub fn phi_pieces(&mut self) -> Result<bool> {
        let Some(mut tokens) = self.pieces()? else { return Ok(false) };
        let mut add = |number: usize, text: &str, special: bool| {
            tokens.set(number, text.to_owned(), -1000.0, if special { CONTROL } else { USER_DEFINED });
        };
        if let Some(document) = self.json("tokenizer_config.json")?
            && let Some(decoder) = document.root().set("added_tokens_decoder")
        {
            for (number, token) in decoder.entries()? {
                let (number, text) = numbered(number, &token)?;
                add(number, text, token.set("special").is_some_and(|flag| flag.is_truthy()));
            }
        }
        if let Some(document) = self.json("tokenizer.json")? {
            for token in added(&document.root())? {
                add(token.number as usize, token.text, token.special);
            }
        }
        self.as_pieces(tokens)?;
        Ok(true)
    }

    pub(super) fn as_pieces(&mut self, tokens: Tokens) -> Result<()> {
        let count = tokens.len();
        self.metadata.set("tokenizer.ggml.model", "llama");
        self.metadata.set("tokenizer.ggml.pre", "default");
        self.scored(tokens);
        Special::read(self, Some(count))?.describe(self);
        Ok(())
    }

    /// Returns as many tokens as the configuration says: the pieces, and those of `added_tokens.json`.
    fn pieces(&self) -> Result<Option<Tokens>> {
        let Some(bytes) = self.files.read(FILE, limits::CHECKPOINT_TEXT_BYTES)? else { return Ok(None) };
        let pieces = read(FILE, &bytes)?.pieces;
        let held = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        let count =
            self.config.uint(&["vocab_size_per_layer_input", "vocab_size"])?.filter(|&count| count > 0);
        let mut tokens = Tokens::unused(count.unwrap_or(held), -10_000.0)?;
        for (number, piece) in pieces.into_iter().enumerate() {
            tokens.set(number, piece.text, piece.score, piece.kind);
        }
        if let Some(document) = self.json("added_tokens.json")? {
            for (text, number) in document.root().entries()? {
                tokens.set(number.uint()? as usize, text.to_owned(), -1000.0, USER_DEFINED);
            }
        }
        Ok(Some(tokens))
    }
}

/// Returns the number and text of an entry of `added_tokens_decoder`.
pub fn numbered<'d>(number: &str, token: &Node<'d>) -> Result<(usize, &'d str)> {
    let number = number.parse::<u32>().map_err(|_| token.wrong("under a number"))?;
    let text = token.get("content").ok_or_else(|| token.wrong("an object with \"content\""))?.text()?;
    Ok((number as usize, text))
}

/// Reads a file of a model.
pub fn read(file: &str, bytes: &[u8]) -> Result<PieceModel> {
    message(bytes).map_err(|error| {
        let placed = error.reworded(format!("'{file}': {}", error.message()));
        error.offset().map_or(placed.clone(), |offset| placed.at(offset))
    })
}

fn message(bytes: &[u8]) -> Result<PieceModel> {
    let stop = Stop::default();
    let mut walker = Walker::new(&bytes, &stop, limits::CHECKPOINT_TEXT_BYTES);
    let mut message = walker.whole();
    let (mut pieces, mut is_unigram) = (Vec::new(), true);
    let mut normalizer = Normalizer { characters: Vec::new(), adds_prefix: true, removes_spaces: true };
    while let Some(field) = walker.next(&mut message)? {
        match (field.number, field.value) {
            (1, Value::Bytes(mut run)) => {
                within(u32::try_from(pieces.len()).unwrap_or(u32::MAX))?;
                pieces.push(piece(&mut walker, &mut run)?);
            }
            // `TrainerSpec.model_type`
            (2, Value::Bytes(mut trainer)) => {
                while let Some(field) = walker.next(&mut trainer)? {
                    if let (3, Value::Varint(kind)) = (field.number, field.value) {
                        is_unigram = kind == 1;
                    }
                }
            }
            (3, Value::Bytes(mut rules)) => {
                while let Some(field) = walker.next(&mut rules)? {
                    match (field.number, field.value) {
                        (2, Value::Bytes(run)) => normalizer.characters = walker.bytes(run)?.to_vec(),
                        (3, Value::Varint(flag)) => normalizer.adds_prefix = flag != 0,
                        (4, Value::Varint(flag)) => normalizer.removes_spaces = flag != 0,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if pieces.is_empty() {
        return Err(Error::new(Code::BadIndex, "no pieces"));
    }
    Ok(PieceModel { pieces, is_unigram, normalizer })
}

fn piece(walker: &mut Walker<'_>, message: &mut Run) -> Result<Piece> {
    let mut made = Piece { text: String::new(), score: 0.0, kind: NORMAL };
    while let Some(field) = walker.next(message)? {
        match (field.number, field.value) {
            (1, Value::Bytes(run)) => {
                walker.text(run, PIECE_BYTES, "a piece")?.clone_into(&mut made.text);
            }
            (2, Value::Fixed(run)) if run.length() == 4 => {
                let bytes = walker.bytes(run)?;
                made.score = bytes.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
            }
            (3, Value::Varint(kind)) => {
                made.kind = match kind {
                    2 => UNKNOWN,
                    3 => CONTROL,
                    5 => UNUSED,
                    6 => BYTE,
                    // The reference takes those that users define (4) for normal ones.
                    _ => NORMAL,
                };
            }
            _ => {}
        }
    }
    Ok(made)
}
