//! What a checkpoint of the Hugging Face hub becomes in GGUF: names, metadata, tokenizer, and the order of elements. The rows of an
//! architecture are in a module for each family; the facts are those of `convert_hf_to_gguf.py` in llama-cpp-python 0.3.36.
#![forbid(unsafe_code)]

mod bert;
mod config;
mod decoder;
mod deepseek;
pub mod derived;
mod factors;
mod gemma;
mod gpt_oss;
mod json;
mod llama;
mod parameters;
mod phi;
mod plan;
mod qwen;
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

/// The files in the folder of the weights.
pub trait Files {
    /// Returns the contents of a file by its path from the folder of the weights, or `None` if there is none. Fails with `ZT_LIMIT` if it
    /// has more than `most` bytes.
    fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>>;
}

/// Metadata that the user sets, which takes precedence over that of the checkpoint.
#[derive(Clone, Default, Debug)]
pub struct Given(Vec<(Cbor, Cbor)>);

impl Given {
    /// Keys and values as attributes have them.
    pub fn new(values: Vec<(Cbor, Cbor)>) -> Self {
        Self(values)
    }

    /// Returns the text of a key, if it is set to a text.
    fn text(&self, key: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(name, _)| name.as_text() == Some(key))?;
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

/// Plans the GGUF file of a checkpoint from its tensors, from what the user sets, and `config.json`, `tokenizer.json` and so on in their folder.
///
/// Fails with `ZT_NOT_FOUND` without `config.json` or tokenizer, with `ZT_UNSUPPORTED_ENCODING` for an unknown architecture, tensor or
/// pre-tokenizer, with `ZT_BAD_INDEX` for values that have another type than the format defines, with `ZT_BAD_SHAPE` for tensors that do
/// not fit the configuration, and with `ZT_LIMIT`.
pub fn plan(files: &dyn Files, given: &Given, tensors: &[Tensor<'_>]) -> Result<Plan> {
    let config = Document::read(files, "config.json")?.ok_or_else(|| {
        let message = "the folder of the weights has no 'config.json', so the architecture is unknown; add the file, or give the names with option rename, and option metadata";
        Error::new(Code::NotFound, message)
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
    Ok(Plan {
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
    // The way out comes first: a message has a maximum length.
    let way_out = || {
        let known = classes().collect::<Vec<_>>().join(", ");
        format!("give the names with option rename, and option metadata, or use one of {known}")
    };
    let Some(name) = name else {
        let message = format!("'config.json' has no \"architectures\": {}", way_out());
        return Err(Error::new(Code::UnsupportedEncoding, message));
    };
    let mut all = FAMILIES.iter().flat_map(|family| family.iter());
    all.find(|architecture| architecture.classes.contains(&name.as_str())).ok_or_else(|| {
        let message = format!("the architecture {:?} is unknown: {}", short(&name, 80), way_out());
        Error::new(Code::UnsupportedEncoding, message)
    })
}
