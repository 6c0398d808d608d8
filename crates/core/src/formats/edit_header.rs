//! How the header of a file is edited, in a format whose header comes first: a format reads the old header and encodes a new one. It opens
//! and writes no file.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use ciborium::Value;

use super::Input;
use crate::error::{Code, Error, Result};
use crate::model::Catalog;
use crate::model::similar;

/// Reads the header of a file to be edited.
pub type OpenHeader = fn(&Input<'_>) -> Result<Box<dyn EditHeader>>;

/// A key of the metadata and its new value.
#[derive(Clone, Debug)]
pub struct Setting {
    pub key: String,
    pub value: Value,
    /// The requested type, in a format with typed values; by default that of the old value or, for a new key, one that fits.
    pub kind: Option<String>,
    /// The value as text, for a format that only has text. `None` for a string, and for a value without a text form.
    pub text: Option<String>,
}

/// Changes to a header: to the metadata and to the names of tensors.
#[derive(Clone, Default, Debug)]
pub struct HeaderChanges {
    pub set: Vec<Setting>,
    /// The keys to remove.
    pub remove: Vec<String>,
    /// The old and new names of tensors. All renames happen at once, so that names can be swapped.
    pub rename: Vec<(String, String)>,
    /// The names of tensors to drop, as they are before the renames.
    pub drop: Vec<String>,
}

impl HeaderChanges {
    /// Returns the new name of each tensor that is renamed, by its ordinal. Fails if a tensor is missing, or a name would occur twice.
    pub fn renamed(&self, catalog: &Catalog) -> Result<HashMap<usize, &str>> {
        let dropped = self.dropped(catalog)?;
        let mut renamed = HashMap::new();
        for (old, new) in &self.rename {
            let ordinal = find(catalog, old)?;
            if dropped.contains(&ordinal) {
                let error = Error::new(Code::InvalidArg, "the tensor is both renamed and dropped");
                return Err(error.tensor(old));
            }
            if renamed.insert(ordinal, &**new).is_some_and(|other| other != new) {
                let error = Error::new(Code::InvalidArg, "the tensor is renamed twice");
                return Err(error.tensor(old));
            }
        }
        let mut names = HashSet::new();
        for &new in renamed.values() {
            let taken = catalog
                .find(new)
                .is_some_and(|ordinal| !renamed.contains_key(&ordinal) && !dropped.contains(&ordinal));
            if taken || !names.insert(new) {
                return Err(Error::new(Code::BadIndex, "another tensor has this name already").tensor(new));
            }
        }
        Ok(renamed)
    }

    /// Returns the ordinals of the tensors to drop.
    pub fn dropped(&self, catalog: &Catalog) -> Result<HashSet<usize>> {
        self.drop.iter().map(|name| find(catalog, name)).collect()
    }

    /// Fails unless each removed key is one of `keys`, and no key is changed twice.
    pub fn check_keys<'k>(&self, keys: &(impl Iterator<Item = &'k str> + Clone)) -> Result<()> {
        let known: HashSet<&str> = keys.clone().collect();
        let mut seen = HashSet::new();
        for key in self.remove.iter().chain(self.set.iter().map(|one| &one.key)) {
            if !seen.insert(&**key) {
                let message = format!("the key {key:?} is changed twice");
                return Err(Error::new(Code::InvalidArg, message));
            }
        }
        for key in &self.remove {
            if !known.contains(&**key) {
                return Err(no_such_key(key, keys.clone()));
            }
        }
        Ok(())
    }
}

fn find(catalog: &Catalog, name: &str) -> Result<usize> {
    catalog.find(name).ok_or_else(|| similar::no_such_tensor(catalog, name))
}

/// Returns the error for a key that is to be removed and does not exist.
fn no_such_key<'k>(key: &str, keys: impl Iterator<Item = &'k str>) -> Error {
    /// Keys that the message lists.
    const LISTED: usize = 8;
    let all: Vec<&str> = keys.collect();
    let listed: Vec<String> = all.iter().take(LISTED).map(|key| format!("{key:?}")).collect();
    let hint = match all.len() {
        0 => "the file has no metadata".to_owned(),
        count if count > LISTED => format!("the file has {count} keys, such as {}", listed.join(", ")),
        _ => format!("the file has {}", listed.join(", ")),
    };
    Error::new(Code::NotFound, format!("there is no key {key:?} in the metadata to remove: {hint}"))
}

/// The data of the old file that stays, and how offsets change with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetainedData {
    ranges: Vec<Range<u64>>,
    /// The number of bytes before each range.
    before: Vec<u64>,
    length: u64,
}

impl RetainedData {
    /// Takes the ranges of the old file that stay, which are in ascending order.
    pub fn new(ranges: Vec<Range<u64>>) -> Self {
        let mut length = 0;
        let mut before = Vec::with_capacity(ranges.len());
        for range in &ranges {
            before.push(length);
            length += range.end - range.start;
        }
        Self { ranges, before, length }
    }

    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the offset of a retained byte, relative to the first byte of the new data.
    pub fn moved(&self, offset: u64) -> u64 {
        let at = self.ranges.partition_point(|range| range.end <= offset);
        match (self.ranges.get(at), self.before.get(at)) {
            // An empty tensor may be between two ranges.
            (Some(range), Some(before)) => before + offset.saturating_sub(range.start),
            _ => self.length,
        }
    }
}

/// The header of a file to be edited.
pub trait EditHeader: Send {
    /// The tensors of this file, not of other files of its set. Their components are in its own bytes.
    fn catalog(&self) -> &Catalog;

    /// Returns the offset of the data. All bytes before it are the header.
    fn data(&self) -> u64;

    /// Returns the alignment: data can only be moved by its multiples.
    fn alignment(&self) -> u64;

    /// Encodes the header after `changes`, in a file of which only the `retained` data stays.
    fn changed(&self, changes: &HeaderChanges, retained: &RetainedData) -> Result<Box<dyn NewHeader>>;
}

/// A header whose length can be chosen.
pub trait NewHeader {
    /// Returns the least offset of the data.
    fn min(&self) -> u64;

    /// Returns all bytes before the data, which begins at `data`; `None` if that cannot be achieved by padding. `data` is the old offset
    /// of the data plus a multiple of the alignment.
    fn padded(&self, data: u64) -> Result<Option<Vec<u8>>>;
}
