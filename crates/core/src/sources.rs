//! Where bytes come from: a file read at positions, its mapping, memory. Uses the model and digests, and knows no
//! format.

pub mod ahead;
pub mod beside;
#[cfg(target_os = "linux")]
mod cache;
mod caretaker;
#[cfg(target_os = "linux")]
mod direct;
pub mod fault;
pub mod file;
pub mod files;
pub mod io;
pub mod mapping;
pub mod owned;
pub mod partial;
mod quarantine;
mod room;
pub mod scratch;
#[cfg(target_os = "linux")]
mod spare;
pub mod staged;
pub mod staging;
#[cfg(target_os = "linux")]
mod stretch;
#[cfg(not(target_os = "linux"))]
mod stretch {
    /// Only Linux tells what is in memory; elsewhere what is hashed is read.
    #[derive(Default)]
    pub struct Stretches;
}
pub mod writeback;

use std::fs::File;
use std::path::Path;

use crate::checked;
use crate::codecs::digest::{Digest, Hasher};
use crate::error::{Code, Error, Result};
use owned::Owned;
pub use stretch::Stretches;

/// Bytes that can be read at any offset, into memory of the reader's own.
pub trait ReadAt: Send + Sync {
    /// Bytes in all.
    fn length(&self) -> u64;

    /// Fills `buffer` from `offset`, or fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The same for some MiB of data, past the page cache where the source was opened for that.
    fn read_bulk(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_at(offset, buffer)
    }

    /// Hashes a range, of some MiB at most, without keeping its bytes. What is mapped for it stays in `stretches`, which are
    /// to be of this source alone, for the next range.
    fn hash(&self, _stretches: &Stretches, offset: u64, length: u64, hasher: &mut Hasher) -> Result<()> {
        hash_read(self, offset, length, hasher)
    }

    /// Whether a range can be read in one go: of a file in memory only what was staged is there, which gaps are not.
    fn holds(&self, _offset: u64, _length: u64) -> bool {
        true
    }

    /// Whether a range is in memory already, by a few samples. Only a hint.
    fn is_cached(&self, _offset: u64, _length: u64) -> bool {
        true
    }

    /// The file that the bytes are in, at the same offsets, for the kernel to copy from.
    fn as_file(&self) -> Option<&File> {
        None
    }

    /// Fails where bytes were cut off since the source was opened.
    fn check_length(&self) -> Result<()> {
        Ok(())
    }

    /// `length` bytes from `offset`, in memory that is only claimed once they are known to exist.
    fn read_vec(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        if checked::end_within(offset, length, self.length()).is_none() {
            return Err(ends_early(offset, length, self.length()));
        }
        let mut bytes = Vec::new();
        let length = checked::index(length, "a read")?;
        bytes.try_reserve_exact(length).map_err(|_| {
            Error::new(Code::Limit, format!("not enough memory for {length} bytes of the file"))
        })?;
        bytes.resize(length, 0);
        self.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The same for many bytes: in whole pages where they are enough for that, huge ones where the system has them.
    fn read_owned(&self, offset: u64, length: u64) -> Result<Owned> {
        if checked::end_within(offset, length, self.length()).is_none() {
            return Err(ends_early(offset, length, self.length()));
        }
        let mut bytes = Owned::zeroed(length)?;
        self.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }
}

/// The places that the components of a catalog lie in, by their numbers ([`Component::file`]).
///
/// [`Component::file`]: crate::model::Component::file
pub trait Sources: Send + Sync {
    fn source(&self, file: u32) -> Result<&dyn ReadAt>;

    /// The files whose digests over all of their bytes an index gives.
    fn shards(&self) -> Vec<Shard<'_>> {
        Vec::new()
    }
}

/// A file that an index names with its identity.
pub struct Shard<'f> {
    pub file: u32,
    pub name: &'f str,
    pub path: &'f Path,
    pub length: u64,
    pub digest: &'f Digest,
}

/// One place, which is file 0.
impl<T: ReadAt> Sources for T {
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        if file > 0 {
            let message = "the data is in another file, which cannot be found from memory: open the index by its path, without shards: 'none'";
            return Err(Error::new(Code::Io, message));
        }
        Ok(self)
    }
}

impl ReadAt for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        let bytes = checked::slice(self, offset, length);
        buffer.copy_from_slice(bytes.ok_or_else(|| ends_early(offset, length, self.len() as u64))?);
        Ok(())
    }
}

/// Bytes of a read that is only hashed. They stay in the cache of the core that reads them: in pieces of some MiB
/// they would go to memory and come back, at half the speed.
const HASHED: u64 = 256 << 10;

/// Reads a range and hashes it on the way.
fn hash_read(source: &(impl ReadAt + ?Sized), offset: u64, length: u64, hasher: &mut Hasher) -> Result<()> {
    scratch::with(length.min(HASHED), |buffer| {
        let (mut at, end) = (offset, offset.saturating_add(length));
        while at < end {
            let step = usize::try_from(end - at).unwrap_or(buffer.len()).min(buffer.len());
            let piece = buffer.get_mut(..step).unwrap_or_default();
            source.read_at(at, piece)?;
            hasher.update(piece);
            at += step as u64;
        }
        Ok(())
    })
}

fn ends_early(offset: u64, length: u64, total: u64) -> Error {
    let message = format!("{length} bytes are needed at offset {offset}, the file has {total} in all");
    Error::new(Code::Truncated, message).at(offset)
}
