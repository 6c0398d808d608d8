//! The JSON files of a checkpoint, with errors that name the file and the key.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use ciborium::Value;
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::syntax::json::{Reader, Unique, keep_last};

use super::Files;
use crate::limits;

/// The text of a file.
pub struct Text {
    file: &'static str,
    text: String,
}

impl Text {
    /// Reads a file; `None` if there is none.
    pub fn read(files: &dyn Files, file: &'static str) -> Result<Option<Self>> {
        files.read(file, limits::CHECKPOINT_JSON_BYTES)?.map(|bytes| Self::new(file, bytes)).transpose()
    }

    fn new(file: &'static str, bytes: Vec<u8>) -> Result<Self> {
        let text = String::from_utf8(bytes)
            .map_err(|error| bad(file, "is not UTF-8").at(error.utf8_error().valid_up_to() as u64))?;
        Ok(Self { file, text })
    }

    pub fn reader(&self) -> Reader<'_> {
        // As Python, which writes these files.
        Reader::python(&self.text, 0)
    }

    /// Adds the name of the file to an error of a reader.
    pub fn named(&self, error: &Error) -> Error {
        let placed = error.reworded(format!("'{}': {}", self.file, error.message()));
        error.offset().map_or(placed.clone(), |offset| placed.at(offset))
    }
}

/// Returns whether bytes are one JSON value, as Python reads it.
pub fn is_valid(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| {
        let mut reader = Reader::python(text, 0);
        reader.ignore().and_then(|()| reader.end()).is_ok()
    })
}

/// A file and its contents.
pub struct Document {
    pub text: Text,
    /// All but the values of `LARGE`.
    value: Value,
    /// Where the values of `LARGE` are in the text.
    large: Vec<(&'static str, Range<usize>)>,
    /// The first keys that are repeated.
    repeated: Vec<String>,
}

/// Lists of `tokenizer.json` that are most of it: they are read from the text as they are needed. As values, they would take eight times as
/// much memory.
const LARGE: [(&str, &str, &str); 2] =
    [("model", "vocab", "model.vocab"), ("model", "merges", "model.merges")];

/// Files that may have any other keys, and the keys that are read of them. The values of the others take no memory.
const READ: &[(&str, &[&str])] = &[
    (
        "tokenizer.json",
        &["model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"],
    ),
    (
        "tokenizer_config.json",
        &[
            "tokenizer_class",
            "bos_token",
            "eos_token",
            "unk_token",
            "sep_token",
            "pad_token",
            "cls_token",
            "mask_token",
            "add_bos_token",
            "add_eos_token",
            "add_sep_token",
            "add_prefix_space",
            "clean_up_tokenization_spaces",
            "additional_special_tokens",
            "extra_special_tokens",
            "added_tokens_decoder",
            "chat_template",
        ],
    ),
    (
        "generation_config.json",
        &[
            "top_k",
            "top_p",
            "min_p",
            "xtc_probability",
            "xtc_threshold",
            "temperature",
            "penalty_last_n",
            "penalty_repeat",
            "repetition_penalty",
            "mirostat",
            "mirostat_tau",
            "mirostat_eta",
        ],
    ),
    ("chat_template.json", &["chat_template"]),
];

/// Returns whether a key of the root of a file is read.
fn is_read(file: &str, key: &str) -> bool {
    READ.iter().find(|(name, _)| *name == file).is_none_or(|(_, keys)| keys.contains(&key))
}

impl Document {
    /// Reads a file; `None` if there is none.
    pub fn read(files: &dyn Files, file: &'static str) -> Result<Option<Self>> {
        Text::read(files, file)?.map(Self::of).transpose()
    }

    pub fn parse(file: &'static str, bytes: Vec<u8>) -> Result<Self> {
        Self::of(Text::new(file, bytes)?)
    }

    fn of(text: Text) -> Result<Self> {
        let mut large = Vec::new();
        let mut reader = text.reader();
        let value = root(text.file, &mut reader, &mut large).and_then(|value| reader.end().map(|()| value));
        match value.map_err(|error| text.named(&error))? {
            value @ Value::Map(_) => Ok(Self { repeated: reader.repeated().to_vec(), text, value, large }),
            _ => Err(bad(text.file, "is not a JSON object")),
        }
    }

