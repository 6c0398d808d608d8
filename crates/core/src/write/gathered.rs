//! Gathers tensors whose blobs other threads compress. The compressed blobs are appended to the file in order.
#![forbid(unsafe_code)]

use super::Writer;
use super::destination::Destination;
use super::open_tensor::Open;
use super::packers::{Compressed, CompressedBatch};
use super::settings::Stored;
use crate::error::{Code, Error, Result};
use crate::sinks::block::Block;

/// Tensors up to this size in bytes are gathered. Larger ones are compressed as they are pushed, by all threads at
/// once.
const WHOLE: u64 = 8 << 20;
/// A block of at least this many bytes goes into the file without a copy.
const LARGE: usize = 1 << 20;

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
            (None, Destination::Passed { blocks, .. }) => {
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
