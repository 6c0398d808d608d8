//! The one model that every format is read into: names, shapes, dtypes, layouts and where the bytes are.
#![forbid(unsafe_code)]

mod builder;
pub mod cut;
mod dtype;
pub mod glob;
mod join;
mod label;
#[cfg(test)]
pub(crate) mod sample;
pub mod similar;

pub use builder::{Builder, NewTensor};
pub use dtype::DType;
pub use join::{Joining, join};
pub use label::{Label, Labels, Layout};

use std::hash::{BuildHasher, Hasher, RandomState};

use ciborium::Value;
use hashbrown::HashTable;

use crate::codecs::digest::{Digest, Expected, Over};
use crate::inject;
use crate::layouts::records::Records;
use crate::layouts::single_blob::InBlob;

/// The format that a catalog was read from, by its name: the model knows none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Container(&'static str);

impl Container {
    /// Several files, of different formats.
    pub const MIXED: Self = Self("mixed");

    pub const fn named(name: &'static str) -> Self {
        Self(name)
    }

    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Free-form metadata, in the order of the file. Keys are unique.
pub type Attributes = Vec<(Value, Value)>;

/// How the stored bytes of a component become its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Encoding {
    Raw,
    Zstd,
    /// Frames of zstd and a table of where they are (`zt.zstd-seekable/1`).
    ZstdSeekable,
    /// The elements stand in the index itself (0.1's index arrays).
    Inline,
    /// An encoding that this version does not know: listed, never decoded.
    Unknown(Label),
}

/// The byte order of multi-byte elements. Only 0.1 knows the big one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    Little,
    Big,
}

/// Which part of a decoded blob a component is. Only 0.1 and BTF share one blob between components.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A run of bytes.
    Range { start: u64, length: u64 },
    /// One field of interleaved records, to be gathered field by field.
    Records(Records),
    /// One array of a blob whose decoded size is not known before it is decoded.
    InBlob(InBlob),
}

/// A rule on the decoded elements of a component, which `load()` and `verify()` check and an alias does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DataRule {
    /// Each byte is 0 or 1 (2, Appendix A).
    Bool,
    /// The half of the last byte that no element of 4 bits takes is 0 (2, Appendix A).
    LastNibble,
    /// Columns rise strictly within each row (`zt.sparse_csr/1`).
    RisingColumns,
    /// No two elements have the same coordinates (`zt.sparse_coo/1`).
    UniqueCells,
}

/// Another file that an index refers to, by its identity (2 §7.1): the name says nothing of where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub name: Box<str>,
    /// Bytes of the whole file.
    pub size: u64,
    /// Over the whole file.
    pub digest: Digest,
}

/// A named run of stored bytes.
#[derive(Clone, Debug)]
pub struct Component {
    pub role: Label,
    /// Which file of the name space holds the blob; 0 is the one that was opened.
    pub file: u32,
    /// `None`: bytes whose meaning only the layout knows.
    pub dtype: Option<DType>,
    pub encoding: Encoding,
    pub byte_order: ByteOrder,
    /// Offset of the blob in its file.
    pub offset: u64,
    /// Bytes of the blob in the file.
    pub stored_length: u64,
    /// Bytes of the component after decoding; `None` where only decoding can tell.
    pub decoded_length: Option<u64>,
    pub digest: Option<Box<Digest>>,
    pub data_rule: Option<DataRule>,
    pub part: Option<Box<Part>>,
    /// Little-endian elements of an inline component.
    pub inline: Option<Box<[u8]>>,
}

impl Component {
    /// A component that is a whole raw blob.
    pub fn raw(role: Label, dtype: Option<DType>, offset: u64, length: u64) -> Self {
        Self {
            role,
            file: 0,
            dtype,
            encoding: Encoding::Raw,
            byte_order: ByteOrder::Little,
            offset,
            stored_length: length,
            decoded_length: Some(length),
            digest: None,
            data_rule: None,
            part: None,
            inline: None,
        }
    }

    /// Whether a digest can be compared: its algorithm is known, and so are the bytes that it is over.
    pub fn has_checked_digest(&self) -> bool {
        let undecoded = matches!(self.encoding, Encoding::Unknown(_));
        self.digest.as_deref().is_some_and(|digest| {
            digest.expected != Expected::Unknown && (digest.over == Over::Stored || !undecoded)
        })
    }

    /// The blob in its file.
    pub fn span(&self) -> Span {
        Span { file: self.file, offset: self.offset, length: self.stored_length }
    }

