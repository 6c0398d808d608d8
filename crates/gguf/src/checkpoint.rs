//! What a checkpoint of the Hugging Face hub becomes in GGUF: names, metadata, tokenizer, and the order of elements. The rows of an
//! architecture are in a module for each family; the facts are those of `convert_hf_to_gguf.py` in llama-cpp-python 0.3.36.
#![forbid(unsafe_code)]

mod bert;
mod config;
mod decoder;
mod deepseek;
pub mod derived;
mod factors;
pub mod folder;
mod gemma;
mod gpt_oss;
mod json;
mod llama;
pub mod name;
mod parameters;
mod phi;
mod plan;
mod planned;
mod qwen;
mod reranker;
mod rope;
mod row;
mod sampling;
mod size;
mod source;
mod tokenizer;
mod view;

use ztensor_core::arrange::Arrange;
use ztensor_core::error::{Code, Error, Result, short};

use self::factors::Weights;
use self::json::Document;
use self::plan::{Architecture, Model};
use self::source::named_by_options;
use crate::limits;
pub use factors::Factors;
pub use planned::{Blocks, Content, Element, Piece, Plan, Planned};
pub use source::{Files, MetadataOverrides, Tensor};
pub use view::{Axis, View};

/// All architectures.
const FAMILIES: &[&[Architecture]] = &[
    llama::ARCHITECTURES,
    qwen::ARCHITECTURES,
    gemma::ARCHITECTURES,
    phi::ARCHITECTURES,
    gpt_oss::ARCHITECTURES,
    deepseek::ARCHITECTURES,
    bert::ARCHITECTURES,
];

/// Returns the names of the architectures, as in `architectures` of `config.json`.
pub fn classes() -> impl Iterator<Item = &'static str> {
    let architectures = FAMILIES.iter().flat_map(|family| family.iter());
    architectures.flat_map(|architecture| architecture.classes.iter().copied())
}

/// Returns why the files next to the weights are not those of a checkpoint that can be converted; `None` if they are. `config` is the text
/// of `config.json`. With `is_sure`, any `config.json` will do.
fn lack(files: &dyn Files, config: Option<&[u8]>, is_sure: bool) -> Result<Option<&'static str>> {
    let names_model = |text: &[u8]| String::from_utf8_lossy(text).contains("\"architectures\"");
    match config {
        Some(text) if is_sure || names_model(text) => return Ok(None),
        Some(text) if !json::is_valid(text) => return Ok(Some("'config.json' is not valid JSON")),
        Some(_) => return Ok(Some("'config.json' has no \"architectures\"")),
        None => {}
    }
    let has = |name: &str| Ok::<_, Error>(files.read(name, limits::CHECKPOINT_JSON_BYTES)?.is_some());
    Ok(Some(if has("adapter_config.json")? {
        "the weights are an adapter (LoRA) without its model; merge it into the model first (merge_and_unload of PEFT)"
    } else if has("params.json")? {
        "the weights are in the format of 'params.json' (Mistral, Meta), not of transformers with 'config.json'"
    } else {
        "no 'config.json' is next to the weights"
    }))
}

/// Plans the GGUF file of a checkpoint from its tensors, from what the user sets, and `config.json`, `tokenizer.json` and so on in their folder.
///
/// Fails with `ZT_NOT_FOUND` without `config.json` or tokenizer, with `ZT_UNSUPPORTED_ENCODING` for an unknown architecture, tensor or
/// pre-tokenizer, with `ZT_BAD_INDEX` for values that have another type than the format defines, with `ZT_BAD_SHAPE` for tensors that do
/// not fit the configuration, and with `ZT_LIMIT`.
pub fn plan(files: &dyn Files, given: &MetadataOverrides, tensors: &[Tensor<'_>]) -> Result<Plan> {
    let config = Document::read(files, "config.json")?.ok_or_else(|| {
        let message =
            "the folder of the weights has no 'config.json', so the architecture is unknown; add the file";
        named_by_options(Error::new(Code::NotFound, message), ", or ")
    })?;
    let architecture = architecture(&config)?;
    let weights = Weights::of(&config, architecture.name)?;
    let mut model = Model::new(architecture, (files, given), &config)?;
    model.map(tensors, &weights)?;
    model.metadata.set("general.architecture", architecture.name);
    model.metadata.set("general.type", "model");
    sampling::describe(&mut model)?;
    let label_at = model.metadata.len();
    for (at, table) in architecture.parameters.iter().enumerate() {
        // The reference writes the rotary embedding between the sizes and the rest.
        model.metadata.parameters(&model.config, table)?;
        if at == 0 {
            model.metadata.causal(&model.config);
        }
        if at == 0 && architecture.parameters.len() > 1 {
            model.rope.describe(&model.config, &mut model.metadata)?;
        }
        if at == 1 {
            model.metadata.gating(&model.config)?;
        }
    }
    (architecture.derived)(&mut model)?;
    // As in the reference, which writes them first.
    model.tensors.arrange_by_key(|planned| !matches!(planned.content, Content::Values(_)));
    model.metadata.insert(label_at, "general.size_label", size::label(&model.tensors));
    model.metadata.set("general.quantization_version", 2_u32);
    (architecture.tokenizer)(&mut model)?;
    let mut warnings: Vec<String> = config.warning().into_iter().collect();
    warnings.extend(model.warnings());
    Ok(Plan {
        lost: model.rope.lost()?.into_iter().collect(),
        warnings,
        metadata: model.metadata.into_entries(),
        tensors: model.tensors,
        dtype: factors::common(tensors),
        left_out: model.left_out,
    })
}

fn architecture(config: &Document) -> Result<&'static Architecture> {
    let root = config.root();
    let of = |node: &json::Node<'_>| -> Result<Option<String>> {
        let Some(list) = node.set("architectures") else { return Ok(None) };
        let first = list.items()?.next();
        first.map(|name| name.text().map(str::to_owned)).transpose()
    };
    let inner = root.get("text_config").map(|text| of(&text)).transpose()?.flatten();
    let name = match inner {
        Some(name) => Some(name),
        None => of(&root)?,
    };
    let unknown = |what: &str| {
        let known = classes().collect::<Vec<_>>().join(", ");
        let error = Error::new(Code::UnsupportedEncoding, format!("{what}: use one of {known}"));
        named_by_options(error, ", or ")
    };
    let Some(name) = name else { return Err(unknown("'config.json' has no \"architectures\"")) };
    let mut all = FAMILIES.iter().flat_map(|family| family.iter());
    all.find(|architecture| architecture.classes.contains(&name.as_str()))
        .ok_or_else(|| unknown(&format!("the architecture {:?} is unknown", short(&name, 80))))
}
