//! Defines what each format and version can store.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use ciborium::Value;

use super::Input;
use super::edit_format::EditFormat;
use super::model_rules::ModelRules;
use super::zt_trailer::Index as StoredIndex;
use crate::codecs::digest::{Algorithm, Digest, Over};
use crate::error::{Code, Error, NAME, Result, short};
use crate::layouts;
use crate::limits::Limits;
use crate::model::{
    Attributes, Catalog, Component, Container, DType, Encoding, Layout, NewTensor, SetPart, Shard, Tensor,
};
use crate::sources::ReadAt;
use crate::work::Stop;

/// A format in one of its versions, as the writer needs it: what it can store and how it is encoded. All instances are
/// statics, and are compared by identity.
#[allow(clippy::struct_excessive_bools)] // a row of a table, each column of its own meaning
pub struct WriteFormat {
    /// The name of the format.
    pub format: &'static str,
    /// The version as options name it; `None` if the format has no versions.
    pub version: Option<&'static str>,
    /// Whether this is the default version.
    pub is_default: bool,
    /// The name in messages.
    pub title: &'static str,
    /// Software that reads it, `ztensor` last.
    pub readers: &'static [&'static str],
    /// Returns whether the others of them read a file, too: by whether all of its tensors are dense or sparse, and by its attributes.
    pub is_read_by_others: fn(bool, &Attributes) -> Result<bool>,
    /// The first bytes of a file whose index follows the data: the writer writes them. Editing finds a version by them, too. A format with
    /// [`Index::First`] leaves it empty, because its encoder writes all bytes but those of tensors.
    pub magic: &'static [u8],
    pub index: Index,
    pub sparse: SparseForm,
    /// Returns whether elements of a dtype can be stored.
    pub holds: fn(DType) -> bool,
    /// Returns whether components of a layout that is neither dense nor sparse can have a dtype.
    pub holds_part: fn(DType) -> bool,
    /// Returns whether tensors of a layout, given by its name, can be stored.
    pub holds_layout: fn(&str) -> bool,
    pub names: Names,
    /// What readers make of a name, if they may take two names for the same one.
    pub name_keys: Option<fn(&str) -> NameKeys>,
    pub attributes: FileAttributes,
    /// Whether the attributes record the type of each number, as [`Attributes::typed_values`] does.
    pub typed_attributes: bool,
    /// Attributes that the writer determines itself, which readers do not list. Options cannot set them.
    pub reserved: &'static [&'static str],
    /// Whether tensors can have attributes. The parameters of a layout count only if they are stored as attributes.
    pub tensor_attributes: bool,
    /// Whether a dense or sparse tensor can have components other than those of its layout.
    pub other_components: bool,
    /// Which dtypes the index records.
    pub dtypes: RecordedDtypes,
    /// The digests of components that can be stored; the default first.
    pub digests: &'static [Algorithm],
    /// The alignments that users can choose for blobs. `None` if there is no choice: blobs after the magic then follow each other without
    /// gaps, and an encoder of [`Index::First`] aligns them itself.
    pub alignment: Option<Alignment>,
    /// The compression of blobs; `None` if they cannot be compressed.
    pub compression: Option<Method>,
    /// The checksum of the decoded content that the format always stores for a blob. `digests` is empty in that case.
    pub checksum: Option<Algorithm>,
    /// The canonical form, if there is one. It is then the default.
    pub canonical: Option<Canonical>,
    /// Computes a digest of the content of a file that does not depend on the location of its bytes.
    pub content_digest: Option<ContentDigest>,
    /// Fails if a file that was read before has bytes that neither its index nor its tensors account for. `None` if readers reject such a
    /// file, or if nothing states where bytes may be.
    pub check_packed: Option<CheckPacked>,
    pub shards: Sharding,
    /// Whether a file records the software that wrote it.
    pub generator: bool,
    /// Whether tensors follow the profiles of zTensor 2: uint32 indices stay uint32, columns rise within their row,
    /// cells are unique, bools are 0 or 1, and the last byte of packed dtypes is padded.
    pub profiles: bool,
    /// Whether index arrays can have any integer dtype (1.1 §III.2), and not only uint64.
    pub any_indices: bool,
    /// Checks the settings of a new file against the rules of this format.
    pub check_settings: fn(&WriteSettings<'_>) -> Result<()>,
    /// Checks what is known of a tensor before its bytes are written against the rules of this format, such as the bounds of the fields for
    /// its name and rank. A conversion asks it before it writes anything.
    pub check_announced: fn(&TensorHeader<'_>) -> Result<()>,
    /// Checks the index entry of a tensor like a reader. The tensor is passed without its attributes.
    pub check_entry: fn(&mut NewTensor<'_>, layout: &str, Option<&Attributes>) -> Result<()>,
    /// The limit of an index that comes first; `None` if there is none.
    pub header: Option<&'static HeaderBound>,
    /// Checks the attributes of a file beyond [`FileAttributes`]; canonical form may be stricter.
    pub check_attributes: CheckAttributes,
    /// What programs need of a model; `None` if files are not models that run by their metadata.
    pub model: Option<&'static ModelRules>,
    /// How an existing file is edited; `None` if files can only be rewritten.
    pub edit: Option<OpenEdit>,
}

/// Reads the index of a file that begins with the magic of a [`WriteFormat`].
pub type OpenEdit = fn(&Input<'_>) -> Result<Editable>;

/// A file that can be edited.
pub struct Editable {
    pub catalog: Catalog,
    pub index: StoredIndex,
    /// The format and exact version of the file: several versions can share a magic.
    pub format: &'static WriteFormat,
    pub spelling: &'static dyn EditFormat,
}

/// What must be known before the first byte of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeededFirst {
    Nothing,
    /// The names, shapes, types and sizes of all tensors.
    Sizes,
    /// All data: its checksums come before it.
    Data,
}

impl NeededFirst {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Sizes => "sizes",
            Self::Data => "data",
        }
    }
}

