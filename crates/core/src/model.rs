//! The common model of all formats: names, shapes, dtypes, layouts and the locations of bytes. Uses digests and the free-form values of
//! syntax, and knows no file and no format.
#![forbid(unsafe_code)]

mod attributes;
mod blob;
mod builder;
mod component;
mod data;
mod disjoint;
mod dtype;
mod encoding;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod glob;
mod join;
mod label;
mod pieces;
#[cfg(target_family = "wasm")]
pub mod seed;
pub mod set;
pub mod similar;
pub mod slice;
mod strided;
mod view;

pub use attributes::{Attributes, Entries};
pub use blob::{Blob, Span};
pub use builder::{Builder, NewTensor};
pub use component::{ByteOrder, Component, CopyReason, DataRule, Key, Signs};
pub use data::{Chunk, Chunks, Data, Grid, ReadIndex};
pub use dtype::DType;
pub use encoding::{Encoding, Encodings, Filter};
pub use join::{Joining, join};
pub use label::{Label, Labels, Layout};
pub use pieces::{Piece, Pieces};
pub use set::SetPart;
pub use strided::Strided;
pub use view::{ArrayLocation, Counted, View};

use std::borrow::Cow;
#[cfg(not(target_family = "wasm"))]
use std::hash::RandomState as NameKeys;
use std::hash::{BuildHasher, Hasher};

use hashbrown::HashTable;

use crate::codecs::digest::Digest;
use crate::error::Code;
use crate::inject;
#[cfg(target_family = "wasm")]
use seed::Seeded as NameKeys;

/// The name of the format that a catalog was read from; the model knows no formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Container(&'static str);

impl Container {
    /// Several files of different formats.
    pub const MIXED: Self = Self("mixed");

    pub const fn named(name: &'static str) -> Self {
        Self(name)
    }

    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Another file that an index refers to, by its identity (2 §7.1): the name does not state its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub name: Box<str>,
    /// Bytes of the whole file.
    pub size: u64,
    /// The digest of the whole file.
    pub digest: Digest,
}

/// The catalog entry of a tensor, with ids of its other properties.
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

/// A problem of a file that is readable nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub code: &'static str,
    pub message: String,
    pub tensor: Option<String>,
    pub component: Option<String>,
    /// The file, if there are several.
    pub path: Option<String>,
    /// A failure for verification to report: this damage is visible only in the index, not in a tensor's data.
    pub damage: Option<Damage>,
}

/// Damage found while reading the index, although the rest of the file can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The error code.
    pub code: Code,
    pub offset: Option<u64>,
}

/// A part of a file with one digest over several tensors and the gaps between them, such as a member of an archive.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name in messages.
    pub name: String,
    /// Its stored bytes and their digest.
    pub blob: Blob,
}

/// An opened index.
#[derive(Debug)]
pub struct Catalog {
    pub container: Container,
    pub version: Option<String>,
    /// The software that wrote the file, if the format states it (1.0 §4.1).
    pub generator: Option<String>,
    pub attributes: Attributes,
    pub warnings: Vec<Warning>,
    /// The other files that contain components: shard `i` is file `i + 1`.
    pub shards: Vec<Shard>,
    /// The part of a set that the file is, according to its content.
    pub part: Option<SetPart>,
    /// Whether the tensors are columns of a table, so that files of a set have other rows of the same tensors.
    pub is_table: bool,
    /// Parts with one digest for several tensors.
    pub sections: Vec<Section>,
    names: String,
    entries: Vec<Entry>,
    components: Vec<Component>,
    shapes: Vec<Box<[u64]>>,
    labels: Labels,
    encodings: Encodings,
    table: HashTable<Named>,
    hasher: NameKeys,
}

