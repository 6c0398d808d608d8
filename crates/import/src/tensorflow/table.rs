//! The sorted table format of a checkpoint's index (`tsl/lib/io/format.cc` of TensorFlow, after LevelDB's `table_format.md`): blocks of
//! entries, an index of the blocks, and a footer. Does not interpret keys and values.
#![forbid(unsafe_code)]

use ztensor_core::checked::{self, end_within, u64_le};
use ztensor_core::codecs::digest::Digest;
use ztensor_core::codecs::protobuf::varint;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

use crate::limits::{TENSORFLOW_ENTRY_BYTES, TENSORFLOW_SNAPPY_TIMES};

/// The last 8 bytes of a table.
pub const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const FOOTER: u64 = 48;
/// Bytes after each block: the compression type and a checksum.
const TRAILER: u64 = 5;
const RAW: u8 = 0;
const SNAPPY: u8 = 1;

const OF_FOOTER: &str = "LevelDB table format: Footer";
const OF_BLOCK: &str = "LevelDB table format: block";

/// Returns whether a file ends with the magic of a table.
pub fn ends_in_magic(last: &[u8]) -> bool {
    let start = (last.len() as u64).checked_sub(8);
    start.and_then(|start| u64_le(last, start)) == Some(MAGIC)
}

/// An entry of a table. Keys and values are bytes.
pub struct Entry<'e> {
    pub key: &'e [u8],
    pub value: &'e [u8],
    /// The offset of the value in the file, or that of a compressed block.
    pub at: u64,
}

/// A table that is read once, from first to last entry.
pub struct Table<'s> {
    source: &'s dyn ReadAt,
    stop: &'s Stop,
    /// Bytes that may be read and allocated.
    max: u64,
    used: u64,
}

impl<'s> Table<'s> {
    /// Creates a reader that fails with `ZT_LIMIT` after reading and retaining more than `max` bytes: blocks, keys, and a fixed charge per
    /// entry.
    pub fn new(source: &'s dyn ReadAt, stop: &'s Stop, max: u64) -> Self {
        Self { source, stop, max, used: 0 }
    }