/// The dtypes that the index of a format records for tensors that are neither dense nor sparse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedDtypes {
    /// The dtypes of the components.
    OfComponents,
    /// The dtypes of the components and of the elements.
    All,
}

impl WriteFormat {
    /// A format of dense tensors with any name and dtype, without versions, attributes, digests or compression. Used as
    /// a base: `WriteFormat { format: "npy", title: "NumPy", index: Index::First(put), ..WriteFormat::DENSE }`.
    pub const DENSE: Self = Self {
        format: "",
        version: None,
        is_default: true,
        title: "",
        readers: &["ztensor"],
        is_read_by_others: |_, _| Ok(true),
        magic: b"",
        index: Index::First(|_, _| Ok(())),
        sparse: SparseForm::Separate,
        holds: |_| true,
        holds_part: |_| true,
        holds_layout: |layout| layout == "dense",
        names: Names::Any,
        name_keys: None,
        attributes: FileAttributes::None,
        typed_attributes: false,
        reserved: &[],
        tensor_attributes: false,
        other_components: false,
        dtypes: RecordedDtypes::OfComponents,
        digests: &[],
        alignment: None,
        compression: None,
        checksum: None,
        canonical: None,
        content_digest: None,
        check_packed: None,
        shards: Sharding::None,
        generator: false,
        profiles: false,
        any_indices: false,
        check_settings: |_| Ok(()),
        check_announced: |_| Ok(()),
        check_entry: |tensor, _, _| layouts::check(tensor),
        header: None,
        check_attributes: |_, _| Ok(()),
        model: None,
        edit: None,
    };

    /// Returns the unique identifier: the version, or the name of a format without versions.
    pub fn id(&self) -> &'static str {
        self.version.unwrap_or(self.format)
    }

    pub fn index_first(&self) -> bool {
        matches!(self.index, Index::First(_))
    }

    /// Returns what must be known before the first byte of a file is written front to back.
    pub fn needs_first(&self) -> NeededFirst {
        match self.index {
            Index::First(_) if self.checksum.is_some() => NeededFirst::Data,
            Index::First(_) => NeededFirst::Sizes,
            Index::Last(_) | Index::Aligned(_) => NeededFirst::Nothing,
        }
    }

    /// Returns the test for dtypes of components of a layout.
    pub fn holds_in(&self, layout: Layout) -> fn(DType) -> bool {
        if matches!(layout, Layout::Other(_)) { self.holds_part } else { self.holds }
    }

    /// Returns attributes as this format takes them.
    pub fn values_of<'a>(&self, attributes: &'a Attributes) -> Result<Cow<'a, [(Value, Value)]>> {
        if self.typed_attributes { attributes.typed_values() } else { attributes.values() }
    }

    pub fn container(&self) -> Container {
        Container::named(self.format)
    }

    /// Returns whether digests cover the decoded or the stored bytes.
    pub fn digests_over(&self) -> Over {
        if self.profiles || self.checksum.is_some() { Over::Decoded } else { Over::Stored }
    }
}

/// How long the index of a file may be, so that readers accept it. The lengths are known before the data is.
#[derive(Debug)]
pub struct HeaderBound {
    /// Maximum bytes.
    pub max: u64,
    /// Returns the bytes that attributes take.
    pub of_attributes: fn(&[(Value, Value)]) -> Result<u64>,
    /// Returns the bytes that a tensor takes at least, by its name.
    pub of_tensor: fn(&str) -> u64,
    pub too_long: fn() -> Error,
}

