//! Compresses a blob that is in memory as a whole, if that saves enough.
#![forbid(unsafe_code)]

use super::settings::{Compression, Settings};
use crate::codecs::deflate_encode::{self, Deflater};
use crate::codecs::digest::{Algorithm, Digest, Over};
use crate::codecs::seekable_encode::{LARGEST_FRAME, Table};
use crate::codecs::zstd_encode::{self, Search};
use crate::error::Result;
use crate::formats::Method;
use crate::model::Encoding;
use crate::sinks::block::Block;

/// The number of bytes at the beginning of a blob from which the saving is estimated.
pub const SAMPLE: usize = 256 << 10;

/// How the writer compresses and hashes blobs.
#[derive(Clone, Copy)]
pub struct How {
    pub compression: Compression,
    pub method: Method,
    pub digest: Option<Algorithm>,
    pub digest_over: Over,
}

impl How {
    /// Returns `None` if nothing is compressed.
    pub fn of(settings: &Settings) -> Option<Self> {
        let writing = settings.format;
        Some(Self {
            compression: settings.compression?,
            method: writing.compression?,
            digest: settings.digest,
            digest_over: writing.digests_over(),
        })
    }

    pub fn compressor(&self) -> Result<Compressor> {
        let level = self.compression.level;
        Ok(match self.method {
            Method::Zstd | Method::ZstdSeekable => {
                Compressor::Zstd(zstd_encode::Compressor::new(level, true)?)
            }
            Method::Deflate => Compressor::Deflate(Deflater::new(level)),
        })
    }

    /// Returns the number of threads that compress at a time.
    pub fn threads(&self) -> u32 {
        let Compression { level, threads, .. } = self.compression;
        match self.method {
            Method::Zstd | Method::ZstdSeekable => zstd_encode::threads(level, threads),
            Method::Deflate => threads.clamp(1, deflate_encode::THREADS),
        }
    }

    /// Returns the bytes after the frames of a blob.
    pub fn end(&self, table: Table) -> Result<Vec<u8>> {
        match self.method {
            Method::Zstd | Method::ZstdSeekable => table.finish(),
            Method::Deflate => Ok(deflate_encode::END.to_vec()),
        }
    }

    fn has_light(&self) -> bool {
        self.method != Method::Deflate && Search::has_light(self.compression.level)
    }

    /// Returns the content size in bytes of each frame but the last.
    pub fn frame(&self) -> usize {
        usize::try_from(self.compression.frame.clamp(1, LARGEST_FRAME)).unwrap_or(1)
    }

    /// Decides how to compress a blob that begins with `sample`; `None` if compression saves too little.
    pub fn judge(
        &self,
        sample: &[u8],
        compressor: &mut Compressor,
        scratch: &mut Block,
    ) -> Result<Option<Search>> {
        let start = scratch.len();
        let mut packed = |search| {
            compressor.search(search)?;
            let length = compressor.frame(sample, scratch.claim(compressor.bound(sample.len()))?)?;
            scratch.truncate(start);
            Ok(length)
        };
        let length = packed(Search::Level)?;
        let enough = saving(sample.len() as u64, length as u64) >= self.compression.min_savings;
        if length >= sample.len() || !enough {
            return Ok(None);
        }
        let light = sample.len() == SAMPLE && self.has_light() && packed(Search::Light)? <= length;
        Ok(Some(if light { Search::Light } else { Search::Level }))
    }
}

/// Compresses one frame after another, or one piece of a deflate stream after another.
pub enum Compressor {
    Zstd(zstd_encode::Compressor),
    Deflate(Deflater),
}

impl Compressor {
    /// Sets how the following zstd frames are compressed.
    pub fn search(&mut self, search: Search) -> Result<()> {
        match self {
            Self::Zstd(zstd) => zstd.search(search),
            Self::Deflate(_) => Ok(()),
        }
    }

    /// Returns the maximum size in bytes of a frame with `length` bytes of content.
    pub fn bound(&self, length: usize) -> usize {
        match self {
            Self::Zstd(_) => zstd_encode::Compressor::bound(length),
            Self::Deflate(_) => Deflater::bound(length),
        }
    }

    /// Compresses `bytes` into a frame and returns its length. `output` must hold at least [`Compressor::bound`] bytes.
    pub fn frame(&mut self, bytes: &[u8], output: &mut [u8]) -> Result<usize> {
        match self {
            Self::Zstd(zstd) => zstd.frame(bytes, output),
            Self::Deflate(deflater) => deflater.piece(bytes, output),
        }
    }
}

/// A blob as stored.
pub struct Packed {
    /// Its stored size in bytes.
    pub length: usize,
    pub encoding: Encoding,
    pub digest: Option<Digest>,
}

/// Returns the fraction of `raw` bytes that `packed` bytes save.
#[allow(clippy::cast_precision_loss)] // a ratio
pub fn saving(raw: u64, packed: u64) -> f64 {
    1.0 - packed as f64 / raw as f64
}

