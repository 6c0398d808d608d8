//! Checkpoints in a zip archive, written by `torch.save` since 1.6 and by `torch.jit.save`.
//!
//! All members are in one folder. `data.pkl` is the pickle, `data/<key>` its storages, and `byteorder` their byte order. TorchScript also
//! has constants in `constants.pkl` and `constants/<key>`, and its code, which is not read.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Confidence, Input, Probe};
use ztensor_core::model::{Blob, Builder, ByteOrder, Catalog};

use super::expand::Torch;
use super::list::{self, Context};
use crate::damage::Damage;
use crate::limits::PICKLE_BYTES;
use crate::pickle::{Pickle, attributes, walk};
use crate::zip::{self, Archive, Member, Method};

const RULE: &str = "torch.serialization: zip archive";
const PICKLE: &str = "data.pkl";
const CONSTANTS: &str = "constants.pkl";
/// Maximum bytes of a member that is a word or a number.
const WORD: u64 = 64;

/// The first member is the pickle, or a storage in TorchScript; the directory ends with names that other archives do not have.
pub fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let Some(first) = zip::first_name(probe)? else { return Ok(Confidence::No) };
    if first == PICKLE.as_bytes() || first.ends_with(b"/data.pkl") {
        return Ok(Confidence::Certain);
    }
    if first.ends_with(b"/archive_format") {
        return Ok(Confidence::No); // a program of torch.export, which has no pickle
    }
    let last = probe.last(Probe::BYTES)?;
    let has = |name: &[u8]| last.windows(name.len()).any(|window| window == name);
    let ends = has(b"/data.pkl") || has(b"/.data/serialization_id") || has(b"/constants.pkl");
    Ok(if ends { Confidence::Likely } else { Confidence::No })
}

pub fn parse(input: &Input<'_>, mut builder: Builder) -> Result<Catalog> {
    let Archive { mut members, damage: wrong } = zip::read(input)?;
    for member in &mut members {
        // If no CRC-32 was computed (`torch.utils.serialization.config.save.compute_crc32`, `torch.serialization.skip_data`), 0 is stored,
        // which is the CRC-32 of no bytes.
        member.has_crc32 = member.crc32 != 0 || member.decoded == 0;
    }
    let by_name: HashMap<&str, &Member> = members.iter().map(|member| (&*member.name, member)).collect();
    // PyTorch uses the folder of the first member. For archives that it does not read, the outermost folder is used.
    let first = members.first().and_then(|member| Some(member.name.split_once('/')?.0));
    let first = first.and_then(|folder| by_name.get(&*format!("{folder}/{PICKLE}")).copied());
    let pickles = members.iter().filter(|member| member.name == PICKLE || member.name.ends_with("/data.pkl"));
    let outermost = pickles.min_by_key(|member| (member.name.matches('/').count(), member.offset));
    let main = first.or(outermost).ok_or_else(|| {
        Error::new(
            Code::BadMagic,
            format!("the zip archive has no {PICKLE}, so it was not written by torch.save"),
        )
        .rule(RULE)
    })?;
    let folder = main.name.strip_suffix(PICKLE).unwrap_or_default();
    let named = |name: &str| by_name.get(&*format!("{folder}{name}")).copied();
    check_disjoint(&members, folder)?;
    let mut damage = Damage::default();
    if let Some(error) = wrong {
        damage.note(&mut builder, error);
    }
    builder.reserve(members.len());
    if let Some(version) = named("version").map(|member| word(input, member)).transpose()?.flatten() {
        builder.set_version(version);
    }
    let byte_order =
        match named("byteorder").map(|member| word(input, member)).transpose()?.flatten().as_deref() {
            None | Some("little") => ByteOrder::Little,
            Some("big") => ByteOrder::Big,
            Some(other) => {
                let message = format!("the byte order {other:?} is neither \"little\" nor \"big\"");
                return Err(Error::new(Code::BadIndex, message).rule(RULE));
            }
        };
    let parts = [(Some(main), "data/", ""), (named(CONSTANTS), "constants/", "constants")];
    for (member, storages, prefix) in parts {
        let Some(member) = member else { continue };
        let max = input.limits.max_index_bytes.unwrap_or(PICKLE_BYTES);
        let bytes = member.read(input, max)?;
        let pickle = Arc::new(Pickle::parse(&bytes, member.offset, input.limits)?);
        drop(bytes);
        let start = format!("{folder}{storages}");
        let mut blobs: HashMap<&str, Blob> = HashMap::new();
        for member in &members {
            if let Some(key) = member.name.strip_prefix(&*start) {
                blobs.insert(key, member.blob(&mut builder));
            }
        }
        let found = walk::walk::<Torch>(&pickle, prefix, &mut builder, &mut damage)?;
        let offset = (member.method == Method::Stored).then_some(member.offset);
        let context = Context { pickle: &pickle, offset, byte_order, storages: &blobs };
        list::add(&mut builder, &mut damage, &context, &found.tensors)?;
        walk::warn(&mut builder, found.skipped);
        if prefix.is_empty() {
            attributes::add::<Torch>(&mut builder, Arc::clone(&pickle), found.seen)?;
        }
    }
    damage.finish(builder)
}

/// Rejects an archive with two records whose names differ only in case: PyTorch may find either.
fn check_disjoint(members: &[Member], folder: &str) -> Result<()> {
    let mut seen = HashSet::new();
    for member in members {
        let Some(name) = member.name.get(..folder.len()).filter(|start| start.eq_ignore_ascii_case(folder))
        else {
            continue;
        };
        let record = member.name.get(name.len()..).unwrap_or_default().to_ascii_lowercase();
        let is_read = [PICKLE, CONSTANTS, "byteorder", "version"].contains(&&*record)
            || record.starts_with("data/")
            || record.starts_with("constants/");
        if is_read && !seen.insert(record) {
            let message = format!("the name of another record, {:?}, differs only in case", member.name);
            return Err(Error::new(Code::BadIndex, message).at(member.offset).rule(RULE));
        }
    }
    Ok(())
}

/// Returns a short string, or `None` if the member is not one.
fn word(input: &Input<'_>, member: &Member) -> Result<Option<String>> {
    if member.decoded > WORD {
        return Ok(None);
    }
    let bytes = member.read(input, WORD)?;
    Ok(String::from_utf8(bytes).ok().map(|text| text.trim().to_owned()))
}
