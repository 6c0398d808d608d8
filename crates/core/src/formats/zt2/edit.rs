//! Edits the manifest of a version 2 file. The encoding stays deterministic, and unchanged fields are preserved byte
//! for byte, so fields unknown to this version survive an edit.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::BTreeMap;

use ciborium::Value;

use super::encode::{self, TENSOR_ATTRIBUTES};
use super::footer::{FOOTER, read_footer};
use super::manifest::{self, read_manifest};
use super::rules;
use crate::error::{Code, Error, Result};
use crate::formats::edit_format::{Changes, EditFormat, NewOffset};
use crate::formats::zt_trailer::Index;
use crate::formats::{Editable, Input, WriteFormat};
use crate::limits::{self, Limits};
use crate::model::{Catalog, Tensor};
use crate::syntax::cbor::Reader;
use crate::syntax::cbor_encode::Encoder;
use crate::syntax::cbor_splice;

const OBJECTS: &str = "objects";
const ATTRIBUTES: &str = "attributes";

/// Reads the manifest of a file that begins with the magic of version 2.
pub fn read(input: &Input<'_>, format: &'static WriteFormat) -> Result<Editable> {
    let Input { source, limits, stop, .. } = *input;
    let Some(footer) = read_footer(source, stop)? else {
        let message = "a data shard has no index to edit: edit the root file of its model";
        return Err(Error::new(Code::InvalidArg, message).rule(rules::DATA_SHARDS));
    };
    let bytes = read_manifest(source, footer, limits, stop)?;
    let catalog = manifest::parse(&bytes, footer.offset, source.length(), limits)?;
    let index = Index { bytes, offset: footer.offset };
    Ok(Editable { catalog, index, format, spelling: &Deterministic })
}

/// The index stays sorted. An old index stays in the file as a blob without references (§2.5).
struct Deterministic;

impl EditFormat for Deterministic {
    fn only_adds(&self) -> bool {
        true
    }

    fn check_name(&self, name: &str) -> Result<()> {
        encode::check_name(name, "the name", false)
    }

    fn check_attributes(&self, attributes: &[(Value, Value)]) -> Result<()> {
        encode::check_attributes(attributes, TENSOR_ATTRIBUTES, false)
    }

    fn changed(&self, old: &Catalog, index: &[u8], changes: &Changes, added: &Catalog) -> Result<Vec<u8>> {
        let mut manifest = Manifest::read(index)?;
        let mut back = Vec::new();
        // Remove all objects before inserting any: two tensors may have swapped names.
        for (&ordinal, change) in &changes.tensors {
            let Some(tensor) = old.tensor(ordinal) else { continue };
            let mut object = manifest.take(tensor.name())?;
            if change.removed {
                continue;
            }
            if !change.attributes.is_empty() {
                object = merge_object_attributes(&object, &change.attributes)?.into();
            }
            back.push((change.name.as_deref().unwrap_or(tensor.name()), object));
        }
        for (name, object) in back {
            manifest.put(name, object);
        }
        for tensor in added.iter() {
            manifest.add(added, tensor)?;
        }
        if !changes.attributes.is_empty() {
            merge_attributes(&mut manifest.root, &changes.attributes)?;
        }
        Ok(manifest.finish())
    }

    fn moved(&self, index: &[u8], offset: NewOffset<'_>) -> Result<Vec<u8>> {
        let mut manifest = Manifest::read(index)?;
        manifest.move_blobs(offset)?;
        Ok(manifest.finish())
    }

    fn checked_tail(&self, index: &[u8], end: u64, alignment: u64, limits: &Limits) -> Result<Vec<u8>> {
        aligned_tail(index, end, alignment, limits)
    }

    fn tail(&self, index: &[u8], at: u64) -> Vec<u8> {
        [index, &encode::footer(at, index)].concat()
    }
}

