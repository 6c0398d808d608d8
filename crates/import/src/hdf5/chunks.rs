//! Locations of the chunks of a dataset (`HDF5 File Format Specification` III.A, VII).
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};
use ztensor_core::arrange::Arrange;

use hdf5_reader::btree_v1::BTreeV1Key;
use hdf5_reader::btree_v2::BTreeV2Header;
use hdf5_reader::chunk_index::{ChunkEntry, collect_v2_chunk_entries_storage};
use hdf5_reader::error::Error as Refusal;
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use ztensor_core::checked::end_within;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{Chunk, Chunks};
use ztensor_core::sources::owned::Owned;

use super::layout::{Chunked, Index};
use super::storage::Sizes;
use super::storage::{Bytes, DecodedFile, Range, Read};
use super::{sums, tree};
use crate::limits::{HDF5_CHUNKS_AT_OPEN, HDF5_INDEX_READS};

/// The chunks of a dataset. The index is read once.
pub struct Table {
    pub range: Range,
    pub sizes: Sizes,
    pub layout: Chunked,
    /// The current and maximum dimensions of the dataset, in elements.
    pub shape: Vec<u64>,
    pub max: Option<Vec<u64>>,
    /// Bytes of a decoded chunk.
    pub bytes: u64,
    pub filters: usize,
    /// The decoded file that holds chunks and index, if it is not the file itself.
    pub held: Option<DecodedFile>,
    known: Mutex<Option<Arc<ChunkEntries>>>,
}

/// The entries of an index, or the error that prevents reading it.
type ChunkEntries = Result<Vec<Entry>>;

/// The file range that holds all chunks, and the error of the first that is out of range.
pub struct Extent {
    pub offset: u64,
    pub stored: u64,
    pub problem: Option<Error>,
}

/// A chunk and its number in row-major order.
#[derive(Clone, Copy, Debug)]
struct Entry {
    nth: u64,
    chunk: Chunk,
}

impl Table {
    /// Fails if there are too many chunks to count. The caller checks `rank` and rejects empty chunks.
    pub fn new(
        range: Range,
        sizes: Sizes,
        layout: Chunked,
        (shape, max): (Vec<u64>, Option<Vec<u64>>),
        (bytes, filters): (u64, usize),
        held: Option<DecodedFile>,
    ) -> Result<Self> {
        let known = Mutex::default();
        let table = Self { range, sizes, layout, shape, max, bytes, filters, held, known };
        table
            .count(&table.shape)
            .map(|_| table)
            .ok_or_else(|| Error::new(Code::Limit, "a dataset has more than 2^64 chunks").of_item())
    }

    /// The shape by which the index numbers the chunks. An index with a fixed number of chunks covers the maximum size of the dataset
    /// (`max_nchunks` of the HDF Group's library).
    fn numbered(&self) -> &[u64] {
        match self.layout.index {
            Index::FixedArray | Index::Implicit => self.max.as_deref().unwrap_or(&self.shape),
            _ => &self.shape,
        }
    }

    /// Returns the number of chunks in each dimension of an array.
    fn counts(&self, shape: &[u64]) -> impl Iterator<Item = u64> {
        shape.iter().zip(&self.layout.dims).map(|(&dim, &chunk)| dim.div_ceil(u64::from(chunk).max(1)))
    }

    fn count(&self, shape: &[u64]) -> Option<u64> {
        self.counts(shape).try_fold(1_u64, u64::checked_mul)
    }

    fn has_index(&self) -> bool {
        let all = u64::MAX >> (64 - 8 * u32::from(self.sizes.address.clamp(1, 8)));
        self.layout.address != all && self.layout.index != Index::Implicit
    }

