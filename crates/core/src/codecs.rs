//! Digests, and the codecs of filters in any format. Depends only on threads (`work`).

pub mod bits;
pub mod deflate;
pub mod deflate_encode;
#[cfg(not(target_family = "wasm"))]
pub mod deflate_whole;
#[cfg(target_family = "wasm")]
mod deflate_whole {
    /// Refuses all streams, so that zlib-rs decodes them: libdeflate needs a C library.
    pub fn decodes(_input: &[u8], _zlib: bool, _output: &mut [u8]) -> bool {
        false
    }
}
pub mod digest;
pub mod fletcher;
pub mod frames;
pub mod lz4;
pub mod lzf;
pub mod prefixed;
pub mod protobuf;
pub mod seekable;
pub mod seekable_encode;
pub mod shuffle;
pub mod zstd;
pub mod zstd_encode;
pub mod zstd_pieces;
pub mod zstd_stream;

use crate::error::Result;
use crate::work::Stop;
use frames::Size;
use prefixed::PrefixedCodec;

/// Decodes the whole input, with the filter's parameters. Fails if the size does not match.
type Decode = fn(&[u8], &[u32], Size, &Stop) -> Result<Vec<u8>>;

/// Decodes into memory that must be filled completely.
type Fill = fn(&[u8], &[u32], &mut [u8], &Stop) -> Result<()>;

/// A filter that can be reversed.
pub struct Codec {
    pub name: &'static str,
    pub decode: Decode,
    pub fill: Fill,
    /// Bytes that it adds to its input, if constant.
    pub adds: Option<u64>,
    /// What is decoded in pieces.
    pub in_pieces: Option<PrefixedCodec>,
}

/// Filters by their names in zTensor. `zt.zstd-seekable/1` is never part of a list: `read` handles its frames.
const CODECS: &[Codec] = &[
    Codec {
        name: "zstd",
        decode: |input, _, size, stop| zstd::decode_to(input, size, stop),
        fill: |input, _, output, stop| zstd::decode_into(input, output, stop),
        adds: None,
        in_pieces: None,
    },
    Codec {
        name: "deflate",
        decode: |input, _, size, stop| deflate::decode(input, false, size, stop),
        fill: |input, _, output, stop| deflate::decode_into(input, false, output, stop, |_| ()),
        adds: None,
        in_pieces: None,
    },
    Codec {
        name: "zlib",
        decode: |input, _, size, stop| deflate::decode(input, true, size, stop),
        fill: |input, _, output, stop| deflate::decode_into(input, true, output, stop, |_| ()),
        adds: None,
        in_pieces: None,
    },
    Codec {
        name: "lzf",
        decode: |input, _, size, _| lzf::decode(input, size),
        fill: |input, _, output, _| lzf::decode_into(input, output),
        adds: None,
        in_pieces: None,
    },
    Codec {
        name: "shuffle",
        decode: |input, parameters, size, _| shuffle::decode(input, parameters, size),
        fill: |input, parameters, output, _| shuffle::decode_into(input, parameters, output),
        adds: Some(0),
        in_pieces: None,
    },
    Codec {
        name: "fletcher32",
        decode: |input, _, size, _| fletcher::decode(input, size),
        fill: |input, _, output, _| fletcher::decode_into(input, output),
        adds: Some(fletcher::BYTES),
        in_pieces: None,
    },
    Codec {
        name: "arrow.lz4",
        decode: |input, _, size, stop| prefixed::decode(PrefixedCodec::Lz4, input, size, stop),
        fill: |input, _, output, stop| prefixed::decode_into(PrefixedCodec::Lz4, input, output, stop),
        adds: None,
        in_pieces: Some(PrefixedCodec::Lz4),
    },
    Codec {
        name: "arrow.zstd",
        decode: |input, _, size, stop| prefixed::decode(PrefixedCodec::Zstd, input, size, stop),
        fill: |input, _, output, stop| prefixed::decode_into(PrefixedCodec::Zstd, input, output, stop),
        adds: None,
        in_pieces: Some(PrefixedCodec::Zstd),
    },
    Codec {
        name: "bits",
        decode: |input, _, size, _| bits::decode(input, size),
        fill: |input, _, output, _| bits::decode_into(input, output),
        adds: None,
        in_pieces: None,
    },
    Codec {
        name: protobuf::NAME,
        decode: protobuf::decode,
        fill: protobuf::fill,
        adds: None,
        in_pieces: None,
    },
];

/// Returns the codec with a name.
pub fn named(name: &str) -> Option<&'static Codec> {
    CODECS.iter().find(|codec| codec.name == name)
}
