//! The name of a model, from where its weights are.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::env::current_dir;
use std::path::Path;

/// Returns the name of a model by the path or the URL of its weights or their folder, as the reference does from the folder: the words
/// between hyphens, with capital letters, unless they are versions (`v2`, `7b`) or have capitals already.
pub fn model_name(location: &str) -> String {
    let url = location.split_once("://").filter(|(scheme, _)| is_scheme(scheme));
    let path = match url {
        Some((_, rest)) => Cow::Borrowed(rest.split(['?', '#']).next().unwrap_or_default()),
        None if Path::new(location).is_absolute() => location.into(),
        None => format!("{}/{location}", current_dir().unwrap_or_default().display()).into(),
    };
    let parts = parts(&path);
    let name = match &*parts {
        [] => "model",
        [.., folder, file] if is_file(file) && !(url.is_none() && Path::new(location).is_dir()) => folder,
        [.., last] => last,
    };
    let revision = name.rfind('@').unwrap_or(name.len());
    let words =
        name.get(..revision).unwrap_or(name).split(|letter: char| letter == '-' || letter.is_whitespace());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).map(titled).collect();
    words.join(" ")
}

/// Returns whether a name is that of a file, and not that of a folder with a version at its end (`chat-v1.0`).
fn is_file(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extension.starts_with(|letter: char| letter.is_ascii_alphabetic()))
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the names in a path, without `.` and `..`.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// Returns a word with a capital letter.
fn titled(word: &str) -> String {
    let mut letters = word.chars();
    let is_version =
        word.strip_prefix('v').unwrap_or(word).starts_with(|letter: char| letter.is_ascii_digit());
    match letters.next() {
        Some(first) if !is_version && word.to_lowercase() == word => {
            first.to_uppercase().chain(letters).collect()
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_words_of_the_folder() {
        for (location, name) in [
            ("/models/tiny-llama-1.1b-chat-v1.0", "Tiny Llama 1.1b Chat v1.0"),
            ("/models/tiny-llama/model.safetensors", "Tiny Llama"),
            ("/models/tiny-llama/model.safetensors.index.json", "Tiny Llama"),
            ("/models/x/../SmolLM2-135M/", "SmolLM2 135M"),
            ("hf://owner/Qwen3-0.6B@main", "Qwen3 0.6B"),
            ("hf://owner/phi-2", "Phi 2"),
            ("https://host/phi-2/model.safetensors?download=true#x", "Phi 2"),
            ("s3://model.safetensors", "Model.safetensors"),
            ("C:\\models\\phi--2\\", "Phi 2"),
            ("/-éclair-v2", "Éclair v2"),
            ("/", "Model"),
        ] {
            assert_eq!(model_name(location), name, "{location}");
        }
        assert_eq!(model_name("/models/x/.").as_str(), "X");
        assert!(!model_name(".").is_empty());
    }
}
