//! Digests and compression, for bytes of any format. Uses only threads (`work`).
#![forbid(unsafe_code)]

pub mod digest;
pub mod frames;
pub mod seekable;
pub mod seekable_encode;
pub mod zstd;
pub mod zstd_encode;
pub mod zstd_pieces;
pub mod zstd_stream;
