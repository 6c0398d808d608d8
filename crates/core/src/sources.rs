//! Byte sources: files read at positions, mappings, memory. Uses the model, digests and stop flags, and knows no format.

pub mod blocks;
#[cfg(target_os = "linux")]
mod cache;
pub mod companions;
pub mod decoded;
#[cfg(target_os = "linux")]
mod direct;
pub mod elsewhere;
#[cfg(any(unix, windows))]
pub mod fault;
pub mod file;
pub mod files;
pub mod filesystem;
pub mod handle;
#[cfg(any(unix, windows))]
mod headroom;
pub mod identity;
pub mod io;
#[cfg(any(unix, windows))]
pub mod mapping;
#[cfg(not(any(unix, windows)))]
#[path = "sources/unmapped.rs"]
pub mod mapping;
pub mod memory;
pub mod owned;
pub mod partial;
#[cfg(windows)]
mod placeholder;
#[cfg(target_os = "linux")]
mod pool;
pub mod read_ahead;
#[cfg(any(unix, windows))]
mod reclaim;
#[cfg(any(unix, windows))]
mod retired;
pub mod scratch;
pub mod siblings;
pub mod staged;
#[cfg(any(unix, windows))]
mod view;
#[cfg(target_os = "linux")]
mod window;
#[cfg(not(target_os = "linux"))]
mod window {
    /// Only Linux reports what is in memory; on other systems data is read to be hashed.
    #[derive(Default)]
    pub struct MappedWindows;
}
pub mod writeback;

use std::path::Path;

use crate::checked;
use crate::codecs::digest::{Digest, Hasher};
use crate::error::{Code, Error, Result};
use crate::work::Stop;
use decoded::DecodedPieces;
use file::FileSource;
use identity::Identity;
use io::Io;
use owned::Owned;
pub use window::MappedWindows;

/// The cost parameters of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Maximum gap between two ranges that is read along instead of issuing a second read.
    pub gap: u64,
    /// Read size beyond which larger reads are not faster.
    pub piece: usize,
    /// Maximum concurrent reads that wait for the source rather than for local cores.
    pub in_flight: usize,
}

impl Costs {
    /// The costs of a local file. A read costs as much as copying a page. Storage reaches its maximum speed from a few MiB on, and pages
    /// already in memory are copied in under 5 ms. No measured storage got faster beyond 16 reads, although a machine with more cores
    /// issues as many.
    pub const LOCAL: Self = Self { gap: 4 << 10, piece: 8 << 20, in_flight: 16 };
}

/// A byte source that can be read at any offset into the reader's own memory.
pub trait ReadAt: Send + Sync {
    /// Returns the total number of bytes.
    fn length(&self) -> u64;

    /// Returns what distinguishes the source from another or altered one with the same name.
    fn identity(&self) -> Result<Identity> {
        Ok(Identity::of_length(self.length()))
    }

    /// Returns the cost parameters of reads.
    fn costs(&self) -> Costs {
        Costs::LOCAL
    }

    /// Returns the local file with the bytes at the same offsets: for mapping, prefetching, evicting, sharing, and copies by the kernel.
    fn local(&self) -> Option<&FileSource> {
        None
    }

    /// Returns whether reads wait for another machine or for the caller's code.
    fn is_remote(&self) -> bool {
        self.local().is_none()
    }

    /// Returns the local file that holds some of the bytes at the same offsets: the file itself, or a cached copy.
    fn copy(&self) -> Option<&FileSource> {
        self.local()
    }

    /// Returns the local file if it holds all of a range. Does not block.
    fn copied(&self, _offset: u64, _length: u64) -> Option<&FileSource> {
        self.local()
    }

    /// Fetches a range into the local copy, if it is missing. Fails with `ZT_NOT_LOCAL` if there is no copy, and with `ZT_IO` if it cannot
    /// be written.
    fn keep(&self, _offset: u64, _length: u64, _stop: &Stop) -> Result<()> {
        if self.local().is_some() {
            return Ok(());
        }
        let message = "the file is remote, and there is no cache folder: open its URL with remote: { cache: folder }, or await load()";
        Err(Error::new(Code::NotLocal, message))
    }

