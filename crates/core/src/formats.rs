//! The formats, one module each, named as its specification names things. `parse` turns the bytes of an index into a catalog;
//! none of them opens a file, but one may ask for files beside its own ([`Input`]). What the rest asks of a format stands in its row ([`Format`]): a new one is a module and a row,
//! here or in another crate, whose rows [`Formats`] joins to these. Uses syntax, layouts,
//! codecs and sources.
#![forbid(unsafe_code)]

mod attributes;
pub mod btf;
mod btf_encode;
pub mod edit_format;
mod input;
pub mod overlap;
mod probe;
pub mod safetensors;
pub(crate) mod safetensors_encode;
mod single_blob;
pub mod write_format;
pub mod zt;
pub mod zt01;
pub(crate) mod zt01_encode;
mod zt1;
pub mod zt10;
pub mod zt12;
pub(crate) mod zt1_edit;
pub(crate) mod zt1_encode;
pub mod zt2;
pub(crate) mod zt_trailer;

pub use edit_format::{AttributeChanges, Change, Changes, EditFormat, Editable};
pub use input::Input;
pub use probe::Probe;
pub use write_format::{
    Alignment, Announced, Asked, Assemble, Canonical, DataShards, FileAttributes, Index, Method, Names, Pass,
    Put, RecordedDtypes, Sharding, SparseForm, Spell, SpellAt, WriteFormat,
};

use crate::error::{Code, Error, Result};
use crate::model::Catalog;

/// The formats of this crate, in the order in which lists name them.
pub const CORE: &[Format] = &[zt::FORMAT, safetensors::FORMAT, btf::FORMAT];

/// All that the rest knows of a format.
#[derive(Debug)]
pub struct Format {
    /// As options and catalogs name it.
    pub name: &'static str,
    /// As messages name it.
    pub title: &'static str,
    /// What its files' names end in, without the dot; the usual one first.
    pub endings: &'static [&'static str],
    /// What a file that is none of this format lacks, as a part of a sentence: "no zTensor magic".
    pub lacks: &'static str,
    /// Whether a file of 8 bytes or more is of this format.
    pub detect: fn(&Probe<'_>) -> Result<Confidence>,
    /// Reads the index. Refuses a file of another format, too: a caller may name any.
    pub parse: fn(&Input<'_>) -> Result<Catalog>,
    /// What it can hold when it is written, a row for each version from the oldest on; empty for a format that is only read.
    pub writes: &'static [&'static WriteFormat],
}

/// The rows of this crate.
impl WriteFormat {
    pub const ZT01: &'static Self = &zt::ZT01;
    pub const ZT10: &'static Self = &zt::ZT10;
    /// Only where tensors are appended to a file of 1.1. A new file is of 1.2.
    pub const ZT11: &'static Self = &zt::ZT11;
    pub const ZT12: &'static Self = &zt::ZT12;
    pub const ZT2: &'static Self = &zt::ZT2;
    pub const SAFETENSORS: &'static Self = &safetensors::WRITE_FORMAT;
    pub const BTF: &'static Self = &btf::WRITE_FORMAT;
}

/// What stands beside the files of a format and is none of them.
#[derive(Debug)]
pub struct Companions {
    /// The name of the format.
    pub format: &'static str,
    /// Files by which a folder says which one is meant; the preferred first.
    pub markers: &'static [Marker],
    /// The name of the file to open instead of one that has bytes of tensors and nothing else; `None` of other names.
    pub index_of: fn(&str) -> Option<String>,
    /// Whether files of other formats, and of none, are called as its files are: an index and its bytes are meant only where both are
    /// there.
    pub in_pairs: bool,
}

/// A file in a folder that says which one is meant.
#[derive(Debug)]
pub struct Marker {
    pub name: &'static str,
    /// The path of the file to open, relative to the folder, by the first bytes of the marker; `None` where they are those of
    /// something else.
    pub leads_to: fn(&[u8]) -> Option<String>,
}

/// How sure a format is of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Confidence {
    No,
    /// Only parsing can tell: it is tried where no other format takes the file.
    Possible,
    /// What stands there may stand in a file of another format, whose signature then counts.
    Likely,
    /// Its signature is there.
    Certain,
}

