//! Every bound on what a file may make us do, in one place. Options raise them.
#![forbid(unsafe_code)]

/// The bounds under which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an index. `None`: the container's own bound (1 GiB for zTensor, 1.1 §IV.1; 100 MB for
    /// safetensors, the reference implementation's).
    pub max_index_bytes: Option<u64>,
    /// Bytes that one component may decode to: 16 GiB.
    pub max_decoded_bytes: u64,
    /// Dimensions of a tensor: 64, as many as NumPy 2 allows.
    pub max_rank: u32,
    /// Attribute values in one index, nested ones included. A value of one byte costs about 40 in memory,
    /// so a million keeps the worst case near 40 MiB.
    pub max_attribute_values: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_index_bytes: None,
            max_decoded_bytes: 16 << 30,
            max_rank: 64,
            max_attribute_values: 1 << 20,
        }
    }
}

/// zTensor's own bound on a manifest (1.1 §IV.1 and 1.2 §5): 1 GiB.
pub const ZT_INDEX_BYTES: u64 = 1 << 30;
/// The reference implementation's bound on a safetensors header: 100 MB.
pub const SAFETENSORS_INDEX_BYTES: u64 = 100_000_000;
/// Nested arrays, maps and tags in an attribute. Real files use two or three.
pub const CBOR_DEPTH: u32 = 64;
/// Nested values in a part of a safetensors header that is skipped: `serde_json`'s own bound.
pub const JSON_DEPTH: u32 = 128;
/// Warnings kept one by one; past that a last one says that there were more.
pub const WARNINGS: usize = 1000;
/// zstd windows above 2^27 (128 MiB) are refused, as libzstd's own streaming decoder does.
pub const ZSTD_WINDOW_LOG: u32 = 27;
