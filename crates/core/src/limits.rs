//! All limits on the resources that a file can use. Options raise them.
#![forbid(unsafe_code)]

use crate::checked::exact;
use crate::error::{Code, Error, Result};

/// The bounds under which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an index. `None`: the container's own bound (1 GiB for zTensor, 1.1 §IV.1; 100 MB for
    /// safetensors, the reference implementation's).
    pub max_index_bytes: Option<u64>,
    /// Bytes that one component may decode to: 16 GiB.
    pub max_decoded_bytes: u64,
    /// Bytes of elements that are repeated (stride 0) that one component may come to. Fewer than [`TIMES_THE_FILES`] times the
    /// files are always permitted; more only if the caller says so.
    pub max_repeated_bytes: u64,
    /// Dimensions of a tensor: 64, as many as NumPy 2 allows.
    pub max_rank: u32,
    /// Attribute values in one index, nested ones included: [`ATTRIBUTE_VALUES`]. Each takes a byte of the file or more. Most formats
    /// keep the bytes and make values on demand; then a value costs about 40 bytes in memory, an array or map some 100 more,
    /// so that it counts as three.
    pub max_attribute_values: u32,
}

impl Limits {
    /// Values of attributes that are made when the file is opened, in formats that do not keep their bytes: [`MADE_VALUES`], unless the
    /// caller allows more than [`ATTRIBUTE_VALUES`].
    pub fn made_values(&self) -> u32 {
        let max = self.max_attribute_values;
        if max > ATTRIBUTE_VALUES { max } else { max.min(MADE_VALUES) }
    }

    /// Adds a dimension that an index names to a shape.
    pub fn push_dim(&self, shape: &mut Vec<u64>, dim: u64) -> Result<()> {
        if shape.len() == self.max_rank as usize {
            return Err(Error::new(Code::Limit, format!("more than {} dimensions", self.max_rank))
                .option("maxRank")
                .of_item());
        }
        shape.push(exact(dim, "a dimension")?);
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_index_bytes: None,
            max_decoded_bytes: 16 << 30,
            max_repeated_bytes: 0,
            max_rank: 64,
            max_attribute_values: ATTRIBUTE_VALUES,
        }
    }
}

/// Attribute values of an index that any reader takes: a vocabulary of a million tokens with scores, types and merges has four million.
pub const ATTRIBUTE_VALUES: u32 = 1 << 24;
/// Values of attributes that are made when the file is opened. A value takes some 60 bytes of memory and may take one of the file.
pub const MADE_VALUES: u32 = 1 << 20;
/// zTensor's own bound on a manifest (1.1 §IV.1 and 1.2 §5): 1 GiB.
pub const ZT_INDEX_BYTES: u64 = 1 << 30;
/// The reference implementation's bound on a safetensors header: 100 MB.
pub const SAFETENSORS_INDEX_BYTES: u64 = 100_000_000;
/// Nested arrays, maps and tags in an attribute. Real files use two or three.
pub const CBOR_DEPTH: u32 = 64;
/// Ranges of bytes in one plan of tensor parallelism: 24 bytes each. A model of 400 billion parameters has some 4 million.
pub const PLAN_RANGES: usize = 16 << 20;
/// Files of one name space.
pub const FILES: usize = 10_000;
/// Entries of a folder that are looked at for a sharded checkpoint.
pub const FOLDER_ENTRIES: usize = 100_000;
/// Bytes that are read of a file by which a folder says what is meant in it.
pub const MARKER_BYTES: u64 = 1 << 20;
/// Bytes of a file name, as file systems have it.
pub const FILE_NAME_BYTES: usize = 255;
/// Bytes of the path of a file below a folder, as Linux has it.
pub const RELATIVE_PATH_BYTES: usize = 4096;
/// Nested values of attributes, in whatever format: the deepest of those that follow.
pub const VALUE_DEPTH: usize = 128;
/// Nested values in a part of a safetensors header that is skipped: `serde_json`'s own bound.
pub const JSON_DEPTH: u32 = 128;
/// Maximum warnings stored individually; a last one says that there were more.
pub const WARNINGS: usize = 1000;
/// Bytes of all listed warnings: names come from the file.
pub const WARNING_BYTES: usize = 4 << 20;
/// Bytes of all names together: what fits into one JavaScript string.
pub const NAMES_BYTES: usize = 500 << 20;
/// Bytes of one text or byte string of an index, for the same reason.
pub const TEXT_BYTES: u64 = 256 << 20;
/// Components of a tensor. Real ones have up to ten.
pub const COMPONENTS: usize = 4096;
/// zstd windows above 2^27 (128 MiB) are refused, as libzstd's own streaming decoder does.
pub const ZSTD_WINDOW_LOG: u32 = 27;
/// Maximum tensors that memory is reserved for before they are read: 160 MB of addresses, none of it touched.
pub const RESERVED: usize = 1 << 20;
/// How many times what their files hold tensors may decode to together, beyond what one component may: compression of real
/// data gives two or three, and what stands in a file once may be named by a few tensors.
pub const TIMES_THE_FILES: u64 = 16;
/// How many times the bytes of its file an array in chunks may have, beyond [`GRID_BYTES`]: deflate makes no more of what is stored, so
/// that the rest was never written.
pub const TIMES_A_GRID: u64 = 1032;
/// Bytes of an array in chunks that any file may have.
pub const GRID_BYTES: u64 = 16 << 20;
/// Bytes of decoded pieces of compressed data that the files of one name space keep for further slices: the largest frame of zTensor 2.
pub const DECODED_BYTES: usize = 16 << 20;
/// The number of these pieces: they are looked up one by one.
pub const DECODED_PIECES: usize = 64;
/// Bytes of all elements of a sparse tensor, where they have to be looked at one by one: 1 GiB.
pub const DENSE_BYTES: u64 = 1 << 30;