    /// Returns a reader at the start of a list or an object that is not among the nodes; `None` if the file does not have it.
    pub fn large(&self, path: &str) -> Option<Reader<'_>> {
        let (_, range) = self.large.iter().rev().find(|(name, _)| *name == path)?;
        Some(Reader::python(self.text.text.get(range.clone())?, range.start as u64))
    }

    /// Returns a warning about keys that are repeated.
    pub fn warning(&self) -> Option<String> {
        let keys: Vec<String> = self.repeated.iter().map(|key| format!("{key:?}")).collect();
        let message =
            format!("'{}' has keys twice, the last of which count: {}", self.text.file, keys.join(", "));
        (!keys.is_empty()).then_some(message)
    }

    pub fn root(&self) -> Node<'_> {
        Node { file: self.text.file, path: String::new(), value: &self.value }
    }
}

fn root(file: &str, reader: &mut Reader<'_>, large: &mut Vec<(&'static str, Range<usize>)>) -> Result<Value> {
    let mut left = limits::CHECKPOINT_JSON_VALUES;
    if reader.peek() != Some(b'{') {
        return reader.value(&mut left);
    }
    let mut entries = Vec::new();
    // A warning needs no more than their hashes, which take less memory than the keys do in the file.
    let (mut seen, hasher) = (HashSet::new(), RandomState::new());
    reader.object("an object", Unique::ByCaller, |reader, key| {
        if !seen.insert(hasher.hash_one(&**key)) {
            reader.repeat(key)?;
        }
        if !is_read(file, key) {
            return reader.ignore();
        }
        let value = if reader.peek() == Some(b'{') && LARGE.iter().any(|(outer, ..)| outer == key) {
            let mut inner = Vec::new();
            reader.object("an object", Unique::Here, |reader, name| {
                let found = LARGE.iter().find(|(outer, inner, _)| outer == key && inner == name);
                match (found, reader.peek()) {
                    (Some((.., path)), Some(b'{' | b'[')) => {
                        let start = reader.position();
                        reader.skip()?;
                        large.push((*path, start..reader.position()));
                    }
                    _ => inner.push((Value::Text(name.to_string()), reader.value(&mut left)?)),
                }
                Ok(())
            })?;
            if reader.repeats() > 0 {
                keep_last(&mut inner, |(key, _)| key.as_text().unwrap_or_default().to_owned());
            }
            Value::Map(inner)
        } else {
            reader.value(&mut left)?
        };
        entries.push((Value::Text(key.to_string()), value));
        Ok(())
    })?;
    if reader.repeats() > 0 {
        keep_last(&mut entries, |(key, _)| key.as_text().unwrap_or_default().to_owned());
    }
    Ok(Value::Map(entries))
}

fn bad(file: &str, what: &str) -> Error {
    Error::new(Code::BadIndex, format!("'{file}' {what}"))
}

/// A value in a file.
#[derive(Clone)]
pub struct Node<'d> {
    file: &'d str,
    path: String,
    value: &'d Value,
}

impl<'d> Node<'d> {
    /// Returns the value of a key; `None` if it is missing, or if this is not an object.
    pub fn get(&self, key: &str) -> Option<Self> {
        debug_assert!(
            !self.path.is_empty() || is_read(self.file, key),
            "'{}' is read without {key:?}",
            self.file
        );
        let Value::Map(entries) = self.value else { return None };
        let found = entries.iter().find(|(name, _)| name.as_text() == Some(key));
        found.map(|(_, value)| self.child(key, value))
    }

    /// Like `get`, but `None` for null as well.
    pub fn set(&self, key: &str) -> Option<Self> {
        self.get(key).filter(|node| !node.is_null())
    }

