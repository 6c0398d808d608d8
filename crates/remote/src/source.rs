//! A file on a server or in an object store, as a byte source.

use std::sync::Arc;

use ztensor_core::checked;
use ztensor_core::codecs::digest::Hasher;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::blocks::Blocks;
use ztensor_core::sources::identity::Identity;
use ztensor_core::sources::{Costs, MappedWindows, ReadAt};
use ztensor_core::work::Stop;

use crate::options::Options;

/// Maximum gap between two ranges that is read along: a request to a distant store costs as much as 1 to 3 MiB of its stream.
const GAP: u64 = 1 << 20;

/// A remote file of one version that supports ranges.
pub trait Ranges: Send + Sync {
    fn length(&self) -> u64;

    /// A number that differs between versions: 0 if versions cannot be distinguished.
    fn version(&self) -> u64;

    fn options(&self) -> &Options;

    /// Fills a buffer from an offset within the file. Fails with `ZT_ABORTED` soon after the flag is set.
    fn fill(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()>;
}

/// A source over such a file that serves small reads from larger ones.
pub struct Remote<R: Ranges> {
    file: R,
    /// All bytes, if they arrived with the first response.
    whole: Option<Vec<u8>>,
    blocks: Arc<Blocks>,
    /// The number of the source in the block cache.
    number: u64,
}

impl<R: Ranges> Remote<R> {
    /// `head`: the first bytes. `whole`: whether they are the whole file, so that nothing needs to be requested.
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
                format!("{length} bytes are needed at offset {offset}, but the file has {total} in total");
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

    /// False unless the file arrived in full, so that the maximum number of concurrent requests is used.
    fn is_cached(&self, _offset: u64, _length: u64) -> bool {
        self.whole.is_some()
    }
}
