//! `tekken.json` of Mistral: byte pairs as bytes in the order of their ranks, after special tokens.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use ztensor_core::arrange::Arrange;

use base64::Engine as _;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::syntax::json::{Reader, Unique};

use super::super::json::Text;
use super::super::plan::Model;
use super::tokens::{BASE64, CONTROL, NORMAL, Tokens, spelled, within};
use crate::limits;

const FILE: &str = "tekken.json";

/// The special tokens of files that list none, of versions up to 7.
const SPECIAL: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

#[derive(Default)]
struct Tekken {
    version: String,
    /// Numbers of all tokens, and of special ones.
    size: u32,
    special_size: u32,
    special: Option<Vec<(u32, String)>>,
    /// The bytes of the others, by rank.
    ranks: Vec<(u32, Vec<u8>)>,
}

impl Model<'_> {
    /// Describes `tekken.json`; returns false if there is none.
    pub fn tekken(&mut self) -> Result<bool> {
        let Some(text) = Text::read(self.files, FILE)? else { return Ok(false) };
        let read = read(&mut text.reader()).and_then(Tekken::described);
        drop(text);
        let Described { version, special, tokens, merges } =
            read.map_err(|error| error.reworded(format!("'{FILE}': {}", error.message())))?;
        let count = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        let number = |text: &str| (0..).zip(&special).find(|(_, token)| *token == text).map(|(at, _)| at);
        let metadata = &mut self.metadata;
        metadata.set("tokenizer.ggml.model", "gpt2");
        metadata.set("tokenizer.ggml.pre", "tekken");
        metadata.set("tokenizer.ggml.merges", merges);
        let purposes = [
            ("<s>", "tokenizer.ggml.bos_token_id"),
            ("</s>", "tokenizer.ggml.eos_token_id"),
            ("<unk>", "tokenizer.ggml.unknown_token_id"),
            ("<pad>", "tokenizer.ggml.padding_token_id"),
        ];
        for (text, key) in purposes {
            let number: u32 = number(text).ok_or_else(|| {
                Error::new(Code::BadIndex, format!("'{FILE}' has no special token {text:?}"))
            })?;
            metadata.set(key, number);
        }
        self.scored(tokens);
        self.metadata.own("vocab_size", count);
        self.metadata.set("tokenizer.ggml.add_bos_token", true);
        self.metadata.set("tokenizer.ggml.add_eos_token", false);
        // llama.cpp has these templates under their names.
        let template = match self.files.read("chat_template.jinja", limits::CHECKPOINT_TEXT_BYTES)? {
            Some(bytes) => String::from_utf8(bytes)
                .map_err(|_| Error::new(Code::BadIndex, "'chat_template.jinja' is not UTF-8"))?,
            None => match version.as_str() {
                "v3" => "mistral-v3-tekken".to_owned(),
                "v7" => "mistral-v7-tekken".to_owned(),
                _ => String::new(),
            },
        };
        self.metadata.set("tokenizer.chat_template", template);
        Ok(true)
    }
}

fn read(reader: &mut Reader<'_>) -> Result<Tekken> {
    let mut tekken = Tekken::default();
    reader.object("an object", Unique::Here, |reader, key| match &**key {
        "config" => reader.object("the configuration", Unique::Here, |reader, key| match &**key {
            "version" => {
                tekken.version = reader.string("a version")?.into_owned();
                Ok(())
            }
            "default_vocab_size" => {
                tekken.size = count(reader)?;
                Ok(())
            }
            "default_num_special_tokens" => {
                tekken.special_size = count(reader)?;
                Ok(())
            }
            _ => reader.skip(),
        }),
        "vocab" => reader.array("the vocabulary", |reader| {
            let token = token(reader)?;
            let bytes = token.bytes.ok_or_else(|| reader.error("a token without \"token_bytes\""))?;
            within(u32::try_from(tekken.ranks.len()).unwrap_or(u32::MAX))?;
            tekken.ranks.push((token.rank, bytes));
            Ok(())
        }),
        "special_tokens" if !reader.null() => {
            let mut special = Vec::new();
            reader.array("the special tokens", |reader| {
                let token = token(reader)?;
                let text = token.text.ok_or_else(|| reader.error("a token without \"token_str\""))?;
                within(u32::try_from(special.len()).unwrap_or(u32::MAX))?;
                special.push((token.rank, text));
                Ok(())
            })?;
            tekken.special = Some(special);
            Ok(())
        }
        "special_tokens" => Ok(()),
        _ => reader.skip(),
    })?;
    reader.end()?;
    Ok(tekken)
}

