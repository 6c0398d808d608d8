//! Edits the header of a safetensors file. The entries that an edit does not change are preserved byte for byte. The header ends in spaces,
//! so that its length can be chosen.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;

use super::safetensors_encode::quote;
use super::safetensors_parse::{self, METADATA, PREFIX};
use super::{EditHeader, HeaderChanges, Input, NewHeader, RetainedData, Setting};
use crate::checked::index;
use crate::error::{Code, Error, Result};
use crate::model::{Catalog, Component};
use crate::sources::owned::Owned;
use crate::syntax::json::{Reader, Unique};

const RULE: &str = "safetensors Format";
/// The largest header that the reference implementation reads.
const LARGEST: usize = 100_000_000;
/// The reference implementation aligns the data to this.
const ALIGNMENT: u64 = 8;

/// A key with its value, and the value alone.
struct Entry {
    whole: Range<usize>,
    value: Range<usize>,
}

/// The entry of the metadata.
struct Metadata {
    /// The number of tensors before it.
    before: usize,
    whole: Range<usize>,
    /// Its own entries with their decoded keys.
    texts: Vec<(String, Entry)>,
}

struct Header {
    bytes: Owned,
    catalog: Catalog,
    /// In the order of the catalog.
    tensors: Vec<Entry>,
    metadata: Option<Metadata>,
}

/// Reads the header of a safetensors file.
pub fn open(input: &Input<'_>) -> Result<Box<dyn EditHeader>> {
    let bytes = safetensors_parse::read_header(input)?;
    let catalog = safetensors_parse::parse_index(&bytes, input.length(), input.limits)?;
    let text = text_of(&bytes);
    let (mut tensors, mut metadata) = (Vec::new(), None);
    for (key, entry) in entries(text, 0..text.len())? {
        if key != METADATA {
            tensors.push(entry);
            continue;
        }
        let value = text.get(entry.value.clone()).unwrap_or_default();
        // It may be `null`.
        let texts = if value.starts_with('{') { entries(text, entry.value)? } else { Vec::new() };
        let texts = texts.into_iter().map(|(key, entry)| (key.into_owned(), entry)).collect();
        metadata = Some(Metadata { before: tensors.len(), whole: entry.whole, texts });
    }
    Ok(Box::new(Header { bytes, catalog, tensors, metadata }))
}

/// Returns the header as text. This reads all of it: call it once for all entries.
fn text_of(bytes: &[u8]) -> &str {
    // The parser has checked it.
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Returns a part of the header.
fn part<'a>(text: &'a str, range: &Range<usize>) -> &'a str {
    text.get(range.clone()).unwrap_or_default()
}

/// Returns the keys of the object in a range of the text, and their entries.
fn entries(text: &str, range: Range<usize>) -> Result<Vec<(Cow<'_, str>, Entry)>> {
    let base = range.start;
    let text = text.get(range).unwrap_or_default();
    let mut found = Vec::new();
    let mut reader = Reader::new(text, PREFIX + base as u64);
    reader.peek();
    // Behind the brace.
    let mut from = reader.position() + 1;
    reader.object("an object", Unique::ByCaller, |reader, key| {
        reader.peek();
        let value = reader.position();
        reader.skip()?;
        let end = reader.position();
        let whole = reader.text_from(from).trim_start_matches([',', ' ', '\t', '\n', '\r']);
        from = end;
        let whole = base + end - whole.len()..base + end;
        found.push((key.clone(), Entry { whole, value: base + value..base + end }));
        Ok(())
    })?;
    Ok(found)
}

impl EditHeader for Header {
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn data(&self) -> u64 {
        PREFIX + self.bytes.len() as u64
    }

    fn alignment(&self) -> u64 {
        ALIGNMENT
    }

    fn changed(&self, changes: &HeaderChanges, retained: &RetainedData) -> Result<Box<dyn NewHeader>> {
        let text = text_of(&self.bytes);
        let metadata = self.changed_metadata(text, changes)?;
        let (renamed, dropped) = (changes.renamed(&self.catalog)?, changes.dropped(&self.catalog)?);
        let mut parts = Vec::with_capacity(self.tensors.len() + 1);
        for ((ordinal, entry), tensor) in self.tensors.iter().enumerate().zip(self.catalog.iter()) {
            if dropped.contains(&ordinal) {
                continue;
            }
            let spans = tensor.components().first().map(|data| (self.span(data), moved(data, retained)));
            let moved = spans.filter(|(old, new)| old != new).map(|(_, new)| new);
            let name = renamed.get(&ordinal).copied();
            if name == Some(METADATA) {
                let message = format!("no tensor of a safetensors file can be called {METADATA:?}");
                return Err(Error::new(Code::BadIndex, message).tensor(tensor.name()).rule(RULE));
            }
            parts.push(changed_tensor(text, entry, name, moved)?);
        }
        if let Some(metadata) = metadata {
            // Dropped tensors before it leave it where it is among the others.
            let before = self.metadata.as_ref().map_or(0, |metadata| metadata.before);
            let before = (0..before).filter(|ordinal| !dropped.contains(ordinal)).count();
            parts.insert(before, metadata);
        }
        let text = format!("{{{}}}", parts.join(","));
        if text.len() > LARGEST {
            let message = format!(
                "the header would be {} bytes, more than the {LARGEST} that safetensors reads: remove metadata, or shorten it",
                text.len()
            );
            return Err(Error::new(Code::Limit, message).rule(RULE));
        }
        Ok(Box::new(Encoded { text }))
    }
}

