//! Changes to an existing file: tensors to rename and remove, attributes to set. Uses the editors of
//! `formats`; the writer that an edit belongs to adds bytes.
#![forbid(unsafe_code)]

pub mod metadata;
mod retained;

use std::collections::HashMap;

use ciborium::Value;

use crate::error::{Code, Error, Result};
pub use crate::formats::AttributeChanges;
use crate::formats::{
    Alignment, Canonical, Change, Changes, Editable, Formats, Input, WriteFormat, zt_magic,
};
use crate::inject;
use crate::limits::Limits;
use crate::model::similar;
use crate::model::{Catalog, Entries, Tensor};
use crate::open::detect;
use crate::sinks::in_place::OldIndex;
use crate::sources::ReadAt;
use crate::work::Stop;

/// Blobs are taken to be aligned on purpose up to here, or up to what is usual, if that is more: a page.
const PAGE: u64 = 4096;

/// An opened file and its changes.
pub struct Edit {
    old: Editable,
    limits: Limits,
    changes: Changes,
    /// The tensors by names that differ from those in the opened file.
    renamed: HashMap<String, usize>,
}

impl Edit {
    /// Reads the index of a file. Fails as reading does, and with `ZT_UNSUPPORTED_VERSION` where the file can be read but
    /// not edited, or `ZT_INVALID_ARG` where it is no zTensor file, but another one of `formats`.
    pub fn open(source: &dyn ReadAt, formats: Formats, limits: &Limits) -> Result<Self> {
        inject::panic_at("edit");
        let input = Input::alone(source, limits, Stop::never());
        let first = input.read_vec(0, input.length().min(8))?;
        let rows = formats.iter().flat_map(|format| format.writes);
        let Some(open) = rows.filter(|row| first == row.magic).find_map(|row| row.edit) else {
            let catalog = detect::parse(source, formats, limits)?;
            let version = catalog.version.as_deref().map_or(String::new(), |version| format!(" {version}"));
            let message = format!(
                "files of {}{version} cannot be edited; convert it to zTensor 1.0, 1.2 or 2, which can",
                catalog.container.name()
            );
            let zt = catalog.container == zt_magic::CONTAINER;
            return Err(Error::new(if zt { Code::UnsupportedVersion } else { Code::InvalidArg }, message));
        };
        Ok(Self { old: open(&input)?, limits: *limits, changes: Changes::default(), renamed: HashMap::new() })
    }

    pub fn catalog(&self) -> &Catalog {
        &self.old.catalog
    }

    /// Where the index stands.
    pub fn index_offset(&self) -> u64 {
        self.old.index.offset
    }

    /// The index that was read, for a file that stays unchanged although bytes were added to it.
    pub fn old_index(&self) -> OldIndex {
        let start = self.index_offset();
        let spelling = self.old.spelling;
        let tail = Box::new(move |index: &[u8], at| spelling.tail(index, at));
        OldIndex { range: start..start + self.old.index.bytes.len() as u64, tail }
    }

    /// How many of the file's `total` bytes a clone keeps: those before the index, which stands behind the last blob, or
    /// all of them where bytes are only ever added.
    pub fn retained(&self, total: u64) -> u64 {
        if self.old.spelling.only_adds() { total } else { self.index_offset() }
    }

