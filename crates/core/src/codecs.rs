//! Digests, and the filters that stored bytes of any format went through. Uses only threads (`work`).
#![forbid(unsafe_code)]

pub mod deflate;
pub mod digest;
pub mod frames;
pub mod protobuf;
pub mod seekable;
pub mod seekable_encode;
pub mod zstd;
pub mod zstd_encode;
pub mod zstd_pieces;
pub mod zstd_stream;

use crate::error::Result;
use crate::work::Stop;
use frames::Size;

/// Decodes the whole input, with the filter's parameters. Fails where that is not of the size.
type Decode = fn(&[u8], &[u32], Size, &Stop) -> Result<Vec<u8>>;

/// A filter that can be taken back.
pub struct Codec {
    pub name: &'static str,
    pub decode: Decode,
}

/// Filters by the names that formats give them here. `zt.zstd-seekable/1` is no part of a list: `read` takes its frames apart.
const CODECS: [Codec; 4] = [
    Codec { name: "zstd", decode: |input, _, size, stop| zstd::decode_to(input, size, stop) },
    Codec { name: "deflate", decode: |input, _, size, stop| deflate::decode(input, false, size, stop) },
    Codec { name: "zlib", decode: |input, _, size, stop| deflate::decode(input, true, size, stop) },
    Codec { name: protobuf::NAME, decode: protobuf::decode },
];

/// The codec of a name.
pub fn named(name: &str) -> Option<&'static Codec> {
    const { &CODECS }.iter().find(|codec| codec.name == name)
}