fn count(reader: &mut Reader<'_>) -> Result<u32> {
    let count = u32::try_from(reader.uint("a number of tokens")?).unwrap_or(u32::MAX);
    within(count).map(|()| count)
}

struct Token {
    rank: u32,
    bytes: Option<Vec<u8>>,
    text: Option<String>,
}

fn token(reader: &mut Reader<'_>) -> Result<Token> {
    let (mut rank, mut bytes, mut text) = (None, None, None);
    reader.object("a token", Unique::Here, |reader, key| match &**key {
        "rank" => {
            rank = u32::try_from(reader.uint("a rank")?).ok();
            Ok(())
        }
        "token_bytes" => {
            let decoded = BASE64.decode(&*reader.string("bytes")?);
            bytes = Some(decoded.map_err(|_| reader.error("bytes that are not base64"))?);
            Ok(())
        }
        "token_str" if reader.peek() == Some(b'"') => {
            text = Some(reader.string("a token")?.into_owned());
            Ok(())
        }
        _ => reader.skip(),
    })?;
    let rank = rank.ok_or_else(|| reader.error("a token without a rank below 4294967296"))?;
    Ok(Token { rank, bytes, text })
}

struct Described {
    version: String,
    special: Vec<String>,
    tokens: Tokens,
    merges: Vec<String>,
}

impl Tekken {
    fn described(self) -> Result<Described> {
        let wrong = |message: String| Error::new(Code::BadIndex, message);
        let count = self
            .size
            .checked_sub(self.special_size)
            .ok_or_else(|| wrong(format!("{} special tokens of {} tokens", self.special_size, self.size)))?;
        let given = match self.special {
            Some(given) => given,
            None if matches!(self.version.as_str(), "v1" | "v2" | "v3" | "v7") => {
                (0..).zip(SPECIAL.map(str::to_owned)).collect()
            }
            None => return Err(wrong(format!("version {:?} without special tokens", self.version))),
        };
        let mut special: Vec<String> =
            (0..self.special_size).map(|number| format!("<SPECIAL_{number}>")).collect();
        for (rank, text) in given {
            *special
                .get_mut(rank as usize)
                .ok_or_else(|| wrong(format!("the special token {rank} of {}", self.special_size)))? = text;
        }
        let mut by_rank: Vec<Option<Vec<u8>>> = vec![None; count as usize];
        for (rank, bytes) in self.ranks {
            // A file may have more tokens than a model.
            if let Some(slot) = by_rank.get_mut(rank as usize) {
                *slot = Some(bytes);
            }
        }
        let missing = by_rank.iter().position(Option::is_none);
        if let Some(rank) = missing {
            return Err(wrong(format!("no token has the rank {rank}, of {count}")));
        }
        let by_rank: Vec<Vec<u8>> = by_rank.into_iter().flatten().collect();
        let merges = merges(&by_rank)?;
        let mut tokens = Tokens::default();
        for text in &special {
            tokens.push(text.clone(), 0.0, CONTROL);
        }
        for bytes in &by_rank {
            tokens.push(spelled(bytes), 0.0, NORMAL);
        }
        Ok(Described { version: self.version, special, tokens, merges })
    }
}

/// Returns the pairs that make each token that is not a byte, in the order of the tokens: pairs of lower ranks first.
fn merges(by_rank: &[Vec<u8>]) -> Result<Vec<String>> {
    let ranks: HashMap<&[u8], u32> = by_rank.iter().map(Vec::as_slice).zip(0..).collect();
    let mut left_bytes = by_rank.iter().map(Vec::len).sum::<usize>().saturating_mul(MERGES);
    let mut merges = Vec::with_capacity(by_rank.len());
    for (rank, token) in by_rank.iter().enumerate().skip(256) {
        let limit = |message| Err(Error::new(Code::Limit, message));
        if token.len() > LONGEST {
            return limit(format!("the token of rank {rank} has {} bytes, more than {LONGEST}", token.len()));
        }
        let pairs = (1..token.len()).filter_map(|at| {
            let (left, right) = token.split_at_checked(at)?;
            Some((ranks.get(left)?, ranks.get(right)?, left, right))
        });
        let mut pairs: Vec<_> = pairs.collect();
        if pairs.is_empty() {
            let message = format!("no two tokens make the one of rank {rank}");
            return Err(Error::new(Code::BadIndex, message));
        }
        let Some(left) = left_bytes.checked_sub(pairs.len() * token.len()) else {
            return limit(format!(
                "the pairs that make tokens have more than {MERGES} times the bytes of these"
            ));
        };
        left_bytes = left;
        pairs.arrange_by_key(|&(left, right, ..)| (*left, *right));
        merges.extend(pairs.iter().map(|(.., left, right)| format!("{} {}", spelled(left), spelled(right))));
    }
    Ok(merges)
}

