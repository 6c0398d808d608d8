//! One blob on its way out: hashed, and compressed where that pays.
#![forbid(unsafe_code)]

use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, get_error_name, zstd_sys::ZSTD_EndDirective};

use super::{Dialect, Settings};
use crate::catalog::{DataRule, Encoding};
use crate::codec::digest::{Algorithm, Digest, Hasher};
use crate::codec::seekable_encode::Seekable;
use crate::error::{Code, Error, Result};
use crate::layout::elements::Elements;
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
const SAMPLE: usize = 256 << 10;
/// Blobs from here on are compressed in jobs of their own, which several threads can share.
const JOBS_FROM: u64 = 2 << 20;
/// Input of one job. Small ones keep all threads busy to the end of a blob and bound what each of them holds.
const JOB: u32 = 1 << 20;
/// Threads that share a blob: each holds about 4 MiB.
const MOST_THREADS: u32 = 24;
const PIECE: usize = 1 << 20;

pub struct Blob {
    length: u64,
    left: u64,
    offset: u64,
    algorithm: Option<Algorithm>,
    hasher: Option<Hasher>,
    /// zTensor 2: its digests are of the content (§3.4), its compression is seekable.
    zt2: bool,
    /// Of its elements.
    rule: Elements,
    state: State,
}

enum State {
    Raw,
    /// The beginning is gathered until the saving can be judged.
    Sampling(Compression, Vec<u8>),
    Zstd(CCtx<'static>),
    Seekable(Seekable),
}

/// A blob that is in the buffer to its last byte.
pub struct Done {
    pub offset: u64,
    pub encoding: Encoding,
    pub digest: Option<Digest>,
}

impl Blob {
    pub fn new(length: u64, offset: u64, rule: Option<DataRule>, settings: &Settings) -> Self {
        let zt2 = settings.dialect == Dialect::Zt2;
        let blob = Self { rule: Elements::new(rule.filter(|_| zt2)), ..Self::raw(length, offset, settings) };
        match settings.compression {
            Some(compression) if length > 0 => {
                Self { state: State::Sampling(compression, Vec::new()), ..blob }
            }
            _ => blob,
        }
    }

