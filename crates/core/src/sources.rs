//! Where bytes come from: a file read at positions, its mapping, memory. Uses the model, digests
//! and stop flags, and knows no format.

pub mod blocks;
#[cfg(target_os = "linux")]
mod cache;
#[cfg(target_os = "linux")]
mod direct;
pub mod fault;
pub mod file;
pub mod files;
pub mod filesystem;
mod headroom;
pub mod io;
pub mod mapping;
pub mod memory;
pub mod owned;
pub mod partial;
#[cfg(target_os = "linux")]
mod pool;
pub mod read_ahead;
mod reclaim;
mod retired;
pub mod scratch;
pub mod siblings;
pub mod staged;
#[cfg(target_os = "linux")]
mod window;
#[cfg(not(target_os = "linux"))]
mod window {
    /// Only Linux tells what is in memory; elsewhere what is hashed is read.
    #[derive(Default)]
    pub struct MappedWindows;
}
pub mod writeback;

use std::path::Path;

use crate::checked;
use crate::codecs::digest::{Digest, Hasher};
use crate::error::{Code, Error, Result};
use crate::work::Stop;
use file::FileSource;
use files::Identity;
use io::Io;
use owned::Owned;
pub use window::MappedWindows;

/// What reads of a source cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Bytes between two ranges that are read for nothing rather than asked for by two reads.
    pub gap: u64,
    /// Bytes of a read from which on a longer one gains nothing.
    pub piece: usize,
    /// Reads under way at once, where they wait for the source and not for this machine's cores.
    pub in_flight: usize,
}

impl Costs {
    /// Of a file of this machine. A read costs what copying a page does. Storage gives its best from some MiB on, and pages
    /// that are there already are copied in under 5 ms. No storage that was measured got faster past 16 reads, though a
    /// machine of more cores makes as many.
    pub const LOCAL: Self = Self { gap: 4 << 10, piece: 8 << 20, in_flight: 16 };
}

/// A source of bytes, which can be read at any offset, into memory of the reader's own.
pub trait ReadAt: Send + Sync {
    /// Bytes in all.
    fn length(&self) -> u64;

    /// What tells the source from another one, or from an altered one, of the same name.
    fn identity(&self) -> Result<Identity> {
        Ok(Identity::of_length(self.length()))
    }

    /// What reads of it cost.
    fn costs(&self) -> Costs {
        Costs::LOCAL
    }

    /// The local file that the bytes are in, at the same offsets: for mapping, prefetching, evicting, sharing, and for the
    /// kernel to copy from.
    fn local(&self) -> Option<&FileSource> {
        None
    }

    /// Whether reads of it wait for somebody else.
    fn is_remote(&self) -> bool {
        self.local().is_none()
    }

    /// The local file that holds bytes of it at the same offsets: itself, or a copy of what was kept.
    fn copy(&self) -> Option<&FileSource> {
        self.local()
    }

    /// The same where it holds all of a range. Waits for nothing.
    fn copied(&self, _offset: u64, _length: u64) -> Option<&FileSource> {
        self.local()
    }

    /// Brings a range into the local copy, if it is not there. Fails with `ZT_NOT_LOCAL` where there is no copy to bring it into,
    /// and with `ZT_IO` where that cannot be written.
    fn keep(&self, _offset: u64, _length: u64, _stop: &Stop) -> Result<()> {
        if self.local().is_some() {
            return Ok(());
        }
        let message = "the file is not on this machine, and there is no folder to keep a copy in: open its URL with remote: { cache: folder }, or await load()";
        Err(Error::new(Code::NotLocal, message))
    }

    /// Says that what was wanted is kept, so that copies of other files may make room.
    fn settle(&self) {}

    /// Says how the bytes come into memory, before any do.
    fn set_io(&self, io: Io) {
        if let Some(file) = self.local() {
            file.set_io(io);
        }
    }

    /// Fills `buffer` from `offset`, or fails. A read that waits for something that may never come looks at `stop` and ends
    /// with `ZT_ABORTED`; the system does not let go of a read of a local file.
    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()>;

    /// The same for some MiB of data, past the page cache where the source was opened for that.
    fn read_bulk(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        self.read_at(offset, buffer, stop)
    }

    /// Hashes a range, of some MiB at most, without keeping its bytes. What is mapped for it stays in `windows`, which are
    /// to be of this source alone, for the next range.
    fn hash(
        &self,
        _stretches: &MappedWindows,
        offset: u64,
        length: u64,
        hasher: &mut Hasher,
        stop: &Stop,
    ) -> Result<()> {
        hash_read(self, offset, length, hasher, stop)
    }

    /// Whether a range can be read in one go: of a file in memory only what was staged is there, which gaps are not.
    fn holds(&self, _offset: u64, _length: u64) -> bool {
        true
    }

    /// Whether a range is in memory already, by a few samples. Only a hint.
    fn is_cached(&self, _offset: u64, _length: u64) -> bool {
        true
    }

    /// Fails where bytes were cut off since the source was opened.
    fn check_length(&self) -> Result<()> {
        Ok(())
    }

    /// `length` bytes from `offset`, in memory that is only claimed once they are known to exist.
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

    /// The same for many bytes: in whole pages where they are enough for that, huge ones where the system has them, or those of the file
    /// before.
    fn read_owned(&self, offset: u64, length: u64, stop: &Stop) -> Result<Owned> {
        if checked::end_within(offset, length, self.length()).is_none() {
            return Err(ends_early(offset, length, self.length()));
        }
        let mut bytes = Owned::to_fill(length)?;
        self.read_at(offset, &mut bytes, stop)?;
        Ok(bytes)
    }
}

/// What a view that keeps bytes of a source leaves to the source itself, which the named field holds: all of [`ReadAt`] but
/// `read_at`, and what reads by that.
macro_rules! as_its_source {
    ($source:ident) => {
        fn length(&self) -> u64 {
            self.$source.length()
        }

        fn identity(&self) -> $crate::error::Result<$crate::sources::files::Identity> {
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

/// The places that the components of a catalog lie in, by their numbers ([`Component::file`]).
///
/// [`Component::file`]: crate::model::Component::file
pub trait Sources: Send + Sync {
    fn source(&self, file: u32) -> Result<&dyn ReadAt>;

    /// The files whose digests over all of their bytes an index gives.
    fn digested(&self) -> Vec<DigestedFile<'_>> {
        Vec::new()
    }
}

/// A file that an index names with its identity.
pub struct DigestedFile<'f> {
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

    fn read_at(&self, offset: u64, buffer: &mut [u8], _stop: &Stop) -> Result<()> {
        let length = buffer.len() as u64;
        if length == 0 {
            // As of a file: nothing is there wherever it is looked for.
            return Ok(());
        }
        let bytes = checked::slice(self, offset, length);
        buffer.copy_from_slice(bytes.ok_or_else(|| ends_early(offset, length, self.len() as u64))?);
        Ok(())
    }
}

/// Bytes of a read that is only hashed. They stay in the cache of the core that reads them: in pieces of some MiB
/// they would go to memory and come back, at half the speed.
const HASHED: u64 = 256 << 10;

/// Reads a range and hashes it on the way.
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
    let message = format!("{length} bytes are needed at offset {offset}, the file has {total} in all");
    Error::new(Code::Truncated, message).at(offset)
}
