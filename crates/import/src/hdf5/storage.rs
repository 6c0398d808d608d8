//! File access for the library `hdf5-reader`: addresses are relative to the superblock, all bytes read are counted, and errors of the
//! source are retained.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::error::Error as Refusal;
use hdf5_reader::storage::{Storage, StorageBuffer};
use ztensor_core::checked::end_within;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::owned::Owned;

/// Fills a buffer from an offset of the whole file.
pub type Read<'s> = &'s (dyn Fn(u64, &mut [u8]) -> Result<()> + Sync);

/// Bytes charged per read in addition to its length, which bounds the number of small reads.
const READ: u64 = 64;

/// Sizes of addresses and lengths in a file.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub address: u8,
    pub length: u8,
}

/// The HDF5 part of a file, and the remaining read budget.
pub struct Bytes<'s> {
    read: Read<'s>,
    range: Range,
    max: u64,
    left: AtomicU64,
    /// Set once the budget is exceeded, after which everything fails.
    spent: AtomicBool,
    failed: Mutex<Option<Error>>,
}

/// The location of an HDF5 file, which may be a member of a zip archive.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The offset that address 0 refers to.
    pub base: u64,
    /// Bytes from there on.
    pub length: u64,
}

/// All bytes of a file that is compressed in another one.
#[derive(Clone)]
pub struct DecodedFile {
    pub bytes: Arc<Owned>,
    /// The offset of the compressed bytes.
    pub offset: u64,
    /// The name of the codec.
    pub encoding: &'static str,
}

impl<'s> Bytes<'s> {
    /// `max`: total bytes that may be read, including a charge per read.
    pub fn new(read: Read<'s>, range: Range, max: u64) -> Self {
        Self {
            read,
            range,
            max,
            left: AtomicU64::new(max),
            spent: AtomicBool::default(),
            failed: Mutex::new(None),
        }
    }

    pub fn range(&self) -> Range {
        self.range
    }

    /// Charges bytes created from what was read.
    pub fn charge(&self, bytes: u64) -> Result<()> {
        let spent =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        if spent.is_ok() {
            return Ok(());
        }
        self.spent.store(true, Ordering::Relaxed);
        let message = format!("the index takes more than {} bytes to read", self.max);
        Err(Error::new(Code::Limit, message).option("maxIndexBytes"))
    }

    /// Returns whether an error concerns one object, so that others can be read. It does not if the source failed, the work was canceled or
    /// the budget is exceeded.
    pub fn is_of_item(&self, error: &Error) -> bool {
        error.is_of_item() && !self.spent.load(Ordering::Relaxed)
    }

    /// Returns `length` bytes at an address.
    pub fn at(&self, address: u64, length: u64) -> Result<Vec<u8>> {
        if end_within(address, length, self.range.length).is_none() {
            let message = format!(
                "{length} bytes are needed at address {address}, but the file has {}",
                self.range.length
            );
            return Err(Error::new(Code::Truncated, message).at(self.offset(address)));
        }
        self.charge(length.saturating_add(READ))?;
        let mut bytes = vec![0; ztensor_core::checked::index(length, "a part of the index")?];
        (self.read)(self.offset(address), &mut bytes)?;
        Ok(bytes)
    }

    /// Converts an address to an offset in the whole file.
    pub fn offset(&self, address: u64) -> u64 {
        self.range.base.saturating_add(address)
    }

    /// Converts an error of the library about `address`, unless the source or a limit caused it.
    pub fn refusal(&self, error: &Refusal, what: &str, address: u64) -> Error {
        let cause = self.failed.lock().ok().and_then(|mut failed| failed.take());
        cause.unwrap_or_else(|| refusal(error, what)).at(self.offset(address))
    }

    /// Returns `length` bytes after verifying the checksum that follows them.
    pub fn checked(&self, address: u64, length: u64) -> Result<Vec<u8>> {
        let total = length.checked_add(4).ok_or_else(|| bad("a length of 2^64 bytes"))?;
        let mut bytes = self.at(address, total)?;
        let sum = bytes.split_off(bytes.len().saturating_sub(4));
        if jenkins_lookup3(&bytes).to_le_bytes() != *sum {
            return Err(Error::new(Code::DigestMismatch, "a checksum of the index does not match"));
        }
        Ok(bytes)
    }
}

impl Storage for Bytes<'_> {
    fn len(&self) -> u64 {
        self.range.length
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

/// Converts an error of the library.
pub fn refusal(error: &Refusal, what: &str) -> Error {
    let code = match error {
        Refusal::UnexpectedEof { .. } => Code::Truncated,
        Refusal::OffsetOutOfBounds(_) | Refusal::UndefinedAddress => Code::OutOfBounds,
        Refusal::ResourceLimit(_) => Code::Limit,
        Refusal::ChecksumMismatch { .. } => Code::DigestMismatch,
        // Features of datasets that a newer library may write.
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

/// An error about the content of the file.
pub fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadIndex, message)
}