    pub fn format(&self) -> &'static WriteFormat {
        self.old.format
    }

    /// What the file's blobs are aligned to: up to a page, or up to what is usual.
    pub fn alignment(&self) -> u64 {
        let Some(Alignment { min, default, .. }) = self.format().alignment else { return 1 };
        let max = default.max(PAGE);
        let parts = self.catalog().iter().flat_map(Tensor::components).filter(|part| part.file() == 0);
        let common = parts.fold(0, |bits, part| bits | part.offset());
        if common == 0 {
            // Without any other blob, the index tells, where it cannot be by chance.
            let as_canonical = self.format().canonical.is_some() && self.index_offset() == max;
            return if as_canonical { max } else { min };
        }
        (1 << common.trailing_zeros().min(max.trailing_zeros())).max(min)
    }

    /// The canonical form, where compacting can give it to the file: one file of which all is stored as that asks.
    pub fn canonical_form(&self) -> Option<Canonical> {
        let form = self.format().canonical?;
        let mut parts = self.catalog().iter().flat_map(Tensor::components);
        let is_nearly = self.catalog().shards.is_empty()
            && self.alignment() == form.alignment
            && parts.all(|part| (form.holds)(part));
        is_nearly.then_some(form)
    }

    pub fn is_empty(&self) -> bool {
        self.changes.attributes.is_empty() && self.changes.tensors.values().all(Change::is_empty)
    }

    /// The tensor that is called `name` after the changes so far.
    fn find(&self, name: &str) -> Option<usize> {
        let by_old = || {
            let ordinal = self.catalog().find(name)?;
            let change = self.changes.tensors.get(&ordinal);
            change.is_none_or(|change| !change.removed && change.name.is_none()).then_some(ordinal)
        };
        self.renamed.get(name).copied().or_else(by_old)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn change(&mut self, name: &str) -> Result<(usize, &mut Change)> {
        let ordinal = self.find(name).ok_or_else(|| self.not_found(name))?;
        Ok((ordinal, self.changes.tensors.entry(ordinal).or_default()))
    }

    fn not_found(&self, name: &str) -> Error {
        let change = self.catalog().find(name).and_then(|ordinal| self.changes.tensors.get(&ordinal));
        if let Some(change) = change {
            let what = change.name.as_ref().filter(|_| !change.removed);
            let message = match what {
                Some(new) => format!("the tensor is called {new:?} now"),
                None => "the tensor was removed before".to_owned(),
            };
            return Error::new(Code::NotFound, message).tensor(name);
        }
        similar::no_such_tensor(self.catalog(), name)
    }

    /// Gives a tensor another name, which no other tensor may have: the caller checks the tensors that are added.
    pub fn rename(&mut self, name: &str, to: &str) -> Result<()> {
        if name == to {
            return self.change(name).map(drop);
        }
        if self.contains(to) {
            return Err(Error::new(Code::BadIndex, "another tensor has this name already").tensor(to));
        }
        self.old.spelling.check_name(to).map_err(|error| error.tensor(name))?;
        let (ordinal, change) = self.change(name)?;
        change.name = Some(to.to_owned());
        self.renamed.remove(name);
        // Back to the first name, it is found in the catalog again.
        if self.catalog().find(to) == Some(ordinal) {
            self.changes.tensors.entry(ordinal).or_default().name = None;
        } else {
            self.renamed.insert(to.to_owned(), ordinal);
        }
        Ok(())
    }

    /// Takes a tensor out of the index. Its bytes stay where they are.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        let (_, change) = self.change(name)?;
        change.removed = true;
        self.renamed.remove(name);
        Ok(())
    }

    /// Changes attributes of the file.
    pub fn attributes(&mut self, changes: AttributeChanges) -> Result<()> {
        (self.format().check_attributes)(&set(&changes), false)?;
        self.changes.attributes.extend(changes);
        Ok(())
    }

    /// Changes attributes of a tensor.
    pub fn tensor_attributes(&mut self, name: &str, changes: AttributeChanges) -> Result<()> {
        let spelling = self.old.spelling;
        let names = changes.iter().try_for_each(|(key, _)| spelling.check_attribute_name(key));
        names.and_then(|()| spelling.check_attributes(&set(&changes))).map_err(|error| error.tensor(name))?;
        let (_, change) = self.change(name)?;
        change.attributes.extend(changes);
        Ok(())
    }

    /// Returns the bytes after the blobs of the changed file, which begin at `offset`; the tensors of `added` are new. They have been
    /// parsed like those of a file that is opened.
    pub fn tail(&self, added: &Catalog, offset: u64) -> Result<Vec<u8>> {
        self.checked_tail(
            &self.old.spelling.changed(&self.old.catalog, &self.old.index.bytes, &self.changes, added)?,
            offset,
        )
    }

    /// Like [`Self::tail`], for a file whose blobs were moved to the offsets that `new_offset(tensor, component)` returns.
    pub fn moved_tail(
        &self,
        offset: u64,
        new_offset: impl Fn(usize, usize) -> Option<u64>,
    ) -> Result<Vec<u8>> {
        self.checked_tail(&self.old.spelling.moved(&self.old.index.bytes, &new_offset)?, offset)
    }

    fn checked_tail(&self, index: &[u8], offset: u64) -> Result<Vec<u8>> {
        self.old.spelling.checked_tail(index, offset, self.alignment(), &self.limits)
    }
}

/// Those of the attributes that are set.
fn set(changes: &AttributeChanges) -> Vec<(Value, Value)> {
    changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect()
}

/// Applies changes to attributes, which stay in their order. New ones are added at the end.
pub fn apply(attributes: &mut Entries, changes: AttributeChanges) {
    for (key, value) in changes {
        let at = attributes.iter().position(|(own, _)| *own == key);
        match (at.and_then(|at| attributes.get_mut(at)), value) {
            (Some((_, own)), Some(value)) => *own = value,
            (Some(_), None) => attributes.retain(|(own, _)| *own != key),
            (None, Some(value)) => attributes.push((key, value)),
            (None, None) => {}
        }
    }
}