    fn child(&self, key: &str, value: &'d Value) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { file: self.file, path, value }
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    pub fn is_false(&self) -> bool {
        matches!(self.value, Value::Bool(false))
    }

    pub fn is_object(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    pub fn is_list(&self) -> bool {
        matches!(self.value, Value::Array(_))
    }

    /// Fails for a value that is not of the wanted kind.
    pub fn wrong(&self, wanted: &str) -> Error {
        let found = match self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(flag) => flag.to_string(),
            Value::Integer(number) => i128::from(*number).to_string(),
            Value::Float(number) => number.to_string(),
            Value::Text(text) => format!("{:?}", short(text, 60)),
            Value::Array(_) => "a list".to_owned(),
            _ => "an object".to_owned(),
        };
        bad(self.file, &format!("has {found} as {:?}, not {wanted}", short(&self.path, 120)))
    }

    /// Returns an integer that a `uint32` of GGUF can hold.
    pub fn uint(&self) -> Result<u32> {
        self.value
            .as_integer()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.wrong("an integer from 0 to 4294967295"))
    }

    pub fn int(&self) -> Result<i32> {
        self.value
            .as_integer()
            .and_then(|number| i32::try_from(number).ok())
            .ok_or_else(|| self.wrong("a 32-bit integer"))
    }

    /// Returns an integer or a fraction.
    pub fn float(&self) -> Result<f64> {
        match self.value {
            Value::Float(number) => Ok(*number),
            // Rounds, as every reader of JSON does.
            #[allow(clippy::cast_precision_loss)]
            Value::Integer(number) => Ok(i128::from(*number) as f64),
            _ => Err(self.wrong("a number")),
        }
    }

    pub fn flag(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// Returns whether Python would take the value for true.
    pub fn is_truthy(&self) -> bool {
        match self.value {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            Value::Integer(number) => i128::from(*number) != 0,
            Value::Float(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Map(entries) => !entries.is_empty(),
            _ => true,
        }
    }

    pub fn text(&self) -> Result<&'d str> {
        self.value.as_text().ok_or_else(|| self.wrong("a string"))
    }

    pub fn if_text(&self) -> Option<&'d str> {
        self.value.as_text()
    }

    pub fn items(&self) -> Result<impl ExactSizeIterator<Item = Self> + use<'d>> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let (file, path) = (self.file, self.path.clone());
        Ok(items.iter().map(move |value| Self { file, path: format!("{path}[]"), value }))
    }

    /// Returns the keys and values of an object.
    pub fn entries(&self) -> Result<impl ExactSizeIterator<Item = (&'d str, Self)> + use<'d>> {
        let entries = self.value.as_map().ok_or_else(|| self.wrong("an object"))?;
        let (file, path) = (self.file, self.path.clone());
        Ok(entries.iter().map(move |(key, value)| {
            let path = if path.is_empty() { String::new() } else { format!("{path}.") };
            let key = key.as_text().unwrap_or_default();
            (key, Self { file, path: format!("{path}{}", short(key, 60)), value })
        }))
    }

    /// Returns the strings of a token: its text, or an object with `content`.
    pub fn token(&self) -> Option<&'d str> {
        match self.value {
            Value::Text(text) => Some(text),
            Value::Map(_) => self.get("content")?.if_text(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_nothing_reads_take_no_memory() {
        // More values than a file may have, and repeated keys.
        let list = format!("[{}1]", "1,".repeat(limits::CHECKPOINT_JSON_VALUES as usize));
        let object = format!("{{{}\"a\":1}}", "\"a\":1,".repeat(1000));
        let read = "\"tokenizer_class\":\"A\",\"eos_token\":\"b\",\"eos_token\":\"c\"";
        let text = format!("{{\"unused\":{list},{read},\"unused\":{object}}}");
        let document = Document::parse("tokenizer_config.json", text.clone().into_bytes()).unwrap();
        assert_eq!(document.root().get("tokenizer_class").unwrap().text().unwrap(), "A");
        assert_eq!(document.root().get("eos_token").unwrap().text().unwrap(), "c");
        assert_eq!(document.repeated, ["eos_token", "unused"]);
        let Value::Map(entries) = &document.value else { panic!("no object") };
        assert_eq!(entries.len(), 2);
        // What it skips is JSON all the same.
        assert!(Document::parse("tokenizer_config.json", text.replace("[1,", "[1;").into_bytes()).is_err());
        // Other files have any keys.
        assert_eq!(Document::parse("config.json", text.into_bytes()).err().unwrap().code(), Code::Limit);
    }
}
