//! What each format and version can hold when it is written.
#![forbid(unsafe_code)]

use std::fmt;

use ciborium::Value;

use super::edit_format::OpenEdit;
use super::{CORE, Input};
use crate::codecs::digest::{Algorithm, Digest, Over};
use crate::error::{Error, Result};
use crate::layouts;
use crate::limits::Limits;
use crate::model::{
    Attributes, Catalog, Component, Container, DType, Encoding, Layout, NewTensor, Shard, Tensor,
};
use crate::sources::ReadAt;
use crate::work::Stop;

/// A format, in one of its versions, as the writer needs it: what it can hold, and how it is spelled. Rows are statics, and are
/// compared by identity.
#[allow(clippy::struct_excessive_bools)] // a row of a table, each column of its own meaning
pub struct WriteFormat {
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
    pub index: Index,
    pub sparse: SparseForm,
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
    /// Which dtypes the index records.
    pub dtypes: RecordedDtypes,
    /// Of components; the usual one first.
    pub digests: &'static [Algorithm],
    /// Of blobs; `None` where they stand without gaps.
    pub alignment: Option<Alignment>,
    /// How blobs are compressed, if at all.
    pub compression: Option<Method>,
    /// What the format always has of the content of a blob; `digests` is then empty.
    pub checksum: Option<Algorithm>,
    /// The canonical form, where there is one, which is then the usual one.
    pub canonical: Option<Canonical>,
    /// The digest of what a file says, wherever its bytes are.
    pub content_digest: Option<ContentDigest>,
    pub shards: Sharding,
    /// Whether a file names what wrote it.
    pub generator: bool,
    /// Whether tensors keep the profiles of zTensor 2: uint32 indices where they were that, columns that rise within their row,
    /// cells that are named once, bools of 0 and 1, packed types that fill up their last byte.
    pub profiles: bool,
    /// Whether index arrays can have any integer type (1.1 §III.2), not uint64 alone.
    pub any_indices: bool,
    /// What it alone asks of a file that is to be written.
    pub check_settings: fn(&Asked<'_>) -> Result<()>,
    /// What it alone asks of what is announced of a tensor.
    pub check_announced: fn(&Announced<'_>) -> Result<()>,
    /// Checks what the index is to say of a tensor, as a reader would; the tensor comes without its attributes.
    pub check_entry: fn(&mut NewTensor<'_>, layout: &str, Option<&Attributes>) -> Result<()>,
    /// What it asks of a file's attributes beyond [`FileAttributes`]; canonical form may ask more.
    pub check_attributes: CheckAttributes,
    /// How a file that is there is changed; `None` where files are only written anew.
    pub edit: Option<OpenEdit>,
}

/// The dtypes that the index of a format records for tensors that are neither dense nor sparse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedDtypes {
    /// Those of the components.
    OfComponents,
    /// Those of the components and of the elements.
    All,
}

impl WriteFormat {
    /// A format of dense tensors of any name and type, without versions, attributes, digests or compression, to be completed:
    /// `WriteFormat { format: "npy", title: "NumPy", index: Index::First(put), ..WriteFormat::DENSE }`.
    pub const DENSE: Self = Self {
        format: "",
        version: None,
        usual: true,
        title: "",
        readers: &["this package"],
        magic: b"",
        index: Index::First(|_, _| Ok(())),
        sparse: SparseForm::Separate,
        holds: |_| true,
        holds_layout: |layout| matches!(layout, Layout::Dense),
        names: Names::Any,
        attributes: FileAttributes::None,
        tensor_attributes: false,
        other_components: false,
        dtypes: RecordedDtypes::OfComponents,
        digests: &[],
        alignment: None,
        compression: None,
        checksum: None,
        canonical: None,
        content_digest: None,
        shards: Sharding::None,
        generator: false,
        profiles: false,
        any_indices: false,
        check_settings: |_| Ok(()),
        check_announced: |_| Ok(()),
        check_entry: |tensor, _, _| layouts::check(tensor),
        check_attributes: |_, _| Ok(()),
        edit: None,
    };

    /// The row of this crate for files of the very version that a catalog was read from.
    pub fn of(catalog: &Catalog) -> Option<&'static Self> {
        let rows = CORE.iter().flat_map(|format| format.writes.iter().copied());
        let mut rows = rows.filter(|row| row.container() == catalog.container);
        rows.find(|row| row.version == catalog.version.as_deref())
    }

    /// What tells it from every other: its version, or the format that has none.
    pub fn id(&self) -> &'static str {
        self.version.unwrap_or(self.format)
    }

    pub fn index_first(&self) -> bool {
        matches!(self.index, Index::First(_))
    }

    pub fn container(&self) -> Container {
        Container::named(self.format)
    }

    /// What its digests are over.
    pub fn digests_over(&self) -> Over {
        if self.profiles || self.checksum.is_some() { Over::Decoded } else { Over::Stored }
    }
}