/// Returns the bytes after blobs that end at `end`: the manifest at a multiple of `alignment`, and the footer. Parses
/// the manifest like a reader to check it.
fn aligned_tail(manifest: &[u8], end: u64, alignment: u64, limits: &Limits) -> Result<Vec<u8>> {
    if manifest.len() as u64 > limits::ZT_INDEX_BYTES {
        let message =
            format!("the manifest takes {} bytes, more than the 1 GiB of zTensor 2", manifest.len());
        return Err(Error::new(Code::Limit, message).rule(rules::ENCODING));
    }
    let too_large = || Error::new(Code::Limit, "the file would be larger than 2^64 bytes");
    let at = end.checked_next_multiple_of(alignment).ok_or_else(too_large)?;
    let total = at.checked_add(manifest.len() as u64 + FOOTER).ok_or_else(too_large)?;
    manifest::parse(manifest, at, total, limits)?;
    let mut tail = vec![0; usize::try_from(at - end).map_err(|_| too_large())?];
    tail.extend_from_slice(manifest);
    tail.extend_from_slice(&encode::footer(at, manifest));
    Ok(tail)
}

/// Encoded values by their encoded keys: deterministic encoding sorts by these bytes.
type Fields<'a> = BTreeMap<Cow<'a, [u8]>, Cow<'a, [u8]>>;

fn fields<'a>(bytes: &'a [u8], what: &str) -> Result<Fields<'a>> {
    Ok(cbor_splice::entries(bytes, what)?.into_iter().map(|entry| (entry.key, entry.value)).collect())
}

fn map(fields: &Fields<'_>) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.map(fields.len());
    for (key, value) in fields {
        encoder.spelled(key);
        encoder.spelled(value);
    }
    encoder.finish()
}

fn find<'f>(fields: &'f Fields<'_>, key: &str) -> Option<&'f [u8]> {
    fields.get(cbor_splice::text(key).as_slice()).map(AsRef::as_ref)
}

fn set(fields: &mut Fields<'_>, key: &str, value: Vec<u8>) {
    fields.insert(cbor_splice::text(key).into(), value.into());
}

/// A parsed manifest.
struct Manifest<'a> {
    root: Fields<'a>,
    objects: Fields<'a>,
}

impl<'a> Manifest<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let root = fields(bytes, "the manifest")?;
        let objects = match root.get(cbor_splice::text(OBJECTS).as_slice()) {
            Some(Cow::Borrowed(bytes)) => fields(bytes, OBJECTS)?,
            _ => return Err(Error::new(Code::Internal, "a manifest without objects was read")),
        };
        Ok(Self { root, objects })
    }

    /// Removes and returns an object.
    fn take(&mut self, name: &str) -> Result<Cow<'a, [u8]>> {
        let missing = || Error::new(Code::Internal, "an object that was read is not there").tensor(name);
        self.objects.remove(cbor_splice::text(name).as_slice()).ok_or_else(missing)
    }

    /// Inserts an object.
    fn put(&mut self, name: &str, object: Cow<'a, [u8]>) {
        self.objects.insert(cbor_splice::text(name).into(), object);
    }

    /// Adds a tensor whose bytes are in this file.
    fn add(&mut self, catalog: &Catalog, tensor: Tensor<'_>) -> Result<()> {
        let mut encoder = Encoder::default();
        encode::object(&mut encoder, catalog, tensor, &[])?;
        self.put(tensor.name(), encoder.finish().into());
        Ok(())
    }

    /// Returns the bytes of the manifest.
    fn finish(mut self) -> Vec<u8> {
        set(&mut self.root, OBJECTS, map(&self.objects));
        map(&self.root)
    }

    /// Sets the offset of each component in this file to `offset(tensor, component)`, given their ordinals in the
    /// catalog. Fails with `ZT_UNSUPPORTED_VERSION` if the manifest has an unknown key, which might contain an offset
    /// too.
    fn move_blobs(&mut self, offset: NewOffset<'_>) -> Result<()> {
        known(&self.root, &[ATTRIBUTES, "shards", OBJECTS])?;
        for (ordinal, (key, object)) in self.objects.iter_mut().enumerate() {
            let moved = moved_object(object, |component| offset(ordinal, component));
            *object = moved
                .map_err(|error| match Reader::new(key, 0, 0).text("a name") {
                    Ok(name) => error.tensor(&name),
                    Err(_) => error,
                })?
                .into();
        }
        Ok(())
    }
}

