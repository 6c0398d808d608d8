//! Reads one part of an object (§3.4): its types, its blob, its encoding and its digest.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::regions;
use super::vocabulary::{self, ZSTD_SEEKABLE};
use super::{rules, shard_table};
use crate::checked::exact;
use crate::codecs::digest::{Digest, Expected};
use crate::error::{Code, Error, Result};
use crate::model::{self, Builder, Component, DType, Data, DataRule, Encoding, Shard};
use crate::syntax::cbor::Reader;
use crate::syntax::repeats::{Draft, Filling};

/// The context for reading a part.
pub struct Surroundings<'s> {
    pub shards: &'s [Shard],
    /// The size in bytes of the file with the index.
    pub total: u64,
    pub builder: &'s mut Builder,
    pub draft: &'s mut Draft,
}

/// The numbers that differ between parts of one spelling.
const OFFSET: usize = 0;
const LENGTH: usize = 1;
const DECODED: usize = 2;

/// The fields of a part as recorded in the manifest.
#[derive(Default)]
struct Fields<'a> {
    dtype: Option<Cow<'a, str>>,
    logical: Option<Cow<'a, str>>,
    blob: Option<[u64; 2]>,
    shard: Option<Cow<'a, str>>,
    encoding: Option<Cow<'a, str>>,
    decoded_length: Option<u64>,
    digest: Option<Digest>,
}