/// Checks keys and values; whether canonical form is asked for.
pub type CheckAttributes = fn(&[(Value, Value)], bool) -> Result<()>;
/// Puts a file together.
pub type Put = fn(&Catalog, &mut dyn Assemble) -> Result<()>;
/// Spells an index, and passes it on.
pub type Spell = fn(&Catalog, Pass<'_>) -> Result<()>;
/// Spells an index that begins at an offset and refers to shards, and passes it on.
pub type SpellAt = fn(&Catalog, &[Shard], u64, Pass<'_>) -> Result<()>;
/// Hashes the content of a file that was read before.
pub type ContentDigest = fn(&dyn ReadAt, Algorithm, &Limits, &Stop) -> Result<Digest>;
/// Takes bytes in their order.
pub type Pass<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// Where the index stands, and how it is spelled.
#[derive(Debug)]
pub enum Index {
    /// Before the data, or around it. The data is spooled first; then this puts the file together, to its last byte.
    First(Put),
    /// Behind the data, which begins behind the magic. This spells it, piece by piece, with all that follows it.
    Last(Spell),
    /// The same at a multiple of the alignment, behind data that canonical form arranges anew. It can refer to shards.
    Aligned(SpellAt),
}

/// A file whose data was spooled, put together from its beginning to its end.
pub trait Assemble {
    /// Tells how long the file will be, if that is known. Only a hint.
    fn expect(&mut self, length: u64);

    /// Writes bytes.
    fn bytes(&mut self, bytes: &[u8]) -> Result<()>;

    /// Writes the stored bytes of a component of the catalog.
    fn blob(&mut self, blob: &Component) -> Result<()>;
}

/// How the arrays of a sparse tensor are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SparseForm {
    /// A blob each: the values, then the indices.
    Separate,
    /// A blob each, in the order of the roles' names, so that canonical blobs need not be moved.
    ByName,
    /// All in one blob, without anything between them; coordinates are followed by their value.
    Entries,
    /// All in one blob, the coordinates of each value together, with their counts before them.
    Tuples,
}

impl SparseForm {
    /// Whether the arrays are one blob.
    pub fn packs(self) -> bool {
        matches!(self, Self::Entries | Self::Tuples)
    }

    /// Bytes of such a blob beside the arrays: N and RANK before the indices, N before the values.
    pub fn framing(self) -> u64 {
        if self == Self::Tuples { 24 } else { 0 }
    }
}

/// How a model can be written in several files.
#[derive(Clone, Copy, Debug)]
pub enum Sharding {
    None,
    /// Data shards, to which one root file refers (2 §7).
    Data(&'static DataShards),
    /// Files of the format, with an `index.json` beside them.
    Checkpoint,
}

/// Files of blobs alone beside a root, which may refer to blobs of other files, too.
#[derive(Debug)]
pub struct DataShards {
    /// What ends one.
    pub footer: &'static [u8],
    /// The shards of a root. Fails where the file is none.
    pub read: fn(&Input<'_>) -> Result<Vec<Shard>>,
    /// Checks that a file can be the one that a root means, and says whether it has blobs alone. Its digest is not compared.
    pub check: fn(&dyn ReadAt, &Shard, &Stop) -> Result<bool>,
    /// Checks a tensor of a file, whose catalog and identity are given, to which a root is to refer.
    pub check_linked: fn(Tensor<'_>, &Catalog, &Shard) -> Result<()>,
}

/// A canonical form: one file of blobs in the order of the names of tensor and component, equal ones once.
#[derive(Clone, Copy, Debug)]
pub struct Canonical {
    /// Blobs are packed at multiples of this.
    pub alignment: u64,
    /// Whether a component is stored as it asks, wherever it stands.
    pub holds: fn(&Component) -> bool,
    /// Passes on each rule that a file breaks. Digests are not compared.
    pub check: CheckForm,
}

pub type CheckForm = fn(&Catalog, &dyn ReadAt, &Stop, &mut dyn FnMut(Error)) -> Result<()>;

/// What is asked of a file before it is written.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub alignment: u64,
    pub digest: Option<Algorithm>,
    pub compressed: bool,
    pub canonical: bool,
    /// Whether it may become several files.
    pub divided: bool,
    pub attributes: &'a Attributes,
}

/// What is announced of a tensor before its bytes are written.
#[derive(Clone, Copy, Debug)]
pub struct Announced<'a> {
    pub name: &'a str,
    /// The name of its layout.
    pub layout: &'a str,
    pub attributes: Option<&'a Attributes>,
    /// The roles of its components.
    pub roles: &'a [&'a str],
    /// Whether canonical form is asked for.
    pub canonical: bool,
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

/// How a blob is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// One zstd frame.
    Zstd,
    /// zstd frames of a size that can be chosen, with a table of where they are.
    ZstdSeekable,
    /// A bare deflate stream.
    Deflate,
}

impl Method {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::ZstdSeekable => "zstd-seekable",
            Self::Deflate => "deflate",
        }
    }

    pub const fn encoding(self) -> Encoding {
        match self {
            Self::Zstd => Encoding::ZSTD,
            Self::ZstdSeekable => Encoding::ZSTD_SEEKABLE,
            Self::Deflate => Encoding::DEFLATE,
        }
    }
}

impl PartialEq for WriteFormat {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for WriteFormat {}

impl fmt::Debug for WriteFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
