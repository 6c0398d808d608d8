//! Writes one blob: hashes it, and compresses it if that saves enough.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::pack::SAMPLE;
use super::packers::Packers;
use super::seekable::Seekable;
use super::settings::Settings;
use crate::codecs::digest::{Algorithm, Digest, Hasher, Over};
use crate::error::Result;
use crate::layouts::elements::RuleCheck;
use crate::model::{DataRule, Encoding};
use crate::sinks::block::Block;

pub struct Outgoing {
    length: u64,
    left: u64,
    offset: u64,
    algorithm: Option<Algorithm>,
    hasher: Option<Hasher>,
    digest_over: Over,
    /// The check of the elements.
    rule: RuleCheck,
    state: State,
}

enum State {
    Raw,
    /// Buffers the beginning of the blob until it is large enough to estimate the saving.
    Sampling(Vec<u8>),
    Seekable(Seekable),
}

/// The destination of a blob.
pub struct Target<'w> {
    pub buffer: &'w mut Block,
    /// The offset of the end of the buffer in the file.
    pub position: &'w mut u64,
    /// The compressors; `None` if nothing is compressed.
    pub packers: Option<&'w mut Packers>,
}

/// A blob whose last byte is in the buffer.
pub struct WrittenBlob {
    pub offset: u64,
    pub encoding: Encoding,
    pub digest: Option<Digest>,
}

/// The offset of the first blob with each digest and length.
pub(super) type Contents = HashMap<(Option<Digest>, u64), u64>;

impl Outgoing {
    /// Creates a blob of `length` bytes at `offset`. If `compresses`, its beginning decides whether it is compressed.
    pub fn new(
        length: u64,
        offset: u64,
        rule: Option<DataRule>,
        settings: &Settings,
        compresses: bool,
    ) -> Self {
        let blob = Self::raw(length, offset, settings);
        let rule = RuleCheck::new(rule.filter(|_| settings.format.profiles));
        let state = if compresses && length > 0 { State::Sampling(Vec::new()) } else { State::Raw };
        Self { rule, state, ..blob }
    }

    /// Creates a blob that another thread hashes and compresses. Only its elements are checked here.
    pub fn gathered(length: u64, rule: Option<DataRule>, settings: &Settings) -> Self {
        Self { algorithm: None, hasher: None, ..Self::new(length, 0, rule, settings, false) }
    }

    /// Creates a blob that is not compressed, whatever the settings, and whose elements are not checked.
    pub fn raw(length: u64, offset: u64, settings: &Settings) -> Self {
        let algorithm = settings.digest;
        let hasher = algorithm.map(Algorithm::hasher);
        Self {
            length,
            left: length,
            offset,
            algorithm,
            hasher,
            digest_over: settings.format.digests_over(),
            rule: RuleCheck::new(None),
            state: State::Raw,
        }
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns the number of bytes taken so far.
    pub fn taken(&self) -> u64 {
        self.length - self.left
    }

    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Takes the bytes that belong to this blob from the front of `bytes`, and returns their number.
    pub fn take(&mut self, bytes: &[u8], target: &mut Target<'_>) -> Result<usize> {
        let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = bytes.get(..taken).unwrap_or_default();
        self.left -= taken as u64;
        self.rule.update(bytes)?;
        self.hash_content(bytes);
        let start = target.buffer.len();
        if let State::Sampling(gathered) = &mut self.state {
            gathered.extend_from_slice(bytes);
            if gathered.len() >= SAMPLE || self.left == 0 {
                let gathered = std::mem::take(gathered);
                self.decide(&gathered, target)?;
            }
        } else {
            self.store(bytes, target)?;
        }
        self.account(start, target);
        Ok(taken)
    }

    /// Stores bytes, compressed or raw as decided.
    fn store(&mut self, bytes: &[u8], target: &mut Target<'_>) -> Result<()> {
        match (&mut self.state, &mut target.packers) {
            (State::Seekable(seekable), Some(packers)) => seekable.push(bytes, packers, target.buffer),
            _ => target.buffer.extend(bytes),
        }
    }

    /// Returns whether bytes are stored unchanged, so that [`Outgoing::fill`] may be used.
    pub fn is_raw(&self) -> bool {
        matches!(self.state, State::Raw)
    }

    /// Returns whether the bytes need no hash and no check, so that [`Outgoing::skip`] may be used.
    pub fn is_unseen(&self) -> bool {
        self.is_raw() && self.hasher.is_none() && !self.rule.is_any()
    }

    /// Skips the next `count` bytes, which are already in the file. `count` must not exceed the bytes left.
    pub fn skip(&mut self, count: u64, position: &mut u64) {
        self.left -= count;
        *position += count;
    }

    /// Lets `read` write up to `count` bytes of this blob directly into the buffer.
    pub fn fill(
        &mut self,
        count: usize,
        target: &mut Target<'_>,
        read: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(count);
        let start = target.buffer.len();
        read(target.buffer.claim(count)?)?;
        self.left -= count as u64;
        self.rule.update(target.buffer.from(start))?;
        self.hash_content(target.buffer.from(start));
        self.account(start, target);
        Ok(())
    }

    /// Decides from the gathered bytes whether to compress the blob, then stores them.
    fn decide(&mut self, gathered: &[u8], target: &mut Target<'_>) -> Result<()> {
        self.state = State::Raw;
        if let Some(packers) = &mut target.packers {
            let how = packers.how();
            let sample = gathered.get(..SAMPLE).unwrap_or(gathered);
            if let Some(search) = how.judge(sample, packers.own()?, target.buffer)? {
                self.state = State::Seekable(Seekable::new(packers, search));
            }
        }
        self.store(gathered, target)
    }

    fn hash_content(&mut self, bytes: &[u8]) {
        if let Some(hasher) = self.hasher.as_mut().filter(|_| self.digest_over == Over::Decoded) {
            hasher.update(bytes);
        }
    }

    fn account(&mut self, start: usize, target: &mut Target<'_>) {
        let added = target.buffer.from(start);
        if let Some(hasher) = self.hasher.as_mut().filter(|_| self.digest_over == Over::Stored) {
            hasher.update(added);
        }
        *target.position += added.len() as u64;
    }

    pub fn finish(mut self, target: &mut Target<'_>) -> Result<WrittenBlob> {
        self.rule.finish()?;
        let start = target.buffer.len();
        let state = std::mem::replace(&mut self.state, State::Raw);
        let encoding = match (state, &mut target.packers) {
            (State::Seekable(seekable), Some(packers)) => {
                seekable.finish(packers, target.buffer)?;
                packers.how().method.encoding()
            }
            _ => Encoding::RAW,
        };
        self.account(start, target);
        let digest = self.algorithm.zip(self.hasher).map(|(algorithm, hasher)| algorithm.digest(hasher));
        Ok(WrittenBlob { offset: self.offset, encoding, digest })
    }
}
