//! The vocabulary of a checkpoint: byte pairs, `SentencePiece` or word pieces.
#![forbid(unsafe_code)]

mod pairs;
mod pre;
mod sentencepiece;
mod special;
mod tekken;
mod tokens;
mod unigram;

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;
use ztensor_core::arrange::Arrange;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::syntax::json::{Reader, Unique, keep_last};

use self::special::Special;
use self::tokens::{Added, BYTE, CONTROL, NORMAL, SPACE, Tokens, USER_DEFINED, added, looks_special, within};
use super::json::{Document, Node, Text};
use super::plan::Model;
use crate::limits;

/// Returns the numbers and texts of `model.vocab`.
fn vocabulary(document: &Document) -> Result<Vec<(u32, Cow<'_, str>)>> {
    let Some(reader) = document.large("model.vocab") else {
        let root = document.root();
        let model = root.get("model").ok_or_else(|| root.wrong("an object with \"model\""))?;
        return Err(model.get("vocab").map_or_else(
            || model.wrong("an object with \"vocab\""),
            |vocabulary| vocabulary.wrong("an object"),
        ));
    };
    numbered(reader).map_err(|error| document.text.named(&error))
}

/// Returns the numbers and texts of an object.
fn numbered(mut reader: Reader<'_>) -> Result<Vec<(u32, Cow<'_, str>)>> {
    let mut held = Vec::new();
    reader.object("the vocabulary", Unique::Here, |reader, text| {
        let number = reader.uint("a number of the vocabulary")?;
        let number = u32::try_from(number)
            .map_err(|_| reader.error("a number of the vocabulary exceeds 4294967295"))?;
        held.push((number, text.clone()));
        Ok(())
    })?;
    reader.end()?;
    if reader.repeats() > 0 {
        keep_last(&mut held, |(_, text)| text.to_string());
    }
    Ok(held)
}

/// Returns the number of a token of `tokenizer.json`; `None` if there is none.
pub fn number_of(document: &Document, wanted: &str) -> Result<Option<u32>> {
    let added = added(&document.root())?;
    if let Some(token) = added.iter().find(|token| token.text == wanted) {
        return Ok(Some(token.number));
    }
    let held = vocabulary(document)?;
    Ok(held.into_iter().find(|(_, text)| text == wanted).map(|(number, _)| number))
}

fn model_of<'d>(root: &Node<'d>, key: &str) -> Option<Node<'d>> {
    root.get("model")?.set(key)
}

