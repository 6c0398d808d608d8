//! Changes the metadata of a file and the names of its tensors, in time that does not depend on the size of its data if the file system
//! permits it.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::path::Path;

use ciborium::Value;

use super::Edit;
use super::retained::retained_data;
use crate::error::{Code, Error, Result};
use crate::formats::{
    AttributeChanges, Confidence, EditHeader, Formats, HeaderChanges, Input, NewHeader, OpenHeader, Probe,
    RetainedData,
};
use crate::inject;
use crate::limits::Limits;
use crate::model::{Builder, Catalog, Component};
use crate::sinks::existing::ExistingFile;
use crate::sinks::header_rewrite::{self, HeaderRewrite, Method};
use crate::sinks::in_place::InPlaceFile;
use crate::sinks::replacement::Replacement;
use crate::sinks::{Warning, blocks};
use crate::sources::ReadAt;
use crate::work::{Stop, Watch};

/// Header lengths to try: a shorter one may be impossible although a longer one is not.
const TRIES: u64 = 4;

/// How to edit a file.
pub struct Editing {
    /// Edit the file itself if possible, instead of replacing it.
    pub in_place: bool,
    pub formats: Formats,
    pub limits: Limits,
}

/// The result of an edit.
#[derive(Debug)]
pub struct Edited {
    /// The size of the file in bytes.
    pub length: u64,
    pub method: Method,
    pub warnings: Vec<Warning>,
}

/// Edits the file at `path`: makes all changes, or none. Fails like the reading of its index; with `ZT_NOT_FOUND` for a key or a tensor that
/// is missing; with `ZT_INVALID_ARG` for a key or value that the format does not permit, and for a format that cannot be edited; with
/// `ZT_BAD_INDEX` for a new name that is taken; and with `ZT_IO` if another edit is in progress.
pub fn edit_metadata(path: &Path, changes: &HeaderChanges, how: &Editing, watch: &Watch) -> Result<Edited> {
    inject::panic_at("edit");
    let original = ExistingFile::open(path, how.in_place)?;
    watch.stop.check()?;
    match header_of(original.source(), how.formats, &watch.stop)? {
        Some(open) => edit_header(original, open, changes, how, watch),
        None => edit_index(original, changes, how, watch),
    }
}

/// Finds how the header of a file is edited; `None` for a format whose index comes last, or that cannot be edited.
fn header_of(source: &dyn ReadAt, formats: Formats, stop: &Stop) -> Result<Option<OpenHeader>> {
    let probe = Probe::new(source, stop);
    if source.length() < 8 {
        return Ok(None);
    }
    let mut likely = None;
    for format in formats.iter() {
        match (format.detect)(&probe)? {
            Confidence::Certain => return Ok(format.header),
            Confidence::Likely => likely = likely.or(Some(format)),
            Confidence::Possible | Confidence::No => {}
        }
    }
    Ok(likely.and_then(|format| format.header))
}

fn edit_header(
    original: ExistingFile,
    open: OpenHeader,
    changes: &HeaderChanges,
    how: &Editing,
    watch: &Watch,
) -> Result<Edited> {
    let header = open(&Input::alone(original.source(), &how.limits, &watch.stop))?;
    let total = original.length();
    let dropped = changes.dropped(header.catalog())?;
    let retained = retained_data(header.catalog(), &dropped, header.data(), total);
    let new = header.changed(changes, &retained)?;
    let step = blocks::size(original.file()).max(header.alignment());
    let bytes = padded(&*new, header.data(), step)?;
    let front = HeaderRewrite { bytes: &bytes, old_data: header.data(), retained: retained.ranges() };
    check(&*header, open, changes, &retained, &front, how)?;
    let length = front.total();
    if length == total && original.source().read_vec(0, header.data(), &watch.stop)? == bytes {
        return Ok(Edited { length, method: Method::Unchanged, warnings: Vec::new() });
    }
    let put = if how.in_place { header_rewrite::write_in_place } else { header_rewrite::replace };
    let (method, warnings) = put(original, &front, watch)?;
    Ok(Edited { length, method, warnings })
}

/// Returns the header with padding: of its old length if possible, so that the data stays, otherwise longer by a multiple of `step`.
fn padded(new: &dyn NewHeader, data: u64, step: u64) -> Result<Vec<u8>> {
    let too_long = || Error::new(Code::Limit, "the header would be too long");
    let missing = new.min().saturating_sub(data).div_ceil(step);
    for steps in missing..missing.saturating_add(TRIES) {
        let at = steps.checked_mul(step).and_then(|more| data.checked_add(more)).ok_or_else(too_long)?;
        if let Some(bytes) = new.padded(at)? {
            return Ok(bytes);
        }
    }
    Err(too_long())
}

