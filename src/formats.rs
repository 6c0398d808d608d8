//! The supported formats, and what each can hold when it is written.

use napi_derive::napi;
use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::formats::{CORE, Format, Formats, Method, Names, Sharding, WriteFormat};
use ztensor_import::{COMPANIONS, IMPORT};

use crate::index::number;

/// All formats that can be opened.
pub const FORMATS: Formats = Formats::of(&[CORE, IMPORT]).with_companions(COMPANIONS);

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
    pub usual: bool,
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
    /// Whether tensors are numbered instead of named.
    pub numbered: bool,
    pub canonical: bool,
    /// Whether a content digest is defined.
    pub content_digest: bool,
    pub shards: bool,
    pub generator: bool,
    /// Whether packed types fill up their last byte.
    pub pads_packed: bool,
}

/// Supported alignments of blobs.
#[napi(object, object_from_js = false)]
pub struct AlignmentInfo {
    /// All alignments are multiples of this.
    pub least: f64,
    pub usual: f64,
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
            least: number(alignment.least),
            usual: number(alignment.usual),
            powers_of_two: alignment.powers_of_two,
            attribute: alignment.attribute.map(str::to_owned),
        });
        Self {
            id: writing.id().to_owned(),
            version: writing.version.map(str::to_owned),
            usual: writing.usual,
            title: writing.title.to_owned(),
            readers: owned(writing.readers),
            digests: writing.digests.iter().copied().map(Algorithm::name).map(str::to_owned).collect(),
            alignment,
            compression: writing.compression.map(Method::name).map(str::to_owned),
            attributes: writing.attributes.name().to_owned(),
            typed_attributes: writing.typed_attributes,
            numbered: writing.names == Names::Numbers,
            canonical: writing.canonical.is_some(),
            content_digest: writing.content_digest.is_some(),
            shards: !matches!(writing.shards, Sharding::None),
            generator: writing.generator,
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