    /// Marks the wanted ranges as fetched, so that copies of other files may be evicted.
    fn settle(&self) {}

    /// Sets how the bytes are read into memory; called before any read.
    fn set_io(&self, io: Io) {
        if let Some(file) = self.local() {
            file.set_io(io);
        }
    }

    /// Fills `buffer` from `offset`. A read that may wait indefinitely checks `stop` and fails with `ZT_ABORTED`; reads of local files
    /// cannot be interrupted.
    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()>;

    /// Fills `buffer` from `offset` if all of the range is in the page cache, which only Linux reports. Returns whether it did.
    fn read_cached(&self, _offset: u64, _buffer: &mut [u8]) -> Result<bool> {
        Ok(false)
    }

    /// Like `read_at`, for a caller that reads the file from start to end: a source with a copy adds the blocks that it reads to the copy,
    /// including those that the range covers only in part.
    fn read_through(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        self.read_at(offset, buffer, stop)
    }

    /// Reads several MiB of data, bypassing the page cache if the source was opened that way.
    fn read_bulk(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        self.read_at(offset, buffer, stop)
    }

    /// Hashes a range of at most a few MiB without retaining its bytes. `windows`, which must be used only for this source, holds mappings
    /// for later ranges.
    fn hash(
        &self,
        _windows: &MappedWindows,
        offset: u64,
        length: u64,
        hasher: &mut Hasher,
        stop: &Stop,
    ) -> Result<()> {
        hash_read(self, offset, length, hasher, stop)
    }

    /// Returns whether a range can be read at once: for a file in the caller's memory only staged ranges can, and gaps between them cannot.
    fn holds(&self, _offset: u64, _length: u64) -> bool {
        true
    }

    /// Estimates from a few samples whether a range is already in memory.
    fn is_cached(&self, _offset: u64, _length: u64) -> bool {
        true
    }

    /// Fails if the source was truncated since it was opened.
    fn check_length(&self) -> Result<()> {
        Ok(())
    }

    /// Reads `length` bytes from `offset` into memory that is allocated only once they are known to exist.
    fn read_vec(&self, offset: u64, length: u64, stop: &Stop) -> Result<Vec<u8>> {
        if checked::end_within(offset, length, self.length()).is_none() {
            return Err(ends_early(offset, length, self.length()));
        }
        let mut bytes = Vec::new();
        let length = checked::index(length, "a read")?;
        bytes.try_reserve_exact(length).map_err(|_| {
            Error::new(Code::Limit, format!("not enough memory for {length} bytes of the file"))
        })?;
        bytes.resize(length, 0);
        self.read_at(offset, &mut bytes, stop)?;
        Ok(bytes)
    }

    /// Reads many bytes: into whole pages if large enough, huge ones if available, or recycled ones.
    fn read_owned(&self, offset: u64, length: u64, stop: &Stop) -> Result<Owned> {
        if checked::end_within(offset, length, self.length()).is_none() {
            return Err(ends_early(offset, length, self.length()));
        }
        let mut bytes = Owned::to_fill(length)?;
        self.read_at(offset, &mut bytes, stop)?;
        Ok(bytes)
    }
}

