//! A blob that is there as a whole, compressed where that pays.
#![forbid(unsafe_code)]

use crate::catalog::Encoding;
use crate::codec::digest::{Algorithm, Digest};
use crate::codec::seekable_encode::{LARGEST_FRAME, Table};
use crate::codec::zstd_encode::Compressor;
use crate::error::Result;
use crate::sink::block::Block;

/// When and how to compress.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    pub level: i32,
    /// The part of its size that a blob must lose to be stored compressed, from 0 to 1.
    pub min_savings: f64,
    /// Threads that compress one large blob. The bytes do not depend on it.
    pub threads: u32,
    /// zTensor 2: bytes in each zstd frame but the last.
    pub frame: u32,
}

/// Bytes on which the saving is judged before: the beginning of the blob.
pub const SAMPLE: usize = 256 << 10;

/// What becomes of a writer's blobs.
#[derive(Clone, Copy)]
pub struct How {
    pub compression: Compression,
    pub digest: Option<Algorithm>,
    /// zTensor 2: digests are of the content (§3.4), compression is seekable.
    pub zt2: bool,
}

impl How {
    pub fn compressor(&self) -> Result<Compressor> {
        Compressor::new(self.compression.level, self.zt2)
    }

    /// Content of a seekable blob's frames but the last.
    pub fn frame(&self) -> usize {
        usize::try_from(self.compression.frame.clamp(1, LARGEST_FRAME)).unwrap_or(1)
    }

    /// Whether a blob is worth compressing that begins with `sample`.
    pub fn promises(&self, sample: &[u8], compressor: &mut Compressor, room: &mut Block) -> Result<bool> {
        let start = room.len();
        let packed = compressor.frame(sample, room.claim(Compressor::bound(sample.len()))?)?;
        room.truncate(start);
        let enough = saving(sample.len() as u64, packed as u64) >= self.compression.min_savings;
        Ok(packed < sample.len() && enough)
    }
}

/// A blob as it is stored.
pub struct Packed {
    /// Bytes that it takes.
    pub length: usize,
    pub encoding: Encoding,
    pub digest: Option<Digest>,
}

/// The part of `raw` bytes that `packed` ones save.
#[allow(clippy::cast_precision_loss)] // a ratio
pub fn saving(raw: u64, packed: u64) -> f64 {
    1.0 - packed as f64 / raw as f64
}

/// Appends a blob of these bytes to `out`: compressed where its beginning promises, and the whole of it keeps, the saving
/// that is asked for.
pub fn blob(raw: &[u8], how: &How, compressor: &mut Compressor, out: &mut Block) -> Result<Packed> {
    let start = out.len();
    let sample = raw.get(..SAMPLE).unwrap_or(raw);
    let mut encoding = Encoding::Raw;
    if !raw.is_empty() && how.promises(sample, compressor, out)? {
        if how.zt2 {
            let mut table = Table::default();
            frames(raw, how.frame(), compressor, out, &mut table)?;
            out.extend(&table.finish()?)?;
            encoding = Encoding::ZstdSeekable;
        } else {
            let length = compressor.frame(raw, out.claim(Compressor::bound(raw.len()))?)?;
            out.truncate(start + length);
            encoding = Encoding::Zstd;
        }
        let stored = (out.len() - start) as u64;
        if saving(raw.len() as u64, stored) < how.compression.min_savings {
            out.truncate(start);
            encoding = Encoding::Raw;
        }
    }
    if encoding == Encoding::Raw {
        out.extend(raw)?;
    }
    let digest = how.digest.map(|algorithm| {
        let mut hasher = algorithm.hasher();
        hasher.update(if how.zt2 { raw } else { out.from(start) });
        algorithm.digest(hasher)
    });
    Ok(Packed { length: out.len() - start, encoding, digest })
}

/// Appends frames of `frame` bytes of `raw` to `out`, and where they are to `table`.
pub fn frames(
    raw: &[u8],
    frame: usize,
    compressor: &mut Compressor,
    out: &mut Block,
    table: &mut Table,
) -> Result<()> {
    for plain in raw.chunks(frame) {
        let start = out.len();
        let length = compressor.frame(plain, out.claim(Compressor::bound(plain.len()))?)?;
        out.truncate(start + length);
        table.push(length, plain.len())?;
    }
    Ok(())
}
