//! Edits the manifest of a 1.0, 1.1 or 1.2 file. Everything else is preserved byte for byte, so fields unknown to this
//! version survive an edit.
#![forbid(unsafe_code)]

use ciborium::Value;

use super::edit_format::{Changes, EditFormat, NewOffset};
use super::write_format::{Editable, WriteFormat};
use super::zt_magic::MAGIC_1;
use super::zt1::{self, Generation, recorded};
use super::zt1_encode::{self, Spelling};
use super::{Input, zt_trailer, zt10, zt12};
use crate::error::{Code, Error, Result};
use crate::limits::Limits;
use crate::model::Catalog;
use crate::syntax::cbor_encode::Encoder;
use crate::syntax::cbor_splice::{self, Entry};

/// Reads the index of a file that begins with the magic of version 1.
pub fn read(input: &Input<'_>, [v10, v11, v12]: [&'static WriteFormat; 3]) -> Result<Editable> {
    let (total, limits) = (input.length(), input.limits);
    // Like detection: a second magic at the end means 1.1 or 1.2.
    let footed = total >= 16 && input.read_vec(total - 8, 8)? == MAGIC_1;
    let (generation, behind) = if footed { (&zt12::GENERATION, 16) } else { (&zt10::GENERATION, 8) };
    let index = zt_trailer::read(input, behind, generation.bounds_rule)?;
    let catalog = zt1::parse(&index.bytes, index.offset, total, generation, limits)?;
    let version = catalog.version.as_deref().unwrap_or_default();
    let minor = zt1::negotiate(version, generation)?;
    if minor > generation.newest_minor {
        let message = format!(
            "the file is of version {version}: what an edit would have to keep true in it is not known here; convert \
             it to an older version first"
        );
        return Err(Error::new(Code::UnsupportedVersion, message).rule(generation.version_rule));
    }
    let (format, spelling) = match (footed, minor) {
        (false, _) => (v10, &Spelling::V10),
        (true, 0 | 1) => (v11, &Spelling::V11),
        (true, _) => (v12, &Spelling::V12),
    };
    Ok(Editable { catalog, index, format, spelling })
}

impl EditFormat for Spelling {
    fn only_adds(&self) -> bool {
        false
    }

    fn check_name(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn check_attributes(&self, _: &[(Value, Value)]) -> Result<()> {
        Ok(())
    }

    fn check_attribute_name(&self, name: &Value) -> Result<()> {
        if *self == Self::V10 && name.as_text() == Some(recorded::KEY) {
            return Err(recorded::reserved());
        }
        Ok(())
    }

    fn changed(&self, _: &Catalog, index: &[u8], changes: &Changes, added: &Catalog) -> Result<Vec<u8>> {
        let mut manifest = Manifest::read(index, *self)?;
        for (&ordinal, change) in &changes.tensors {
            let Some(entry) = manifest.tensors.get_mut(ordinal) else { continue };
            if !change.attributes.is_empty() && !change.removed {
                entry.value = merge_tensor_attributes(&entry.value, &change.attributes)?.into();
            }
            if let Some(name) = &change.name {
                entry.key = cbor_splice::text(name).into();
            }
        }
        let mut ordinal = 0;
        manifest.tensors.retain(|_| {
            ordinal += 1;
            !changes.tensors.get(&(ordinal - 1)).is_some_and(|change| change.removed)
        });
        for tensor in added.iter() {
            let mut encoder = Encoder::default();
            zt1_encode::entry(&mut encoder, added, tensor, *self)?;
            manifest.tensors.push(Entry::new(tensor.name(), encoder.finish()));
        }
        if !changes.attributes.is_empty() {
            merge_attributes(&mut manifest.root, &changes.attributes, true)?;
        }
        Ok(manifest.finish())
    }

    fn moved(&self, index: &[u8], offset: NewOffset<'_>) -> Result<Vec<u8>> {
        let mut manifest = Manifest::read(index, *self)?;
        manifest.move_blobs(offset)?;
        Ok(manifest.finish())
    }

    /// The index follows the blobs directly, whatever their alignment.
    fn checked_tail(&self, index: &[u8], end: u64, _: u64, limits: &Limits) -> Result<Vec<u8>> {
        let tail = self.tail(index, end);
        let total = end.saturating_add(tail.len() as u64);
        zt1::parse(index, end, total, generation(*self), limits)?;
        Ok(tail)
    }

    fn tail(&self, index: &[u8], _: u64) -> Vec<u8> {
        zt_trailer::tail(index, if *self == Self::V10 { b"" } else { MAGIC_1 })
    }
}

const fn generation(spelling: Spelling) -> &'static Generation {
    match spelling {
        Spelling::V10 => &zt10::GENERATION,
        Spelling::V11 | Spelling::V12 => &zt12::GENERATION,
    }
}