/// Delegates all methods of [`ReadAt`] to the source in the named field, except `read_at` and those that read through it. For wrappers that
/// cache bytes of a source.
macro_rules! as_its_source {
    ($source:ident) => {
        fn length(&self) -> u64 {
            self.$source.length()
        }

        fn identity(&self) -> $crate::error::Result<$crate::sources::identity::Identity> {
            self.$source.identity()
        }

        fn costs(&self) -> $crate::sources::Costs {
            self.$source.costs()
        }

        fn local(&self) -> Option<&$crate::sources::file::FileSource> {
            self.$source.local()
        }

        fn copy(&self) -> Option<&$crate::sources::file::FileSource> {
            self.$source.copy()
        }

        fn copied(&self, offset: u64, length: u64) -> Option<&$crate::sources::file::FileSource> {
            self.$source.copied(offset, length)
        }

        fn keep(&self, offset: u64, length: u64, stop: &$crate::work::Stop) -> $crate::error::Result<()> {
            self.$source.keep(offset, length, stop)
        }

        fn settle(&self) {
            self.$source.settle();
        }

        fn set_io(&self, io: $crate::sources::io::Io) {
            self.$source.set_io(io);
        }

        fn read_bulk(
            &self,
            offset: u64,
            buffer: &mut [u8],
            stop: &$crate::work::Stop,
        ) -> $crate::error::Result<()> {
            self.$source.read_bulk(offset, buffer, stop)
        }

        fn read_through(
            &self,
            offset: u64,
            buffer: &mut [u8],
            stop: &$crate::work::Stop,
        ) -> $crate::error::Result<()> {
            self.$source.read_through(offset, buffer, stop)
        }

        fn hash(
            &self,
            windows: &$crate::sources::MappedWindows,
            offset: u64,
            length: u64,
            hasher: &mut $crate::codecs::digest::Hasher,
            stop: &$crate::work::Stop,
        ) -> $crate::error::Result<()> {
            self.$source.hash(windows, offset, length, hasher, stop)
        }

        fn holds(&self, offset: u64, length: u64) -> bool {
            self.$source.holds(offset, length)
        }

        fn is_cached(&self, offset: u64, length: u64) -> bool {
            self.$source.is_cached(offset, length)
        }

        fn check_length(&self) -> $crate::error::Result<()> {
            self.$source.check_length()
        }
    };
}
pub(crate) use as_its_source;

/// The sources that hold the components of a catalog, by number ([`Component::file`]).
///
/// [`Component::file`]: crate::model::Component::file
pub trait Sources: Send + Sync {
    fn source(&self, file: u32) -> Result<&dyn ReadAt>;

    /// Returns what slices decoded of the files. `None` if nothing is kept, as for bytes in the caller's memory, which may change.
    fn decoded(&self) -> Option<&DecodedPieces> {
        None
    }

    /// Returns the files for which an index states a digest of all bytes.
    fn digested(&self) -> Vec<DigestedFile<'_>> {
        Vec::new()
    }
}

/// A file that an index identifies.
pub struct DigestedFile<'f> {
    pub file: u32,
    pub name: &'f str,
    pub path: &'f Path,
    pub length: u64,
    pub digest: &'f Digest,
}

/// A single source, which is file 0.
impl<T: ReadAt> Sources for T {
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        if file > 0 {
            let message = "the data is in another file, which cannot be located for a file in memory: open the index by its path";
            return Err(Error::new(Code::Io, message).hint("shards", ", without shards: 'none'"));
        }
        Ok(self)
    }
}

impl ReadAt for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _stop: &Stop) -> Result<()> {
        let length = buffer.len() as u64;
        if length == 0 {
            // As for a file: the range is missing wherever it is looked up.
            return Ok(());
        }
        let bytes = checked::slice(self, offset, length);
        buffer.copy_from_slice(bytes.ok_or_else(|| ends_early(offset, length, self.len() as u64))?);
        Ok(())
    }
}

/// Bytes per read that is only hashed. They stay in the core's cache: pieces of several MiB would go to memory and back, at half the speed.
const HASHED: u64 = 256 << 10;

/// Reads a range and hashes it.
fn hash_read(
    source: &(impl ReadAt + ?Sized),
    offset: u64,
    length: u64,
    hasher: &mut Hasher,
    stop: &Stop,
) -> Result<()> {
    scratch::with(length.min(HASHED), |buffer| {
        let (mut at, end) = (offset, offset.saturating_add(length));
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(buffer.len()).min(buffer.len());
            let piece = buffer.get_mut(..count).unwrap_or_default();
            source.read_at(at, piece, stop)?;
            hasher.update(piece);
            at += count as u64;
        }
        Ok(())
    })
}

fn ends_early(offset: u64, length: u64, total: u64) -> Error {
    let message = format!("{length} bytes are needed at offset {offset}, but the file has {total} in total");
    Error::new(Code::Truncated, message).at(offset)
}