    /// Returns the file range that holds all chunks. A small index is read now. For a larger one the range is the whole file, and the index
    /// is read with the first data. Fails if the source does.
    pub fn span(&self, read: Read<'_>) -> Result<Extent> {
        if self.layout.index == Index::Implicit {
            let stored = self
                .count(self.numbered())
                .and_then(|count| count.checked_mul(self.bytes))
                .unwrap_or(u64::MAX);
            let held = self.range.length.saturating_sub(self.layout.address);
            let problem =
                (stored > held).then(|| Error::new(Code::Truncated, "the file is too short for its chunks"));
            let offset = self.range.base.saturating_add(self.layout.address);
            return Ok(Extent { offset, stored: stored.min(held), problem });
        }
        if self.count(self.numbered()).is_none_or(|count| count > HDF5_CHUNKS_AT_OPEN) {
            return Ok(Extent { offset: self.range.base, stored: self.range.length, problem: None });
        }
        let entries = self.entries(read)?;
        let entries = match &*entries {
            Ok(entries) => entries,
            Err(error) => return Ok(Extent { offset: 0, stored: 0, problem: Some(error.clone()) }),
        };
        let problem = entries.iter().find_map(|entry| self.check(entry).err());
        let held = || entries.iter().filter(|entry| self.check(entry).is_ok()).map(|entry| entry.chunk);
        let start = held().map(|chunk| chunk.offset).min().unwrap_or(0);
        let end = held().map(|chunk| chunk.offset.saturating_add(chunk.stored)).max();
        Ok(Extent { offset: start, stored: end.unwrap_or(0).saturating_sub(start), problem })
    }

    /// Rejects a chunk outside the file.
    fn check(&self, Entry { chunk, .. }: &Entry) -> Result<()> {
        let address = chunk.offset.checked_sub(self.range.base);
        if address.and_then(|at| end_within(at, chunk.stored, self.range.length)).is_some() {
            return Ok(());
        }
        let message = format!("a chunk of {} bytes extends past the end of the file", chunk.stored);
        Err(Error::new(Code::Truncated, message).at(chunk.offset))
    }

    /// Returns the entries of the index. Fails if the source does.
    fn entries(&self, read: Read<'_>) -> Result<Arc<ChunkEntries>> {
        let broken = |_| Error::new(Code::Internal, "an index of chunks was only partly read");
        let mut known = self.known.lock().map_err(broken)?;
        if let Some(entries) = &*known {
            return Ok(Arc::clone(entries));
        }
        let max = self.range.length.saturating_mul(HDF5_INDEX_READS).saturating_add(1 << 20);
        let bytes = Bytes::new(read, self.range, max);
        let found = match self.read(&bytes) {
            // Exceeding the read limit of an index does not depend on the file's content.
            Err(error) if !bytes.is_of_item(&error) && error.code() != Code::Limit => return Err(error),
            found => found,
        };
        let entries = Arc::new(found);
        *known = Some(Arc::clone(&entries));
        Ok(entries)
    }

    /// Reads the index.
    fn read(&self, bytes: &Bytes<'_>) -> Result<Vec<Entry>> {
        if !self.has_index() || self.shape.contains(&0) {
            return Ok(Vec::new());
        }
        let found = self.look_up(bytes)?;
        let mut entries = Vec::with_capacity(found.len());
        for entry in found {
            if entry
                .offsets
                .iter()
                .zip(&self.layout.dims)
                .any(|(at, &chunk)| at % u64::from(chunk).max(1) != 0)
            {
                return Err(Error::new(
                    Code::BadIndex,
                    "a chunk does not begin at a multiple of the chunk size",
                ));
            }
            let Some(nth) = self.nth(&entry.offsets) else { continue };
            // Other indexes do not state the size of unfiltered chunks.
            let says = self.filters > 0 || self.layout.index == Index::Tree1;
            let stored = if says { entry.size } else { self.bytes };
            if self.filters == 0 && stored != self.bytes {
                let message = format!("a chunk has {stored} bytes, not {}", self.bytes);
                return Err(Error::new(Code::BadIndex, message));
            }
            let skipped = if self.is_plain(&entry.offsets) { u32::MAX } else { entry.filter_mask };
            let offset = self.range.base.saturating_add(entry.address);
            entries.push(Entry { nth, chunk: Chunk { offset, stored, skipped: skipped | self.skipped() } });
        }
        entries.arrange_by_key(|entry| entry.nth);
        if entries.windows(2).any(|pair| matches!(pair, [one, other] if one.nth == other.nth)) {
            return Err(Error::new(Code::BadIndex, "two chunks have the same position in their dataset"));
        }
        Ok(entries)
    }

    /// Returns the mask bit of the filter that was applied to the whole file instead of to chunks.
    fn skipped(&self) -> u32 {
        let nth = u32::try_from(self.filters).unwrap_or(u32::MAX);
        self.held.as_ref().and_then(|_| 1_u32.checked_shl(nth)).unwrap_or(0)
    }

