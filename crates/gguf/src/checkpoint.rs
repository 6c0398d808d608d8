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
mod qwen;
mod reranker;
mod rope;
mod row;
mod sampling;
mod size;
mod tokenizer;
mod view;

use ciborium::Value as Cbor;
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::model::DType;

pub use factors::Factors;
pub use view::{Axis, View};

use self::factors::Weights;
use self::json::Document;
use self::plan::Model;
use self::row::Architecture;
use super::value::{VALUE, Value};
use crate::limits;

/// The files in the folder of the weights.
pub trait Files {
    /// Returns the contents of a file by its path from the folder of the weights, or `None` if there is none. Fails with `ZT_LIMIT` if it
    /// has more than `max` bytes.
    fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>>;

    /// Returns the sorted names in a folder of the folder of the weights; none if it does not exist.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Returns the name of the folder of the weights, or of their repository; empty if it has none.
    fn name(&self) -> &str;
}

/// Metadata that the user sets, which takes precedence over that of the checkpoint.
#[derive(Clone, Default, Debug)]
pub struct Given {
    values: Vec<(Cbor, Cbor)>,
    /// The name of the model.
    name: Option<String>,
}

impl Given {
    /// Keys and values as attributes have them.
    pub fn new(values: Vec<(Cbor, Cbor)>) -> Self {
        Self { values, name: None }
    }

    /// Names the model, if the metadata does not.
    #[must_use]
    pub fn of_model(self, name: String) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Returns the text of a key, if it is set to a text.
    fn text(&self, key: &str) -> Option<&str> {
        let (_, value) = self.values.iter().find(|(name, _)| name.as_text() == Some(key))?;
        match value {
            Cbor::Text(text) => Some(text),
            // A value that states its type.
            Cbor::Map(entries) => entries.iter().find(|(name, _)| name.as_text() == Some(VALUE))?.1.as_text(),
            _ => None,
        }
    }
}

/// A tensor of the checkpoint, in C order.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    pub name: &'a str,
    /// Outermost first.
    pub shape: &'a [u64],
    pub dtype: DType,
    /// Where the tensor is in the order in which the reference reads them.
    pub position: usize,
}

/// What a checkpoint becomes.
#[derive(Debug)]
pub struct Plan {
    /// In the order of the reference. Without `general.name` and what else a model card says, and without `general.file_type`, which
    /// follows from the types that are written.
    pub metadata: Vec<(String, Value)>,
    pub tensors: Vec<Planned>,
    /// The dtype of matrices that have factors.
    pub dtype: DType,
    /// Names of tensors that GGUF does not have, and why.
    pub left_out: Vec<(String, &'static str)>,
    /// What else GGUF does not have.
    pub lost: Vec<String>,
    /// Peculiarities of the files.
    pub warnings: Vec<String>,
}

/// A tensor of GGUF.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    pub name: String,
    /// Outermost first.
    pub shape: Vec<u64>,
    pub element: Element,
    pub content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    Float32,
    /// The type of the source, or what it is quantized to.
    AsSource,
    /// Blocks of MXFP4, as they are.
    Mxfp4,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// Elements of tensors, one piece after the other.
    Pieces(Vec<Piece>),
    /// Numbers that follow from the configuration.
    Values(Vec<f32>),
    Blocks(Blocks),
}

/// Elements of a tensor of the checkpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct Piece {
    /// The index of the tensor.
    pub source: usize,
    pub view: View,
    /// Is added to each element, in float32.
    pub add: f32,
    /// By what the elements are multiplied, in float32.
    pub factors: Option<Factors>,
}

/// MXFP4 of two tensors of bytes: 16 bytes of two elements for each scale.
#[derive(Clone, PartialEq, Debug)]
pub struct Blocks {
    /// The indexes of the tensors.
    pub blocks: usize,
    pub scales: usize,
    /// Which of the scales, and blocks of 16 bytes, in which order.
    pub view: View,
}

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
pub fn plan(files: &dyn Files, given: &Given, tensors: &[Tensor<'_>]) -> Result<Plan> {
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
    model.tensors.sort_by_key(|planned| !matches!(planned.content, Content::Values(_)));
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

/// Adds how a file is written without knowledge of its architecture. `and` joins it to the message.
fn named_by_options(error: Error, and: &str) -> Error {
    error
        .hint("rename", format!("{and}give the names with option rename"))
        .hint("metadata", ", and the parameters with option metadata")
}
