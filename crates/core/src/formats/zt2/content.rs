//! The content digest (§6.4): a hash of names, shapes, layouts, attributes, types and digests. It does not depend on
//! the location of the bytes.
#![forbid(unsafe_code)]

use super::footer::read_footer;
use super::manifest::{self, read_manifest};
use super::rules;
use crate::codecs::digest::{Algorithm, Digest};
use crate::error::{Code, Error, Result};
use crate::limits::Limits;
use crate::sources::ReadAt;
use crate::syntax::cbor::Reader;
use crate::syntax::cbor_encode::Encoder;
use crate::work::Stop;

/// The first element of the hashed data.
const TAG: &str = "zt.content/1";

/// Returns the content digest of a file that was read before. Fails with `ZT_BAD_DIGEST` if it is undefined.
pub fn of_file(source: &dyn ReadAt, algorithm: Algorithm, limits: &Limits, stop: &Stop) -> Result<Digest> {
    let Some(footer) = read_footer(source, stop)? else {
        let message = "a data shard has no manifest, and so no content digest";
        return Err(Error::new(Code::BadDigest, message));
    };
    digest(&read_manifest(source, footer, limits, stop)?, algorithm)
}

/// Returns the content digest of a `manifest` that was read and checked before, as `algorithm:hex`. Fails with
/// `ZT_BAD_DIGEST` if a part has no digest, because the content digest is then undefined.
pub fn digest(manifest: &[u8], algorithm: Algorithm) -> Result<Digest> {
    let mut objects = Encoder::default();
    let mut count = 0;
    let mut reader = manifest::reader(manifest, 0, 0);
    reader.fields("the manifest", |reader, key| {
        if key != "objects" {
            return reader.skip();
        }
        reader.names("objects", |reader, name| {
            count += 1;
            objects.text(name);
            object(reader, &mut objects).map_err(|error| error.tensor(name))
        })
    })?;
    let mut head = Encoder::default();
    head.array(2);
    head.text(TAG);
    head.map(count);
    let mut hasher = algorithm.hasher();
    hasher.update(&head.finish());
    hasher.update(&objects.finish());
    Ok(algorithm.digest(hasher))
}

/// Copies an object without the fields that locate its bytes. The order of the fields, here and in the parts, is that
/// of the manifest.
fn object(reader: &mut Reader<'_>, output: &mut Encoder) -> Result<()> {
    let mut parts = Encoder::default();
    let mut roles = 0;
    let mut fields: Vec<(&'static str, &[u8])> = Vec::with_capacity(3);
    reader.fields("the object", |reader, key| {
        match key {
            "parts" => reader.names("parts", |reader, role| {
                roles += 1;
                parts.text(role);
                part(reader, &mut parts).map_err(|error| error.component(role))
            })?,
            "shape" => fields.push(("shape", reader.raw()?)),
            "layout" => fields.push(("layout", reader.raw()?)),
            "attributes" => fields.push(("attributes", reader.raw()?)),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    output.map(1 + fields.len());
    output.text("parts");
    output.map(roles);
    output.raw(&parts.finish());
    for (key, value) in fields {
        output.text(key);
        output.raw(value);
    }
    Ok(())
}

fn part(reader: &mut Reader<'_>, output: &mut Encoder) -> Result<()> {
    let mut fields: Vec<(&'static str, &[u8])> = Vec::with_capacity(3);
    reader.fields("the part", |reader, key| {
        match key {
            "type" => fields.push(("type", reader.raw()?)),
            "dtype" => fields.push(("dtype", reader.raw()?)),
            "digest" => fields.push(("digest", reader.raw()?)),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    if !fields.iter().any(|(key, _)| *key == "digest") {
        let message = "the part carries no digest, so that the file has no content digest";
        return Err(Error::new(Code::BadDigest, message).rule(rules::CONTENT));
    }
    output.map(fields.len());
    for (key, value) in fields {
        output.text(key);
        output.raw(value);
    }
    Ok(())
}