    /// A blob that is not compressed, whatever the settings, and whose elements nobody has to look at.
    pub fn raw(length: u64, offset: u64, settings: &Settings) -> Self {
        let algorithm = settings.digest;
        let (hasher, zt2) = (algorithm.map(Algorithm::hasher), settings.dialect == Dialect::Zt2);
        Self {
            length,
            left: length,
            offset,
            algorithm,
            hasher,
            zt2,
            rule: Elements::new(None),
            state: State::Raw,
        }
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Takes as many of `bytes` as belong to this blob and says how many those were.
    pub fn take(&mut self, bytes: &[u8], buffer: &mut Block, position: &mut u64) -> Result<usize> {
        let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = bytes.get(..taken).unwrap_or_default();
        self.left -= taken as u64;
        self.rule.update(bytes)?;
        self.hash_content(bytes);
        let start = buffer.len();
        match &mut self.state {
            State::Raw => buffer.extend(bytes)?,
            State::Zstd(context) => compress(context, bytes, false, buffer)?,
            State::Seekable(seekable) => buffer.extend(&seekable.push(bytes)?)?,
            State::Sampling(compression, gathered) => {
                gathered.extend_from_slice(bytes);
                if gathered.len() >= SAMPLE || self.left == 0 {
                    let (compression, gathered) = (*compression, std::mem::take(gathered));
                    self.decide(compression, &gathered, buffer)?;
                }
            }
        }
        self.account(start, buffer, position);
        Ok(taken)
    }

    /// Whether bytes are stored as they come, so that [`Blob::fill`] may be used.
    pub fn is_raw(&self) -> bool {
        matches!(self.state, State::Raw)
    }

    /// Whether the file gets these bytes without anybody having looked at them, so that [`Blob::skip`] may be used.
    pub fn is_unseen(&self) -> bool {
        self.is_raw() && self.hasher.is_none() && !self.rule.is_any()
    }

    /// The next `count` bytes, which are not more than are left, are in the file.
    pub fn skip(&mut self, count: u64, position: &mut u64) {
        self.left -= count;
        *position += count;
    }

    /// Lets `read` put the next `count` bytes of this blob, or what is left of it, where they will be written from.
    pub fn fill(
        &mut self,
        count: usize,
        buffer: &mut Block,
        position: &mut u64,
        read: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(count);
        let start = buffer.len();
        read(buffer.claim(count)?)?;
        self.left -= count as u64;
        self.rule.update(buffer.from(start))?;
        self.hash_content(buffer.from(start));
        self.account(start, buffer, position);
        Ok(())
    }

    /// Compresses, or not, what was gathered and all that follows.
    fn decide(&mut self, compression: Compression, gathered: &[u8], buffer: &mut Block) -> Result<()> {
        let mut sample = Block::default();
        let sampled = gathered.get(..SAMPLE).unwrap_or(gathered);
        compress(&mut context(compression, sampled.len() as u64)?, sampled, true, &mut sample)?;
        if sample.len() >= sampled.len()
            || saving(sampled.len() as u64, sample.len() as u64) < compression.min_savings
        {
            buffer.extend(gathered)?;
            self.state = State::Raw;
            return Ok(());
        }
        if self.zt2 {
            let mut seekable = Seekable::new(compression.level, compression.frame, compression.threads);
            buffer.extend(&seekable.push(gathered)?)?;
            self.state = State::Seekable(seekable);
            return Ok(());
        }
        let mut context = context(compression, self.length)?;
        compress(&mut context, gathered, false, buffer)?;
        self.state = State::Zstd(context);
        Ok(())
    }

    /// Version 2 hashes what is decoded, the others what is stored.
    fn hash_content(&mut self, bytes: &[u8]) {
        if let Some(hasher) = self.hasher.as_mut().filter(|_| self.zt2) {
            hasher.update(bytes);
        }
    }

    fn account(&mut self, start: usize, buffer: &Block, position: &mut u64) {
        let added = buffer.from(start);
        if let Some(hasher) = self.hasher.as_mut().filter(|_| !self.zt2) {
            hasher.update(added);
        }
        *position += added.len() as u64;
    }

    pub fn finish(mut self, buffer: &mut Block, position: &mut u64) -> Result<Done> {
        self.rule.finish()?;
        let start = buffer.len();
        let encoding = match std::mem::replace(&mut self.state, State::Raw) {
            State::Zstd(mut context) => {
                compress(&mut context, &[], true, buffer)?;
                Encoding::Zstd
            }
            State::Seekable(seekable) => {
                buffer.extend(&seekable.finish()?)?;
                Encoding::ZstdSeekable
            }
            State::Raw | State::Sampling(..) => Encoding::Raw,
        };
        self.account(start, buffer, position);
        let digest = self.algorithm.zip(self.hasher).map(|(algorithm, hasher)| algorithm.digest(hasher));
        Ok(Done { offset: self.offset, encoding, digest })
    }
}

/// The part of `raw` bytes that `packed` ones save.
#[allow(clippy::cast_precision_loss)] // a ratio
pub(super) fn saving(raw: u64, packed: u64) -> f64 {
    1.0 - packed as f64 / raw as f64
}

fn failed(code: usize) -> Error {
    Error::new(Code::Internal, format!("zstd does not compress: {}", get_error_name(code)))
}

/// A context for one frame of `length` bytes. Whether it works in jobs follows from the length alone, so that
/// the bytes are the same with any number of threads.
fn context(compression: Compression, length: u64) -> Result<CCtx<'static>> {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::CompressionLevel(compression.level)).map_err(failed)?;
    if length >= JOBS_FROM {
        let threads = compression.threads.clamp(1, MOST_THREADS);
        context.set_parameter(CParameter::NbWorkers(threads)).map_err(failed)?;
        context.set_parameter(CParameter::JobSize(JOB)).map_err(failed)?;
    }
    context.set_pledged_src_size(Some(length)).map_err(failed)?;
    Ok(context)
}

fn compress(context: &mut CCtx<'_>, bytes: &[u8], end: bool, buffer: &mut Block) -> Result<()> {
    let mut input = InBuffer::around(bytes);
    let piece = PIECE.min(bytes.len() + 1024);
    let directive = if end { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
    loop {
        let start = buffer.len();
        let mut output = OutBuffer::around(buffer.claim(piece)?);
        let left = context.compress_stream2(&mut output, &mut input, directive).map_err(failed)?;
        let written = output.pos();
        buffer.truncate(start + written);
        let done = if end { left == 0 } else { input.pos == bytes.len() };
        if done {
            return Ok(());
        }
    }
}
