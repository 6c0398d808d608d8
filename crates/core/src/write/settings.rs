//! The settings of a file to write, and the description of a tensor to add.
#![forbid(unsafe_code)]

use crate::codecs::digest::Algorithm;
use crate::error::Result;
use crate::formats::{WriteFormat, WriteSettings};
use crate::model::{Attributes, DType, DataRule, Label};
use crate::work::Stop;

/// The settings of a file to write.
pub struct Settings {
    pub format: &'static WriteFormat,
    /// The alignment of blobs in bytes: at least 64 if the format aligns blobs.
    pub alignment: u64,
    pub digest: Option<Algorithm>,
    pub compression: Option<Compression>,
    pub overwrite: bool,
    /// Write the canonical form of the format: blobs in the order of their names, and equal blobs only once.
    pub canonical: bool,
    /// The largest size of one file in bytes: the next tensor starts a new file. Counts all bytes in zTensor 2 (§7),
    /// and only tensor data in safetensors.
    pub max_shard: Option<u64>,
    pub attributes: Attributes,
    pub generator: Option<String>,
    /// Stops the work, until the file gets its name.
    pub stop: Stop,
}

impl Settings {
    pub(super) fn check(&self) -> Result<()> {
        (self.format.check_settings)(&WriteSettings {
            alignment: self.alignment,
            digest: self.digest,
            compressed: self.compression.is_some(),
            canonical: self.canonical,
            divided: self.max_shard.is_some(),
            attributes: &self.attributes,
        })
    }
}

/// When and how to compress.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    pub level: i32,
    /// The minimum saving, from 0 to 1: the fraction of its size that a blob must lose to be stored compressed.
    pub min_savings: f64,
    /// Threads that compress one large blob. The result does not depend on it.
    pub threads: u32,
    /// Bytes in each zstd frame but the last, or in each piece of a deflate stream.
    pub frame: u32,
}

/// A tensor to add.
#[derive(Clone, Copy)]
pub struct Spec<'a> {
    pub name: &'a str,
    pub shape: &'a [u64],
    /// The layout's name.
    pub layout: &'a str,
    pub dtype: Option<DType>,
    pub attributes: Option<&'a Attributes>,
    /// Role, dtype and length in bytes of each component, in the order in which they are pushed.
    pub components: &'a [(&'a str, Option<DType>, u64)],
}

/// A blob to store: its role, its dtype, the rule for its elements, and its length in bytes before compression.
pub(super) type Stored = (Label, Option<DType>, Option<DataRule>, u64);
