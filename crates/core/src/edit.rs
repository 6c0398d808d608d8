//! What to change in a file that is there: tensors to rename and remove, attributes to set. Uses the editors of
//! `formats`; the writer that an edit belongs to adds bytes.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ciborium::Value;

use crate::error::{Code, Error, Result};
use crate::formats::Input;
use crate::formats::zt_trailer::Index;
use crate::formats::zt1_edit::{self, Manifest};
use crate::formats::zt1_encode::{self, Spelling};
use crate::formats::zt2::encode::{CANONICAL_ALIGNMENT, FILE_ATTRIBUTES, LEAST_ALIGNMENT, TENSOR_ATTRIBUTES};
use crate::formats::zt2::{edit as zt2_edit, encode as zt2_encode};
use crate::formats::{Formats, WriteFormat, zt};
use crate::inject;
use crate::limits::Limits;
use crate::model::similar;
use crate::model::{Catalog, Tensor};
use crate::open::detect;
use crate::sinks::in_place::OldIndex;
use crate::sources::ReadAt;
use crate::syntax::cbor_encode::Encoder;
use crate::syntax::cbor_splice::{self, Entry};
use crate::work::Stop;

/// Attributes to set, in the order of the calls; those without a value are taken out.
pub type AttributeChanges = Vec<(Value, Option<Value>)>;

/// Blobs are taken to be aligned on purpose up to here: a page.
const MOST_ALIGNED: u64 = 4096;
const ALIGNMENT: u64 = 64;

#[derive(Default)]
struct Change {
    removed: bool,
    name: Option<String>,
    attributes: AttributeChanges,
}

/// How a file's index is spelled.
#[derive(Clone, Copy)]
enum Version {
    One(Spelling),
    Two,
}

/// A file of zTensor 1.0 to 1.2 or 2 as it was opened, and what is to become of it.
pub struct Edit {
    catalog: Catalog,
    index: Index,
    version: Version,
    limits: Limits,
    /// By the tensor's place in the catalog.
    changes: HashMap<usize, Change>,
    /// Who has a name that the file as it was opened does not give it.
    renamed: HashMap<String, usize>,
    attributes: AttributeChanges,
}

impl Edit {
    /// Reads the index of a file. Fails as reading does, and with `ZT_UNSUPPORTED_VERSION` where the file can be read but
    /// not edited, or `ZT_INVALID_ARG` where it is no zTensor file, but another one of `formats`.
    pub fn open(source: &dyn ReadAt, formats: Formats, limits: &Limits) -> Result<Self> {
        inject::panic_at("edit");
        let input = Input::alone(source, limits, Stop::never());
        let first = input.read_vec(0, input.length().min(8))?;
        let (catalog, index, version) = if first == zt::MAGIC_1 {
            let found = zt1_edit::read(&input)?;
            (found.catalog, found.index, Version::One(found.spelling))
        } else if zt2_edit::is_ours(&first) {
            let (catalog, index) = zt2_edit::read(&input)?;
            (catalog, index, Version::Two)
        } else {
            let catalog = detect::parse(source, formats, limits)?;
            let version = catalog.version.as_deref().map_or(String::new(), |version| format!(" {version}"));
            let message = format!(
                "files of {}{version} cannot be edited; convert it to zTensor 1.0, 1.2 or 2, which can",
                catalog.container.name()
            );
            let zt = catalog.container == zt::CONTAINER;
            return Err(Error::new(if zt { Code::UnsupportedVersion } else { Code::InvalidArg }, message));
        };
        Ok(Self {
            catalog,
            index,
            version,
            limits: *limits,
            changes: HashMap::new(),
            renamed: HashMap::new(),
            attributes: Vec::new(),
        })
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Where the index stands.
    pub fn index_offset(&self) -> u64 {
        self.index.offset
    }

    /// The index as it was read, for a file that is to stay what it was although bytes were added to it.
    pub fn old_index(&self) -> OldIndex {
        let start = self.index.offset;
        let tail: fn(&[u8], u64) -> Vec<u8> = match self.version {
            Version::One(Spelling::V10) => |index, _| zt1_edit::tail(index, Spelling::V10),
            Version::One(_) => |index, _| zt1_edit::tail(index, Spelling::V12),
            Version::Two => |index, at| [index, &zt2_encode::footer(Some((at, index)))].concat(),
        };
        OldIndex { range: start..start + self.index.bytes.len() as u64, tail }
    }

    /// How many of the file's `total` bytes a clone keeps: those before the index, which stands behind the last blob, or
    /// all of them in version 2, which only ever adds (§2.5).
    pub fn retained(&self, total: u64) -> u64 {
        match self.version {
            Version::One(_) => self.index.offset,
            Version::Two => total,
        }
    }

    pub fn format(&self) -> &'static WriteFormat {
        match self.version {
            Version::One(Spelling::V10) => WriteFormat::ZT10,
            Version::One(Spelling::V11) => WriteFormat::ZT11,
            Version::One(Spelling::V12) => WriteFormat::ZT12,
            Version::Two => WriteFormat::ZT2,
        }
    }

