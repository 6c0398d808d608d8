//! The name of the pre-tokenizer: how text is divided before byte pairs are joined. llama.cpp knows each by name. The reference finds the
//! name by the tokens of a sample, which needs the published vocabulary; here the rules of `tokenizer.json` decide, so that a model with
//! another vocabulary and the same rules is recognized.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result, short};

use super::super::json::Node;

/// Rules of division, in order.
struct Known {
    name: &'static str,
    rules: &'static [&'static str],
    /// Whether a text that is a token is not divided further, if that decides.
    whole: Option<bool>,
    /// Whether a token is added before each text, if that decides.
    begins: Option<bool>,
}

const CONTRACTIONS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SINGLE_DIGITS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const MARKS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const CASES: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const WORDS: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// Division by the rule of GPT-2, which `ByteLevel` has built in.
const BUILT_IN: &str = "ByteLevel";
const DIGITS: &str = "Digits";
const EACH_DIGIT: &str = "Digits, each alone";

/// A rule that is not compared, such as a list of some 300 ranges of letters.
const ANY: &str = "";
const LINES: &str = r"[\r\n]";
const CHINESE: &str = "[一-龥ࠀ-一가-퟿]+";

const fn known(name: &'static str, rules: &'static [&'static str]) -> Known {
    Known { name, rules, whole: None, begins: None }
}

const KNOWN: &[Known] = &[
    Known { name: "llama-bpe", rules: &[CONTRACTIONS], whole: Some(true), begins: Some(true) },
    Known { name: "smaug-bpe", rules: &[CONTRACTIONS], whole: Some(true), begins: Some(false) },
    // The rules of cl100k, without the option that Llama 3 adds.
    Known { name: "dbrx", rules: &[CONTRACTIONS], whole: Some(false), begins: None },
    known("qwen2", &[SINGLE_DIGITS]),
    known("qwen35", &[MARKS]),
    known("gpt-4o", &[CASES]),
    known("tekken", &[TEKKEN]),
    known("deepseek-v3", &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", WORDS]),
    known("deepseek-llm", &[LINES, ANY, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", CHINESE, ANY]),
    known("deepseek-coder", &[LINES, r"\s?\p{L}+", r"\s?\p{P}+", CHINESE, EACH_DIGIT]),
    known("gpt-2", &[BUILT_IN]),
    // Models with single digits differ in nothing that llama.cpp reads.
    known("smollm", &[EACH_DIGIT, BUILT_IN]),
];

/// Returns the name of the pre-tokenizer of a `tokenizer.json`.
pub fn name(root: &Node<'_>) -> Result<&'static str> {
    let whole =
        root.get("model").and_then(|model| model.set("ignore_merges")).is_some_and(|flag| flag.is_truthy());
    let begins = root.set("post_processor").is_some_and(|processor| begins(&processor));
    let mut rules = Vec::new();
    if let Some(pre) = root.set("pre_tokenizer") {
        collect(&pre, &mut rules)?;
    }
    let found = KNOWN.iter().find(|known| {
        let same = known.rules.len() == rules.len()
            && known.rules.iter().zip(&rules).all(|(&a, b)| a == ANY || a == b);
        same && known.whole.is_none_or(|wanted| wanted == whole)
            && known.begins.is_none_or(|wanted| wanted == begins)
    });
    found.map(|known| known.name).ok_or_else(|| {
        let rules = rules.join(", ");
        let message = format!(
            "'tokenizer.json' divides text by rules that no known pre-tokenizer of llama.cpp has ({}); give its name as 'tokenizer.ggml.pre' in 'metadata'",
            short(&rules, 200)
        );
        Error::new(Code::UnsupportedEncoding, message)
    })
}

/// Returns whether a token is added before each text.
fn begins(processor: &Node<'_>) -> bool {
    let parts =
        processor.get("processors").and_then(|parts| parts.items().ok().map(Iterator::collect::<Vec<_>>));
    parts.unwrap_or_else(|| vec![processor.clone()]).iter().any(|part| {
        let first = part.get("single").and_then(|single| single.items().ok()?.next());
        first.is_some_and(|first| first.get("SpecialToken").is_some())
    })
}

fn collect(node: &Node<'_>, rules: &mut Vec<String>) -> Result<()> {
    let kind = node.get("type").ok_or_else(|| node.wrong("an object with \"type\""))?;
    let is = |key: &str| node.set(key).map(|flag| flag.flag()).transpose();
    match kind.text()? {
        "Sequence" => {
            let parts =
                node.get("pretokenizers").ok_or_else(|| node.wrong("an object with \"pretokenizers\""))?;
            for part in parts.items()? {
                collect(&part, rules)?;
            }
        }
        "Split" => {
            let pattern = node.get("pattern").ok_or_else(|| node.wrong("an object with \"pattern\""))?;
            let rule = match (pattern.get("Regex"), pattern.get("String")) {
                (Some(regex), _) => spelled(regex.text()?),
                (None, Some(text)) => format!("the text {:?}", text.text()?),
                (None, None) => return Err(pattern.wrong("an object with \"Regex\"")),
            };
            rules.push(rule);
        }
        // With rules before it, it only spells bytes.
        "ByteLevel" if is("use_regex")?.unwrap_or(true) => rules.push(BUILT_IN.to_owned()),
        "ByteLevel" => {}
        "Digits" if is("individual_digits")?.unwrap_or(false) => rules.push(EACH_DIGIT.to_owned()),
        "Digits" => rules.push(DIGITS.to_owned()),
        other => rules.push(other.to_owned()),
    }
    Ok(())
}

/// Returns a rule with line ends as escapes: some files have them as characters.
fn spelled(rule: &str) -> String {
    rule.replace('\r', "\\r").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::super::json::Document;
    use super::*;

    fn of(pre: &str, more: &str) -> Result<&'static str> {
        let text = format!("{{\"pre_tokenizer\": {pre}, \"model\": {{{more}}}}}");
        name(&Document::parse("tokenizer.json", text.into_bytes()).unwrap().root())
    }

    fn split(rule: &str) -> String {
        let rule = rule.replace('\\', "\\\\").replace('"', "\\\"");
        format!(
            "{{\"type\": \"Split\", \"pattern\": {{\"Regex\": \"{rule}\"}}, \"behavior\": \"Isolated\", \"invert\": false}}"
        )
    }

    fn sequence(parts: &[String]) -> String {
        format!("{{\"type\": \"Sequence\", \"pretokenizers\": [{}]}}", parts.join(", "))
    }

    const BYTES: &str = r#"{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}"#;

    #[test]
    fn rules_have_names() {
        let with = |rules: &[&str]| {
            let parts: Vec<String> = rules.iter().map(|rule| split(rule)).chain([BYTES.to_owned()]).collect();
            sequence(&parts)
        };
        let whole = r#""ignore_merges": true"#;
        assert_eq!(of(&with(&[CONTRACTIONS]), whole).unwrap(), "smaug-bpe");
        let begins =
            r#""ignore_merges": true}, "post_processor": {"single": [{"SpecialToken": {"id": "<s>"}}]"#;
        assert_eq!(of(&with(&[CONTRACTIONS]), begins).unwrap(), "llama-bpe");
        assert_eq!(of(&with(&[CONTRACTIONS]), "").unwrap(), "dbrx");
        assert_eq!(of(&with(&[SINGLE_DIGITS]), r#""ignore_merges": false"#).unwrap(), "qwen2");
        assert_eq!(of(&with(&[CASES]), "").unwrap(), "gpt-4o");
        assert_eq!(of(&with(&[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", WORDS]), "").unwrap(), "deepseek-v3");
        assert_eq!(of(r#"{"type": "ByteLevel", "add_prefix_space": false}"#, "").unwrap(), "gpt-2");
    }

    #[test]
    fn other_rules_are_refused() {
        for pre in ["null", &split("[a-z]+"), r#"{"type": "Whitespace"}"#, r#"{"type": "Digits"}"#] {
            assert_eq!(of(pre, "").map_err(|error| error.code()), Err(Code::UnsupportedEncoding), "{pre}");
        }
        for pre in ["{}", r#"{"type": 1}"#, r#"{"type": "Split"}"#, r#"{"type": "Sequence"}"#] {
            assert_eq!(of(pre, "").map_err(|error| error.code()), Err(Code::BadIndex), "{pre}");
        }
    }
}