    /// Calls `each` with the entries in key order until it returns `false`.
    ///
    /// # Errors
    ///
    /// `ZT_BAD_MAGIC` for a file that does not end like a table, `ZT_TRUNCATED`, `ZT_DIGEST_MISMATCH` for a damaged block, `ZT_BAD_INDEX`
    /// for blocks or keys that are out of order.
    pub fn walk(&mut self, mut each: impl FnMut(Entry<'_>) -> Result<bool>) -> Result<()> {
        let blocks = self.footer()?;
        let blocks = self.block(blocks)?;
        let (mut blocks, mut key, mut last) = (blocks.entries()?, Vec::new(), Vec::new());
        let (mut end, mut is_first) = (0, true);
        while let Some(separator) = blocks.next(&mut key, self)? {
            let mut value = separator.value;
            let found = Handle::take(&mut value).filter(|_| value.is_empty());
            let handle = found
                .ok_or_else(|| bad(separator.at, "the handle of a block is not two numbers".to_owned()))?;
            if handle.offset < end {
                let message =
                    format!("a block is at {}, before the end of the previous block at {end}", handle.offset);
                return Err(bad(separator.at, message));
            }
            let block = self.block(handle)?;
            end = handle.offset.saturating_add(handle.size).saturating_add(TRAILER);
            let mut entries = block.entries()?;
            let mut key = Vec::new();
            while let Some(entry) = entries.next(&mut key, self)? {
                if !is_first && *entry.key <= *last {
                    return Err(bad(entry.at, "the keys of the table are not in order".to_owned()));
                }
                is_first = false;
                last.clear();
                last.extend_from_slice(entry.key);
                if !each(entry)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads the handle of the block index.
    fn footer(&mut self) -> Result<Handle> {
        let total = self.source.length();
        let at = total.checked_sub(FOOTER).ok_or_else(|| {
            Error::new(Code::Truncated, format!("{total} bytes are too few for the footer of a table"))
        })?;
        let footer = self.read(at, FOOTER)?;
        if !ends_in_magic(&footer) {
            let message = "the file does not end in the magic of a table: it is truncated, or it is not the index of a checkpoint";
            return Err(Error::new(Code::BadMagic, message).at(total - 8).rule(OF_FOOTER));
        }
        let mut rest = &*footer;
        let handles = Handle::take(&mut rest).and_then(|_| Handle::take(&mut rest));
        // Two handles take at most 40 bytes and must not include the magic.
        let handle = handles.filter(|_| rest.len() >= 8);
        handle.ok_or_else(|| {
            Error::new(Code::BadIndex, "the footer does not contain valid block handles")
                .at(at)
                .rule(OF_FOOTER)
        })
    }

    fn block(&mut self, handle: Handle) -> Result<Block> {
        let Handle { offset, size } = handle;
        let stored = size.checked_add(TRAILER);
        let inside = stored.filter(|&stored| end_within(offset, stored, self.source.length()).is_some());
        let stored = inside.ok_or_else(|| {
            let message = format!("a block of {size} bytes at {offset} extends past the end of the file");
            Error::new(Code::Truncated, message).at(offset).rule(OF_BLOCK)
        })?;
        let mut bytes = self.read(offset, stored)?;
        let trailer = bytes.split_off(checked::index(size, "a block")?);
        let &[kind, ref sum @ ..] = &*trailer else {
            return Err(bad(offset, "a block has no trailer".to_owned()));
        };
        let sum = sum.try_into().map_or(0, u32::from_le_bytes);
        let digest = Digest::masked_crc32c(sum);
        if let Some(mut hasher) = digest.hasher() {
            hasher.update(&bytes);
            hasher.update(&[kind]);
            digest.check(hasher).map_err(|error| error.at(offset).rule(OF_BLOCK))?;
        }
        let contents = match kind {
            RAW => bytes,
            SNAPPY => self.unpacked(&bytes).map_err(|error| error.at(offset).rule(OF_BLOCK))?,
            other => {
                let message = format!("a block has the unknown compression type {other}");
                return Err(Error::new(Code::UnsupportedEncoding, message).at(offset).rule(OF_BLOCK));
            }
        };
        Ok(Block { offset, is_raw: kind == RAW, contents })
    }

    /// Decompresses a block in Snappy's raw format.
    fn unpacked(&mut self, packed: &[u8]) -> Result<Vec<u8>> {
        let wrong =
            |error: snap::Error| Error::new(Code::Decode, format!("a block cannot be decompressed: {error}"));
        let claimed = snap::raw::decompress_len(packed).map_err(wrong)? as u64;
        if claimed > (packed.len() as u64).saturating_mul(TENSORFLOW_SNAPPY_TIMES) {
            let message = format!("a block of {} bytes claims to hold {claimed}", packed.len());
            return Err(Error::new(Code::Decode, message));
        }
        self.charge(claimed)?;
        snap::raw::Decoder::new().decompress_vec(packed).map_err(wrong)
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.charge(length)?;
        self.source.read_vec(offset, length, self.stop)
    }

    /// Charges bytes that are read or retained.
    pub fn charge(&mut self, bytes: u64) -> Result<()> {
        self.used = self.used.saturating_add(bytes);
        if self.used <= self.max {
            return Ok(());
        }
        let message = format!("the index takes more than {} bytes", self.max);
        Err(Error::new(Code::Limit, message).option("maxIndexBytes"))
    }
}

/// The location of a block.
#[derive(Clone, Copy)]
struct Handle {
    offset: u64,
    /// Without its trailer.
    size: u64,
}

impl Handle {
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self { offset: number(bytes)?, size: number(bytes)? })
    }
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (value, length) = varint(bytes)?;
    *bytes = bytes.get(length..)?;
    Some(value)
}

fn bad(at: u64, message: String) -> Error {
    Error::new(Code::BadIndex, message).at(at).rule(OF_BLOCK)
}

/// A verified, decompressed block.
struct Block {
    offset: u64,
    is_raw: bool,
    contents: Vec<u8>,
}

impl Block {
    /// Returns its entries, without the list of restart points, which serves key lookups.
    fn entries(&self) -> Result<Entries<'_>> {
        let length = self.contents.len() as u64;
        let count = length.checked_sub(4).and_then(|at| checked::slice(&self.contents, at, 4));
        let count = count.and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let end = count.and_then(|count| length.checked_sub(4 + 4 * u64::from(count)));
        let entries = end.and_then(|end| checked::slice(&self.contents, 0, end));
        let rest = entries
            .ok_or_else(|| bad(self.offset, "a block is shorter than its list of restarts".to_owned()))?;
        Ok(Entries { block: self, rest })
    }
}

struct Entries<'b> {
    block: &'b Block,
    rest: &'b [u8],
}

impl<'b> Entries<'b> {
    /// Reads an entry and updates `key`, which holds the previous key.
    fn next<'k>(&mut self, key: &'k mut Vec<u8>, table: &mut Table<'_>) -> Result<Option<Entry<'k>>>
    where
        'b: 'k,
    {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let start = self.position();
        let entry = self.take(key);
        let (shared, own, value) =
            entry.ok_or_else(|| bad(start, "an entry goes beyond its block or its key".to_owned()))?;
        key.truncate(shared);
        key.extend_from_slice(own);
        // A short entry may have a long key, most of which is shared with the previous one.
        table.charge((key.len() as u64).saturating_add(TENSORFLOW_ENTRY_BYTES))?;
        let at = if self.block.is_raw { self.position() - value.len() as u64 } else { self.block.offset };
        Ok(Some(Entry { key, value, at }))
    }

    /// Returns the shared length of the previous key, the rest of the key, and the value.
    fn take(&mut self, key: &[u8]) -> Option<(usize, &'b [u8], &'b [u8])> {
        let mut rest = self.rest;
        let (shared, own, value) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
        let shared = usize::try_from(shared).ok().filter(|&shared| shared <= key.len())?;
        let (own, rest) = rest.split_at_checked(usize::try_from(own).ok()?)?;
        let (value, rest) = rest.split_at_checked(usize::try_from(value).ok()?)?;
        self.rest = rest;
        Some((shared, own, value))
    }

    /// The offset in the file of an uncompressed block.
    fn position(&self) -> u64 {
        let all = self.block.entries().map_or(0, |entries| entries.rest.len());
        self.block.offset.saturating_add(all.saturating_sub(self.rest.len()) as u64)
    }
}
