//! The bytes of a file as the library `hdf5-reader` asks for them: addresses count from the superblock, everything that is read
//! is counted, and what the source says when it fails is kept.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hdf5_reader::error::Error as Refusal;
use hdf5_reader::storage::{Storage, StorageBuffer};
use ztensor_core::checked::end_within;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::owned::Owned;

/// Fills a buffer from an offset of the whole file on.
pub type Read<'s> = &'s (dyn Fn(u64, &mut [u8]) -> Result<()> + Sync);

/// What each read counts as beside its bytes, so that many small ones are bounded too.
const READ: u64 = 64;

/// The part of a file that is HDF5, and how much may still be read of it.
pub struct Bytes<'s> {
    read: Read<'s>,
    place: Range,
    most: u64,
    left: AtomicU64,
    /// More was asked for than may be read: from then on everything fails.
    spent: AtomicBool,
    failed: Mutex<Option<Error>>,
}

/// Where a file's bytes are: of a zip archive's member only some are.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The offset that address 0 means.
    pub base: u64,
    /// Bytes from there on.
    pub length: u64,
}

/// All bytes of a file that is compressed in another one.
#[derive(Clone)]
pub struct Held {
    pub bytes: Arc<Owned>,
    /// Where the compressed bytes begin.
    pub offset: u64,
    /// The name of our codec.
    pub encoding: &'static str,
}

impl<'s> Bytes<'s> {
    /// `most`: bytes that may be read in all, each read counted as some more.
    pub fn new(read: Read<'s>, place: Range, most: u64) -> Self {
        Self {
            read,
            place,
            most,
            left: AtomicU64::new(most),
            spent: AtomicBool::default(),
            failed: Mutex::new(None),
        }
    }

    pub fn place(&self) -> Range {
        self.place
    }

    /// Counts bytes that are made of what was read.
    pub fn charge(&self, bytes: u64) -> Result<()> {
        let spent =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        if spent.is_ok() {
            return Ok(());
        }
        self.spent.store(true, Ordering::Relaxed);
        let message = format!("the index takes more than {} bytes to read (option maxIndexBytes)", self.most);
        Err(Error::new(Code::Limit, message))
    }

    /// Whether an error is that of one object, so that the others can be read: not where the source failed, the work was stopped or no
    /// more may be read.
    pub fn is_of_item(&self, error: &Error) -> bool {
        error.is_of_item() && !self.spent.load(Ordering::Relaxed)
    }

    /// `length` bytes at an address.
    pub fn at(&self, address: u64, length: u64) -> Result<Vec<u8>> {
        if end_within(address, length, self.place.length).is_none() {
            let message =
                format!("{length} bytes are needed at address {address}, the file has {}", self.place.length);
            return Err(Error::new(Code::Truncated, message).at(self.offset(address)));
        }
        self.charge(length.saturating_add(READ))?;
        let mut bytes = vec![0; ztensor_core::checked::index(length, "a part of the index")?];
        (self.read)(self.offset(address), &mut bytes)?;
        Ok(bytes)
    }

    /// Where an address is in the whole file.
    pub fn offset(&self, address: u64) -> u64 {
        self.place.base.saturating_add(address)
    }

    /// Says in our words why the library refused what is at `address`: what the source or a limit said comes first.
    pub fn refusal(&self, error: &Refusal, what: &str, address: u64) -> Error {
        let kept = self.failed.lock().ok().and_then(|mut failed| failed.take());
        kept.unwrap_or_else(|| refusal(error, what)).at(self.offset(address))
    }
}

impl Storage for Bytes<'_> {
    fn len(&self) -> u64 {
        self.place.length
    }

    fn read_range(&self, offset: u64, len: usize) -> hdf5_reader::error::Result<StorageBuffer> {
        match self.at(offset, len as u64) {
            Ok(bytes) => Ok(StorageBuffer::from_vec(bytes)),
            Err(error) => {
                if let Ok(mut failed) = self.failed.lock() {
                    *failed = Some(error);
                }
                Err(Refusal::OffsetOutOfBounds(offset))
            }
        }
    }
}

/// What the library refused, with our code for it.
pub fn refusal(error: &Refusal, what: &str) -> Error {
    let code = match error {
        Refusal::UnexpectedEof { .. } => Code::Truncated,
        Refusal::OffsetOutOfBounds(_) | Refusal::UndefinedAddress => Code::OutOfBounds,
        Refusal::ResourceLimit(_) => Code::Limit,
        Refusal::ChecksumMismatch { .. } => Code::DigestMismatch,
        // What a newer library may write of a dataset's elements.
        Refusal::UnsupportedFilter(_)
        | Refusal::UnsupportedEncoding(_)
        | Refusal::UnsupportedLayoutVersion(_)
        | Refusal::UnsupportedLayoutClass(_)
        | Refusal::UnsupportedFilterPipelineVersion(_)
        | Refusal::UnsupportedChunkIndexType(_) => Code::UnsupportedEncoding,
        Refusal::UnsupportedSuperblockVersion(_)
        | Refusal::UnsupportedObjectHeaderVersion(_)
        | Refusal::UnsupportedBTreeVersion(_)
        | Refusal::UnsupportedSymbolTableNodeVersion(_)
        | Refusal::UnsupportedLocalHeapVersion(_)
        | Refusal::UnsupportedGlobalHeapVersion(_)
        | Refusal::UnsupportedFractalHeapVersion(_)
        | Refusal::UnsupportedDataspaceVersion(_)
        | Refusal::UnsupportedFillValueVersion(_)
        | Refusal::UnsupportedLinkVersion(_)
        | Refusal::UnsupportedLinkType(_) => Code::UnsupportedVersion,
        _ => Code::BadIndex,
    };
    let made = Error::new(code, format!("{what}: {error}"));
    if code == Code::Limit { made.of_item() } else { made }
}