    fn look_up(&self, bytes: &Bytes<'_>) -> Result<Vec<ChunkEntry>> {
        let (address, dims, shape) = (self.layout.address, &*self.layout.dims, &*self.shape);
        let (width, length) = (self.sizes.address, self.sizes.length);
        let rank = u32::try_from(dims.len()).unwrap_or(u32::MAX);
        let refused = |error: Refusal| bytes.refusal(&error, "the index of a dataset's chunks", address);
        match self.layout.index {
            Index::Implicit => Ok(Vec::new()),
            Index::Single(filtered) => {
                let (size, filter_mask) = filtered.unwrap_or((self.bytes, 0));
                Ok(vec![ChunkEntry { address, size, filter_mask, offsets: vec![0; dims.len()] }])
            }
            Index::Tree1 => {
                let leaves = tree::leaves(bytes, self.sizes, address, Some(rank))?;
                if let Some(error) = leaves.problem {
                    return Err(error);
                }
                let bad = |message: &str| Error::new(Code::BadIndex, message).at(bytes.offset(address));
                let mut entries: Vec<ChunkEntry> = Vec::with_capacity(leaves.entries.len());
                for (key, address) in leaves.entries {
                    let BTreeV1Key::RawData { chunk_size, filter_mask, mut offsets } = key else {
                        return Err(bad("the index of chunks belongs to a group"));
                    };
                    // The last offset is that of a byte within an element.
                    if offsets.split_off(dims.len().min(offsets.len())).iter().any(|&at| at != 0) {
                        return Err(bad("a chunk begins within an element"));
                    }
                    // Other readers find chunks by binary search and miss chunks that are out of order.
                    if entries.last().is_some_and(|before| before.offsets >= offsets) {
                        return Err(bad(
                            "the chunks are not sorted by position, or two have the same position",
                        ));
                    }
                    entries.push(ChunkEntry { address, size: chunk_size.into(), filter_mask, offsets });
                }
                Ok(entries)
            }
            Index::FixedArray => {
                let shape = self.numbered();
                self.sums(bytes).fixed(address, self.count(shape))?;
                collect_fixed_array_chunk_entries_storage(bytes, address, width, length, shape, dims, None)
                    .map_err(refused)
            }
            Index::ExtensibleArray => {
                self.sums(bytes).extensible(address)?;
                let max = self.max.as_deref();
                collect_extensible_array_chunk_entries_storage(
                    bytes, address, width, length, shape, max, dims, None,
                )
                .map_err(refused)
            }
            Index::Tree2 => {
                let header =
                    BTreeV2Header::parse_at_storage(bytes, address, width, length).map_err(refused)?;
                let record = u64::from(header.record_size);
                let [narrow, wide] = self.element().map(|bytes| bytes + 8 * u64::from(rank));
                if ![narrow, wide].contains(&record) || (header.btree_type == 11) != (self.filters > 0) {
                    let message = format!(
                        "the index of chunks has records of {record} bytes, the dataset requires {narrow}"
                    );
                    return Err(Error::new(Code::BadIndex, message).at(bytes.offset(address)));
                }
                let found = collect_v2_chunk_entries_storage(bytes, address, width, length, rank, dims, None)
                    .map_err(refused)?;
                if found.len() as u64 != header.total_records {
                    let message =
                        format!("the index states {} chunks, but has {}", header.total_records, found.len());
                    return Err(Error::new(Code::BadIndex, message).at(bytes.offset(address)));
                }
                Ok(found)
            }
        }
    }

    fn sums<'b, 's>(&self, bytes: &'b Bytes<'s>) -> sums::Index<'b, 's> {
        let Sizes { address, length } = self.sizes;
        sums::Index { bytes, address, length, element: self.element(), filtered: self.filters > 0 }
    }

    /// Sizes of the fields of a chunk in the index, without its position: its address and, if filtered, its size and mask. HDF5 2 files may
    /// have sizes as wide as lengths.
    fn element(&self) -> [u64; 2] {
        let address = u64::from(self.sizes.address);
        if self.filters == 0 {
            return [address; 2];
        }
        let width = (1 + (u64::from(self.bytes.max(1).ilog2()) + 8) / 8).min(8);
        [address + width + 4, address + u64::from(self.sizes.length) + 4]
    }

    /// Returns the number of the chunk that begins at an element, or `None` if it is outside the dataset, which happens after the dataset
    /// shrank.
    fn nth(&self, offsets: &[u64]) -> Option<u64> {
        let position =
            offsets.iter().zip(&self.layout.dims).map(|(&at, &chunk)| at / u64::from(chunk).max(1));
        self.linear(&self.shape, position)
    }