impl Model<'_> {
    /// Describes byte pairs of `tokenizer.json`, the tokenizer of most models, or of `vocab.json` and `merges.txt`.
    pub fn byte_pairs(&mut self) -> Result<()> {
        let given = self.given.text("tokenizer.ggml.pre").map(str::to_owned);
        let (tokens, pre) = match (self.json("tokenizer.json")?, Text::read(self.files, "vocab.json")?) {
            (None, Some(vocabulary)) => self.separate(&vocabulary, given)?,
            (document, _) => {
                let document = document.ok_or_else(no_tokenizer)?;
                let pre = given.map_or_else(|| pre::name(&document.root()).map(str::to_owned), Ok)?;
                (self.by_number(&document)?, pre)
            }
        };
        self.metadata.set("tokenizer.ggml.model", "gpt2");
        self.metadata.set("tokenizer.ggml.pre", pre);
        self.metadata.set("tokenizer.ggml.tokens", tokens.texts);
        self.metadata.set("tokenizer.ggml.token_type", tokens.types);
        Special::read(self, None)?.merges(self)?.describe(self);
        Ok(())
    }

    /// Describes word pieces, in which a space marks the start of a word, not `##` its continuation.
    pub fn word_pieces(&mut self) -> Result<()> {
        let document = self.tokenizer()?;
        if model_of(&document.root(), "type").and_then(|kind| kind.if_text()) != Some("WordPiece") {
            let message = "'tokenizer.json' has no word pieces, the only tokenizer that is supported for this architecture";
            return Err(Error::new(Code::UnsupportedEncoding, message));
        }
        let mut tokens = self.by_number(&document)?;
        for (text, &kind) in tokens.texts.iter_mut().zip(&tokens.types) {
            if kind != CONTROL {
                *text = text.strip_prefix("##").map_or_else(|| format!("{SPACE}{text}"), str::to_owned);
            }
        }
        let count = tokens.len();
        self.metadata.set("tokenizer.ggml.model", "bert");
        // llama.cpp treats all word pieces the same; the reference finds this name for those of BERT.
        self.metadata.set("tokenizer.ggml.pre", "jina-v2-en");
        self.metadata.set("tokenizer.ggml.tokens", tokens.texts);
        self.metadata.set("tokenizer.ggml.token_type", tokens.types);
        Special::read(self, Some(count))?.describe(self);
        Ok(())
    }

    /// Describes byte pairs of characters, with tokens for the bytes of others: what `tokenizer.json` has for `SentencePiece`. Returns whether
    /// the file is such a one.
    pub fn byte_fallback(&mut self, name: &'static str) -> Result<bool> {
        let Some(document) = self.json("tokenizer.json")? else { return Ok(false) };
        let root = document.root();
        if !has_byte_fallback(&root) {
            return Ok(false);
        }
        let settings = self.json("tokenizer_config.json")?;
        let specials = specials(settings.as_deref(), name)?;
        let held = vocabulary(&document)?;
        let base = u32::try_from(held.len()).unwrap_or(u32::MAX);
        within(base)?;
        let mut by_number: Vec<Option<Cow<'_, str>>> = vec![None; base as usize];
        let added = added(&root)?;
        // Added tokens replace those of the vocabulary that have their number.
        let all = held.into_iter().chain(added.iter().map(|token| (token.number, token.text.into())));
        for (number, text) in all {
            if let Some(slot) = by_number.get_mut(number as usize) {
                *slot = Some(text);
            }
        }
        let mut tokens = Tokens::default();
        for (number, text) in (0..).zip(by_number) {
            let text = text.ok_or_else(|| gap(number))?;
            let kind = if is_byte(&text) {
                BYTE
            } else if specials.contains(&*text) {
                CONTROL
            } else {
                NORMAL
            };
            tokens.push(text.into_owned(), -1000.0, kind);
        }
        let mut beyond: Vec<&Added<'_>> = added.iter().filter(|token| token.number >= base).collect();
        beyond.arrange_by_key(|token| token.number);
        beyond.dedup_by_key(|token| token.number);
        for token in beyond {
            let kind = if specials.contains(token.text) { CONTROL } else { USER_DEFINED };
            tokens.push(token.text.to_owned(), -1000.0, kind);
        }
        if name == "gemma4" {
            for (text, kind) in tokens.texts.iter().zip(&mut tokens.types) {
                // Parsers of chats read these in what the model writes.
                if SHOWN.contains(&text.as_str()) {
                    *kind = USER_DEFINED;
                }
            }
        }
        let count = tokens.len();
        self.metadata.set("tokenizer.ggml.model", name);
        if name == "llama" {
            self.metadata.set("tokenizer.ggml.pre", "default");
        }
        self.scored(tokens);
        let special = Special::read(self, (name == "llama").then_some(count))?;
        let special = if name == "llama" { special } else { special.merges(self)? };
        special.describe(self);
        Ok(true)
    }

    fn scored(&mut self, tokens: Tokens) {
        self.metadata.set("tokenizer.ggml.tokens", tokens.texts);
        self.metadata.set("tokenizer.ggml.scores", tokens.scores);
        self.metadata.set("tokenizer.ggml.token_type", tokens.types);
    }

    fn tokenizer(&self) -> Result<Rc<Document>> {
        self.json("tokenizer.json")?.ok_or_else(no_tokenizer)
    }

    /// Returns the tokens of `vocab.json` and the name of the pre-tokenizer, which the class of the tokenizer decides.
    fn separate(&self, text: &Text, given: Option<String>) -> Result<(Tokens, String)> {
        let settings = self.json("tokenizer_config.json")?;
        let more = self.json("added_tokens.json")?;
        let root = settings.as_ref().map(|settings| settings.root());
        let class = root.as_ref().and_then(|root| root.get("tokenizer_class")?.if_text());
        let class = class.map(|class| class.trim_end_matches("Fast"));
        let known = match class {
            Some("Qwen2Tokenizer") => Some("qwen2"),
            Some("GPT2Tokenizer") => Some("gpt-2"),
            _ => None,
        };
        let pre = given.or_else(|| known.map(str::to_owned)).ok_or_else(|| {
            let message = "'tokenizer_config.json' does not name a class of tokenizers whose pre-tokenizer is known: give its name as \
                           'tokenizer.ggml.pre' in 'metadata', or add 'tokenizer.json'";
            Error::new(Code::UnsupportedEncoding, message)
        })?;
        let specials = specials(settings.as_deref(), "")?;
        let mut added = Vec::new();
        if let Some(more) = &more {
            for (text, number) in more.root().entries()? {
                added.push(Added { number: number.uint()?, text, special: specials.contains(text) });
            }
        }
        if let Some(decoder) = root.and_then(|root| root.set("added_tokens_decoder")) {
            for (number, token) in decoder.entries()? {
                let (number, text) = sentencepiece::numbered(number, &token)?;
                let special = token.set("special").is_some_and(|flag| flag.is_truthy());
                added.push(Added { number: u32::try_from(number).unwrap_or(u32::MAX), text, special });
            }
        }
        let held = numbered(text.reader()).map_err(|error| text.named(&error))?;
        Ok((self.numbered("vocab.json", held, added)?, pre))
    }

    /// Returns the tokens of `tokenizer.json`, as many as the configuration says.
    fn by_number(&self, document: &Document) -> Result<Tokens> {
        self.numbered("tokenizer.json", vocabulary(document)?, added(&document.root())?)
    }

    fn numbered(&self, file: &str, held: Vec<(u32, Cow<'_, str>)>, added: Vec<Added<'_>>) -> Result<Tokens> {
        let count = match self.config.uint(&["vocab_size"])? {
            Some(count) => count,
            None => u32::try_from(held.len()).unwrap_or(u32::MAX),
        };
        let mut tokens = Tokens::unused(count, 0.0)?;
        let numbers = held.iter().map(|(number, _)| *number).chain(added.iter().map(|token| token.number));
        if let Some(number) = numbers.max().filter(|&number| number >= count) {
            let message =
                format!("'{file}' has a token {number}, beyond the \"vocab_size\" {count} of 'config.json'");
            return Err(Error::new(Code::BadIndex, message));
        }
        for (number, text) in held {
            tokens.set(number as usize, text.into_owned(), 0.0, NORMAL);
        }
        for Added { number, text, special } in added {
            let is_control = special || looks_special(text);
            // Spaces of tokens that users define are spaces in llama.cpp.
            let (text, kind) = if is_control {
                (text.to_owned(), CONTROL)
            } else {
                (text.replace(SPACE, " "), USER_DEFINED)
            };
            tokens.set(number as usize, text, 0.0, kind);
        }
        Ok(tokens)
    }

    /// Reads `modules.json` of sentence-transformers: how the vectors of the tokens become one.
    pub fn pooling(&mut self) -> Result<()> {
        let Some(bytes) = self.files.read("modules.json", limits::CHECKPOINT_JSON_BYTES)? else {
            return Ok(());
        };
        // The file is a list; the reader of documents wants an object.
        let wrapped = [b"{\"modules\":".as_slice(), &bytes, b"}"].concat();
        let modules = Document::parse("modules.json", wrapped)?;
        let root = modules.root();
        let Some(list) = root.get("modules") else { return Ok(()) };
        let mut pooling = list.items()?.filter(|module| {
            module.get("type").and_then(|kind| kind.if_text()).is_some_and(|kind| kind.ends_with("Pooling"))
        });
        let Some(module) = pooling.next() else { return Ok(()) };
        let node = module.get("path").ok_or_else(|| module.wrong("an object with \"path\""))?;
        let folder = node.text()?;
        let is_outside = folder.split(['/', '\\']).any(|part| matches!(part, "" | "." | ".."));
        if is_outside || folder.contains(char::is_control) {
            return Err(node.wrong("a folder next to the weights"));
        }
        let path = format!("{folder}/config.json");
        let Some(bytes) = self.files.read(&path, limits::CHECKPOINT_JSON_BYTES)? else {
            return Err(Error::new(
                Code::NotFound,
                format!("'modules.json' names '{path}', which does not exist"),
            ));
        };
        let document = Document::parse("config.json of the pooling", bytes)?;
        self.metadata.pooling(&document.root())
    }
}

