//! `generation_config.json`: how the authors recommend to sample.
#![forbid(unsafe_code)]

use ztensor_core::error::Result;

use super::plan::Model;

/// Those that are integers; the others are float32.
const INTEGERS: &[&str] = &["top_k", "penalty_last_n", "mirostat"];

/// Keys of GGUF and of the file, in the order of the reference.
const KEYS: &[(&str, &[&str])] = &[
    ("top_k", &["top_k"]),
    ("top_p", &["top_p"]),
    ("min_p", &["min_p"]),
    ("xtc_probability", &["xtc_probability"]),
    ("xtc_threshold", &["xtc_threshold"]),
    ("temp", &["temperature"]),
    ("penalty_last_n", &["penalty_last_n"]),
    ("penalty_repeat", &["penalty_repeat", "repetition_penalty"]),
    ("mirostat", &["mirostat"]),
    ("mirostat_tau", &["mirostat_tau"]),
    ("mirostat_eta", &["mirostat_eta"]),
];

pub fn describe(model: &mut Model<'_>) -> Result<()> {
    let Some(document) = model.json("generation_config.json")? else { return Ok(()) };
    let root = document.root();
    for (key, names) in KEYS {
        let Some(node) = names.iter().find_map(|name| root.get(name)).filter(|node| !node.is_null()) else {
            continue;
        };
        let is_integer = INTEGERS.contains(key);
        let key = format!("general.sampling.{key}");
        if is_integer {
            model.metadata.set(&key, node.int()?);
        } else {
            #[allow(clippy::cast_possible_truncation)]
            model.metadata.set(&key, node.float()? as f32);
        }
    }
    Ok(())
}