/// Appends these bytes to `out` as a blob. It is compressed if both its beginning and the whole of it save at least the
/// requested fraction.
pub fn blob(raw: &[u8], how: &How, compressor: &mut Compressor, out: &mut Block) -> Result<Packed> {
    let start = out.len();
    let sample = raw.get(..SAMPLE).unwrap_or(raw);
    let mut encoding = Encoding::RAW;
    let search = if raw.is_empty() { None } else { how.judge(sample, compressor, out)? };
    if let Some(search) = search {
        compressor.search(search)?;
        let mut table = Table::default();
        frames(raw, how.frame(), compressor, out, &mut table)?;
        out.extend(&how.end(table)?)?;
        encoding = how.method.encoding();
        let stored = (out.len() - start) as u64;
        if saving(raw.len() as u64, stored) < how.compression.min_savings {
            out.truncate(start);
            encoding = Encoding::RAW;
        }
    }
    if encoding == Encoding::RAW {
        out.extend(raw)?;
    }
    let digest = how.digest.map(|algorithm| {
        let mut hasher = algorithm.hasher();
        hasher.update(if how.digest_over == Over::Decoded { raw } else { out.from(start) });
        algorithm.digest(hasher)
    });
    Ok(Packed { length: out.len() - start, encoding, digest })
}

/// Appends `raw` to `out` in frames of `frame` bytes, and their sizes to `table`.
pub fn frames(
    raw: &[u8],
    frame: usize,
    compressor: &mut Compressor,
    out: &mut Block,
    table: &mut Table,
) -> Result<()> {
    for plain in raw.chunks(frame) {
        let start = out.len();
        let length = compressor.frame(plain, out.claim(compressor.bound(plain.len()))?)?;
        out.truncate(start + length);
        table.push(length, plain.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(level: i32) -> How {
        let compression = Compression { level, min_savings: 0.1, threads: 1, frame: 1 << 20 };
        How { compression, method: Method::Zstd, digest: None, digest_over: Over::Stored }
    }

    fn judged(level: i32, bytes: &[u8]) -> Option<Search> {
        let how = how(level);
        how.judge(bytes, &mut how.compressor().unwrap(), &mut Block::default()).unwrap()
    }

    /// Returns 16-bit numbers whose upper byte has few distinct values, like an exponent.
    fn weights(count: usize) -> Vec<u8> {
        let mut seed = 7_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed.to_be_bytes()
        };
        (0..count).flat_map(|_| [next()[0], 0x3C + next()[0].leading_zeros().to_le_bytes()[0]]).collect()
    }

    #[test]
    fn the_light_search_is_chosen_if_it_compresses_as_well() {
        let weights = weights(SAMPLE / 2);
        let numbers = weights.iter().map(|&byte| 1000 + 37 * u32::from(byte));
        let text: Vec<u8> = numbers.flat_map(u32::to_le_bytes).take(SAMPLE).collect();
        assert_eq!(judged(3, &weights), Some(Search::Light));
        assert_eq!(judged(3, &text), Some(Search::Level));
        assert_eq!(judged(1, &weights), Some(Search::Level), "there is nothing lighter");
        assert_eq!(judged(9, &weights), Some(Search::Level), "asked for");
        assert_eq!(judged(3, &weights[..1000]), Some(Search::Level), "not worth a second look");
    }

    #[test]
    fn a_blob_does_not_affect_the_next_one() {
        let (weights, how) = (weights(SAMPLE), how(3));
        let text: Vec<u8> = (0..200_000_u32).flat_map(|at| (at % 70_000).to_le_bytes()).collect();
        let alone = |bytes: &[u8]| {
            let mut out = Block::default();
            blob(bytes, &how, &mut how.compressor().unwrap(), &mut out).unwrap();
            out.take()
        };
        let (mut out, mut compressor) = (Block::default(), how.compressor().unwrap());
        for bytes in [&text, &weights, &text, &weights] {
            blob(bytes, &how, &mut compressor, &mut out).unwrap();
        }
        assert!(out.take() == [alone(&text), alone(&weights)].concat().repeat(2));
        assert_eq!(zstd::bulk::decompress(&alone(&weights), weights.len()).unwrap(), weights);
    }

    #[test]
    fn a_blob_is_compressed_if_it_saves_enough() {
        let text: Vec<u8> = (0..20_000_u32).flat_map(|at| (at % 7000).to_le_bytes()).collect();
        let stored = |bytes: &[u8], min_savings: f64| {
            let mut how = how(3);
            how.compression.min_savings = min_savings;
            let mut out = Block::default();
            let packed = blob(bytes, &how, &mut how.compressor().unwrap(), &mut out).unwrap();
            assert_eq!(packed.length, out.len());
            (packed.encoding, packed.length)
        };
        let (encoding, length) = stored(&text, 0.0);
        assert_eq!(encoding, Encoding::ZSTD);
        let min = saving(text.len() as u64, length as u64);
        assert!(min > 0.5);
        assert_eq!(stored(&text, min), (Encoding::ZSTD, length));
        assert_eq!(stored(&text, min + 1e-9), (Encoding::RAW, text.len()));
        // The beginning saves enough, the whole does not.
        let mut seed = 1_u32;
        let noise = (0..SAMPLE).map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed.to_be_bytes()[0]
        });
        let mixed: Vec<u8> = vec![0; SAMPLE].into_iter().chain(noise).collect();
        assert_eq!(stored(&mixed, 0.9), (Encoding::RAW, mixed.len()));
        assert_eq!(stored(&mixed, 0.4).0, Encoding::ZSTD);
        assert_eq!((saving(8, 2), saving(8, 8)), (0.75, 0.0));
    }
}
