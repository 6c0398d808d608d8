//! Tensors whose blobs other threads compress. Small tensors are passed on together.
#![forbid(unsafe_code)]

use std::collections::{HashSet, VecDeque};

use super::open_tensor::Open;
use super::pack::How;
use super::packers::{CompressedBatch, Packers, Task, Ticket};
use super::settings::Settings;
use crate::error::Result;
use crate::sinks::block::Block;

/// The minimum number of bytes to pass on together.
const BATCH: usize = 256 << 10;

/// The work in progress of a writer that compresses.
pub(super) struct CompressionQueue {
    pub packers: Packers,
    /// The bytes of tensors not passed on yet.
    pub raw: Block,
    pub tensors: Vec<Open>,
    passed: VecDeque<(Vec<Open>, Ticket)>,
    /// The names of all these tensors.
    pub names: HashSet<String>,
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

    pub fn batch(&mut self) -> (Block, Vec<Open>, Task) {
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
    pub fn next(&mut self, wait: bool) -> Result<Option<(Vec<Open>, CompressedBatch)>> {
        let Some((_, ticket)) = self.passed.front() else { return Ok(None) };
        let done = if wait { Some(self.packers.take(ticket)?) } else { self.packers.try_take(ticket)? };
        let Some(done) = done else { return Ok(None) };
        Ok(self.passed.pop_front().map(|(tensors, _)| (tensors, done)))
    }
}
