//! The formats, one module each, with the names of its specification. `parse` turns the bytes of an index into a catalog. A format opens no
//! file itself: it asks for other files in the folder through [`Input`]. A format is a module and a row ([`Format`]), here or in another
//! crate, whose rows [`Formats`] adds to these. Uses syntax, layouts, codecs and sources.
#![forbid(unsafe_code)]

mod attributes;
pub mod btf;
mod btf_encode;
mod btf_parse;
pub mod edit_format;
pub mod edit_header;
mod format;
mod input;
pub mod model_rules;
pub mod overlap;
mod probe;
pub mod safetensors;
mod safetensors_edit;
pub(crate) mod safetensors_encode;
pub mod safetensors_parse;
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
pub mod zt_magic;
pub(crate) mod zt_trailer;

pub use edit_format::{AttributeChanges, Change, Changes, EditFormat};
pub use edit_header::{EditHeader, HeaderChanges, NewHeader, OpenHeader, RetainedData, Setting};
pub use format::{Companions, Confidence, Format, Marker, bad_magic};
pub use input::Input;
pub use model_rules::{ModelKeys, ModelRules};
pub use probe::Probe;
pub use write_format::{
    Alignment, AssembleFile, Assembler, Canonical, Checkpoint, DataShards, Doubles, Editable, EncodeIndex,
    EncodeIndexAt, FileAttributes, HeaderBound, Index, IndexBytes, Method, NameKeys, Names, NeededFirst,
    RecordedDtypes, Sharding, Sink, SparseForm, TensorHeader, WriteFormat, WriteSettings,
};

use crate::model::Catalog;

/// The formats of this crate, in the order in which lists name them.
pub const CORE: &[Format] = &[zt::FORMAT, safetensors::FORMAT, btf::FORMAT];

/// How files are edited, for a row: `None` where there are no files, so that a module for browsers has no code for it.
pub const fn edited<F: Copy>(how: F) -> Option<F> {
    if cfg!(any(unix, windows)) { Some(how) } else { None }
}

/// The rows of this crate.
impl WriteFormat {
    pub const ZT01: &'static Self = &zt::ZT01;
    pub const ZT10: &'static Self = &zt::ZT10;
    /// Used only to append tensors to a file of version 1.1. New files have version 1.2.
    pub const ZT11: &'static Self = &zt::ZT11;
    pub const ZT12: &'static Self = &zt::ZT12;
    pub const ZT2: &'static Self = &zt::ZT2;
    pub const SAFETENSORS: &'static Self = &safetensors::WRITE_FORMAT;
    pub const BTF: &'static Self = &btf::WRITE_FORMAT;

    /// Returns the format and exact version that a catalog was read from, if it is one of this crate.
    pub fn of(catalog: &Catalog) -> Option<&'static Self> {
        let rows = CORE.iter().flat_map(|format| format.writes.iter().copied());
        let mut rows = rows.filter(|row| row.container() == catalog.container);
        rows.find(|row| row.version == catalog.version.as_deref())
    }
}

/// The formats that a file may have: all rows of one or several crates, or one requested format.
#[derive(Clone, Copy, Debug)]
pub struct Formats {
    tables: &'static [&'static [Format]],
    companions: &'static [Companions],
    wanted: Option<&'static Format>,
}

impl Default for Formats {
    /// Returns those of this crate.
    fn default() -> Self {
        Self::of(&[CORE])
    }
}

impl Formats {
    /// Joins several tables. If two formats are equally certain of a file, the first wins. Names must be unique.
    pub const fn of(tables: &'static [&'static [Format]]) -> Self {
        Self { tables, companions: &[], wanted: None }
    }

    /// Adds the companion files.
    #[must_use]
    pub const fn with_companions(self, companions: &'static [Companions]) -> Self {
        Self { companions, ..self }
    }

    /// Returns the companions of the requested format, or of all.
    pub fn companions(self) -> impl Iterator<Item = &'static Companions> {
        self.companions.iter().filter(move |one| self.wanted.is_none_or(|wanted| wanted.name == one.format))
    }

    /// Returns the companions whose files come in pairs, of any format.
    pub fn pairs(self) -> impl Iterator<Item = &'static Companions> {
        self.companions.iter().filter(|one| one.in_pairs)
    }

    /// Requests the format `name`, regardless of the bytes of the file; `None` if there is no such format.
    #[must_use]
    pub fn only(self, name: &str) -> Option<Self> {
        let wanted = self.iter().find(|format| format.name == name)?;
        Some(Self { wanted: Some(wanted), ..self })
    }

    /// Returns the requested format.
    pub fn wanted(self) -> Option<&'static Format> {
        self.wanted
    }

    pub fn iter(self) -> impl Iterator<Item = &'static Format> {
        self.tables.iter().copied().flatten()
    }

    /// Returns the format of a new file by its [`WriteFormat::id`].
    pub fn write_format(self, id: &str) -> Option<&'static WriteFormat> {
        let mut writings = self.iter().flat_map(|format| format.writes.iter().copied());
        writings.find(|writing| writing.id() == id)
    }

    /// Returns whether an extension belongs to the first table, whose files are preferred in a folder.
    pub fn comes_first(self, ending: &str) -> bool {
        let mut first = self.tables.first().into_iter().copied().flatten();
        first.any(|format| format.endings.contains(&ending))
    }

    /// Returns whether files with an extension state the set that they belong to, so that their names do not count.
    pub fn states_sets(self, ending: &str) -> bool {
        let mut writings = self.iter().flat_map(|format| format.writes.iter());
        writings.any(|writing| {
            matches!(writing.shards, Sharding::Checkpoint(set) if set.ending == ending && !set.is_indexed)
        })
    }

    /// Returns the extensions of tensor files, without the dot.
    pub fn endings(self) -> impl Iterator<Item = &'static str> {
        self.iter().flat_map(|format| format.endings).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_extensions_and_versions_are_unique() {
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
    fn a_format_that_can_be_written_has_one_default_version() {
        for format in CORE.iter().filter(|format| !format.writes.is_empty()) {
            assert_eq!(
                format.writes.iter().filter(|writing| writing.is_default).count(),
                1,
                "{}",
                format.name
            );
            assert!(format.writes.iter().all(|writing| writing.format == format.name), "{}", format.name);
        }
    }

    #[test]
    fn the_extensions_of_the_first_table_come_first() {
        let other = Formats::of(&[&[], CORE]);
        for ending in Formats::default().endings() {
            assert!(Formats::default().comes_first(ending), "{ending}");
            assert!(!other.comes_first(ending), "{ending}");
        }
        assert!(!Formats::default().comes_first("txt"));
    }
}
