//! zTensor: detects the version of a file, and defines what each version can store.
#![forbid(unsafe_code)]

use super::format::{Confidence, Format, bad_magic};
use super::write_format::{
    Alignment, FileAttributes, Index, Method, RecordedDtypes, Sharding, SparseForm, WriteFormat,
};
use super::zt_magic::{MAGIC_01, MAGIC_1};
use super::zt1::recorded;
use super::{Input, Probe, edited, zt01, zt1_edit, zt01_encode, zt1_encode, zt2, zt10, zt12};
use crate::codecs::digest::Algorithm;
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::model::{Catalog, DType};

const NAME: &str = "zt";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "zTensor",
    endings: &["zt"],
    missing: "no zTensor magic",
    detect,
    parse,
    writes: &[&ZT01, &ZT10, &ZT12, &ZT2],
    header: None,
};

const UP_TO_12: WriteFormat = WriteFormat {
    format: NAME,
    is_default: false,
    readers: &[],
    // The releases of ztensor for Python that read these versions.
    is_read_by_others: |is_basic, _| Ok(is_basic),
    magic: MAGIC_1,
    index: Index::Last(zt1_encode::index_10),
    holds: |dtype| (dtype as u8) <= DType::Bool as u8,
    holds_part: |dtype| (dtype as u8) <= DType::Bool as u8,
    holds_layout: |_| true,
    attributes: FileAttributes::Any,
    tensor_attributes: true,
    other_components: true,
    digests: &[Algorithm::Crc32c, Algorithm::Sha256],
    alignment: Some(Alignment { min: 64, default: 64, powers_of_two: true, attribute: None }),
    compression: Some(Method::Zstd),
    edit: edited(|input| zt1_edit::read(input, [&ZT10, &ZT11, &ZT12])),
    ..WriteFormat::DENSE
};

pub static ZT01: WriteFormat = WriteFormat {
    version: Some("0.1"),
    title: "zTensor 0.1",
    readers: &["ztensor for Python 0.1.x", "ztensor"],
    magic: MAGIC_01,
    index: Index::Last(zt01_encode::index),
    sparse: SparseForm::Entries,
    holds_layout: |layout| matches!(layout, "dense" | "sparse_csr" | "sparse_coo"),
    attributes: FileAttributes::None,
    other_components: false,
    check_entry: zt01_encode::check_entry,
    edit: None,
    ..UP_TO_12
};

pub static ZT10: WriteFormat = WriteFormat {
    version: Some("1.0"),
    is_default: true,
    title: "zTensor 1.0",
    readers: &["ztensor for Python 1.0.0 and 1.0.1", "ztensor"],
    // They reject other attributes than text: "expected a string".
    is_read_by_others: |is_basic, attributes| Ok(is_basic && attributes.are_texts()?),
    dtypes: RecordedDtypes::All,
    generator: true,
    check_entry: |tensor, _, attributes| {
        recorded::check_free(attributes)?;
        layouts::check(tensor)
    },
    ..UP_TO_12
};

/// Only for editing: new files are written as 1.2.
pub static ZT11: WriteFormat = WriteFormat {
    version: Some("1.1"),
    title: "zTensor 1.1",
    any_indices: true,
    holds: |dtype| zt1_encode::primitive(dtype).is_some(),
    holds_part: |dtype| zt1_encode::primitive(dtype).is_some(),
    ..UP_TO_12
};

pub static ZT12: WriteFormat = WriteFormat {
    version: Some("1.2"),
    title: "zTensor 1.2",
    any_indices: true,
    readers: &["ztensor for Python 1.0.2 to 1.2.3", "ztensor"],
    index: Index::Last(zt1_encode::index_12),
    holds: |dtype| zt1_encode::types(dtype).is_some(),
    holds_part: |dtype| zt1_encode::types(dtype).is_some(),
    ..UP_TO_12
};

pub static ZT2: WriteFormat = WriteFormat {
    version: Some("2"),
    title: "zTensor 2",
    readers: &["ztensor for Python 2.x", "ztensor"],
    is_read_by_others: |_, _| Ok(true),
    magic: &zt2::MAGIC,
    index: Index::Aligned(zt2::encode::index),
    sparse: SparseForm::ByName,
    holds: |dtype| zt2::vocabulary::spelling(dtype).is_some(),
    holds_part: |dtype| zt2::vocabulary::spelling(dtype).is_some(),
    other_components: false,
    digests: &[Algorithm::Xxh3, Algorithm::Sha256],
    alignment: Some(Alignment {
        min: zt2::MIN_ALIGNMENT,
        default: zt2::encode::CANONICAL_ALIGNMENT,
        powers_of_two: false,
        attribute: None,
    }),
    compression: Some(Method::ZstdSeekable),
    canonical: Some(zt2::canonical::FORM),
    content_digest: Some(zt2::content::of_file),
    shards: Sharding::Data(&zt2::shards::DATA_SHARDS),
    profiles: true,
    check_settings: zt2::encode::check_settings,
    check_announced: zt2::encode::check_announced,
    check_entry: zt2::manifest::check_entry,
    check_attributes: |attributes, canonical| {
        zt2::encode::check_attributes(attributes, zt2::encode::FILE_ATTRIBUTES, canonical)
    },
    edit: edited(|input| zt2::edit::read(input, &ZT2)),
    ..UP_TO_12
};

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let magics: [&[u8]; 3] = [MAGIC_01, MAGIC_1, &zt2::MAGIC];
    Ok(if magics.contains(&probe.first(8)?) { Confidence::Certain } else { Confidence::No })
}

/// Reads a file of any version.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let total = input.length();
    if total < 8 {
        let message = format!("{total} bytes are too few for a zTensor file, whose magic alone is 8");
        return Err(Error::new(Code::Truncated, message));
    }
    let magic = input.read_vec(0, 8)?;
    if magic == MAGIC_01 {
        return zt01::parse(input);
    }
    if magic == MAGIC_1 {
        // A 1.0 file ends in the size of its manifest, which cannot be as large as the magic read as a number.
        let footed = total >= 16 && input.read_vec(total - 8, 8)? == MAGIC_1;
        return if footed { zt12::parse(input) } else { zt10::parse(input) };
    }
    if magic == zt2::MAGIC {
        return zt2::parse(input);
    }
    Err(bad_magic("it does not begin with a zTensor magic"))
}
