//! What is to be changed in a file that is there: tensors renamed and removed, attributes set. Bytes are added by a
//! [`Writer`](crate::write::Writer) that an edit belongs to.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ciborium::Value;

use crate::catalog::{Catalog, Container, Tensor};
use crate::detect;
use crate::error::{Code, Error, Result};
use crate::format::zt1_edit::{self, Found, Manifest};
use crate::format::zt1_encode::{self, Spelling};
use crate::inject;
use crate::limits::Limits;
use crate::similar;
use crate::source::ReadAt;
use crate::syntax::cbor_encode::Encoder;
use crate::syntax::cbor_splice::{self, Entry};
use crate::write::Dialect;

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

/// A file of zTensor 1.0 to 1.2 as it was opened, and what is to become of it.
pub struct Edit {
    found: Found,
    limits: Limits,
    /// By the tensor's place in the catalog.
    changes: HashMap<usize, Change>,
    /// Who has a name that the file as it was opened does not give it.
    renamed: HashMap<String, usize>,
    attributes: AttributeChanges,
}

impl Edit {
    /// Reads the index of a file. Fails as reading does, and with `ZT_UNSUPPORTED_VERSION` where the file can be read but
    /// not edited.
    pub fn open(source: &dyn ReadAt, limits: &Limits) -> Result<Self> {
        inject::panic_at("edit");
        let ours = source.length() >= 8 && source.read_vec(0, 8)? == b"ZTEN1000";
        if !ours {
            let catalog = detect::parse(source, None, limits)?;
            let version = catalog.version.as_deref().map_or(String::new(), |version| format!(" {version}"));
            let message = format!(
                "files of {}{version} cannot be edited; convert it to zTensor 1.0 or 1.2, which can",
                catalog.container.name()
            );
            let zt = catalog.container == Container::Zt;
            return Err(Error::new(if zt { Code::UnsupportedVersion } else { Code::InvalidArg }, message));
        }
        let found = zt1_edit::read(source, limits)?;
        Ok(Self {
            found,
            limits: *limits,
            changes: HashMap::new(),
            renamed: HashMap::new(),
            attributes: Vec::new(),
        })
    }

    pub fn catalog(&self) -> &Catalog {
        &self.found.catalog
    }

    /// Where the index stands: behind the last blob.
    pub fn index_offset(&self) -> u64 {
        self.found.index.offset
    }

    pub fn dialect(&self) -> Dialect {
        match self.found.spelling {
            Spelling::V10 => Dialect::Zt10,
            Spelling::V11 => Dialect::Zt11,
            Spelling::V12 => Dialect::Zt12,
        }
    }

    /// What the file's blobs are aligned to, up to a page.
    pub fn alignment(&self) -> u64 {
        let offsets = self.catalog().iter().flat_map(Tensor::components).map(|part| part.offset);
        let common = offsets.fold(0, |bits, offset| bits | offset);
        if common == 0 {
            return ALIGNMENT;
        }
        (1 << common.trailing_zeros().min(MOST_ALIGNED.trailing_zeros())).max(ALIGNMENT)
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
            return Err(Error::new(Code::BadIndex, "a tensor of this name is there already").tensor(to));
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
    pub fn attributes(&mut self, changes: AttributeChanges) {
        self.attributes.extend(changes);
    }

    /// Changes attributes of a tensor.
    pub fn tensor_attributes(&mut self, name: &str, changes: AttributeChanges) -> Result<()> {
        let (_, change) = self.change(name)?;
        change.attributes.extend(changes);
        Ok(())
    }

    /// What stands behind the blobs of the changed file, from `offset` on, where the tensors of `added` are new. It was
    /// read as an opening will read it.
    pub fn tail(&self, added: &Catalog, offset: u64) -> Result<Vec<u8>> {
        let spelling = self.found.spelling;
        let mut manifest = Manifest::read(&self.found.index.bytes, spelling)?;
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
            zt1_encode::entry(&mut encoder, added, tensor, spelling);
            manifest.tensors.push(Entry::new(tensor.name(), encoder.finish()));
        }
        if !self.attributes.is_empty() {
            manifest.merge_attributes(&self.attributes)?;
        }
        self.checked_tail(&manifest.finish(), offset)
    }

    /// The same of a file whose blobs were moved, each to where `place(tensor, component)` says.
    pub fn moved_tail(&self, offset: u64, place: impl Fn(usize, usize) -> Option<u64>) -> Result<Vec<u8>> {
        let mut manifest = Manifest::read(&self.found.index.bytes, self.found.spelling)?;
        manifest.move_blobs(place)?;
        self.checked_tail(&manifest.finish(), offset)
    }

    fn checked_tail(&self, index: &[u8], offset: u64) -> Result<Vec<u8>> {
        zt1_edit::check(index, offset, self.found.spelling, &self.limits)?;
        Ok(zt1_edit::tail(index, self.found.spelling))
    }
}

impl Change {
    fn is_empty(&self) -> bool {
        !self.removed && self.name.is_none() && self.attributes.is_empty()
    }
}