    /// Where the component's elements stand in the file as they are in memory, if they do:
    /// `(absolute offset, bytes)`.
    pub fn plain_range(&self) -> Option<(u64, u64)> {
        let swapped =
            self.byte_order == ByteOrder::Big && self.dtype.is_none_or(|dtype| dtype.element_bytes() > 1);
        if self.encoding != Encoding::Raw || swapped {
            return None;
        }
        match self.part.as_deref() {
            None => Some((self.offset, self.stored_length)),
            Some(Part::Range { start, length }) => Some((self.offset.checked_add(*start)?, *length)),
            Some(Part::Records(_) | Part::InBlob(_)) => None,
        }
    }
}

/// A run of bytes of one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span {
    pub file: u32,
    pub offset: u64,
    pub length: u64,
}

impl Span {
    /// The offset behind the last byte.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// The spans in the order of the files and their bytes, joined where they touch or overlap.
    pub fn joined(spans: Vec<Self>) -> Vec<Self> {
        Self::joined_near(spans, 0)
    }

    /// The same, joined across gaps of up to `gap` bytes too.
    pub fn joined_near(mut spans: Vec<Self>, gap: u64) -> Vec<Self> {
        spans.sort_unstable();
        spans.dedup_by(|next, last| {
            let touches = next.file == last.file && next.offset <= last.end().saturating_add(gap);
            if touches {
                last.length = last.end().max(next.end()) - last.offset;
            }
            touches
        });
        spans
    }
}

/// What the catalog holds of a tensor; the rest is behind the ids.
#[derive(Clone, Debug)]
struct Entry {
    name_end: u32,
    shape: u32,
    layout: Layout,
    dtype: Option<DType>,
    first_component: u32,
    components: u32,
    attributes: Option<Box<Attributes>>,
}

/// Something about the file that a user should know and that does not make it unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub code: &'static str,
    pub message: String,
    pub tensor: Option<String>,
    pub component: Option<String>,
    /// The file, where there are several.
    pub path: Option<String>,
}

/// An opened index.
#[derive(Debug)]
pub struct Catalog {
    pub container: Container,
    pub version: Option<String>,
    /// What wrote the file, where the format says (1.0 §4.1).
    pub generator: Option<String>,
    pub attributes: Attributes,
    pub warnings: Vec<Warning>,
    /// The other files that components lie in: shard `i` is their file `i + 1`.
    pub shards: Vec<Shard>,
    names: String,
    entries: Vec<Entry>,
    components: Vec<Component>,
    shapes: Vec<Box<[u64]>>,
    labels: Labels,
    table: HashTable<Named>,
    hasher: RandomState,
}

impl Catalog {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tensor at `ordinal`, in the index's order.
    pub fn tensor(&self, ordinal: usize) -> Option<Tensor<'_>> {
        self.entries.get(ordinal).map(|entry| Tensor { catalog: self, entry, ordinal })
    }

    /// The ordinal of the tensor called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        inject::panic_at("find");
        let wanted = Named::new(&self.hasher, name, 0);
        let same =
            |other: &Named| other.hash == wanted.hash && self.name(other.ordinal as usize) == Some(name);
        Some(self.table.find(wanted.spread(), same)?.ordinal as usize)
    }

    pub fn iter(&self) -> impl Iterator<Item = Tensor<'_>> {
        (0..self.len()).filter_map(|ordinal| self.tensor(ordinal))
    }

    /// Every tensor's name, one after the other: `Tensor::name_end` cuts them.
    pub fn names(&self) -> &str {
        &self.names
    }

    /// The distinct shapes; `Tensor::shape_id` points into them.
    pub fn shapes(&self) -> &[Box<[u64]>] {
        &self.shapes
    }

    /// The components of all tensors, for a writer that moves their blobs.
    pub fn components_mut(&mut self) -> &mut [Component] {
        &mut self.components
    }

    pub fn label(&self, label: Label) -> &str {
        self.labels.text(label)
    }

    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The label of an encoding as users see it.
    pub fn encoding_name(&self, encoding: Encoding) -> &str {
        match encoding {
            Encoding::Raw => "raw",
            Encoding::Zstd => "zstd",
            Encoding::ZstdSeekable => "zt.zstd-seekable/1",
            Encoding::Inline => "inline",
            Encoding::Unknown(label) => self.label(label),
        }
    }

    fn name(&self, ordinal: usize) -> Option<&str> {
        let end = self.entries.get(ordinal)?.name_end as usize;
        let start = match ordinal.checked_sub(1) {
            None => 0,
            Some(previous) => self.entries.get(previous)?.name_end as usize,
        };
        self.names.get(start..end)
    }
}

