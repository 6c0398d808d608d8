//! Checks whether a zTensor 2 file is in canonical form (§6.3), and reports each rule that it breaks.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::collections::{HashMap, HashSet};

use unicode_normalization::is_nfc;

use super::encode::CANONICAL_ALIGNMENT;
use super::footer::{FOOTER, Footer, MAGIC, read_footer};
use crate::codecs::digest::{Digest, Expected};
use crate::error::{Code, Error, Result};
use crate::formats::Canonical;
use crate::model::{Attributes, Catalog, Component, Encoding, Tensor};
use crate::sources::ReadAt;
use crate::work::{PIECE, Stop};

pub const FORM: Canonical = Canonical {
    alignment: CANONICAL_ALIGNMENT,
    holds: |part| part.is_raw_blob() && part.digest().is_some_and(|digest| digest.expected.is_xxh3()),
    check,
};

const ONE_MANIFEST: &str = "zTensor 2 §6.3 rule 1";
const PLACES: &str = "zTensor 2 §6.3 rule 2";
const ORDER: &str = "zTensor 2 §6.3 rule 3";
const RAW_WITH_DIGEST: &str = "zTensor 2 §6.3 rule 4";
const NFC: &str = "zTensor 2 §6.3 rule 5";
const ONE_FILE: &str = "zTensor 2 §6.3 rule 6";
const PADDING: &str = "zTensor 2 §2.4 Blobs and alignment";
const RESERVED: &str = "zTensor 2 §2.3 Footer";

fn broken(rule: &'static str, message: impl Into<String>) -> Error {
    Error::new(Code::NotCanonical, message).rule(rule)
}

/// Receives an error for each broken rule.
type Fail<'f> = &'f mut dyn FnMut(Error);

/// Checks the form of a file with the index `catalog`, and passes an error for each broken rule to `fail`.
fn check(catalog: &Catalog, source: &dyn ReadAt, stop: &Stop, fail: Fail<'_>) -> Result<()> {
    let Some(footer) = read_footer(source, stop)? else {
        fail(broken(ONE_MANIFEST, "the file is a data shard, without a manifest"));
        return Ok(());
    };
    if !catalog.shards.is_empty() {
        let message = format!("the manifest declares {} shards, a canonical file none", catalog.shards.len());
        fail(broken(ONE_FILE, message));
    }
    names(catalog, fail)?;
    let mut form = Form {
        catalog,
        source,
        stop,
        fail,
        placed: Vec::new(),
        end: MAGIC.len() as u64,
        contents: HashMap::new(),
    };
    form.parts()?;
    form.manifest(footer);
    form.padding(footer)
}

/// Checks rule 5 for every name of §3.5.
fn names(catalog: &Catalog, fail: Fail<'_>) -> Result<()> {
    let keys = |attributes: &Attributes, fail: Fail<'_>, tensor: Option<&str>| -> Result<()> {
        for key in attributes.values()?.iter().filter_map(|(key, _)| key.as_text()) {
            if !is_nfc(key) {
                let error = broken(NFC, format!("the attribute key {key:?} is not in Normalization Form C"));
                fail(tensor.map_or(error.clone(), |tensor| error.tensor(tensor)));
            }
        }
        Ok(())
    };
    keys(&catalog.attributes, fail, None)?;
    for tensor in catalog.iter() {
        let name = tensor.name();
        if !is_nfc(name) {
            fail(broken(NFC, "the name is not in Normalization Form C").tensor(name));
        }
        for role in tensor.components().iter().map(|component| catalog.label(component.role)) {
            if !is_nfc(role) {
                let error = broken(NFC, "the name of the part is not in Normalization Form C");
                fail(error.tensor(name).component(role));
            }
        }
        if let Some(own) = tensor.attributes() {
            keys(own, fail, Some(name))?;
        }
    }
    Ok(())
}

/// Checks the form of one file, part by part in the order of rule 3.
struct Form<'a> {
    catalog: &'a Catalog,
    source: &'a dyn ReadAt,
    stop: &'a Stop,
    fail: Fail<'a>,
    /// The blobs checked so far.
    placed: Vec<(u64, u64)>,
    /// The end of these blobs.
    end: u64,
    /// The first part with each content, by digest and length.
    contents: HashMap<(u64, u64), &'a Component>,
}