/// The formats that files are opened as: those of one or several crates, or one of them that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Formats {
    tables: &'static [&'static [Format]],
    companions: &'static [Companions],
    wanted: Option<&'static Format>,
}

impl Default for Formats {
    /// Those of this crate.
    fn default() -> Self {
        Self::of(&[CORE])
    }
}

impl Formats {
    /// Those of several tables, [`CORE`] among them if its formats are wanted. Of two that are equally sure of a file the
    /// first is taken. Their names must differ.
    pub const fn of(tables: &'static [&'static [Format]]) -> Self {
        Self { tables, companions: &[], wanted: None }
    }

    /// The same with what stands beside their files.
    #[must_use]
    pub const fn with_companions(self, companions: &'static [Companions]) -> Self {
        Self { companions, ..self }
    }

    /// What stands beside the files of the formats that may be meant.
    pub fn companions(self) -> impl Iterator<Item = &'static Companions> {
        self.companions.iter().filter(move |one| self.wanted.is_none_or(|wanted| wanted.name == one.format))
    }

    /// Those of files that come in pairs, of whatever format.
    pub fn pairs(self) -> impl Iterator<Item = &'static Companions> {
        self.companions.iter().filter(|one| one.in_pairs)
    }

    /// The same where files are of the format `name`, whatever their bytes look like; `None` where there is no such format.
    #[must_use]
    pub fn only(self, name: &str) -> Option<Self> {
        let wanted = self.iter().find(|format| format.name == name)?;
        Some(Self { wanted: Some(wanted), ..self })
    }

    /// The format that was asked for.
    pub fn wanted(self) -> Option<&'static Format> {
        self.wanted
    }

    pub fn iter(self) -> impl Iterator<Item = &'static Format> {
        self.tables.iter().copied().flatten()
    }

    /// The format of a new file by its [`WriteFormat::id`].
    pub fn write_format(self, id: &str) -> Option<&'static WriteFormat> {
        let mut writings = self.iter().flat_map(|format| format.writes.iter().copied());
        writings.find(|writing| writing.id() == id)
    }

    /// Whether an ending is that of a format of the first table: of two files of a folder such a one is meant.
    pub fn comes_first(self, ending: &str) -> bool {
        let mut first = self.tables.first().into_iter().copied().flatten();
        first.any(|format| format.endings.contains(&ending))
    }

    /// What the names of tensor files end in, without the dot.
    pub fn endings(self) -> impl Iterator<Item = &'static str> {
        self.iter().flat_map(|format| format.endings).copied()
    }
}

/// The refusal of a file that is of no known format, or not of the one that was asked for.
pub fn bad_magic(what: &str) -> Error {
    let message = format!("this is not a tensor file known here: {what}");
    Error::new(Code::BadMagic, message).at(0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_endings_and_dialects_stand_once() {
        let mut seen = HashSet::new();
        for format in CORE {
            assert!(seen.insert(format.name), "{}", format.name);
            assert!(!format.endings.is_empty(), "{}", format.name);
        }
        let mut seen = HashSet::new();
        assert!(Formats::default().endings().all(|ending| seen.insert(ending)));
        let mut seen = HashSet::new();
        for writing in CORE.iter().flat_map(|format| format.writes) {
            assert!(seen.insert(writing.id()), "{}", writing.id());
            assert_eq!(Formats::default().write_format(writing.id()), Some(*writing));
        }
    }

    #[test]
    fn a_format_that_is_written_has_one_usual_version() {
        for format in CORE.iter().filter(|format| !format.writes.is_empty()) {
            assert_eq!(format.writes.iter().filter(|writing| writing.usual).count(), 1, "{}", format.name);
            assert!(format.writes.iter().all(|writing| writing.format == format.name), "{}", format.name);
        }
    }

    #[test]
    fn the_endings_of_the_first_table_come_first() {
        let other = Formats::of(&[&[], CORE]);
        for ending in Formats::default().endings() {
            assert!(Formats::default().comes_first(ending), "{ending}");
            assert!(!other.comes_first(ending), "{ending}");
        }
        assert!(!Formats::default().comes_first("txt"));
    }
}