/// Maximum bytes of a token, of which all divisions are tried. The longest of Mistral has 128.
const LONGEST: usize = 512;
/// Maximum bytes of all pairs, as a multiple of the bytes of all tokens. Most tokens are made by a few pairs.
const MERGES: usize = 64;

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// 256 bytes and the tokens "ab", "abc" and "bc".
    fn file(vocab: &str, more: &str) -> String {
        let bytes = (0..=255_u8)
            .map(|byte| format!("{{\"rank\": {byte}, \"token_bytes\": \"{}\"}}", STANDARD.encode([byte])));
        let bytes = bytes.collect::<Vec<_>>().join(", ");
        format!(
            "{{\"config\": {{\"version\": \"v3\", \"default_vocab_size\": 284, \"default_num_special_tokens\": 25}}, \"vocab\": [{bytes}{vocab}]{more}}}"
        )
    }

    const PAIRS: &str = r#", {"rank": 256, "token_bytes": "YWI="}, {"rank": 257, "token_bytes": "YmM="}, {"rank": 258, "token_bytes": "YWJj", "token_str": "abc"}, {"rank": 259, "token_bytes": "AAA="}"#;

    fn described(text: &str) -> Result<Described> {
        read(&mut Reader::new(text, 0))?.described()
    }

    #[test]
    fn pairs_follow_from_ranks() {
        let made = described(&file(PAIRS, "")).unwrap();
        assert_eq!(made.merges, ["a b", "b c", "a bc", "ab c"]);
        assert_eq!((made.tokens.len(), made.special.len()), (284, 25));
        assert_eq!(made.tokens.texts[..3], ["<unk>", "<s>", "</s>"]);
        assert_eq!(made.tokens.texts[24], "<SPECIAL_24>");
        // A line feed and a space, as byte-level tokens spell them.
        assert_eq!((made.tokens.texts[25 + 10].as_str(), made.tokens.texts[25 + 32].as_str()), ("Ċ", "Ġ"));
        assert_eq!(made.tokens.texts[283], "abc");
        let own = r#", "special_tokens": [{"rank": 1, "token_str": "[A]"}]"#;
        assert_eq!(described(&file(PAIRS, own)).unwrap().special[..2], ["<SPECIAL_0>", "[A]"]);
    }

    #[test]
    fn malformed_files_are_refused() {
        let single = PAIRS.replace("YWI=", "enp4");
        let cases = [
            file("", ""),
            file(&single, ""),
            file(&PAIRS.replace("YWI=", "Y"), ""),
            file(&PAIRS.replace("\"rank\": 256", "\"rank\": -1"), ""),
            file(PAIRS, ", \"special_tokens\": [{\"rank\": 25, \"token_str\": \"x\"}]"),
            file(PAIRS, ", \"special_tokens\": [{\"rank\": 1}]"),
            file(PAIRS, "").replace("284", "24"),
            file(PAIRS, "").replace("\"v3\"", "\"v11\""),
            "[]".to_owned(),
        ];
        for (at, text) in cases.iter().enumerate() {
            assert_eq!(described(text).map(drop).map_err(|error| error.code()), Err(Code::BadIndex), "{at}");
        }
        // Each token of one letter is made by as many pairs as it has letters.
        let letters = |lengths: Range<usize>| {
            let size = format!("_vocab_size\": {}", 281 + lengths.len());
            let tokens = (256..).zip(lengths).map(|(rank, length)| {
                let bytes = STANDARD.encode("a".repeat(length));
                format!(", {{\"rank\": {rank}, \"token_bytes\": \"{bytes}\"}}")
            });
            file(&tokens.collect::<String>(), "").replace("_vocab_size\": 284", &size)
        };
        assert_eq!(described(&letters(2..64)).unwrap().merges.len(), 62 * 63 / 2);
        for lengths in [2..400, 513..514] {
            assert_eq!(described(&letters(lengths)).map(drop).unwrap_err().code(), Code::Limit);
        }
        let many = file(PAIRS, "").replace("284", "4294967295");
        assert_eq!(described(&many).map(drop).unwrap_err().code(), Code::Limit);
    }
}