/// Where the data of a tensor begins and ends, relative to all data.
type Span = (u64, u64);

fn moved(data: &Component, retained: &RetainedData) -> Span {
    let begin = retained.moved(data.offset());
    (begin, begin + data.stored_length())
}

impl Header {
    fn span(&self, data: &Component) -> Span {
        let begin = data.offset() - self.data();
        (begin, begin + data.stored_length())
    }

    /// Encodes the metadata with its key; `None` if there is none.
    fn changed_metadata<'a>(&self, text: &'a str, changes: &HeaderChanges) -> Result<Option<Cow<'a, str>>> {
        let old = self.metadata.as_ref().map_or(&[][..], |metadata| &metadata.texts);
        changes.check_keys(&old.iter().map(|(key, _)| &**key))?;
        if changes.set.is_empty() && changes.remove.is_empty() {
            return Ok(self.metadata.as_ref().map(|metadata| part(text, &metadata.whole).into()));
        }
        let set: HashMap<&str, &Setting> = changes.set.iter().map(|one| (&*one.key, one)).collect();
        let gone: HashSet<&str> = changes.remove.iter().map(|key| &**key).collect();
        let mut parts: Vec<Cow<'_, str>> = Vec::new();
        for (key, entry) in old.iter().filter(|(key, _)| !gone.contains(&**key)) {
            let Some(setting) = set.get(&**key) else {
                parts.push(part(text, &entry.whole).into());
                continue;
            };
            let mut encoded = part(text, &(entry.whole.start..entry.value.start)).to_owned();
            quote(&mut encoded, text_value(setting)?);
            parts.push(encoded.into());
        }
        let known: HashSet<&str> = old.iter().map(|(key, _)| &**key).collect();
        for setting in changes.set.iter().filter(|one| !known.contains(&*one.key)) {
            let mut encoded = String::new();
            quote(&mut encoded, &setting.key);
            encoded.push(':');
            quote(&mut encoded, text_value(setting)?);
            parts.push(encoded.into());
        }
        Ok((!parts.is_empty()).then(|| format!("{METADATA:?}:{{{}}}", parts.join(",")).into()))
    }
}

/// Encodes the entry of a tensor with its new name and span.
fn changed_tensor<'a>(
    text: &'a str,
    entry: &Entry,
    name: Option<&str>,
    span: Option<Span>,
) -> Result<Cow<'a, str>> {
    if name.is_none() && span.is_none() {
        return Ok(Cow::Borrowed(part(text, &entry.whole)));
    }
    let mut encoded = String::new();
    match name {
        Some(name) => {
            quote(&mut encoded, name);
            encoded.push(':');
        }
        None => encoded.push_str(part(text, &(entry.whole.start..entry.value.start))),
    }
    let Some((begin, end)) = span else {
        encoded.push_str(part(text, &entry.value));
        return Ok(encoded.into());
    };
    let fields = entries(text, entry.value.clone())?;
    let field = fields.iter().find(|(key, _)| key == "data_offsets");
    let offsets = field.map_or(entry.value.end..entry.value.end, |(_, field)| field.value.clone());
    encoded.push_str(part(text, &(entry.value.start..offsets.start)));
    // Writing to a String cannot fail.
    let _ = write!(encoded, "[{begin},{end}]");
    encoded.push_str(part(text, &(offsets.end..entry.value.end)));
    Ok(encoded.into())
}

/// Returns the text of a value: metadata is text.
fn text_value(setting: &Setting) -> Result<&str> {
    setting.value.as_text().or(setting.text.as_deref()).ok_or_else(|| {
        let message = format!(
            "safetensors stores text only: the value of {:?} is neither text nor anything that JSON can express",
            setting.key
        );
        Error::new(Code::InvalidArg, message)
    })
}

struct Encoded {
    text: String,
}

impl NewHeader for Encoded {
    fn min(&self) -> u64 {
        PREFIX + self.text.len() as u64
    }

    fn padded(&self, data: u64) -> Result<Option<Vec<u8>>> {
        let Some(spaces) = data.checked_sub(self.min()) else { return Ok(None) };
        let size = data - PREFIX;
        let total = index(data, "the header")?;
        if index(spaces, "the padding")? > 0 && total > LARGEST {
            let message =
                format!("the header would be {size} bytes with its padding, more than safetensors reads");
            return Err(Error::new(Code::Limit, message).rule(RULE));
        }
        let mut bytes = Vec::with_capacity(total);
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(self.text.as_bytes());
        bytes.resize(total, b' ');
        Ok(Some(bytes))
    }
}
