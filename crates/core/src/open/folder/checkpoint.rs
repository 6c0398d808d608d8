//! Which weights of a folder of transformers are those of its model: files of other purposes may be next to them.
#![forbid(unsafe_code)]

use super::names::{extension, numbered};
use crate::formats::Formats;

/// The configuration, without which a folder is not one of transformers.
const CONFIG: &str = "config.json";

/// Stems and extensions of weights, the preferred ones first, as transformers and the converter of llama.cpp choose.
const WEIGHTS: [(&str, &str); 2] = [("model", "safetensors"), ("pytorch_model", "bin")];

/// Extensions of files that are not opened then, by the extension of the weights: other formats have the same weights.
const SAME: [(&str, &[&str]); 2] = [("safetensors", &["safetensors"]), ("bin", &["bin", "pt", "pth"])];

/// What to open.
pub struct Weights<'n> {
    /// The index, or the files.
    pub names: Vec<&'n str>,
    pub is_index: bool,
    /// Tensor files of other purposes, if there is no index.
    pub others: Vec<&'n str>,
}

/// Returns the weights of the model, given the sorted names in a folder; `None` if it is not one of transformers.
pub fn weights(names: &[String], formats: Formats) -> Option<Weights<'_>> {
    let has = |wanted: &str| {
        names.binary_search_by(|name| name.as_str().cmp(wanted)).ok().and_then(|at| names.get(at))
    };
    has(CONFIG)?;
    // A file of a preferred format is no part of such a checkpoint.
    let is_ours = |name: &str| {
        extension(name, formats).is_some_and(|ending| ending != "safetensors" && formats.comes_first(ending))
    };
    if names.iter().any(|name| is_ours(name)) {
        return None;
    }
    WEIGHTS.iter().find_map(|&(stem, ending)| {
        if let Some(index) = has(&format!("{stem}.{ending}.index.json")) {
            return Some(Weights { names: vec![index], is_index: true, others: Vec::new() });
        }
        let is_part = |name: &&str| {
            numbered(name, formats).is_some_and(|part| {
                (part.set.stem, part.set.variant, part.set.extension) == (stem, "", ending)
            })
        };
        let found: Vec<&str> = if let Some(name) = has(&format!("{stem}.{ending}")) {
            vec![name]
        } else {
            names.iter().map(|name| &**name).filter(is_part).collect()
        };
        let same = SAME.iter().find(|(one, _)| *one == ending).map_or(&[][..], |&(_, same)| same);
        let is_other = |name: &&str| {
            let is_same = extension(name, formats).is_some_and(|ending| same.contains(&ending));
            is_same && !found.contains(name)
        };
        let others = names.iter().map(|name| &**name).filter(is_other).collect();
        (!found.is_empty()).then_some(Weights { names: found, is_index: false, others })
    })
}