impl HeaderBound {
    /// Adds the bytes that a tensor takes to `total`. Fails if the index would be longer than readers accept.
    pub fn add(&self, total: &mut u64, name: &str) -> Result<()> {
        *total = total.saturating_add((self.of_tensor)(name));
        if *total > self.max { Err((self.too_long)().tensor(name)) } else { Ok(()) }
    }
}

/// Checks keys and values. The flag asks for canonical form.
pub type CheckAttributes = fn(&[(Value, Value)], bool) -> Result<()>;
/// Assembles a file: writes all of its bytes in order, and passes on each of [`Catalog::blobs`] once, also those without bytes. Offsets in
/// the catalog are not those in the file; the encoder computes those from [`Component::stored_length`]. It may sort the tensors. It can run
/// before the data is known, to lay the file out, and without tensors, so its output depends on the catalog alone.
pub type AssembleFile = fn(&Catalog, &mut dyn Assembler) -> Result<()>;
/// Encodes an index and passes it on.
pub type EncodeIndex = fn(&Catalog, Sink<'_>) -> Result<()>;
/// Encodes an index that begins at an offset and refers to shards, and passes it on.
pub type EncodeIndexAt = fn(&Catalog, &[Shard], u64, Sink<'_>) -> Result<()>;
/// Hashes the content of a file that was read before.
pub type ContentDigest = fn(&dyn ReadAt, Algorithm, &Limits, &Stop) -> Result<Digest>;
/// Checks the layout of a file that was read before.
pub type CheckPacked = fn(&dyn ReadAt, &Limits, &Stop) -> Result<()>;
/// Receives bytes in order.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// The position of the index and its encoder.
#[derive(Debug)]
pub enum Index {
    /// Before the data, or around it. The data is spooled first; this then assembles the whole file.
    First(AssembleFile),
    /// After the data, which begins after the magic. This encodes the index, and everything after it, in pieces.
    Last(EncodeIndex),
    /// Like `Last`, but at a multiple of the alignment. Canonical form may reorder the data before it. It can refer to
    /// shards.
    Aligned(EncodeIndexAt),
}

/// A file assembled front to back from spooled data.
pub trait Assembler {
    /// Announces the length of the file in bytes, if it is known. Only a hint.
    fn expect(&mut self, length: u64);

    /// Writes bytes.
    fn bytes(&mut self, bytes: &[u8]) -> Result<()>;

    /// Writes the stored bytes of a component of the catalog.
    fn blob(&mut self, blob: &Component) -> Result<()>;
}

/// How the arrays of a sparse tensor are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SparseForm {
    /// One blob for each array: the values, then the indices.
    Separate,
    /// One blob for each array, in the order of the role names, so that canonical blobs need not be moved.
    ByName,
    /// All arrays in one blob without gaps; each value follows its coordinates.
    Entries,
    /// All arrays in one blob: the coordinate tuples, then the values, each preceded by their counts.
    Tuples,
}

impl SparseForm {
    /// Returns whether all arrays are in one blob.
    pub fn packs(self) -> bool {
        matches!(self, Self::Entries | Self::Tuples)
    }

    /// Returns the bytes of such a blob in addition to the arrays: N and RANK before the indices, N before the values.
    pub fn framing(self) -> u64 {
        if self == Self::Tuples { 24 } else { 0 }
    }
}

/// How a model can be split into several files.
#[derive(Clone, Copy, Debug)]
pub enum Sharding {
    None,
    /// Data shards, referenced by one root file (2 §7).
    Data(&'static DataShards),
    /// Files of the format, `model-00001-of-00003.safetensors` and so on.
    Checkpoint(&'static Checkpoint),
}

impl Sharding {
    /// Returns what joins the files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Data(_) => "root",
            Self::Checkpoint(Checkpoint { is_indexed: true, .. }) => "index",
            Self::Checkpoint(_) => "numbers",
        }
    }
}

/// Bytes to write, and their offset in the file.
pub type Patch = (u64, Vec<u8>);

/// A model in numbered files.
#[derive(Debug)]
pub struct Checkpoint {
    /// The extension of the files, without the dot.
    pub ending: &'static str,
    /// Whether an `index.json` in the same folder maps tensors to files. Without one, each file states its position in the set, and the
    /// first is put in place last.
    pub is_indexed: bool,
    /// Returns the bytes, and their offsets, that state the position of a file in the set. They are written when the number of files is
    /// known. The encoder reserves them if the catalog is part of a set.
    pub stated: fn(SetPart) -> Result<Vec<Patch>>,
    /// The attributes that state the position.
    pub position: &'static [&'static str],
}

