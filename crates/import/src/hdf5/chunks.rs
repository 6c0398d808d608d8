//! Where the chunks of a dataset are (`HDF5 File Format Specification` III.A, VII).
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{ChunkEntry, collect_v2_chunk_entries_storage};
use hdf5_reader::error::Error as Refusal;
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use ztensor_core::checked::end_within;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{Chunk, Chunks};

use super::layout::{Chunked, Index};
use super::reader::{Parsed, Sizes};
use super::storage::{Bytes, Place, Read};
use crate::limits::{HDF5_CHUNKS_AT_OPEN, HDF5_INDEX_READS};

/// The chunks of a dataset; its index is read once.
pub struct Table {
    pub place: Place,
    pub sizes: Sizes,
    pub layout: Chunked,
    /// Of the dataset, in elements, and what it may grow to.
    pub shape: Vec<u64>,
    pub most: Option<Vec<u64>>,
    /// Bytes of a chunk once it is decoded.
    pub bytes: u64,
    pub filters: usize,
    known: Mutex<Option<Arc<Vec<Entry>>>>,
}

/// A chunk by its place in row-major order of all chunks.
#[derive(Clone, Copy, Debug)]
struct Entry {
    nth: u64,
    chunk: Chunk,
}

impl Table {
    /// Fails where there are more chunks than can be counted. `rank` and chunks of no elements are the caller's to check.
    pub fn new(
        place: Place,
        sizes: Sizes,
        layout: Chunked,
        (shape, most): (Vec<u64>, Option<Vec<u64>>),
        bytes: u64,
        filters: usize,
    ) -> Result<Self> {
        let table = Self { place, sizes, layout, shape, most, bytes, filters, known: Mutex::default() };
        table
            .count()
            .map(|_| table)
            .ok_or_else(|| Error::new(Code::Limit, "a dataset has more than 2^64 chunks"))
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        self.shape.iter().zip(&self.layout.dims).map(|(&dim, &chunk)| dim.div_ceil(u64::from(chunk).max(1)))
    }

    fn count(&self) -> Option<u64> {
        self.counts().try_fold(1_u64, u64::checked_mul)
    }

    fn has_index(&self) -> bool {
        let all = u64::MAX >> (64 - 8 * u32::from(self.sizes.address.clamp(1, 8)));
        self.layout.address != all && self.layout.index != Index::Implicit
    }

    /// The range of the file in which all chunks are. Of an index of moderate size that is looked up now; of a larger one it is
    /// the whole file, and the index is read with the first data.
    pub fn span(&self, read: Read<'_>) -> Result<(u64, u64)> {
        if self.layout.index == Index::Implicit {
            let stored = self.count().and_then(|count| count.checked_mul(self.bytes));
            let within =
                stored.filter(|&bytes| end_within(self.layout.address, bytes, self.place.length).is_some());
            let stored =
                within.ok_or_else(|| Error::new(Code::Truncated, "the file ends before its chunks do"))?;
            return Ok((self.place.base.saturating_add(self.layout.address), stored));
        }
        if self.count().is_none_or(|count| count > HDF5_CHUNKS_AT_OPEN) {
            return Ok((self.place.base, self.place.length));
        }
        let entries = self.entries(read)?;
        let start = entries.iter().map(|entry| entry.chunk.offset).min().unwrap_or(0);
        let end = entries.iter().map(|entry| entry.chunk.offset.saturating_add(entry.chunk.stored)).max();
        Ok((start, end.unwrap_or(0).saturating_sub(start)))
    }

    fn entries(&self, read: Read<'_>) -> Result<Arc<Vec<Entry>>> {
        let broken = |_| Error::new(Code::Internal, "an index of chunks was left half read");
        let mut known = self.known.lock().map_err(broken)?;
        if let Some(entries) = &*known {
            return Ok(Arc::clone(entries));
        }
        let entries = Arc::new(self.read(read)?);
        *known = Some(Arc::clone(&entries));
        Ok(entries)
    }

    /// Reads the index.
    fn read(&self, read: Read<'_>) -> Result<Vec<Entry>> {
        if !self.has_index() || self.shape.contains(&0) {
            return Ok(Vec::new());
        }
        let most = self.place.length.saturating_mul(HDF5_INDEX_READS).saturating_add(1 << 20);
        let bytes = Bytes::new(read, self.place, most);
        let found = self
            .look_up(&bytes)
            .map_err(|error| bytes.refusal(&error, "the index of a dataset's chunks", self.layout.address))?;
        let mut entries = Vec::with_capacity(found.len());
        for entry in found {
            let Some(nth) = self.nth(&entry.offsets) else { continue };
            let stored = if self.filters == 0 { self.bytes } else { entry.size };
            if end_within(entry.address, stored, self.place.length).is_none() {
                let message = format!("a chunk of {stored} bytes goes beyond the end of the file");
                return Err(
                    Error::new(Code::Truncated, message).at(self.place.base.saturating_add(entry.address))
                );
            }
            let skipped = if self.is_plain(&entry.offsets) { u32::MAX } else { entry.filter_mask };
            let offset = self.place.base.saturating_add(entry.address);
            entries.push(Entry { nth, chunk: Chunk { offset, stored, skipped } });
        }
        entries.sort_unstable_by_key(|entry| entry.nth);
        if entries.windows(2).any(|pair| matches!(pair, [one, other] if one.nth == other.nth)) {
            return Err(Error::new(Code::BadIndex, "two chunks have the same place in their dataset"));
        }
        Ok(entries)
    }