/// Returns an object with changed attributes.
fn merge_object_attributes(object: &[u8], changes: &[(Value, Option<Value>)]) -> Result<Vec<u8>> {
    let mut own = fields(object, "the object")?;
    merge_attributes(&mut own, changes)?;
    Ok(map(&own))
}

/// Sets attributes, and removes those without a value. If none remain, the map is removed.
fn merge_attributes(fields_of: &mut Fields<'_>, changes: &[(Value, Option<Value>)]) -> Result<()> {
    let merged = {
        let mut own = match find(fields_of, ATTRIBUTES) {
            Some(bytes) => fields(bytes, ATTRIBUTES)?,
            None => Fields::new(),
        };
        for (key, value) in changes {
            let key = deterministic(key)?;
            match value {
                Some(value) => drop(own.insert(key.into(), deterministic(value)?.into())),
                None => drop(own.remove(key.as_slice())),
            }
        }
        (!own.is_empty()).then(|| map(&own))
    };
    match merged {
        Some(merged) => set(fields_of, ATTRIBUTES, merged),
        None => drop(fields_of.remove(cbor_splice::text(ATTRIBUTES).as_slice())),
    }
    Ok(())
}

fn deterministic(value: &Value) -> Result<Vec<u8>> {
    let mut encoder = Encoder::default();
    if encoder.deterministic_value(value) {
        return Ok(encoder.finish());
    }
    let message = "an attribute has a key twice, or a value that zTensor 2 has no form for";
    Err(Error::new(Code::InvalidArg, message).rule(rules::ENCODING))
}

fn moved_object(object: &[u8], offset: impl Fn(usize) -> Option<u64>) -> Result<Vec<u8>> {
    let mut own = fields(object, "the object")?;
    known(&own, &["shape", "layout", ATTRIBUTES, "parts"])?;
    let parts = match find(&own, "parts") {
        None => None,
        Some(bytes) => {
            let mut parts = fields(bytes, "parts")?;
            for (at, part) in parts.values_mut().enumerate() {
                *part = moved_part(part, offset(at))?.into();
            }
            Some(map(&parts))
        }
    };
    if let Some(parts) = parts {
        set(&mut own, "parts", parts);
    }
    Ok(map(&own))
}

fn moved_part(part: &[u8], offset: Option<u64>) -> Result<Vec<u8>> {
    let mut own = fields(part, "the part")?;
    known(&own, &["dtype", "type", "blob", "shard", "encoding", "decoded_length", "digest"])?;
    let here = find(&own, "shard").is_none();
    if let (true, Some(offset), Some(blob)) = (here, offset, find(&own, "blob")) {
        let mut length = 0;
        // Keep the last of the two numbers.
        Reader::new(blob, 0, 0).array("blob", |reader| {
            length = reader.uint("blob")?;
            Ok(())
        })?;
        let mut encoder = Encoder::default();
        encoder.array(2);
        encoder.uint(offset);
        encoder.uint(length);
        set(&mut own, "blob", encoder.finish());
    }
    Ok(map(&own))
}

fn known(fields: &Fields<'_>, keys: &[&str]) -> Result<()> {
    for key in fields.keys() {
        let name = Reader::new(key, 0, 0).text("a key").ok();
        if !name.as_ref().is_some_and(|name| keys.contains(&name.as_ref())) {
            let key = name.map_or_else(|| "one that is not text".to_owned(), |name| format!("{name:?}"));
            return Err(cbor_splice::unknown_key(&key));
        }
    }
    Ok(())
}