/// A tensor in the table of names. The hash stands beside it, so that a growing table looks up no names: that
/// was a quarter of the time of an opening.
#[derive(Clone, Copy, Debug)]
struct Named {
    hash: u32,
    ordinal: u32,
}

impl Named {
    fn new(hasher: &RandomState, name: &str, ordinal: u32) -> Self {
        let mut hasher = hasher.build_hasher();
        hasher.write(name.as_bytes());
        #[allow(clippy::cast_possible_truncation)] // half of the hash is plenty for as many names as fit
        Self { hash: hasher.finish() as u32, ordinal }
    }

    /// The hash over 64 bits, as the table wants it: it looks at both ends.
    fn spread(self) -> u64 {
        u64::from(self.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// One tensor of a catalog.
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    catalog: &'a Catalog,
    entry: &'a Entry,
    ordinal: usize,
}

impl<'a> Tensor<'a> {
    pub fn ordinal(self) -> usize {
        self.ordinal
    }

    pub fn name(self) -> &'a str {
        self.catalog.name(self.ordinal).unwrap_or_default()
    }

    /// The end of this tensor's name in [`Catalog::names`], in bytes.
    pub fn name_end(self) -> usize {
        self.entry.name_end as usize
    }

    pub fn shape_id(self) -> u32 {
        self.entry.shape
    }

    pub fn shape(self) -> &'a [u64] {
        self.catalog.shapes.get(self.entry.shape as usize).map_or(&[], |shape| shape)
    }

    pub fn layout(self) -> Layout {
        self.entry.layout
    }

    pub fn layout_name(self) -> &'a str {
        self.catalog.label(self.entry.layout.label())
    }

    /// The dtype of a dense tensor's elements or a sparse tensor's values; `None` for a composite that
    /// does not say.
    pub fn dtype(self) -> Option<DType> {
        self.entry.dtype
    }

    pub fn attributes(self) -> Option<&'a Attributes> {
        self.entry.attributes.as_deref()
    }

    pub fn components(self) -> &'a [Component] {
        let start = self.entry.first_component as usize;
        let end = start + self.entry.components as usize;
        self.catalog.components.get(start..end).unwrap_or_default()
    }

    /// Whether nothing but its name and its file are known: it is of an index that was opened alone.
    pub fn is_unread(self) -> bool {
        let untold =
            |part: &Component| part.stored_length == 0 && matches!(part.encoding, Encoding::Unknown(_));
        self.layout_name() == Self::UNREAD && self.components().iter().all(untold)
    }

    /// The layout, and the encoding of the data, of a tensor of which only the name and the file are known.
    pub const UNREAD: &'static str = "unread";

    /// The ranges of the files in which all components lie, one for each that has bytes.
    pub fn spans(self) -> impl Iterator<Item = Span> + 'a {
        self.components().iter().map(Component::span).filter(|span| span.length > 0)
    }

    /// The same in order, joined where they touch or overlap.
    pub fn ranges(self) -> Vec<Span> {
        Span::joined(self.spans().collect())
    }

    /// The ranges in which the elements lie: what loading the tensor reads.
    pub fn own_spans(self) -> impl Iterator<Item = Span> + 'a {
        self.own_components().map(Component::span).filter(|span| span.length > 0)
    }

    /// The component that holds the elements of a dense tensor.
    pub fn data(self) -> Option<&'a Component> {
        if self.layout() == Layout::Dense { self.component(Label::DATA) } else { None }
    }

    /// The components that hold the elements, by [`Layout::roles`].
    pub fn own_components(self) -> impl Iterator<Item = &'a Component> {
        self.components().iter().filter(move |part| self.is_own(part))
    }

    /// The components that the layout does not name: kept, and no part of the elements.
    pub fn other_components(self) -> impl Iterator<Item = &'a Component> {
        self.components().iter().filter(move |part| !self.is_own(part))
    }

    /// Whether a component of this tensor holds elements of it.
    pub fn is_own(self, part: &Component) -> bool {
        self.layout().roles().is_none_or(|roles| roles.contains(&part.role))
    }

    /// Bytes of the elements after decoding: of the own components; of one whose size only decoding can tell, the
    /// stored ones.
    pub fn byte_length(self) -> u64 {
        let lengths = self.own_components().map(|part| part.decoded_length.unwrap_or(part.stored_length));
        lengths.fold(0, u64::saturating_add)
    }

    pub fn component(self, role: Label) -> Option<&'a Component> {
        self.components().iter().find(|component| component.role == role)
    }
}
