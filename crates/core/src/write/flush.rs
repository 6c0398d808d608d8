//! Moves buffered bytes into the file.
#![forbid(unsafe_code)]

use super::Writer;
use super::destination::{ByteStream, Destination};
use crate::error::{Code, Error, Result};
use crate::sinks::block;
use crate::sinks::write_behind::WriteBehind;

/// Buffered bytes are passed on in pieces of this size, while they are in the caches of this processor core: from the
/// cache of another core or from memory, the copy into the file takes about twice the time. Only whole pieces are
/// passed on, so that the file still gets large extents.
pub(super) const WARM: usize = 1 << 20;

impl Writer {
    /// Returns the bytes of the full pieces in the buffer.
    fn full(&self) -> usize {
        self.pending() / WARM * WARM
    }

    /// Returns the bytes in the buffer.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes in the buffer, but at least those of a full block if the compressing threads are at their
    /// limit.
    pub fn waiting(&self) -> usize {
        let full = self.gathering.as_ref().is_some_and(|gathering| gathering.packers.is_full());
        if full { self.pending().max(block::FULL) } else { self.pending() }
    }

    /// Passes full blocks on, if that does not block. The rest waits for [`Writer::flush_if_full`].
    pub fn pass_on(&mut self) -> Result<()> {
        if self.pending() >= WARM && self.behind().is_some_and(WriteBehind::has_space) {
            self.write_block(self.full())?;
        }
        Ok(())
    }

    /// Appends what other threads have compressed, and passes full blocks on. Blocks if too much work is already in
    /// progress.
    pub fn flush_if_full(&mut self) -> Result<()> {
        self.append_packed()?;
        self.write_full_blocks()
    }

    pub(super) fn write_full_blocks(&mut self) -> Result<()> {
        if self.pending() >= WARM && !self.is_taken() {
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

    /// Returns the thread that writes, and starts it with the first full block.
    pub(super) fn behind(&mut self) -> Option<&mut WriteBehind> {
        if self.behind.is_none() {
            self.behind = self.out.file().and_then(|file| WriteBehind::new(file, self.out.target()));
        }
        self.behind.as_mut()
    }

    /// Writes all bytes pushed so far, so that the file can be read or changed. More may follow.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(behind) = &mut self.behind {
            behind.drain()?;
        }
        self.out.drain(&mut self.buffer)
    }

    /// Like [`Self::flush`], at the end of a file: later bytes go into another file.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.flush()?;
        self.behind = None;
        Ok(())
    }

    /// Passes blocks to `blocks` while `work` runs; the rest stays in the buffer. For a file whose bytes the caller
    /// takes. The consumer of the blocks must not wait for `work`, because `work` waits for the consumer. Fails with
    /// `ZT_INTERNAL` for any other file.
    pub fn passing<T>(
        &mut self,
        blocks: Box<dyn ByteStream>,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if !self.is_taken() {
            return Err(Error::new(Code::Internal, "only what is taken can be passed on"));
        }
        let is_kept = matches!(self.out, Destination::Kept);
        let taken = std::mem::replace(&mut self.out, Destination::Passed { blocks, is_kept });
        let done = work(self);
        self.out = taken;
        done
    }

    /// Returns whether the caller should take the buffered bytes now.
    pub fn must_be_taken(&self) -> bool {
        self.is_taken() && self.pending() >= WARM
    }

    fn is_taken(&self) -> bool {
        matches!(self.out, Destination::Taken | Destination::Kept)
    }

    /// Returns the buffered bytes, for a file that the caller writes.
    pub fn take(&mut self) -> Vec<u8> {
        self.buffer.take()
    }
}
