//! Tokens with a purpose, what is added around a text, and the chat template.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::syntax::json::Reader;

use super::super::json::Node;
use super::super::plan::Model;
use super::tokens::added;
use crate::limits;

/// Purposes as in `tokenizer_config.json`, and the key of GGUF; those without one are read as others refer to them.
const PURPOSES: &[(&str, &str)] = &[
    ("bos", "tokenizer.ggml.bos_token_id"),
    ("eos", "tokenizer.ggml.eos_token_id"),
    ("unk", "tokenizer.ggml.unknown_token_id"),
    ("sep", "tokenizer.ggml.seperator_token_id"),
    ("pad", "tokenizer.ggml.padding_token_id"),
    ("mask", "tokenizer.ggml.mask_token_id"),
    ("eot", "tokenizer.ggml.eot_token_id"),
];

/// Tokens that GGUF can add to a text, in the order of the reference.
const ADDED: &[(&str, &str)] = &[
    ("bos", "tokenizer.ggml.add_bos_token"),
    ("eos", "tokenizer.ggml.add_eos_token"),
    ("sep", "tokenizer.ggml.add_sep_token"),
];

#[derive(Default)]
pub struct Special {
    /// Numbers of tokens, by purpose.
    numbers: HashMap<&'static str, u32>,
    /// Whether a token is added, by purpose.
    adds: HashMap<&'static str, bool>,
    merges: Vec<String>,
    templates: Vec<(String, String)>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
}

/// The tokens of `tokenizer_config.json`, by purpose.
struct Named<'d>(HashMap<&'static str, &'d str>);

impl<'d> Named<'d> {
    fn get(&self, purpose: &str) -> Option<&'d str> {
        self.0.get(purpose).copied()
    }

    fn is(&self, token: &str, purposes: &[&str]) -> bool {
        purposes.iter().any(|purpose| self.get(purpose) == Some(token))
    }
}

impl Special {
    /// Reads the files in the folder of the weights. Numbers from `count` on are not those of tokens.
    pub fn read(model: &Model<'_>, count: Option<usize>) -> Result<Self> {
        let tokenizer = model.json("tokenizer.json")?;
        let settings = model.json("tokenizer_config.json")?;
        let mut special = Self::default();
        let mut named = Named(HashMap::new());
        if let Some(settings) = &settings {
            let root = settings.root();
            let purposes = ["cls", "bos", "eos", "unk", "sep", "pad", "mask"];
            let held = purposes.into_iter().filter_map(|purpose| {
                Some((
                    purpose,
                    root.get(&format!("{purpose}_token"))?.token().filter(|text| !text.is_empty())?,
                ))
            });
            named.0.extend(held);
        }
        if let Some(tokenizer) = &tokenizer {
            let root = tokenizer.root();
            if let Some(normalizer) = root.set("normalizer") {
                special.normalizer(&normalizer)?;
            }
            // The first and last token of a text, where models name them for classification only.
            for (purpose, other) in [("bos", "cls"), ("eos", "sep")] {
                if let (None, Some(token)) = (named.get(purpose), named.get(other)) {
                    named.0.insert(purpose, token);
                }
            }
            if let Some(processor) = root.set("post_processor") {
                match processor.get("processors") {
                    Some(list) => {
                        for part in list.items()? {
                            special.processor(&part, &mut named, settings.is_some())?;
                        }
                    }
                    None => special.processor(&processor, &mut named, settings.is_some())?,
                }
            }
        }
        if let Some(settings) = &settings {
            special.templates(model, &settings.root())?;
            special.settings(&settings.root());
            let added =
                tokenizer.as_ref().map(|tokenizer| added(&tokenizer.root())).transpose()?.unwrap_or_default();
            for &(purpose, _) in PURPOSES {
                let Some(token) = named.get(purpose) else { continue };
                if let Some(found) = added.iter().find(|added| added.text == token) {
                    special.number(purpose, found.number, count);
                }
            }
        }
        for &(purpose, _) in
            PURPOSES.iter().filter(|(purpose, _)| *purpose != "eot" || named.get("eot").is_some())
        {
            // A list has the ends of a text for generation, of which the reference takes none.
            let node = model.config.outer(&format!("{purpose}_token_id"));
            if let Some(number) = node.and_then(|node| node.uint().ok()) {
                special.number(purpose, number, count);
            }
        }
        Ok(special)
    }