impl Catalog {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the tensor at `ordinal`, in index order.
    pub fn tensor(&self, ordinal: usize) -> Option<Tensor<'_>> {
        self.entries.get(ordinal).map(|entry| Tensor { catalog: self, entry, ordinal })
    }

    /// Returns the ordinal of the tensor named `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        inject::panic_at("find");
        let wanted = Named::new(&self.hasher, name, 0);
        let same =
            |other: &Named| other.hash == wanted.hash && self.name(other.ordinal as usize) == Some(name);
        Some(self.table.find(wanted.spread(), same)?.ordinal as usize)
    }

    /// Returns the warning that files of the set are missing or not open, and their tensors with them.
    pub fn lacking(&self) -> Option<&Warning> {
        self.warnings.iter().find(|warning| warning.code == "ZT_WARN_INCOMPLETE_SET")
    }

    /// Returns the warning about what the file has instead of tensors; `None` if it has tensors, or nothing else.
    pub fn instead(&self) -> Option<&Warning> {
        const CODES: [&str; 4] =
            ["ZT_WARN_DATA_SHARD", "ZT_WARN_INCOMPLETE_SET", "ZT_WARN_SKIPPED", "ZT_WARN_DAMAGED"];
        self.warnings.iter().find(|warning| self.is_empty() && CODES.contains(&warning.code))
    }

    pub fn iter(&self) -> impl Iterator<Item = Tensor<'_>> {
        (0..self.len()).filter_map(|ordinal| self.tensor(ordinal))
    }

    /// Returns the tensors that have components, each with its first component: its only blob in formats that store one.
    pub fn blobs(&self) -> Vec<(Tensor<'_>, &Component)> {
        self.iter().filter_map(|tensor| Some((tensor, tensor.components().first()?))).collect()
    }

    /// Returns the concatenated names of all tensors: `Tensor::name_end` separates them.
    pub fn names(&self) -> &str {
        &self.names
    }

    /// Returns the distinct shapes, which `Tensor::shape_id` refers to.
    pub fn shapes(&self) -> &[Box<[u64]>] {
        &self.shapes
    }

    /// Returns the components of all tensors, for a writer that moves their blobs.
    pub fn components_mut(&mut self) -> &mut [Component] {
        &mut self.components
    }

    pub fn label(&self, label: Label) -> &str {
        self.labels.text(label)
    }

    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the encoding of a component as shown to users: the names of its filters, `raw`, `inline` or `unread`.
    pub fn encoding_name(&self, component: &Component) -> Cow<'_, str> {
        match &component.data {
            Data::Inline(_) => Cow::Borrowed("inline"),
            Data::Unread { .. } => Cow::Borrowed("unread"),
            Data::Blob(_) | Data::Grid(..) | Data::Pieces(_) => {
                self.encodings.name(component.encoding(), &self.labels)
            }
        }
    }

    /// Returns the filters of an encoding, in the order in which they were applied for writing.
    pub fn filters(&self, encoding: Encoding) -> &[Filter] {
        self.encodings.filters(encoding)
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

/// A tensor in the name table. The hash is stored with it, so that growing the table does not access names: that took a quarter of the time
/// to open a file.
#[derive(Clone, Copy, Debug)]
struct Named {
    hash: u32,
    ordinal: u32,
}

impl Named {
    fn new(hasher: &NameKeys, name: &str, ordinal: u32) -> Self {
        let mut hasher = hasher.build_hasher();
        hasher.write(name.as_bytes());
        #[allow(clippy::cast_possible_truncation)] // half of the hash is plenty for as many names as fit
        Self { hash: hasher.finish() as u32, ordinal }
    }

    /// Returns the hash distributed over 64 bits, because the table uses both ends.
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

    /// Returns the end of this tensor's name in [`Catalog::names`], in bytes.
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

    /// Returns the dtype of a dense tensor's elements or a sparse tensor's values; `None` for a composite without a stated dtype.
    pub fn dtype(self) -> Option<DType> {
        self.entry.dtype
    }

    /// Returns the tensor's own attributes; `None` if there are none.
    pub fn attributes(self) -> Option<&'a Attributes> {
        self.entry.attributes.as_deref()
    }

    pub fn components(self) -> &'a [Component] {
        let start = self.entry.first_component as usize;
        let end = start + self.entry.components as usize;
        self.catalog.components.get(start..end).unwrap_or_default()
    }

    /// Returns whether only its name and its file are known, because the index was opened without its files.
    pub fn is_unread(self) -> bool {
        let components = self.components();
        !components.is_empty() && components.iter().all(|part| matches!(part.data, Data::Unread { .. }))
    }

    /// Returns the file ranges of all components, one for each that has bytes.
    pub fn spans(self) -> impl Iterator<Item = Span> + 'a {
        self.components().iter().flat_map(Component::spans).filter(|span| span.length > 0)
    }

    /// Returns the file ranges of all components, sorted, and merged if adjacent or overlapping.
    pub fn ranges(self) -> Vec<Span> {
        Span::joined(self.spans().collect())
    }

    /// Returns the file ranges of the elements, which loading the tensor reads.
    pub fn own_spans(self) -> impl Iterator<Item = Span> + 'a {
        self.own_components().flat_map(Component::spans).filter(|span| span.length > 0)
    }

    /// Returns the component that holds the elements of a dense tensor.
    pub fn data(self) -> Option<&'a Component> {
        if self.layout() == Layout::Dense { self.component(Label::DATA) } else { None }
    }

    /// Returns the components that hold the elements, by [`Layout::roles`].
    pub fn own_components(self) -> impl Iterator<Item = &'a Component> {
        self.components().iter().filter(move |part| self.is_own(part))
    }

    /// Returns the components that the layout does not define: they are preserved, but are not elements.
    pub fn other_components(self) -> impl Iterator<Item = &'a Component> {
        self.components().iter().filter(move |part| !self.is_own(part))
    }

    /// Returns whether a component of this tensor holds elements.
    pub fn is_own(self, part: &Component) -> bool {
        self.layout().roles().is_none_or(|roles| roles.contains(&part.role))
    }

    /// Returns whether it has the arrays of CSR or COO, whose rules involve all of them.
    pub fn is_sparse(self) -> bool {
        matches!(self.layout(), Layout::SparseCsr | Layout::SparseCoo) && self.dtype().is_some()
    }

    /// Returns the decoded bytes of the components that hold elements; the stored bytes if the decoded size is unknown.
    pub fn byte_length(self) -> u64 {
        let lengths = self.own_components().map(|part| part.byte_length().unwrap_or(part.stored_length()));
        lengths.fold(0, u64::saturating_add)
    }

    pub fn component(self, role: Label) -> Option<&'a Component> {
        self.components().iter().find(|component| component.role == role)
    }
}