/// The data shards of a root: files that contain only blobs. A root may refer to blobs of other files, too.
#[derive(Debug)]
pub struct DataShards {
    /// The bytes at the end of a shard.
    pub footer: &'static [u8],
    /// Reads the shards of a root. Fails if the file is not a root.
    pub read: fn(&Input<'_>) -> Result<Vec<Shard>>,
    /// Checks that a file can be the shard that a root refers to, without comparing its digest. Returns whether it
    /// contains only blobs.
    pub check: fn(&dyn ReadAt, &Shard, &Stop) -> Result<bool>,
    /// Checks that a root can refer to a tensor, given the catalog and the identity of its file.
    pub check_linked: fn(Tensor<'_>, &Catalog, &Shard) -> Result<()>,
    /// The length of the index of a file.
    pub index: IndexBytes,
}

/// Upper bounds for the bytes of an index after the data.
#[derive(Clone, Copy, Debug)]
pub struct IndexBytes {
    /// Of a file without tensors.
    pub file: u64,
    /// Of a component, in addition to the name of its tensor.
    pub component: u64,
}

impl IndexBytes {
    /// Returns the bytes that a tensor takes.
    pub fn of(self, name: &str, components: usize) -> u64 {
        // The name occurs twice.
        let names = 2 * name.len() as u64;
        self.component.saturating_mul(components.max(1) as u64).saturating_add(names)
    }
}

/// A canonical form: one file of blobs in the order of tensor and component names, with equal blobs stored once.
#[derive(Clone, Copy, Debug)]
pub struct Canonical {
    /// Blobs are packed at multiples of this.
    pub alignment: u64,
    /// Returns whether a component is stored as canonical form requires, regardless of its offset.
    pub holds: fn(&Component) -> bool,
    /// Passes on an error for each rule that a file breaks. Digests are not compared.
    pub check: CheckForm,
}

pub type CheckForm = fn(&Catalog, &dyn ReadAt, &Stop, &mut dyn FnMut(Error)) -> Result<()>;

/// The settings of a file to be written.
#[derive(Clone, Copy, Debug)]
pub struct WriteSettings<'a> {
    pub alignment: u64,
    pub digest: Option<Algorithm>,
    pub compressed: bool,
    pub canonical: bool,
    /// Whether the file may be split into several.
    pub divided: bool,
    pub attributes: &'a Attributes,
}

/// The facts about a tensor that are known before its bytes are written.
#[derive(Clone, Copy, Debug)]
pub struct TensorHeader<'a> {
    pub name: &'a str,
    pub shape: &'a [u64],
    /// The name of the layout.
    pub layout: &'a str,
    pub attributes: Option<&'a Attributes>,
    /// The roles of the components.
    pub roles: &'a [&'a str],
    /// Whether canonical form is requested.
    pub canonical: bool,
}

/// The names that tensors can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    Any,
    /// Any name except this one.
    Except(&'static str),
    /// Numbers, from 0 on.
    Numbers,
}

/// What readers make of a name.
pub struct NameKeys {
    /// Two names with the same one are the same.
    pub own: String,
    /// By which readers also find it: no other name may have this as its own.
    pub other: Option<String>,
}

/// Names in a file that readers must be able to tell apart.
#[derive(Default)]
pub struct Doubles {
    own: HashMap<String, Box<str>>,
    other: HashMap<String, Box<str>>,
}

impl Doubles {
    /// Fails if readers of the format take a name for one that was added.
    pub fn check(&self, name: &str, format: &WriteFormat) -> Result<()> {
        let Some(keys) = format.name_keys.map(|keys| keys(name)) else { return Ok(()) };
        let other = keys.other.as_ref().and_then(|other| self.own.get(other));
        let Some(found) = self.own.get(&keys.own).or(other).or_else(|| self.other.get(&keys.own)) else {
            return Ok(());
        };
        let found = short(found, NAME);
        let message = format!("readers of {} take this name and {found:?} for the same one", format.title);
        Err(Error::new(Code::BadIndex, message))
    }

    pub fn add(&mut self, name: &str, format: &WriteFormat) {
        if let Some(NameKeys { own, other }) = format.name_keys.map(|keys| keys(name)) {
            self.own.insert(own, name.into());
            self.other.extend(other.map(|other| (other, name.into())));
        }
    }
}

/// The attributes that a file can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileAttributes {
    None,
    /// Strings only, both keys and values.
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

/// The alignments that blobs can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alignment {
    /// The minimum alignment; others are multiples of it.
    pub min: u64,
    pub default: u64,
    /// Whether alignments must be powers of two.
    pub powers_of_two: bool,
    /// The attribute of the file that states it, if there is one: the writer then takes it from there.
    pub attribute: Option<&'static str>,
}

/// How a blob is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// zstd frames of a configurable size, then a skippable frame with a table of their positions: plain zstd to readers that do not
    /// know the table.
    Zstd,
    /// The same bytes under a name of their own.
    ZstdSeekable,
    /// A raw deflate stream.
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
