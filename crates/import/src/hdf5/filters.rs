//! Chunk filters (`HDF5 File Format Specification` IV.A.2.l, and the filter registry), mapped to codec names.
#![forbid(unsafe_code)]

use hdf5_reader::messages::filter_pipeline;
use ztensor_core::codecs;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{Builder, Encoding, Filter};

use super::reader::{Object, Reader, message};

/// Number of filters that a mask covers.
const MAX: usize = 32;

/// The filters of a dataset, in the order in which they were applied.
pub struct Filters {
    pub encoding: Encoding,
    pub count: usize,
    /// The name of an unsupported filter.
    pub unknown: Option<String>,
}

pub fn read(reader: &Reader<'_>, builder: &mut Builder, object: &Object) -> Result<Filters> {
    let mut filters = Vec::new();
    let mut unknown = None;
    if let Some(bytes) = object.get(message::FILTERS) {
        for found in reader.parse(bytes, "the filters of a dataset", filter_pipeline::parse)?.filters {
            let name = name(found.id);
            if codecs::named(&name).is_none() {
                unknown.get_or_insert_with(|| name.clone());
            }
            let parameters = if name == "shuffle" { found.client_data.into() } else { Box::default() };
            filters.push(Filter { name: builder.intern(&name), parameters });
        }
    }
    let count = filters.len();
    // The encoding of the whole file is not a chunk filter; it is listed for users.
    if let Some(held) = &reader.held {
        if count >= MAX {
            return Err(Error::new(
                Code::UnsupportedEncoding,
                format!("its chunks went through {count} filters"),
            ));
        }
        filters.push(Filter::named(builder.intern(held.encoding)));
    }
    let encoding = builder.encoding(&filters, unknown.is_none());
    Ok(Filters { encoding, count, unknown })
}

fn name(id: u16) -> String {
    let name = match id {
        1 => "zlib",
        2 => "shuffle",
        3 => "fletcher32",
        4 => "szip",
        5 => "nbit",
        6 => "scaleoffset",
        307 => "bzip2",
        32_000 => "lzf",
        32_001 => "blosc",
        32_004 => "lz4",
        32_008 => "bitshuffle",
        32_013 => "zfp",
        32_015 => "zstd",
        32_026 => "blosc2",
        _ => return format!("hdf5.{id}"),
    };
    name.to_owned()
}
