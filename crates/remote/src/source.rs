//! A file of a server, or of a store of objects, as a source of bytes.

use std::sync::Arc;

use ztensor_core::checked;
use ztensor_core::codecs::digest::Hasher;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::blocks::Blocks;
use ztensor_core::sources::files::Identity;
use ztensor_core::sources::{Costs, MappedWindows, ReadAt};
use ztensor_core::work::Stop;

use crate::options::Options;

/// Bytes between two ranges that are read for nothing: a request to a store far away costs as much as 1 to 3 MiB of its stream.
const GAP: u64 = 1 << 20;

/// A file somewhere else, of one version, of which ranges can be asked for.
pub trait Ranges: Send + Sync {
    fn length(&self) -> u64;

    /// Another number for another version: 0 where versions are not told apart.
    fn version(&self) -> u64;

    fn options(&self) -> &Options;

    /// Fills a buffer from an offset; all of it is in the file. Ends with `ZT_ABORTED` soon after the flag is set.
    fn fill(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()>;
}

/// Such a file as a source, of which small reads are served from larger ones.
pub struct Remote<R: Ranges> {
    file: R,
    /// All bytes, where they came at once.
    whole: Option<Vec<u8>>,
    blocks: Arc<Blocks>,
    /// Among those of the blocks.
    number: u64,
}

impl<R: Ranges> Remote<R> {
    /// `head`: the first bytes. `whole`: whether they are all, and nothing is to be asked for.
    pub fn new(file: R, head: Vec<u8>, whole: bool, blocks: &Arc<Blocks>) -> Self {
        let number = Blocks::number();
        if !whole {
            blocks.keep(number, 0, &head);
        }
        Self { file, whole: whole.then_some(head), blocks: Arc::clone(blocks), number }
    }
}

impl<R: Ranges> Drop for Remote<R> {
    fn drop(&mut self) {
        self.blocks.forget(self.number);
    }
}

impl<R: Ranges> ReadAt for Remote<R> {
    fn length(&self) -> u64 {
        self.file.length()
    }

    fn identity(&self) -> Result<Identity> {
        Ok(Identity::of_version(self.file.length(), self.file.version()))
    }

    fn costs(&self) -> Costs {
        let options = self.file.options();
        Costs { gap: GAP, piece: options.piece_bytes, in_flight: options.concurrency }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        stop.check()?;
        let length = buffer.len() as u64;
        let total = self.file.length();
        if checked::end_within(offset, length, total).is_none() {
            let message =
                format!("{length} bytes are needed at offset {offset}, the file has {total} in all");
            return Err(Error::new(Code::Truncated, message).at(offset));
        }
        if let Some(whole) = &self.whole {
            return whole.as_slice().read_at(offset, buffer, stop);
        }
        let fetch = |offset, buffer: &mut [u8]| self.file.fill(offset, buffer, stop);
        self.blocks.read(self.number, total, offset, buffer, fetch)
    }

    fn hash(
        &self,
        _stretches: &MappedWindows,
        offset: u64,
        length: u64,
        hasher: &mut Hasher,
        stop: &Stop,
    ) -> Result<()> {
        let piece = (self.file.options().piece_bytes as u64).max(1);
        let (mut at, end) = (offset, offset.saturating_add(length));
        while at < end {
            let bytes = self.read_vec(at, piece.min(end - at), stop)?;
            hasher.update(&bytes);
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Never but for a file that came whole: so that all requests that may be under way are.
    fn is_cached(&self, _offset: u64, _length: u64) -> bool {
        self.whole.is_some()
    }
}
