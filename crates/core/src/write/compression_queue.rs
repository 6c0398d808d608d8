//! Gathers tensors whose blobs other threads compress. Small tensors are passed on together. The compressed blobs are
//! appended to the file in order.
#![forbid(unsafe_code)]

use std::collections::{HashSet, VecDeque};

use super::destination::Destination;
use super::pack::How;
use super::packers::{Compressed, CompressedBatch, Packers, Task, Ticket};
use super::tensor::Open;
use super::{Settings, Stored, Writer};
use crate::error::{Code, Error, Result};
use crate::sinks::block::Block;

/// Tensors up to this size in bytes are gathered. Larger ones are compressed as they are pushed, by all threads at
/// once.
const WHOLE: u64 = 8 << 20;
/// The minimum number of bytes to pass on together.
const BATCH: usize = 256 << 10;
/// A block of at least this many bytes goes into the file without a copy.
const LARGE: usize = 1 << 20;

/// The work in progress of a writer that compresses.
pub(super) struct CompressionQueue {
    pub packers: Packers,
    /// The bytes of tensors not passed on yet.
    pub raw: Block,
    tensors: Vec<Open>,
    passed: VecDeque<(Vec<Open>, Ticket)>,
    /// The names of all these tensors.
    names: HashSet<String>,
}

impl CompressionQueue {
    /// Returns `None` if nothing is compressed.
    pub fn new(settings: &Settings) -> Option<Self> {
        let how = How::of(settings)?;
        let (raw, tensors, passed) = (Block::default(), Vec::new(), VecDeque::new());
        Some(Self {
            packers: Packers::new(how, settings.stop.clone()),
            raw,
            tensors,
            passed,
            names: HashSet::new(),
        })
    }

    /// Returns whether every gathered tensor is in the file.
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

    fn batch(&mut self) -> (Block, Vec<Open>, Task) {
        let next = self.packers.block();
        let (raw, tensors) = (std::mem::replace(&mut self.raw, next), std::mem::take(&mut self.tensors));
        let lengths = tensors.iter().flat_map(|open| &open.stored).map(|&(.., length)| {
            // The bytes are in memory, so their number fits.
            usize::try_from(length).unwrap_or(usize::MAX)
        });
        let task = Task::Blobs(lengths.collect());
        (raw, tensors, task)
    }

    /// Returns the batch passed on first, if it is done. Waits for it if `wait` is set.
    fn next(&mut self, wait: bool) -> Result<Option<(Vec<Open>, CompressedBatch)>> {
        let Some((_, ticket)) = self.passed.front() else { return Ok(None) };
        let done = if wait { Some(self.packers.take(ticket)?) } else { self.packers.try_take(ticket)? };
        let Some(done) = done else { return Ok(None) };
        Ok(self.passed.pop_front().map(|(tensors, _)| (tensors, done)))
    }
}

impl Writer {
    /// Returns whether a tensor with these blobs is gathered. Never with `max_shard`: there its file depends on the
    /// compressed size of the tensors before it.
    pub(super) fn gathers(&self, stored: &[Stored]) -> bool {
        let total = stored.iter().fold(0_u64, |total, &(.., length)| total.saturating_add(length));
        self.gathering.is_some() && self.settings.max_shard.is_none() && total <= WHOLE
    }

    /// Appends finished batches. Waits if too much work is in progress.
    pub(super) fn append_packed(&mut self) -> Result<()> {
        while let Some(gathering) = &mut self.gathering {
            let wait = gathering.packers.is_full();
            let Some((tensors, done)) = gathering.next(wait)? else { break };
            self.append_batch(tensors, done)?;
        }
        Ok(())
    }

    /// Appends everything gathered.
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
            self.append_batch(tensors, done)?;
        }
        Ok(())
    }

    /// Appends the blobs of a batch and sets their offsets.
    fn append_batch(&mut self, tensors: Vec<Open>, done: CompressedBatch) -> Result<()> {
        let Compressed::Blobs(packed) = done.made else {
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

    /// Appends a block, without a copy if a separate thread writes it.
    fn write_whole(&mut self, block: Block) -> Result<()> {
        self.behind();
        let emptied = match (&mut self.behind, &mut self.out) {
            (Some(behind), _) => behind.write_with(&mut self.buffer, block)?,
            (None, Destination::Passed(blocks)) => {
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
        if let (Some(emptied), Some(gathering)) = (emptied, &mut self.gathering) {
            gathering.packers.give_back(emptied);
        }
        Ok(())
    }
}
