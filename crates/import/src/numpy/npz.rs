//! `.npz`: a zip archive of arrays. A member `folder/x.npy` is the tensor `folder/x`. As in NumPy, a member with another name is an array
//! if it begins with the magic.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{self, Confidence, Format, Index, Input, Probe, WriteFormat, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};

use super::archive::Array;
use super::array::SUFFIX;
use super::header::{Header, MAGIC};
use super::{array, encode, scipy};
use crate::damage::Damage;
use crate::limits::NPZ_HEADERS_BYTES;
use crate::names::Names;
use crate::zip::{self, Archive, Member, Method};

const NAME: &str = "npz";
const MISSING: &str = "no zip archive of NumPy arrays";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "NumPy npz",
    endings: &["npz"],
    missing: MISSING,
    detect,
    parse,
    writes: &[&WRITE_FORMAT],
    header: None,
};

pub static WRITE_FORMAT: WriteFormat = WriteFormat {
    format: NAME,
    title: "NumPy npz",
    readers: &["numpy.load", "ztensor"],
    index: Index::First(encode::put_npz),
    holds: |dtype| encode::name_of(dtype).is_some(),
    name_keys: Some(encode::name_keys),
    compression: Some(formats::Method::Deflate),
    checksum: Some(Algorithm::Crc32),
    check_announced: encode::check_name,
    ..WriteFormat::DENSE
};

/// Decides by the first member, or by another named at the end of the directory. Members with other names may be arrays too, and an archive
/// without any is empty.
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let Some(first) = zip::first_name(probe)? else { return Ok(Confidence::No) };
    let suffix = SUFFIX.as_bytes();
    let last = probe.last(Probe::BYTES)?;
    let named = first.ends_with(suffix) || last.windows(suffix.len()).any(|window| window == suffix);
    Ok(if named { Confidence::Likely } else { Confidence::Possible })
}

/// Reads the directory and the header of each array.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let Archive { members, damage: wrong } = zip::read(input)?;
    check_disjoint(&members)?;
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    let mut damage = Damage::default();
    if let Some(error) = wrong {
        damage.note(&mut builder, error);
    }
    builder.reserve(members.len());
    let (mut arrays, mut unread) = (Vec::new(), None);
    let (mut headers, max) = (0_u64, input.limits.max_index_bytes.unwrap_or(NPZ_HEADERS_BYTES));
    let is_empty = members.is_empty();
    for member in members {
        if member.method == Method::Other {
            let error = member.undecodable();
            builder.warn("ZT_WARN_SKIPPED", error.message(), None, None);
            unread.get_or_insert(error);
            continue;
        }
        let name = key(&member.name).to_owned();
        let found = array(input, &member).map_err(|error| error.at(member.offset).tensor(&name));
        let header = match found {
            Ok(Some(header)) => header,
            Ok(None) => {
                let message =
                    format!("the member {:?} is not an array; numpy.load returns its bytes", member.name);
                builder.warn("ZT_WARN_SKIPPED", message, None, None);
                continue;
            }
            failed => {
                damage.of_item(&mut builder, failed.map(drop))?;
                continue;
            }
        };
        headers = headers.saturating_add(header.length);
        if headers > max {
            let message = format!("the headers of the arrays exceed {max} bytes");
            return Err(Error::new(Code::Limit, message).option("maxIndexBytes"));
        }
        arrays.push(Array { name, member, header });
    }
    let matrix = match scipy::add(&mut builder, input, &arrays) {
        Err(error) if error.is_of_item() => {
            damage.note(&mut builder, error);
            None
        }
        found => found?,
    };
    let mut names = Names::default();
    for Array { name, member, header } in &arrays {
        if matrix.as_ref().is_some_and(|matrix| matrix.contain(name)) {
            continue;
        }
        let name = names.unique(&mut builder, name);
        let blob = member.blob(&mut builder);
        let added = array::add(&mut builder, &name, header, blob, header.length);
        damage.of_item(&mut builder, added.map_err(|error| error.tensor(&name)))?;
    }
    if builder.is_empty() && !is_empty && damage.is_empty() {
        return Err(unread.unwrap_or_else(|| bad_magic(MISSING)));
    }
    damage.finish(builder)
}

/// Returns NumPy's name for the array of a member.
fn key(name: &str) -> &str {
    name.strip_suffix(SUFFIX).unwrap_or(name)
}

/// Rejects an archive in which the name of a member is the key of another: `numpy.load` returns one of them, but lists both.
fn check_disjoint(members: &[Member]) -> Result<()> {
    let names: HashSet<&str> = members.iter().map(|member| &*member.name).collect();
    let is_both = |member: &&Member| key(&member.name) != member.name && names.contains(key(&member.name));
    match members.iter().find(is_both) {
        None => Ok(()),
        Some(member) => {
            let (name, key) = (&member.name, key(&member.name));
            let message =
                format!("the archive has both {name:?} and {key:?}: NumPy uses the name {key:?} for both");
            Err(Error::new(Code::BadIndex, message).at(member.offset).rule("numpy.lib.npyio: NpzFile"))
        }
    }
}

/// Returns the header of an array member, or `None` if it neither looks like an array nor has the name of one.
fn array(input: &Input<'_>, member: &Member) -> Result<Option<Header>> {
    if !member.name.ends_with(SUFFIX) && !member.head(input, MAGIC.len() as u64)?.starts_with(MAGIC) {
        return Ok(None);
    }
    Header::read(|count| member.head(input, count), input.limits).map(Some)
}