    /// Returns the number of the chunk at a position of an array.
    fn linear(&self, shape: &[u64], position: impl Iterator<Item = u64>) -> Option<u64> {
        self.counts(shape).zip(position).try_fold(0_u64, |nth, (count, at)| {
            (at < count).then(|| nth.checked_mul(count)?.checked_add(at))?
        })
    }

    /// Returns whether a chunk extends past the dataset and such chunks are stored unfiltered.
    fn is_plain(&self, offsets: &[u64]) -> bool {
        let mut ends = offsets.iter().zip(&self.layout.dims).zip(&self.shape);
        self.layout.plain_edges && ends.any(|((&at, &chunk), &dim)| at.saturating_add(chunk.into()) > dim)
    }
}

impl Chunks for Table {
    fn find(&self, read: Read<'_>, position: &[u64]) -> Result<Option<Chunk>> {
        let shape = if self.layout.index == Index::Implicit { self.numbered() } else { &self.shape };
        let nth = self
            .linear(shape, position.iter().copied())
            .ok_or_else(|| Error::new(Code::OutOfBounds, "the requested chunk is outside its dataset"))?;
        if self.layout.index == Index::Implicit {
            let beyond = || Error::new(Code::OutOfBounds, "a chunk offset exceeds 2^64");
            let address = nth.checked_mul(self.bytes).and_then(|at| at.checked_add(self.layout.address));
            let offset =
                address.and_then(|address| address.checked_add(self.range.base)).ok_or_else(beyond)?;
            let chunk = Chunk { offset, stored: self.bytes, skipped: self.skipped() };
            return self.check(&Entry { nth, chunk }).map(|()| Some(chunk));
        }
        let entries = self.entries(read)?;
        let entries = entries.as_ref().as_ref().map_err(Clone::clone)?;
        let found = entries.binary_search_by_key(&nth, |entry| entry.nth).ok();
        let found = found.and_then(|at| entries.get(at));
        found.map(|entry| self.check(entry).map(|()| entry.chunk)).transpose()
    }

    fn held(&self) -> Option<&[u8]> {
        self.held.as_ref().map(|held| &**held.bytes)
    }

    fn written(&self, read: Read<'_>, first: &[u64], last: &[u64]) -> Result<Option<Vec<Vec<u64>>>> {
        if self.layout.index == Index::Implicit {
            return Ok(None);
        }
        let entries = self.entries(read)?;
        let entries = entries.as_ref().as_ref().map_err(Clone::clone)?;
        let between =
            first.iter().zip(last).map(|(first, last)| last.saturating_sub(*first).saturating_add(1));
        if between.fold(1, u64::saturating_mul) <= entries.len() as u64 {
            return Ok(None);
        }
        let counts: Vec<u64> = self.counts(&self.shape).collect();
        let position = |entry: &Entry| {
            let mut nth = entry.nth;
            // Arrays within elements add dimensions of one chunk.
            let mut position = vec![0; first.len()];
            for (at, &count) in position.iter_mut().take(counts.len()).rev().zip(counts.iter().rev()) {
                (*at, nth) = (nth % count.max(1), nth / count.max(1));
            }
            let is_between = position
                .iter()
                .zip(first.iter().zip(last))
                .all(|(at, (first, last))| first <= at && at <= last);
            is_between.then_some(position)
        };
        Ok(Some(entries.iter().filter_map(position).collect()))
    }
}

/// Data that is contiguous in memory.
pub struct Run {
    pub bytes: Arc<Owned>,
    pub chunk: Chunk,
}

impl Chunks for Run {
    fn find(&self, _: Read<'_>, _: &[u64]) -> Result<Option<Chunk>> {
        Ok(Some(self.chunk))
    }

    fn held(&self) -> Option<&[u8]> {
        Some(&self.bytes)
    }
}

/// Chunks of data that was never written.
pub struct Unwritten;

impl Chunks for Unwritten {
    fn find(&self, _: Read<'_>, _: &[u64]) -> Result<Option<Chunk>> {
        Ok(None)
    }

    fn written(&self, _: Read<'_>, _: &[u64], _: &[u64]) -> Result<Option<Vec<Vec<u64>>>> {
        Ok(Some(Vec::new()))
    }
}