/// Reads the new header like a reader, and compares its tensors with the old ones.
fn check(
    old: &dyn EditHeader,
    open: OpenHeader,
    changes: &HeaderChanges,
    retained: &RetainedData,
    front: &HeaderRewrite<'_>,
    how: &Editing,
) -> Result<()> {
    let preview = Preview { front: front.bytes, length: front.total() };
    let new = open(&Input::alone(&preview, &how.limits, Stop::never()))?;
    let (renamed, dropped) = (changes.renamed(old.catalog())?, changes.dropped(old.catalog())?);
    let mut others = new.catalog().iter();
    let same = old.catalog().iter().filter(|tensor| !dropped.contains(&tensor.ordinal())).all(|before| {
        let offsets = before.components().iter().map(|part| new.data() + retained.moved(part.offset()));
        others.next().is_some_and(|after| {
            after.name() == renamed.get(&before.ordinal()).copied().unwrap_or(before.name())
                && after.shape() == before.shape()
                && offsets.eq(after.components().iter().map(Component::offset))
        })
    });
    if same && others.next().is_none() && new.data() == front.bytes.len() as u64 {
        return Ok(());
    }
    Err(Error::new(Code::Internal, "the new header does not describe the tensors of the old one"))
}

/// A file that is not written yet. Its data reads as zeros.
struct Preview<'f> {
    front: &'f [u8],
    length: u64,
}

impl ReadAt for Preview<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _: &Stop) -> Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.front.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        let (from_front, zeros) = buffer.split_at_mut(count);
        from_front.copy_from_slice(rest.get(..count).unwrap_or_default());
        zeros.fill(0);
        Ok(())
    }
}

/// Edits a file whose index comes last: only the index is written again.
fn edit_index(
    original: ExistingFile,
    changes: &HeaderChanges,
    how: &Editing,
    watch: &Watch,
) -> Result<Edited> {
    let mut edit = Edit::open(original.source(), how.formats, &how.limits)?;
    // Fails for missing and for taken names.
    changes.renamed(edit.catalog())?;
    for name in changes.drop.iter().collect::<HashSet<_>>() {
        edit.remove(name)?;
    }
    rename_all(&mut edit, &changes.rename)?;
    let attributes = attribute_changes(edit.catalog(), changes)?;
    edit.attributes(attributes)?;
    let before = original.length();
    if edit.is_empty() {
        return Ok(Edited { length: before, method: Method::Unchanged, warnings: Vec::new() });
    }
    let nothing = Builder::new(edit.format().container(), &how.limits).finish();
    let at = if how.in_place { before } else { edit.retained(before) };
    let tail = edit.tail(&nothing, at)?;
    let length = at + tail.len() as u64;
    watch.stop.check()?;
    if how.in_place {
        let mut file = InPlaceFile::new(original, edit.old_index());
        file.write(&tail)?;
        file.commit()?;
        return Ok(Edited { length, method: Method::InPlace, warnings: Vec::new() });
    }
    let mut file = Replacement::new(original, at, watch.stop.clone());
    file.write(&tail)?;
    let method = if file.is_shared() { Method::Cloned } else { Method::Copied };
    Ok(Edited { length, method, warnings: file.commit()? })
}

/// Renames tensors at once: one whose new name is the old name of another first gets a name that no tensor has.
fn rename_all(edit: &mut Edit, renames: &[(String, String)]) -> Result<()> {
    let old_names: HashSet<&str> = renames.iter().map(|(old, _)| &**old).collect();
    let mut later = Vec::new();
    for (old, new) in renames.iter().filter(|(old, new)| old != new) {
        if !old_names.contains(&**new) {
            edit.rename(old, new)?;
            continue;
        }
        let free = (0..u64::MAX).map(|number| format!("{new}.{number}")).find(|name| !edit.contains(name));
        let free = free.unwrap_or_default();
        edit.rename(old, &free)?;
        later.push((free, new));
    }
    later.into_iter().try_for_each(|(free, new)| edit.rename(&free, new))
}

/// Returns the attributes to change: those that are set to another value, and those that are removed.
fn attribute_changes(catalog: &Catalog, changes: &HeaderChanges) -> Result<AttributeChanges> {
    let old = catalog.attributes.values()?;
    let texts = old.iter().filter_map(|(key, value)| Some((key.as_text()?, value)));
    changes.check_keys(&texts.clone().map(|(key, _)| key))?;
    let old: HashMap<&str, &Value> = texts.collect();
    let set = changes.set.iter().filter(|one| old.get(&*one.key) != Some(&&one.value));
    let set = set.map(|one| (Value::from(&*one.key), Some(one.value.clone())));
    let gone = changes.remove.iter().map(|key| (Value::from(&**key), None));
    Ok(set.chain(gone).collect())
}