const SHOWN: &[&str] = &[
    "<|channel>",
    "<channel|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<|\"|>",
];

fn no_tokenizer() -> Error {
    let message = "the folder of the weights has neither 'tokenizer.json' nor another tokenizer for this architecture; add the file";
    Error::new(Code::NotFound, message)
}

/// Returns whether a `tokenizer.json` has byte pairs of characters, with tokens for the bytes of others.
fn has_byte_fallback(root: &Node<'_>) -> bool {
    let kind = model_of(root, "type").and_then(|kind| kind.if_text());
    let decoder = root.set("decoder").and_then(|node| node.get("type")).and_then(|kind| kind.if_text());
    let is_fallback = model_of(root, "byte_fallback").is_some_and(|flag| flag.is_truthy());
    kind == Some("BPE") && is_fallback && decoder == Some("Sequence")
}

fn gap(number: u32) -> Error {
    Error::new(Code::BadIndex, format!("'tokenizer.json' has no token {number}, but later ones"))
}

fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Tokens that the classes of transformers have a purpose for, where `tokenizer_config.json` names none.
const ASSUMED: &[(&str, &[(&str, &str)])] = &[
    ("llama", &[("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>")]),
    (
        "xlm-roberta",
        &[
            ("bos", "<s>"),
            ("eos", "</s>"),
            ("sep", "</s>"),
            ("cls", "<s>"),
            ("unk", "<unk>"),
            ("pad", "<pad>"),
            ("mask", "<mask>"),
        ],
    ),
    ("gemma4", &[("bos", "<bos>"), ("eos", "<eos>"), ("unk", "<unk>"), ("pad", "<pad>"), ("mask", "<mask>")]),
];

/// Returns the tokens that have a purpose, by `tokenizer_config.json` or by the class of the tokenizer.
fn specials<'d>(settings: Option<&'d Document>, architecture: &str) -> Result<HashSet<&'d str>> {
    let root = settings.map(Document::root);
    let of = |purpose: &str| root.as_ref()?.get(&format!("{purpose}_token"));
    let purposes = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];
    let mut specials: HashSet<&str> =
        purposes.into_iter().filter_map(|purpose| of(purpose)?.token()).collect();
    let assumed =
        ASSUMED.iter().filter(|(name, _)| *name == architecture).flat_map(|(_, tokens)| tokens.iter());
    specials.extend(assumed.filter(|(purpose, _)| of(purpose).is_none()).map(|(_, token)| *token));
    for key in ["additional_special_tokens", "extra_special_tokens"] {
        let Some(node) = root.as_ref().and_then(|root| root.set(key)) else { continue };
        if node.is_list() {
            specials.extend(node.items()?.filter_map(|item| item.token()));
        } else {
            specials.extend(node.entries()?.filter_map(|(_, item)| item.token()));
        }
    }
    Ok(specials)
}