    /// What the file's blobs are aligned to: up to a page, or up to canonical form's 64 KiB in version 2.
    pub fn alignment(&self) -> u64 {
        let (least, most) = match self.version {
            Version::One(_) => (ALIGNMENT, MOST_ALIGNED),
            Version::Two => (LEAST_ALIGNMENT, CANONICAL_ALIGNMENT),
        };
        let parts = self.catalog().iter().flat_map(Tensor::components).filter(|part| part.file() == 0);
        let common = parts.fold(0, |bits, part| bits | part.offset());
        if common == 0 {
            // Without any other blob, the manifest tells, where it cannot be by chance.
            let as_canonical =
                matches!(self.version, Version::Two) && self.index.offset == CANONICAL_ALIGNMENT;
            return if as_canonical { most } else { least };
        }
        (1 << common.trailing_zeros().min(most.trailing_zeros())).max(least)
    }

    /// Whether compacting can give the file canonical form (zTensor 2 §6.3): one file, all of it raw, with xxh3 digests,
    /// at 64 KiB.
    pub fn is_nearly_canonical(&self) -> bool {
        let mut parts = self.catalog().iter().flat_map(Tensor::components);
        matches!(self.version, Version::Two)
            && self.catalog().shards.is_empty()
            && self.alignment() == CANONICAL_ALIGNMENT
            && parts.all(|part| {
                let digest = part.digest().is_some_and(|digest| digest.expected.is_xxh3());
                part.is_raw_blob() && digest
            })
    }

    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty() && self.changes.values().all(Change::is_empty)
    }

    /// The tensor that is called `name` after the changes so far.
    fn find(&self, name: &str) -> Option<usize> {
        let by_old = || {
            let ordinal = self.catalog().find(name)?;
            let change = self.changes.get(&ordinal);
            change.is_none_or(|change| !change.removed && change.name.is_none()).then_some(ordinal)
        };
        self.renamed.get(name).copied().or_else(by_old)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn change(&mut self, name: &str) -> Result<(usize, &mut Change)> {
        let ordinal = self.find(name).ok_or_else(|| self.not_found(name))?;
        Ok((ordinal, self.changes.entry(ordinal).or_default()))
    }

    fn not_found(&self, name: &str) -> Error {
        let change = self.catalog().find(name).and_then(|ordinal| self.changes.get(&ordinal));
        if let Some(change) = change {
            let what = change.name.as_ref().filter(|_| !change.removed);
            let message = match what {
                Some(new) => format!("the tensor is called {new:?} now"),
                None => "the tensor was removed before".to_owned(),
            };
            return Error::new(Code::NotFound, message).tensor(name);
        }
        let close: Vec<_> =
            similar::to(self.catalog(), name).into_iter().map(|close| format!("{close:?}")).collect();
        let hint = if close.is_empty() {
            format!("the file has {} tensors", self.catalog().len())
        } else {
            format!("did you mean {}?", close.join(" or "))
        };
        Error::new(Code::NotFound, format!("there is no such tensor to change: {hint}")).tensor(name)
    }

    /// Gives a tensor another name, which nobody may have: the caller looks among the tensors that are added.
    pub fn rename(&mut self, name: &str, to: &str) -> Result<()> {
        if name == to {
            return self.change(name).map(drop);
        }
        if self.contains(to) {
            return Err(Error::new(Code::BadIndex, "another tensor has this name already").tensor(to));
        }
        if matches!(self.version, Version::Two) {
            zt2_encode::check_name(to, "the name", false).map_err(|error| error.tensor(name))?;
        }
        let (ordinal, change) = self.change(name)?;
        change.name = Some(to.to_owned());
        self.renamed.remove(name);
        // Back to the first name, it is found in the catalog again.
        if self.catalog().find(to) == Some(ordinal) {
            self.changes.entry(ordinal).or_default().name = None;
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
        self.check_attributes(&changes, FILE_ATTRIBUTES)?;
        self.attributes.extend(changes);
        Ok(())
    }

    fn check_attributes(&self, changes: &AttributeChanges, depth: u32) -> Result<()> {
        if matches!(self.version, Version::One(_)) {
            return Ok(());
        }
        let set = changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        zt2_encode::check_attributes(&set.collect::<Vec<_>>(), depth, false)
    }

    /// Changes attributes of a tensor.
    pub fn tensor_attributes(&mut self, name: &str, changes: AttributeChanges) -> Result<()> {
        self.check_attributes(&changes, TENSOR_ATTRIBUTES).map_err(|error| error.tensor(name))?;
        let (_, change) = self.change(name)?;
        change.attributes.extend(changes);
        Ok(())
    }

    /// What stands behind the blobs of the changed file, from `offset` on, where the tensors of `added` are new. It was
    /// read as an opening will read it.
    pub fn tail(&self, added: &Catalog, offset: u64) -> Result<Vec<u8>> {
        let spelling = match self.version {
            Version::One(spelling) => spelling,
            Version::Two => return self.next_generation(added, offset),
        };
        let mut manifest = Manifest::read(&self.index.bytes, spelling)?;
        for (&ordinal, change) in &self.changes {
            let Some(entry) = manifest.tensors.get_mut(ordinal) else { continue };
            if !change.attributes.is_empty() && !change.removed {
                entry.value = zt1_edit::merge_tensor_attributes(&entry.value, &change.attributes)?.into();
            }
            if let Some(name) = &change.name {
                entry.key = cbor_splice::text(name).into();
            }
        }
        let mut ordinal = 0;
        manifest.tensors.retain(|_| {
            ordinal += 1;
            !self.changes.get(&(ordinal - 1)).is_some_and(|change| change.removed)
        });
        for tensor in added.iter() {
            let mut encoder = Encoder::default();
            zt1_encode::entry(&mut encoder, added, tensor, spelling)?;
            manifest.tensors.push(Entry::new(tensor.name(), encoder.finish()));
        }
        if !self.attributes.is_empty() {
            manifest.merge_attributes(&self.attributes)?;
        }
        self.checked_tail(&manifest.finish(), offset, spelling)
    }

    /// The same in version 2, whose old manifest stays in the file as a blob that nothing refers to.
    fn next_generation(&self, added: &Catalog, offset: u64) -> Result<Vec<u8>> {
        let mut manifest = zt2_edit::Manifest::read(&self.index.bytes)?;
        let mut back = Vec::new();
        // All are taken out before any is put back: two may have changed names.
        for (&ordinal, change) in &self.changes {
            let Some(tensor) = self.catalog.tensor(ordinal) else { continue };
            let mut object = manifest.take(tensor.name())?;
            if change.removed {
                continue;
            }
            if !change.attributes.is_empty() {
                object = zt2_edit::merge_object_attributes(&object, &change.attributes)?.into();
            }
            back.push((change.name.as_deref().unwrap_or(tensor.name()), object));
        }
        for (name, object) in back {
            manifest.put(name, object);
        }
        for tensor in added.iter() {
            manifest.add(added, tensor)?;
        }
        if !self.attributes.is_empty() {
            manifest.merge_attributes(&self.attributes)?;
        }
        zt2_edit::tail(&manifest.finish(), offset, self.alignment(), &self.limits)
    }

    /// The same of a file whose blobs were moved, each to where `place(tensor, component)` says.
    pub fn moved_tail(&self, offset: u64, place: impl Fn(usize, usize) -> Option<u64>) -> Result<Vec<u8>> {
        match self.version {
            Version::One(spelling) => {
                let mut manifest = Manifest::read(&self.index.bytes, spelling)?;
                manifest.move_blobs(place)?;
                self.checked_tail(&manifest.finish(), offset, spelling)
            }
            Version::Two => {
                let mut manifest = zt2_edit::Manifest::read(&self.index.bytes)?;
                manifest.move_blobs(place)?;
                zt2_edit::tail(&manifest.finish(), offset, self.alignment(), &self.limits)
            }
        }
    }

    fn checked_tail(&self, index: &[u8], offset: u64, spelling: Spelling) -> Result<Vec<u8>> {
        zt1_edit::check(index, offset, spelling, &self.limits)?;
        Ok(zt1_edit::tail(index, spelling))
    }
}

impl Change {
    fn is_empty(&self) -> bool {
        !self.removed && self.name.is_none() && self.attributes.is_empty()
    }
}