impl<'a> Form<'a> {
    fn parts(&mut self) -> Result<()> {
        let catalog = self.catalog;
        let mut tensors: Vec<Tensor<'a>> = catalog.iter().collect();
        tensors.arrange_by_key(|tensor| tensor.name());
        let mut seen = HashSet::new();
        for tensor in tensors {
            self.stop.check()?;
            let mut parts: Vec<(&str, &'a Component)> =
                tensor.components().iter().map(|part| (catalog.label(part.role), part)).collect();
            parts.arrange_by_key(|&(role, _)| role);
            for (role, part) in parts {
                let first = part.file() == 0 && seen.insert((part.offset(), part.stored_length()));
                for error in self.part(part, first)? {
                    (self.fail)(error.tensor(tensor.name()).component(role));
                }
            }
        }
        Ok(())
    }

    /// Returns the rules that one part breaks. `first`: whether no earlier part refers to its blob.
    fn part(&mut self, part: &'a Component, first: bool) -> Result<Vec<Error>> {
        let mut errors = Vec::new();
        if part.encoding() != Encoding::RAW {
            errors.push(broken(RAW_WITH_DIGEST, "the part has an encoding"));
        }
        let hash = match part.digest() {
            Some(Digest { expected: Expected::Xxh3(hash), .. }) => Some(*hash),
            _ => None,
        };
        if hash.is_none() {
            errors.push(broken(RAW_WITH_DIGEST, "the part has no xxh3 digest"));
        }
        if part.file() != 0 || !first {
            return Ok(errors);
        }
        let (offset, expected) = (part.offset(), self.next());
        if !offset.is_multiple_of(CANONICAL_ALIGNMENT) {
            errors.push(broken(PLACES, format!("offset {offset} is no multiple of 65536")).at(offset));
        } else if offset > expected {
            let message = format!("the blob is at {offset}; packed it would be at {expected}");
            errors.push(broken(PLACES, message).at(offset));
        } else if offset < expected {
            let message = format!("the blob is at {offset}, before those of names that sort before it");
            errors.push(broken(ORDER, message).at(offset));
        }
        self.placed.push((offset, part.stored_length()));
        self.end = self.end.max(offset.saturating_add(part.stored_length()));
        if let Some(hash) = hash.filter(|_| part.encoding() == Encoding::RAW) {
            let other = *self.contents.entry((hash, part.stored_length())).or_insert(part);
            if other.offset() != offset && self.equal(other, part)? {
                let message = format!(
                    "the blob at {offset} repeats the one at {} instead of sharing it",
                    other.offset()
                );
                errors.push(broken(ORDER, message).at(offset));
            }
        }
        Ok(errors)
    }

    /// Returns the expected offset of the next blob.
    fn next(&self) -> u64 {
        self.end.checked_next_multiple_of(CANONICAL_ALIGNMENT).unwrap_or(u64::MAX)
    }

    /// Returns whether two blobs of equal length hold the same bytes: a hash may collide.
    fn equal(&self, one: &Component, other: &Component) -> Result<bool> {
        let mut at = 0;
        while at < one.stored_length() {
            self.stop.check()?;
            let length = (one.stored_length() - at).min(PIECE as u64);
            let [one, other] = [one, other]
                .map(|blob| self.source.read_vec(blob.offset().saturating_add(at), length, self.stop));
            if one? != other? {
                return Ok(false);
            }
            at += length;
        }
        Ok(true)
    }

    fn manifest(&mut self, footer: Footer) {
        let expected = self.next();
        if !footer.offset.is_multiple_of(CANONICAL_ALIGNMENT) {
            let message = format!("the manifest is at {}, no multiple of 65536", footer.offset);
            (self.fail)(broken(PLACES, message).at(footer.offset));
        } else if footer.offset > expected {
            let message =
                format!("the manifest is at {}; behind the blobs it would be at {expected}", footer.offset);
            (self.fail)(broken(ONE_MANIFEST, message).at(footer.offset));
        } else if footer.offset < expected {
            let message = format!("the manifest is at {}, before the end of the blobs", footer.offset);
            (self.fail)(broken(ORDER, message).at(footer.offset));
        }
        let end = footer.offset.saturating_add(footer.length);
        if end.checked_add(FOOTER) != Some(self.source.length()) {
            let message = format!("the manifest ends at {end}, and the footer does not follow it");
            (self.fail)(broken(ORDER, message).at(end));
        }
    }

    /// Checks that bytes not covered by a digest are zero.
    fn padding(&mut self, footer: Footer) -> Result<()> {
        let total = self.source.length();
        let reserved = self.source.read_vec(total.saturating_sub(12), 4, self.stop)?;
        if reserved.iter().any(|&byte| byte != 0) {
            (self.fail)(broken(RESERVED, "the reserved bytes of the footer are not zero").at(total - 12));
        }
        let mut taken = std::mem::take(&mut self.placed);
        taken.push((footer.offset, footer.length));
        taken.arrange();
        let mut end = MAGIC.len() as u64;
        for (offset, length) in taken {
            if let Some(at) = self.first_set(end, offset)? {
                let message = format!("byte {at} belongs to no blob and is not zero");
                (self.fail)(broken(PADDING, message).at(at));
            }
            end = end.max(offset.saturating_add(length));
        }
        Ok(())
    }

    /// Returns the position of the first nonzero byte from `at` to `end`.
    fn first_set(&self, mut at: u64, end: u64) -> Result<Option<u64>> {
        while at < end {
            self.stop.check()?;
            let piece = self.source.read_vec(at, (end - at).min(PIECE as u64), self.stop)?;
            if let Some(set) = piece.iter().position(|&byte| byte != 0) {
                return Ok(Some(at + set as u64));
            }
            at += piece.len() as u64;
        }
        Ok(None)
    }
}
