//! What each format and version can hold when it is written.
#![forbid(unsafe_code)]

use super::{CORE, btf, safetensors, zt};
use crate::codecs::digest::Algorithm;
use crate::model::{Container, DType, Layout};

/// A format and version that can be written: how the writer spells it. What it can hold is [`Dialect::writing`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    Zt01,
    Zt10,
    /// Only where a file of 1.1 is added to: a new one is of 1.2.
    Zt11,
    Zt12,
    Zt2,
    Safetensors,
    Btf,
}

/// What a format, in one of its versions, can hold when it is written.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // a row of a table, each column of its own meaning
pub struct Writing {
    pub dialect: Dialect,
    /// The name of the format.
    pub format: &'static str,
    /// As options name it; `None` where the format has no versions.
    pub version: Option<&'static str>,
    /// Whether it is written where no version is named.
    pub usual: bool,
    /// As messages name it.
    pub title: &'static str,
    /// What reads it.
    pub readers: &'static [&'static str],
    /// What a file begins with.
    pub magic: &'static [u8],
    /// Whether the index stands before the data, which is then spooled.
    pub index_first: bool,
    /// Whether tensors of a sparse layout are one blob.
    pub packs: bool,
    /// Whether elements of a type can be stored.
    pub holds: fn(DType) -> bool,
    /// Whether tensors of a layout can be stored.
    pub holds_layout: fn(Layout) -> bool,
    pub names: Names,
    pub attributes: FileAttributes,
    /// Whether tensors can have attributes of their own.
    pub tensor_attributes: bool,
    /// Whether a dense or sparse tensor can have components beside those of its layout.
    pub other_components: bool,
    /// Of components; the usual one first.
    pub digests: &'static [Algorithm],
    /// Of blobs; `None` where they stand without gaps.
    pub alignment: Option<Alignment>,
    /// How blobs are compressed with zstd, if at all.
    pub zstd: Option<Frames>,
    /// Whether there is a canonical form, which is then the usual one.
    pub canonical: bool,
    /// Whether a file can be written in shards.
    pub shards: bool,
    /// Whether a file names what wrote it.
    pub generator: bool,
}

/// What tensors can be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    Any,
    /// Anything but this.
    Except(&'static str),
    /// They are numbered, from 0 on.
    Numbers,
}

/// The attributes that a file can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileAttributes {
    None,
    /// Text to text.
    Text,
    Any,
}

impl FileAttributes {
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Text => "text",
            Self::Any => "any",
        }
    }
}

/// The offsets that blobs can be made to begin at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alignment {
    /// Alignments are multiples of this.
    pub least: u64,
    pub usual: u64,
    /// Whether they have to be powers of two.
    pub powers_of_two: bool,
}

/// How many zstd frames a compressed blob is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frames {
    One,
    /// Of a size that can be chosen, with a table of where they are.
    Many,
}

impl Dialect {
    /// What can be held.
    pub fn writing(self) -> &'static Writing {
        match self {
            Self::Zt01 => &zt::ZT01,
            Self::Zt10 => &zt::ZT10,
            Self::Zt11 => &zt::ZT11,
            Self::Zt12 => &zt::ZT12,
            Self::Zt2 => &zt::ZT2,
            Self::Safetensors => &safetensors::WRITING,
            Self::Btf => &btf::WRITING,
        }
    }

    /// The dialect of a new file by its [`Writing::id`].
    pub fn from_id(id: &str) -> Option<Self> {
        let mut writings = CORE.iter().flat_map(|format| format.writes);
        writings.find(|writing| writing.id() == id).map(|writing| writing.dialect)
    }

    pub fn name(self) -> &'static str {
        self.writing().title
    }

    pub fn container(self) -> Container {
        Container::named(self.writing().format)
    }

    pub fn index_first(self) -> bool {
        self.writing().index_first
    }

    pub fn packs(self) -> bool {
        self.writing().packs
    }

    pub fn holds(self, dtype: DType) -> bool {
        (self.writing().holds)(dtype)
    }

    pub fn holds_tensor_attributes(self) -> bool {
        self.writing().tensor_attributes
    }

    pub fn holds_other_components(self) -> bool {
        self.writing().other_components
    }

    pub fn holds_layout(self, layout: Layout) -> bool {
        (self.writing().holds_layout)(layout)
    }
}

impl Writing {
    /// What tells it from every other: its version, or the format that has none.
    pub fn id(&self) -> &'static str {
        self.version.unwrap_or(self.format)
    }
}