    fn number(&mut self, purpose: &'static str, number: u32, count: Option<usize>) {
        if count.is_none_or(|count| (number as usize) < count) {
            self.numbers.entry(purpose).or_insert(number);
        }
    }

    fn normalizer(&mut self, node: &Node<'_>) -> Result<()> {
        match node.get("type").and_then(|kind| kind.if_text()) {
            Some("Lowercase") => self.lowercase = Some(true),
            Some("StripAccents") => self.strip_accents = Some(true),
            Some("BertNormalizer") => {
                let flag = |key: &str| node.set(key).map(|flag| flag.flag()).transpose();
                self.lowercase = flag("lowercase")?.or(self.lowercase);
                self.strip_accents = flag("strip_accents")?.or(self.strip_accents);
            }
            Some("Sequence") => {
                if let Some(list) = node.set("normalizers") {
                    for part in list.items()? {
                        self.normalizer(&part)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads which tokens are added around a text.
    fn processor<'d>(&mut self, node: &Node<'d>, named: &mut Named<'d>, has_settings: bool) -> Result<()> {
        match node.get("type").and_then(|kind| kind.if_text()) {
            Some("ByteLevel") => {
                for purpose in ["bos", "eos"] {
                    self.adds.entry(purpose).or_insert(false);
                }
            }
            Some("RobertaProcessing") => {
                for purpose in ["bos", "eos", "sep"] {
                    self.adds.insert(purpose, true);
                }
                for (purpose, edge) in [("cls", "bos"), ("sep", "eos")] {
                    let first =
                        node.get(purpose).filter(Node::is_list).and_then(|pair| pair.items().ok()?.next());
                    let token = first.and_then(|token| token.if_text()).or_else(|| named.get(edge));
                    if let (None, Some(token)) = (named.get(purpose), token) {
                        named.0.insert(purpose, token);
                    }
                }
            }
            Some("TemplateProcessing") => self.template_processing(node, named, has_settings)?,
            _ => {}
        }
        Ok(())
    }

    /// Reads templates such as `<s> $A` and `<s> $A </s> $B`.
    fn template_processing<'d>(
        &mut self,
        node: &Node<'d>,
        named: &mut Named<'d>,
        has_settings: bool,
    ) -> Result<()> {
        let part = |part: &Node<'d>, kind: &str| part.get(kind)?.get("id")?.if_text();
        let parts = |key: &str| -> Result<Vec<Node<'d>>> {
            node.set(key).map_or_else(|| Ok(Vec::new()), |list| Ok(list.items()?.collect()))
        };
        let (single, pair) = (parts("single")?, parts("pair")?);
        let token = |node: Option<&Node<'d>>| node.and_then(|node| part(node, "SpecialToken"));
        let edge = |at: Option<&Node<'d>>| if single.len() > 1 { token(at) } else { None };
        let (first, last) = (edge(single.first()), edge(single.last()));
        if let Some(first) = first {
            if !has_settings {
                named.0.insert("bos", first);
            } else if !named.is(first, &["bos", "cls"]) {
                for purpose in ["bos", "cls"] {
                    named.0.entry(purpose).or_insert(first);
                }
            }
            self.adds.insert("bos", named.is(first, &["bos", "cls"]));
        }
        if let Some(last) = last {
            if named.get("eos") != Some(last) {
                // The former end of a text becomes the end of a turn.
                if let (true, Some(turn)) = (has_settings, named.get("eos")) {
                    named.0.entry("eot").or_insert(turn);
                }
                named.0.insert("eos", last);
            }
            self.adds.insert("eos", true);
        }
        let mut between = pair.as_slice();
        if let (Some(first), Some(start)) = (first, between.first())
            && part(start, "SpecialToken") == Some(first)
        {
            between = &between[1..];
        }
        if let (Some(last), Some(end)) = (last, between.last())
            && part(end, "SpecialToken") == Some(last)
        {
            between = &between[..between.len() - 1];
        }
        let [start, between @ .., end] = between else { return Ok(()) };
        if part(start, "Sequence") != Some("A") || part(end, "Sequence") != Some("B") || between.is_empty() {
            return Ok(());
        }
        let is_separator = |node: &Node<'d>| {
            part(node, "SpecialToken").is_some_and(|token| named.is(token, &["sep", "eos"]))
        };
        let first_is = between.first().is_some_and(is_separator) && last.is_none();
        let second_is = between.len() == 2 && between.get(1).is_some_and(is_separator);
        let adds = first_is || second_is;
        self.adds.insert("sep", adds);
        if let (true, None, Some(eos)) = (adds, named.get("sep"), named.get("eos")) {
            named.0.insert("sep", eos);
        }
        Ok(())
    }

    /// Reads `add_bos_token` and so on, where the tokenizer itself does not decide.
    fn settings(&mut self, root: &Node<'_>) {
        for &(purpose, _) in ADDED {
            let Some(node) = root.get(&format!("add_{purpose}_token")) else { continue };
            if let Ok(flag) = node.flag() {
                self.adds.entry(purpose).or_insert(flag);
            }
        }
    }

    /// Reads chat templates: those of the settings, or of files of their own.
    fn templates(&mut self, model: &Model<'_>, root: &Node<'_>) -> Result<()> {
        let own = match root.get("chat_template") {
            Some(node) => {
                self.template(&node)?;
                return Ok(());
            }
            None => model.files.read("chat_template.jinja", limits::CHECKPOINT_TEXT_BYTES)?,
        };
        if let Some(bytes) = own {
            let text = String::from_utf8(bytes)
                .map_err(|_| Error::new(Code::BadIndex, "'chat_template.jinja' is not UTF-8"))?;
            self.templates.push(("default".to_owned(), text));
            self.additional_templates(model)?;
        } else if let Some(document) = model.json("chat_template.json")?
            && let Some(node) = document.root().get("chat_template")
        {
            self.template(&node)?;
        }
        Ok(())
    }

    /// Reads the templates of `additional_chat_templates`, each in a file with its name.
    fn additional_templates(&mut self, model: &Model<'_>) -> Result<()> {
        const FOLDER: &str = "additional_chat_templates";
        let mut left = limits::CHECKPOINT_TEXT_BYTES;
        for file in model.files.list(FOLDER)? {
            let Some(stem) = file.strip_suffix(".jinja") else { continue };
            let path = format!("{FOLDER}/{file}");
            let Some(bytes) = model.files.read(&path, left)? else { continue };
            left = left.saturating_sub(bytes.len() as u64);
            let text = String::from_utf8(bytes)
                .map_err(|_| Error::new(Code::BadIndex, format!("'{}' is not UTF-8", short(&path, NAME))))?;
            let name = plain_name(stem);
            if !name.is_empty() {
                self.templates.push((name, text));
            }
        }
        Ok(())
    }

    fn template(&mut self, node: &Node<'_>) -> Result<()> {
        if node.is_null() {
            return Ok(());
        }
        if let Some(text) = node.if_text() {
            self.templates.push(("default".to_owned(), text.to_owned()));
            return Ok(());
        }
        for choice in node.items()? {
            let (Some(name), Some(text)) = (choice.set("name"), choice.set("template")) else { continue };
            let name = plain_name(name.text()?);
            if !name.is_empty() {
                self.templates.push((name, text.text()?.to_owned()));
            }
        }
        Ok(())
    }

    /// Adds which pairs are joined, in order: from `tokenizer.json`, or from `merges.txt`.
    pub fn merges(mut self, model: &Model<'_>) -> Result<Self> {
        let tokenizer = model.json("tokenizer.json")?;
        if let Some(document) = &tokenizer {
            match (
                document.large("model.merges"),
                document.root().get("model").and_then(|model| model.set("merges")),
            ) {
                (Some(reader), _) => {
                    self.merges = listed(reader).map_err(|error| document.text.named(&error))?;
                }
                (None, Some(node)) => return Err(node.wrong("a list")),
                (None, None) => {}
            }
        }
        if self.merges.is_empty()
            && let Some(bytes) = model.files.read("merges.txt", limits::CHECKPOINT_TEXT_BYTES)?
        {
            let text = std::str::from_utf8(&bytes)
                .map_err(|_| Error::new(Code::BadIndex, "'merges.txt' is not UTF-8"))?;
            let first = usize::from(text.starts_with('#'));
            for line in text.lines().skip(first) {
                let parts: Vec<&str> = line.split_whitespace().collect();
                if let [left, right] = parts.as_slice() {
                    few(&self.merges)?;
                    self.merges.push(format!("{left} {right}"));
                }
            }
        }
        if self.merges.is_empty() {
            let message = "neither 'tokenizer.json' nor 'merges.txt' says which byte pairs are joined";
            return Err(Error::new(Code::NotFound, message));
        }
        Ok(self)
    }

    /// Adds all of it to the metadata.
    pub fn describe(self, model: &mut Model<'_>) {
        let metadata = &mut model.metadata;
        metadata.set("tokenizer.ggml.merges", self.merges);
        for (purpose, key) in PURPOSES {
            if let Some(&number) = self.numbers.get(purpose) {
                metadata.set(key, number);
            }
        }
        for (purpose, key) in ADDED {
            if let Some(&adds) = self.adds.get(purpose) {
                metadata.set(key, adds);
            }
        }
        let (mut names, mut default) = (Vec::new(), None);
        for (name, text) in self.templates {
            if name == "default" {
                default = Some(text);
            } else {
                metadata.set(&format!("tokenizer.chat_template.{name}"), text);
                names.push(name);
            }
        }
        metadata.set("tokenizer.chat_templates", names);
        metadata.set("tokenizer.chat_template", default.unwrap_or_default());
        if let Some(flag) = self.lowercase {
            metadata.set("tokenizer.ggml.normalizer.lowercase", flag);
        }
        if let Some(flag) = self.strip_accents {
            metadata.set("tokenizer.ggml.normalizer.strip_accents", flag);
        }
    }
}

/// Returns the name of a template as keys have it.
fn plain_name(name: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    name.chars().map(plain).collect()
}

/// Fails if there are as many merges as a tokenizer may have.
fn few(merges: &[String]) -> Result<()> {
    if merges.len() < limits::CHECKPOINT_MERGES {
        return Ok(());
    }
    let message = format!("the tokenizer has more than {} merges", limits::CHECKPOINT_MERGES);
    Err(Error::new(Code::Limit, message))
}

/// Returns the pairs of a list.
pub fn listed(mut reader: Reader<'_>) -> Result<Vec<String>> {
    let mut merges = Vec::new();
    reader.array("a list of the merges", |reader| {
        few(&merges)?;
        if reader.peek() == Some(b'"') {
            merges.push(reader.string("an item of the merges")?.into_owned());
            return Ok(());
        }
        let mut parts = Vec::new();
        reader.array("an item of the merges", |reader| {
            // A space in a part is spelled as byte-level tokens spell it.
            parts.push(reader.string("a part of the merges")?.replace(' ', "\u{120}"));
            if parts.len() > 2 {
                Err(reader.error("an item of the merges has more than two parts"))
            } else {
                Ok(())
            }
        })?;
        let [left, right] = parts.as_slice() else {
            return Err(reader.error("an item of the merges has fewer than two parts"));
        };
        merges.push(format!("{left} {right}"));
        Ok(())
    })?;
    Ok(merges)
}
