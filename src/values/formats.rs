//! The supported formats, and what each can hold when it is written.

use std::collections::BTreeMap;

use napi_derive::napi;
use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::formats::{CORE, Format, Formats, Method, ModelRules, Names, WriteFormat};
use ztensor_gguf::GGUF;
use ztensor_import::{COMPANIONS, IMPORT};

use ztensor_handover::number;

/// All formats that can be opened.
pub const FORMATS: Formats = Formats::of(&[CORE, GGUF, IMPORT]).with_companions(COMPANIONS);

/// A format, as listed in the wrapper's table (`lib/values/formats.ts`, which is generated from this).
#[napi(object, object_from_js = false)]
pub struct FormatInfo {
    pub name: String,
    /// The name used in messages.
    pub title: String,
    /// File extensions without the dot.
    pub endings: Vec<String>,
    /// The versions that can be written, or the format itself; empty for a read-only format.
    pub writes: Vec<WriteFormatInfo>,
}

/// What a format, in one of its versions, can hold when it is written.
#[napi(object, object_from_js = false)]
#[allow(clippy::struct_excessive_bools)] // a row of a table, each column of its own meaning
pub struct WriteFormatInfo {
    /// The version, or the name of a format without versions: the value of `write_format`.
    pub id: String,
    pub version: Option<String>,
    /// Whether it is the default version.
    pub is_default: bool,
    pub title: String,
    /// Software that reads it.
    pub readers: Vec<String>,
    /// Supported digests, the default first.
    pub digests: Vec<String>,
    pub alignment: Option<AlignmentInfo>,
    /// Compression of blobs: `zstd`, `zstd-seekable` or `deflate`.
    pub compression: Option<String>,
    /// `none`, `text` or `any`.
    pub attributes: String,
    /// Whether attributes record the type of each number.
    pub typed_attributes: bool,
    /// Attributes that the writer determines itself.
    pub reserved: Vec<String>,
    /// Whether tensors are numbered instead of named.
    pub numbered: bool,
    pub canonical: bool,
    /// Whether a content digest is defined.
    pub content_digest: bool,
    /// How a model is divided into several files: `none`: not at all; `root`: a root refers to the others; `index`: an index does;
    /// `numbers`: each file states its place.
    #[napi(ts_type = "'none' | 'root' | 'index' | 'numbers'")]
    pub shards: String,
    /// The formats of files that may be the weights of a checkpoint, which becomes a model of this format.
    pub checkpoints: Vec<String>,
    /// How files describe a model, if they are models that programs run by their metadata.
    pub model: Option<ModelInfo>,
    pub generator: bool,
    /// What must be known before the first byte of a stream: the sizes of all tensors if the index comes first, and all data if checksums do.
    #[napi(ts_type = "'nothing' | 'sizes' | 'data'")]
    pub needs_first: String,
    /// Whether packed types fill up their last byte.
    pub pads_packed: bool,
}

/// How files describe a model: keys of their metadata, and names of tensors. `{}` in a key is the architecture.
#[napi(object, object_from_js = false)]
pub struct ModelInfo {
    pub name: String,
    pub architecture: String,
    pub context_length: String,
    /// The number of tokens.
    pub vocabulary_size: String,
    /// The list of tokens.
    pub tokens: String,
    pub chat_template: String,
    pub license: String,
    /// The number of the mixture of types.
    pub mixture: String,
    /// The names of mixtures by their numbers.
    pub mixtures: BTreeMap<String, String>,
    /// The tensor of the embeddings of tokens, which is the output, too, if there is no other.
    pub embeddings: String,
    pub output: String,
}

impl From<&ModelRules> for ModelInfo {
    fn from(rules: &ModelRules) -> Self {
        let keys = &rules.keys;
        let [embeddings, output] = rules.tied.map(str::to_owned);
        let mixtures = (rules.mixtures)().into_iter().map(|(number, name)| (number.to_string(), name));
        Self {
            name: keys.name.to_owned(),
            architecture: keys.architecture.to_owned(),
            context_length: keys.context_length.to_owned(),
            vocabulary_size: keys.vocabulary_size.to_owned(),
            tokens: keys.tokens.to_owned(),
            chat_template: keys.chat_template.to_owned(),
            license: keys.license.to_owned(),
            mixture: rules.type_key.to_owned(),
            mixtures: mixtures.collect(),
            embeddings,
            output,
        }
    }
}

/// Supported alignments of blobs.
#[napi(object, object_from_js = false)]
pub struct AlignmentInfo {
    /// All alignments are multiples of this.
    pub min: f64,
    pub default: f64,
    pub powers_of_two: bool,
    /// The attribute of the file that states it, if there is one.
    pub attribute: Option<String>,
}

impl From<&Format> for FormatInfo {
    fn from(format: &Format) -> Self {
        Self {
            name: format.name.to_owned(),
            title: format.title.to_owned(),
            endings: owned(format.endings),
            writes: format.writes.iter().map(|writing| WriteFormatInfo::from(*writing)).collect(),
        }
    }
}

impl From<&WriteFormat> for WriteFormatInfo {
    fn from(writing: &WriteFormat) -> Self {
        let alignment = writing.alignment.map(|alignment| AlignmentInfo {
            min: number(alignment.min),
            default: number(alignment.default),
            powers_of_two: alignment.powers_of_two,
            attribute: alignment.attribute.map(str::to_owned),
        });
        Self {
            id: writing.id().to_owned(),
            version: writing.version.map(str::to_owned),
            is_default: writing.is_default,
            title: writing.title.to_owned(),
            readers: owned(writing.readers),
            digests: writing.digests.iter().copied().map(Algorithm::name).map(str::to_owned).collect(),
            alignment,
            compression: writing.compression.map(Method::name).map(str::to_owned),
            attributes: writing.attributes.name().to_owned(),
            typed_attributes: writing.typed_attributes,
            reserved: owned(writing.reserved),
            numbered: writing.names == Names::Numbers,
            canonical: writing.canonical.is_some(),
            content_digest: writing.content_digest.is_some(),
            shards: writing.shards.name().to_owned(),
            checkpoints: writing.model.map(|rules| owned(rules.checkpoints)).unwrap_or_default(),
            model: writing.model.map(ModelInfo::from),
            generator: writing.generator,
            needs_first: writing.needs_first().name().to_owned(),
            pads_packed: writing.profiles,
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().copied().map(str::to_owned).collect()
}

/// The table of formats, in display order.
#[napi(catch_unwind)]
pub fn formats() -> Vec<FormatInfo> {
    FORMATS.iter().map(FormatInfo::from).collect()
}
