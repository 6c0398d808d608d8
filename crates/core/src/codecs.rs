//! Digests, and the filters that stored bytes of any format went through. Uses only threads (`work`).
#![forbid(unsafe_code)]

pub mod deflate;
pub mod deflate_encode;
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

/// The same into memory that has to be filled to its last byte.
type Fill = fn(&[u8], &[u32], &mut [u8], &Stop) -> Result<()>;

/// A filter that can be taken back.
pub struct Codec {
    pub name: &'static str,
    pub decode: Decode,
    pub fill: Fill,
}

/// Filters by the names that formats give them here. `zt.zstd-seekable/1` is no part of a list: `read` takes its frames apart.
const CODECS: [Codec; 4] = [
    Codec {
        name: "zstd",
        decode: |input, _, size, stop| zstd::decode_to(input, size, stop),
        fill: |input, _, output, stop| zstd::decode_into(input, output, stop),
    },
    Codec {
        name: "deflate",
        decode: |input, _, size, stop| deflate::decode(input, false, size, stop),
        fill: |input, _, output, stop| deflate::decode_into(input, false, &mut [output], stop, |_| ()),
    },
    Codec {
        name: "zlib",
        decode: |input, _, size, stop| deflate::decode(input, true, size, stop),
        fill: |input, _, output, stop| deflate::decode_into(input, true, &mut [output], stop, |_| ()),
    },
    Codec { name: protobuf::NAME, decode: protobuf::decode, fill: protobuf::fill },
];

/// The codec of a name.
pub fn named(name: &str) -> Option<&'static Codec> {
    const { &CODECS }.iter().find(|codec| codec.name == name)
}
