//! Roles, layout names and encoding names: few distinct strings with many uses, stored once and referred to by number.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// The number of a string in [`Labels`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Label(pub(super) u32);

/// The strings that every catalog starts with, in the order of the constants below.
const KNOWN: [&str; 13] = [
    "data",
    "values",
    "indices",
    "indptr",
    "coords",
    "dense",
    "sparse_csr",
    "sparse_coo",
    "scales",
    "zeros",
    "zstd",
    "zt.zstd-seekable/1",
    "deflate",
];

impl Label {
    pub const DATA: Self = Self(0);
    pub const VALUES: Self = Self(1);
    pub const INDICES: Self = Self(2);
    pub const INDPTR: Self = Self(3);
    pub const COORDS: Self = Self(4);
    pub const DENSE: Self = Self(5);
    pub const SPARSE_CSR: Self = Self(6);
    pub const SPARSE_COO: Self = Self(7);
    pub const SCALES: Self = Self(8);
    pub const ZEROS: Self = Self(9);
    pub const ZSTD: Self = Self(10);
    pub const ZSTD_SEEKABLE: Self = Self(11);
    pub const DEFLATE: Self = Self(12);

    pub const fn id(self) -> u32 {
        self.0
    }
}

/// The distinct strings of one catalog.
#[derive(Clone, Debug)]
pub struct Labels {
    texts: Vec<Box<str>>,
    ids: HashMap<Box<str>, u32>,
}

impl Default for Labels {
    fn default() -> Self {
        let texts: Vec<Box<str>> = KNOWN.iter().map(|&text| Box::from(text)).collect();
        Self { texts, ids: HashMap::new() }
    }
}

impl Labels {
    /// Returns the label of `text`, creating it if it is new.
    pub fn intern(&mut self, text: &str) -> Label {
        if let Some(id) = (0_u32..).zip(KNOWN).find_map(|(id, known)| (known == text).then_some(id)) {
            return Label(id);
        }
        if let Some(&id) = self.ids.get(text) {
            return Label(id);
        }
        // An index of at most 1 GiB (or the limit set by an option) cannot contain 2^32 distinct strings.
        let id = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(Box::from(text));
        self.ids.insert(Box::from(text), id);
        Label(id)
    }

    pub fn text(&self, label: Label) -> &str {
        self.texts.get(label.0 as usize).map_or("", |text| text)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(AsRef::as_ref)
    }
}

/// How the components of a tensor form it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    #[default]
    Dense,
    SparseCsr,
    SparseCoo,
    /// A custom layout, known only by the file's label.
    Other(Label),
}

impl Layout {
    pub const fn label(self) -> Label {
        match self {
            Self::Dense => Label::DENSE,
            Self::SparseCsr => Label::SPARSE_CSR,
            Self::SparseCoo => Label::SPARSE_COO,
            Self::Other(label) => label,
        }
    }

    /// Returns the roles of the components that hold a tensor's elements; `None` for a custom layout, for which all components count. 1.0
    /// to 1.2 permit further components.
    pub const fn roles(self) -> Option<&'static [Label]> {
        match self {
            Self::Dense => Some(&[Label::DATA]),
            Self::SparseCsr => Some(&[Label::VALUES, Label::INDICES, Label::INDPTR]),
            Self::SparseCoo => Some(&[Label::VALUES, Label::COORDS]),
            Self::Other(_) => None,
        }
    }

    pub const fn from_label(label: Label) -> Self {
        match label {
            Label::DENSE => Self::Dense,
            Label::SPARSE_CSR => Self::SparseCsr,
            Label::SPARSE_COO => Self::SparseCoo,
            other => Self::Other(other),
        }
    }
}