    fn look_up(&self, bytes: &Bytes<'_>) -> Parsed<Vec<ChunkEntry>> {
        let (address, dims, shape) = (self.layout.address, &*self.layout.dims, &*self.shape);
        let (width, length) = (self.sizes.address, self.sizes.length);
        let rank = u32::try_from(dims.len()).unwrap_or(u32::MAX);
        match self.layout.index {
            Index::Implicit => Ok(Vec::new()),
            Index::Single(filtered) => {
                let (size, filter_mask) = filtered.unwrap_or((self.bytes, 0));
                Ok(vec![ChunkEntry { address, size, filter_mask, offsets: vec![0; dims.len()] }])
            }
            Index::Tree1 => {
                let leaves =
                    collect_btree_v1_leaves_storage(bytes, address, width, length, Some(rank), dims, None)?;
                let entry = |(key, address)| match key {
                    BTreeV1Key::RawData { chunk_size, filter_mask, mut offsets } => {
                        offsets.truncate(dims.len());
                        Ok(ChunkEntry { address, size: chunk_size.into(), filter_mask, offsets })
                    }
                    BTreeV1Key::Group { .. } => {
                        Err(Refusal::InvalidData("it is the index of a group".to_owned()))
                    }
                };
                leaves.into_iter().map(entry).collect()
            }
            Index::FixedArray => {
                collect_fixed_array_chunk_entries_storage(bytes, address, width, length, shape, dims, None)
            }
            Index::ExtensibleArray => {
                let most = self.most.as_deref();
                collect_extensible_array_chunk_entries_storage(
                    bytes, address, width, length, shape, most, dims, None,
                )
            }
            Index::Tree2 => collect_v2_chunk_entries_storage(bytes, address, width, length, rank, dims, None),
        }
    }

    /// The place of the chunk that begins at an element; `None` of one outside of the dataset, as is left where that shrank.
    fn nth(&self, offsets: &[u64]) -> Option<u64> {
        let place = offsets.iter().zip(&self.layout.dims).map(|(&at, &chunk)| at / u64::from(chunk).max(1));
        self.linear(place)
    }

    fn linear(&self, place: impl Iterator<Item = u64>) -> Option<u64> {
        self.counts().zip(place).try_fold(0_u64, |nth, (count, at)| {
            (at < count).then(|| nth.checked_mul(count)?.checked_add(at))?
        })
    }

    /// Whether a chunk reaches beyond the dataset, and such are stored as they are.
    fn is_plain(&self, offsets: &[u64]) -> bool {
        let mut ends = offsets.iter().zip(&self.layout.dims).zip(&self.shape);
        self.layout.plain_edges && ends.any(|((&at, &chunk), &dim)| at.saturating_add(chunk.into()) > dim)
    }
}

impl Chunks for Table {
    fn find(&self, read: Read<'_>, place: &[u64]) -> Result<Option<Chunk>> {
        let nth = self
            .linear(place.iter().copied())
            .ok_or_else(|| Error::new(Code::OutOfBounds, "a chunk outside of its dataset is asked for"))?;
        if self.layout.index == Index::Implicit {
            let beyond = || Error::new(Code::OutOfBounds, "a chunk lies beyond 2^64");
            let address = nth.checked_mul(self.bytes).and_then(|at| at.checked_add(self.layout.address));
            let offset =
                address.and_then(|address| address.checked_add(self.place.base)).ok_or_else(beyond)?;
            return Ok(Some(Chunk { offset, stored: self.bytes, skipped: 0 }));
        }
        let entries = self.entries(read)?;
        let found = entries.binary_search_by_key(&nth, |entry| entry.nth).ok();
        Ok(found.and_then(|at| entries.get(at)).map(|entry| entry.chunk))
    }

    fn written(&self, read: Read<'_>, first: &[u64], last: &[u64]) -> Result<Option<Vec<Vec<u64>>>> {
        if self.layout.index == Index::Implicit {
            return Ok(None);
        }
        let entries = self.entries(read)?;
        let between =
            first.iter().zip(last).map(|(first, last)| last.saturating_sub(*first).saturating_add(1));
        if between.fold(1, u64::saturating_mul) <= entries.len() as u64 {
            return Ok(None);
        }
        let counts: Vec<u64> = self.counts().collect();
        let place = |entry: &Entry| {
            let mut nth = entry.nth;
            // Arrays in elements are a dimension of one chunk.
            let mut place = vec![0; first.len()];
            for (at, &count) in place.iter_mut().take(counts.len()).rev().zip(counts.iter().rev()) {
                (*at, nth) = (nth % count.max(1), nth / count.max(1));
            }
            let is_between =
                place.iter().zip(first.iter().zip(last)).all(|(at, (first, last))| first <= at && at <= last);
            is_between.then_some(place)
        };
        Ok(Some(entries.iter().filter_map(place).collect()))
    }
}

/// The chunks of data that was never written.
pub struct Unwritten;

impl Chunks for Unwritten {
    fn find(&self, _: Read<'_>, _: &[u64]) -> Result<Option<Chunk>> {
        Ok(None)
    }

    fn written(&self, _: Read<'_>, _: &[u64], _: &[u64]) -> Result<Option<Vec<Vec<u64>>>> {
        Ok(Some(Vec::new()))
    }
}
