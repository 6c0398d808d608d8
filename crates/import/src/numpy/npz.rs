//! `.npz`: a zip archive of arrays. A member `folder/x.npy` is the tensor `folder/x`.
#![forbid(unsafe_code)]

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{self, Format, Index, Input, Sample, Told, Writing, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};

use super::header::Header;
use super::{array, encode, scipy};
use crate::limits::NPZ_HEADERS_BYTES;
use crate::zip::{self, Member, Method};

const NAME: &str = "npz";
/// What the names of arrays end in.
pub const SUFFIX: &str = ".npy";
const LACKS: &str = "no zip archive of NumPy arrays";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "NumPy npz",
    endings: &["npz"],
    lacks: LACKS,
    tell,
    parse,
    writes: &[&WRITING],
};

pub static WRITING: Writing = Writing {
    format: NAME,
    title: "NumPy npz",
    readers: &["numpy.load", "this package"],
    index: Index::First(encode::put_npz),
    holds: |dtype| encode::name_of(dtype).is_some(),
    compression: Some(formats::Method::Deflate),
    checksum: Some(Algorithm::Crc32),
    check_announced: encode::check_name,
    ..Writing::DENSE
};

/// The first member tells. Where it is none of NumPy's, another may be, and an archive without any is one of no arrays.
fn tell(sample: &Sample<'_>) -> Result<Told> {
    Ok(match zip::first_name(sample)? {
        Some(name) if name.ends_with(SUFFIX.as_bytes()) => Told::Likely,
        Some(_) => Told::Perhaps,
        None => Told::No,
    })
}

/// An array in an archive.
pub struct Array {
    pub name: String,
    pub member: Member,
    pub header: Header,
}

/// Reads the directory and the header of each array.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let members = zip::members(input)?;
    if !members.is_empty() && !members.iter().any(|member| member.name.ends_with(SUFFIX)) {
        return Err(bad_magic(LACKS));
    }
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    builder.reserve(members.len());
    let mut arrays = Vec::new();
    let (mut headers, most) = (0_u64, input.limits.max_index_bytes.unwrap_or(NPZ_HEADERS_BYTES));
    for member in members {
        let skipped = match member.name.strip_suffix(SUFFIX) {
            None => Some("no array: its name does not end in .npy"),
            Some(_) if member.method == Method::Other => {
                Some("encrypted, or compressed by a method that is not known here")
            }
            Some(_) => None,
        };
        if let Some(why) = skipped {
            let message = format!("the member {:?} is {why}", member.name);
            builder.warn("ZT_WARN_SKIPPED", message, None, None);
            continue;
        }
        let name = member.name.strip_suffix(SUFFIX).unwrap_or_default().to_owned();
        let header = Header::read(|count| member.head(input, count), input.limits);
        let header = header.map_err(|error| error.at(member.offset).tensor(&name))?;
        headers = headers.saturating_add(header.length);
        if headers > most {
            let message =
                format!("the headers of the arrays have more than {most} bytes (option maxIndexBytes)");
            return Err(Error::new(Code::Limit, message));
        }
        arrays.push(Array { name, member, header });
    }
    if !scipy::add(&mut builder, input, &arrays)? {
        for Array { name, member, header } in &arrays {
            let blob = member.blob(&mut builder);
            array::add(&mut builder, name, header, blob, header.length)
                .map_err(|error| error.tensor(name))?;
        }
    }
    Ok(builder.finish())
}
