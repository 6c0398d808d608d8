//! What waits in the block, on its way into the file.
#![forbid(unsafe_code)]

use super::Writer;
use super::out::{Out, Passing};
use crate::error::{Code, Error, Result};
use crate::sinks::behind::Behind;
use crate::sinks::block;

/// What waits is passed on while it is in the processor's caches: from another core's, or from memory, the copy into the
/// file costs about twice the time. Whole ones, so that the file's pages come in large pieces still.
pub(super) const WARM: usize = 1 << 20;

impl Writer {
    /// The bytes of the full pieces that wait.
    fn full(&self) -> usize {
        self.pending() / WARM * WARM
    }

    /// Bytes that wait in the buffer.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// The same, and a full block where other threads have more to compress than may wait.
    pub fn waiting(&self) -> usize {
        let full = self.gathering.as_ref().is_some_and(|gathering| gathering.packers.is_full());
        if full { self.pending().max(block::FULL) } else { self.pending() }
    }

    /// Passes full blocks on to be written, as far as that takes no waiting. What is pending then waits for
    /// [`Writer::flush_if_full`].
    pub fn pass_on(&mut self) -> Result<()> {
        if self.pending() >= WARM && self.behind().is_some_and(Behind::has_space) {
            self.write_block(self.full())?;
        }
        Ok(())
    }

    /// Takes what other threads have compressed, and passes full blocks on to be written; waits where too much is under way
    /// already.
    pub fn flush_if_full(&mut self) -> Result<()> {
        self.append_packed()?;
        self.write_full_blocks()
    }

    pub(super) fn write_full_blocks(&mut self) -> Result<()> {
        if self.pending() >= WARM && !matches!(self.out, Out::Taken) {
            self.write_block(self.full())?;
        }
        Ok(())
    }

    pub(super) fn write_block(&mut self, count: usize) -> Result<()> {
        self.behind();
        match &mut self.behind {
            Some(behind) => behind.write(&mut self.buffer, count),
            None => self.out.drain(&mut self.buffer),
        }
    }

    /// The thread that writes, from the first full block on.
    pub(super) fn behind(&mut self) -> Option<&mut Behind> {
        if self.behind.is_none() {
            self.behind = self.out.file().and_then(|file| Behind::new(file, self.out.target()));
        }
        self.behind.as_mut()
    }

    /// Writes all that was pushed, so that the file can be looked at or changed; more is to come.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(behind) = &mut self.behind {
            behind.drain()?;
        }
        self.out.drain(&mut self.buffer)
    }

    /// The same at the end of a file: what is written from now on goes into another one.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.flush()?;
        self.behind = None;
        Ok(())
    }

    /// Passes blocks on while `work` goes on; what is left then waits in the buffer. For a file whose bytes
    /// the caller takes: it must not wait for `work`, which waits for it.
    pub fn passing<T>(
        &mut self,
        blocks: Box<dyn Passing>,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if !matches!(self.out, Out::Taken) {
            return Err(Error::new(Code::Internal, "only what is taken can be passed on"));
        }
        self.out = Out::Passed(blocks);
        let done = work(self);
        self.out = Out::Taken;
        done
    }

    /// Whether enough bytes wait for whoever takes them.
    pub fn must_be_taken(&self) -> bool {
        matches!(self.out, Out::Taken) && self.pending() >= WARM
    }

    /// The bytes that wait in the buffer, for a file that nobody else writes.
    pub fn take(&mut self) -> Vec<u8> {
        self.buffer.take()
    }
}
