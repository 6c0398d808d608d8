//! Tensors whose blobs are compressed by other threads: gathered whole, passed on several together where they are small, and
//! appended to the file in their order when they are done.
#![forbid(unsafe_code)]

use std::collections::{HashSet, VecDeque};

use super::out::Out;
use super::pack::How;
use super::packers::{Done, Made, Packers, Task, Ticket};
use super::tensor::Open;
use super::{Compression, Settings, Stored, Writer};
use crate::codecs::zstd_encode::{Jobs, Search};
use crate::error::{Code, Error, Result};
use crate::sinks::block::Block;

/// Tensors up to this size are gathered. Larger ones are compressed as they come, by all threads at once.
const WHOLE: u64 = 8 << 20;
/// Bytes that are worth being passed on.
const BATCH: usize = 256 << 10;
/// A block this large goes into the file as it is.
const LARGE: usize = 1 << 20;

/// What a writer that compresses has under way.
pub(super) struct Gathering {
    pub packers: Packers,
    /// The bytes of tensors that were not passed on yet.
    pub raw: Block,
    tensors: Vec<Open>,
    passed: VecDeque<(Vec<Open>, Ticket)>,
    /// Of all of these.
    names: HashSet<String>,
    /// For blobs that are too large to be gathered.
    pub jobs: Option<Jobs>,
}

impl Gathering {
    /// Nothing where nothing is compressed.
    pub fn new(settings: &Settings) -> Option<Self> {
        let how = How::of(settings)?;
        let (raw, tensors, passed) = (Block::default(), Vec::new(), VecDeque::new());
        Some(Self {
            packers: Packers::new(how, settings.stop.clone()),
            raw,
            tensors,
            passed,
            names: HashSet::new(),
            jobs: None,
        })
    }

    /// Whether all is in the file that was to be gathered.
    pub fn is_idle(&self) -> bool {
        self.tensors.is_empty() && self.passed.is_empty()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Takes a tensor whose bytes are gathered.
    pub fn keep(&mut self, open: Open) -> Result<()> {
        self.names.insert(open.name.clone());
        self.tensors.push(open);
        if self.raw.len() < BATCH {
            return Ok(());
        }
        let (raw, tensors, task) = self.batch();
        let ticket = self.packers.pass(raw, task)?;
        self.passed.push_back((tensors, ticket));
        Ok(())
    }

    /// Begins a frame of `length` bytes that several threads make.
    pub fn begin_frame(&mut self, length: u64, search: Search) -> Result<Jobs> {
        self.packers.rest();
        let Compression { level, threads, .. } = self.packers.how().compression;
        let jobs = self.jobs.take().map_or_else(|| Jobs::new(level, threads), Ok);
        let mut jobs = jobs?;
        jobs.begin(length, search)?;
        Ok(jobs)
    }

    fn batch(&mut self) -> (Block, Vec<Open>, Task) {
        let next = self.packers.block();
        let (raw, tensors) = (std::mem::replace(&mut self.raw, next), std::mem::take(&mut self.tensors));
        let lengths = tensors.iter().flat_map(|open| &open.stored).map(|&(.., length)| {
            // Bytes that were gathered can be counted.
            usize::try_from(length).unwrap_or(usize::MAX)
        });
        let task = Task::Blobs(lengths.collect());
        (raw, tensors, task)
    }

    /// What was passed on first, where it is done or `wait` says so.
    fn next(&mut self, wait: bool) -> Result<Option<(Vec<Open>, Done)>> {
        let Some((_, ticket)) = self.passed.front() else { return Ok(None) };
        let done = if wait { Some(self.packers.take(ticket)?) } else { self.packers.try_take(ticket)? };
        let Some(done) = done else { return Ok(None) };
        Ok(self.passed.pop_front().map(|(tensors, _)| (tensors, done)))
    }
}

impl Writer {
    /// Whether a tensor of such blobs is gathered. One whose place depends on how much the ones before it took is not.
    pub(super) fn gathers(&self, stored: &[Stored]) -> bool {
        let total = stored.iter().fold(0_u64, |total, &(.., length)| total.saturating_add(length));
        self.gathering.is_some() && self.settings.max_shard.is_none() && total <= WHOLE
    }

    /// Appends what is done, and waits for it where too much is under way.
    pub(super) fn append_packed(&mut self) -> Result<()> {
        while let Some(gathering) = &mut self.gathering {
            let wait = gathering.packers.is_full();
            let Some((tensors, done)) = gathering.next(wait)? else { break };
            self.place(tensors, done)?;
        }
        Ok(())
    }

    /// Appends all that was gathered.
    pub(super) fn settle_packed(&mut self) -> Result<()> {
        while let Some(gathering) = &mut self.gathering {
            let (tensors, done) = match gathering.next(true)? {
                Some(next) => next,
                None if gathering.tensors.is_empty() => break,
                None => {
                    let (raw, tensors, task) = gathering.batch();
                    (tensors, gathering.packers.do_here(raw, task)?)
                }
            };
            self.place(tensors, done)?;
        }
        Ok(())
    }

    /// Appends blobs, whose places are known now.
    fn place(&mut self, tensors: Vec<Open>, done: Done) -> Result<()> {
        let Made::Blobs(packed) = done.made else {
            return Err(Error::new(Code::Internal, "blobs were asked for"));
        };
        let mut whole = Some(done.out);
        let large = packed.len() == 1 && packed.iter().any(|blob| blob.length >= LARGE);
        let (mut packed, mut start) = (packed.into_iter(), 0);
        for mut open in tensors {
            for (stored, component) in open.stored.iter().zip(&mut open.written) {
                let missing = || Error::new(Code::Internal, "a blob is missing");
                let blob = packed.next().ok_or_else(missing)?;
                self.align()?;
                let offset = self.position;
                self.position += blob.length as u64;
                *component = self.component(*stored, offset, blob.length as u64, blob.encoding, blob.digest);
                if let Some(block) = whole.take_if(|_| large) {
                    self.write_whole(block)?;
                } else {
                    let bytes = whole.as_ref().and_then(|out| out.from(start).get(..blob.length));
                    self.buffer.extend(bytes.ok_or_else(missing)?)?;
                    start += blob.length;
                }
            }
            self.add_to_index(&mut open)?;
            if let Some(gathering) = &mut self.gathering {
                gathering.names.remove(&open.name);
            }
            self.write_full_blocks()?;
        }
        if let (Some(block), Some(gathering)) = (whole, &mut self.gathering) {
            gathering.packers.give_back(block);
        }
        Ok(())
    }

    /// Appends a block, without copying it where it is written by a thread of its own.
    fn write_whole(&mut self, block: Block) -> Result<()> {
        self.behind();
        let spare = match (&mut self.behind, &mut self.out) {
            (Some(behind), _) => behind.write_with(&mut self.buffer, block)?,
            (None, Out::Passed(blocks)) => {
                blocks.pass(self.buffer.joined(&block)?)?;
                self.buffer.truncate(0);
                Some(block)
            }
            (None, _) => {
                self.buffer.extend(block.from(0))?;
                self.write_full_blocks()?;
                Some(block)
            }
        };
        if let (Some(spare), Some(gathering)) = (spare, &mut self.gathering) {
            gathering.packers.give_back(spare);
        }
        Ok(())
    }
}