fn read<'a>(reader: &mut Reader<'a>, draft: &mut Draft) -> Result<Fields<'a>> {
    let mut fields = Fields::default();
    reader.fields("the part", |reader, key| {
        match key {
            "dtype" => fields.dtype = Some(reader.text("dtype")?),
            "type" => fields.logical = Some(reader.text("type")?),
            "blob" => fields.blob = Some(blob(reader, draft)?),
            "shard" => fields.shard = Some(reader.text("shard")?),
            "encoding" => fields.encoding = Some(reader.text("encoding")?),
            "decoded_length" => {
                let bytes = draft.number(reader, DECODED, "decoded_length")?;
                fields.decoded_length = Some(exact(bytes, "decoded_length")?);
            }
            "digest" => {
                let digest = Digest::parse_registered(&draft.text(reader, "digest")?);
                fields.digest = Some(digest.map_err(|error| error.rule(rules::PART))?);
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(fields)
}

fn blob(reader: &mut Reader<'_>, draft: &mut Draft) -> Result<[u64; 2]> {
    let mut numbers = [0; 2];
    let mut count = 0;
    reader.array("blob", |reader| {
        let which = if count == 0 { OFFSET } else { LENGTH };
        let number = draft.number(reader, which, "an offset or length")?;
        if let Some(slot) = numbers.get_mut(count) {
            *slot = number;
        }
        count += 1;
        Ok(())
    })?;
    if count != 2 {
        return Err(Error::new(
            Code::BadIndex,
            format!("blob has {count} numbers, not an offset and a length"),
        ));
    }
    Ok(numbers)
}

/// Returns a part that differs from `known` only in the holes of its spelling and decodes to as many bytes, in a file
/// of `total` bytes. Returns `None` if it needs an error or a warning, and must be read key by key.
pub fn again(known: &Component, filling: &Filling<'_>, total: u64) -> Option<Component> {
    let [offset, length, decoded] = filling.numbers;
    let (offset, length) = (offset?, exact(length?, "the length of a blob").ok()?);
    let decoded = Some(decoded.unwrap_or(length));
    if decoded != known.byte_length() {
        return None;
    }
    regions::check_alignment(offset).ok()?;
    regions::check_bounds(offset, length, total).ok()?;
    let digest = match filling.text {
        Some(text) => Some(Digest::plain_registered(text)?),
        None => None,
    };
    let (file, encoding) = (known.file(), known.encoding());
    let blob = model::Blob { file, encoding, offset, stored: length, decoded, digest };
    Some(Component { rule: known.rule, ..Component::new(known.role, known.dtype, Data::Blob(blob)) })
}

impl Surroundings<'_> {
    /// Reads the part `role` of the tensor `name`.
    pub fn part(&mut self, reader: &mut Reader<'_>, role: &str, name: &str) -> Result<Component> {
        let fields = read(reader, self.draft)?;
        let missing = |key: &str| Error::new(Code::BadIndex, format!("the part has no {key:?}"));
        let [offset, length] = fields.blob.ok_or_else(|| missing("blob"))?;
        let storage = fields.dtype.ok_or_else(|| missing("dtype"))?;
        let dtype = self.dtype(&storage, fields.logical.as_deref(), role, name)?;
        let (file, total) = self.file(fields.shard.as_deref())?;
        regions::check_alignment(offset)?;
        regions::check_bounds(offset, length, total)?;
        let (encoding, decoded_length) = match (fields.encoding.as_deref(), fields.decoded_length) {
            (None, None) => (Encoding::RAW, length),
            (Some(text), Some(decoded)) => (self.encoding(text, role, name), decoded),
            (Some(_), None) => return Err(missing("decoded_length")),
            (None, Some(_)) => {
                return Err(Error::new(Code::BadIndex, "decoded_length stands without an encoding"));
            }
        };
        if let Some(digest) = fields.digest.as_ref().filter(|digest| digest.expected == Expected::Unknown) {
            let text = digest.text();
            let message =
                format!("the digest {text:?} is of an algorithm not known here and is never checked");
            self.builder.warn("ZT_WARN_UNKNOWN_DIGEST", message, Some(name), Some(role));
        }
        let role = self.builder.intern(role);
        let (stored, digest) = (exact(length, "the length of a blob")?, fields.digest);
        let blob = model::Blob { file, encoding, offset, stored, decoded: Some(decoded_length), digest };
        let mut component = Component::new(role, dtype, Data::Blob(blob));
        component.rule = dtype.filter(|&dtype| dtype == DType::Bool).map(|_| DataRule::Bool);
        Ok(component)
    }

    /// Returns the dtype of a part. Warns and returns `None` if its logical type is unknown.
    fn dtype(
        &mut self,
        storage: &str,
        logical: Option<&str>,
        role: &str,
        name: &str,
    ) -> Result<Option<DType>> {
        let stored = vocabulary::storage(storage).ok_or_else(|| {
            Error::new(Code::BadDtype, format!("{storage:?} is no storage type")).rule(rules::STORAGE_TYPES)
        })?;
        let Some(logical) = logical else { return Ok(Some(stored)) };
        match vocabulary::logical(logical) {
            Some((dtype, over)) if over == stored => Ok(Some(dtype)),
            Some((_, over)) => {
                let over = vocabulary::storage_name(over).unwrap_or_default();
                let message = format!("the type {logical:?} is stored as {over}, not as {storage}");
                Err(Error::new(Code::BadDtype, message).rule(rules::LOGICAL_TYPES))
            }
            None => {
                let message =
                    format!("the type {logical:?} is not known here; the component is readable as bytes");
                self.builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), Some(role));
                Ok(None)
            }
        }
    }

    /// Returns the number and the size in bytes of the file that contains a part.
    fn file(&self, shard: Option<&str>) -> Result<(u32, u64)> {
        let Some(name) = shard else { return Ok((0, self.total)) };
        let number = shard_table::number(self.shards, name);
        let found = number.and_then(|number| Some((number, self.shards.get(number as usize - 1)?.size)));
        found.ok_or_else(|| {
            Error::new(Code::BadIndex, format!("the shard {name:?} is not in the shard table"))
        })
    }

    fn encoding(&mut self, text: &str, role: &str, name: &str) -> Encoding {
        if text == ZSTD_SEEKABLE {
            return Encoding::ZSTD_SEEKABLE;
        }
        let message = format!("the encoding {text:?} is not known here; the data cannot be decoded");
        self.builder.warn("ZT_WARN_UNKNOWN_ENCODING", message, Some(name), Some(role));
        self.builder.unknown_encoding(text)
    }
}