/// A parsed manifest.
struct Manifest<'a> {
    /// The self-described CBOR tags before the root.
    tags: &'a [u8],
    root: Vec<Entry<'a>>,
    /// The root key of the tensors.
    key: &'static str,
    /// The tensors by name, in catalog order.
    tensors: Vec<Entry<'a>>,
}

impl<'a> Manifest<'a> {
    fn read(index: &'a [u8], spelling: Spelling) -> Result<Self> {
        let key = generation(spelling).tensors;
        let (tags, root) = cbor_splice::self_described(index)?;
        let root = cbor_splice::entries(root, "the manifest")?;
        let of_tensors = root.iter().find(|entry| entry.name().is_some_and(|name| name == key));
        let bytes = match of_tensors.map(|entry| &entry.value) {
            Some(std::borrow::Cow::Borrowed(bytes)) => *bytes,
            _ => return Err(Error::new(Code::Internal, "a manifest without tensors was read")),
        };
        Ok(Self { tags, root, key, tensors: cbor_splice::entries(bytes, "the map of tensors")? })
    }

    /// Returns the bytes of the manifest.
    fn finish(mut self) -> Vec<u8> {
        if let Some(entry) = cbor_splice::find(&mut self.root, self.key) {
            entry.value = cbor_splice::map(&self.tensors).into();
        }
        [self.tags, &cbor_splice::map(&self.root)].concat()
    }

    /// Sets the offset of each component to `offset(tensor, component)`, given their ordinals in the catalog. Fails
    /// with `ZT_UNSUPPORTED_VERSION` if the manifest has an unknown key, which might contain an offset too.
    fn move_blobs(&mut self, offset: NewOffset<'_>) -> Result<()> {
        known(&self.root, &["version", "generator", "attributes", self.key])?;
        for (ordinal, tensor) in self.tensors.iter_mut().enumerate() {
            let new_offset = |component| offset(ordinal, component);
            let moved = moved_tensor(&tensor.value, new_offset)
                .map_err(|error| tensor.name().map_or(error.clone(), |name| error.tensor(&name)))?;
            tensor.value = moved.into();
        }
        Ok(())
    }
}

/// Changes the attributes of a tensor with the manifest entry `entry`.
fn merge_tensor_attributes(entry: &[u8], changes: &[(Value, Option<Value>)]) -> Result<Vec<u8>> {
    let mut fields = cbor_splice::entries(entry, "the tensor")?;
    merge_attributes(&mut fields, changes, false)?;
    Ok(cbor_splice::map(&fields))
}

/// Changes the `attributes` field. If none remain, the field becomes an empty map if `stays` is set, and is removed
/// otherwise.
fn merge_attributes(
    fields: &mut Vec<Entry<'_>>,
    changes: &[(Value, Option<Value>)],
    stays: bool,
) -> Result<()> {
    const NULL: &[u8] = b"\xf6";
    const EMPTY: &[u8] = b"\xa0";
    const KEY: &str = "attributes";
    let old = cbor_splice::find(fields, KEY);
    let merged =
        cbor_splice::merge(old.as_ref().map(|entry| &*entry.value).filter(|&bytes| bytes != NULL), changes)?;
    match (old, merged) {
        (Some(old), Some(merged)) => old.value = merged.into(),
        (Some(old), None) if stays => old.value = EMPTY.into(),
        (Some(_), None) => fields.retain(|entry| entry.name().is_none_or(|name| name != KEY)),
        (None, Some(merged)) => fields.push(Entry::new(KEY, merged)),
        (None, None) => {}
    }
    Ok(())
}

fn moved_tensor(entry: &[u8], offset: impl Fn(usize) -> Option<u64>) -> Result<Vec<u8>> {
    let mut fields = cbor_splice::entries(entry, "the tensor")?;
    known(&fields, &["dtype", "shape", "format", "attributes", "components"])?;
    if let Some(field) = cbor_splice::find(&mut fields, "components") {
        let mut components = cbor_splice::entries(&field.value, "components")?;
        for (at, component) in components.iter_mut().enumerate() {
            let mut parts = cbor_splice::entries(&component.value, "the component")?;
            known(
                &parts,
                &["dtype", "type", "offset", "length", "uncompressed_length", "encoding", "digest"],
            )?;
            if let (Some(part), Some(offset)) = (cbor_splice::find(&mut parts, "offset"), offset(at)) {
                part.value = cbor_splice::uint(offset).into();
            }
            component.value = cbor_splice::map(&parts).into();
        }
        field.value = cbor_splice::map(&components).into();
    }
    Ok(cbor_splice::map(&fields))
}

fn known(entries: &[Entry<'_>], keys: &[&str]) -> Result<()> {
    let strange =
        entries.iter().find(|entry| !entry.name().is_some_and(|name| keys.contains(&name.as_ref())));
    let Some(strange) = strange else { return Ok(()) };
    let key = strange.name().map_or_else(|| "one that is not text".to_owned(), |name| format!("{name:?}"));
    Err(cbor_splice::unknown_key(&key))
}
