//! Fractal heaps (`HDF5 File Format Specification` III.G): objects of any size by id.
//!
//! The library reads the header and huge or tiny objects. It does not find objects after the first 512 KiB or so of a heap, where indirect
//! blocks begin; this module reads all objects in blocks.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::rc::Rc;

use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::fractal_heap::FractalHeap;
use ztensor_core::checked::slice;
use ztensor_core::error::{Code, Error, Result};

use super::storage::{Bytes, Sizes, bad};

/// Maximum nesting of indirect blocks, and rows of one: sizes double from row to row.
const DEPTH: u32 = 32;
const ROWS: u64 = 64;

/// A fractal heap and the blocks of it that were read.
pub struct Heap {
    address: u64,
    sizes: Sizes,
    header: FractalHeap,
    blocks: HashMap<u64, Rc<Vec<u8>>>,
}

impl Heap {
    pub fn read(file: &Bytes<'_>, sizes: Sizes, address: u64) -> Result<Self> {
        let header = FractalHeap::parse_at_storage(file, address, sizes.address, sizes.length)
            .map_err(|error| file.refusal(&error, "a fractal heap", address))?;
        if header.io_filters_len > 0 {
            let message = "a fractal heap whose blocks are compressed is not supported";
            return Err(Error::new(Code::UnsupportedEncoding, message).at(file.offset(address)));
        }
        Ok(Self { address, sizes, header, blocks: HashMap::new() })
    }

    /// Returns the object with an id.
    pub fn get(&mut self, file: &Bytes<'_>, id: &[u8]) -> Result<Vec<u8>> {
        let is_managed = id.first().is_some_and(|first| first & 0x30 == 0);
        let bytes = if is_managed {
            self.managed(file, id).map_err(|error| error.at(file.offset(self.address)))?
        } else {
            let Sizes { address: width, length } = self.sizes;
            self.header
                .get_object_storage(id, file, width, length)
                .map_err(|error| file.refusal(&error, "a fractal heap", self.address))?
        };
        file.charge(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Returns an object in a block, whose id is its offset and length.
    fn managed(&mut self, file: &Bytes<'_>, id: &[u8]) -> Result<Vec<u8>> {
        let max = self.header.max_direct_block_size.min(self.header.max_managed_object_size);
        let at = u64::from(self.header.max_heap_size).div_ceil(8);
        let number = |offset, width| {
            let bytes = slice(id, offset, width)?;
            Some(bytes.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte)))
        };
        let width = u64::from(max.max(1).ilog2()) / 8 + 1;
        let (Some(offset), Some(length)) = (number(1, at), number(1 + at, width)) else {
            return Err(bad("the id of an object in a heap is too short"));
        };
        let (block, start) = self.block(file, offset)?;
        let object = offset.checked_sub(start).and_then(|within| slice(&block, within, length));
        object.map(<[u8]>::to_vec).ok_or_else(|| bad("an object extends past its heap block"))
    }

    /// Returns the size of the blocks in a row.
    fn size(&self, row: u64) -> Option<u64> {
        let doubled = u32::try_from(row.saturating_sub(1)).ok()?;
        self.header.starting_block_size.checked_mul(1_u64.checked_shl(doubled)?)
    }

    /// Returns the block that holds an offset of the heap, and the offset at which it begins.
    fn block(&mut self, file: &Bytes<'_>, offset: u64) -> Result<(Rc<Vec<u8>>, u64)> {
        let nowhere = || bad("an object lies outside its heap");
        let width = u64::from(self.header.table_width);
        let (mut address, mut start) = (self.header.root_block_address, 0);
        let mut rows = u64::from(self.header.current_rows_in_root_indirect);
        let mut size = self.header.starting_block_size;
        for _ in 0..DEPTH {
            if rows == 0 {
                return Ok((self.direct(file, address, size)?, start));
            }
            let table = self.indirect(file, address, rows)?;
            let (size_here, entry) = self.entry(offset, &mut start, rows).ok_or_else(nowhere)?;
            size = size_here;
            let bytes = slice(&table, entry * u64::from(self.sizes.address), self.sizes.address.into());
            let bytes = bytes.ok_or_else(nowhere)?;
            address = bytes.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
            // A block larger than the maximum direct block size is an indirect block, with as many rows as its size requires.
            rows = if size <= self.header.max_direct_block_size {
                0
            } else {
                let first = self.header.starting_block_size.checked_mul(width).filter(|&first| first > 0);
                let times = size / first.ok_or_else(nowhere)?;
                times.checked_ilog2().map_or(0, |doubled| u64::from(doubled) + 1)
            };
            if rows == 0 && size > self.header.max_direct_block_size {
                return Err(nowhere());
            }
        }
        Err(bad("heap blocks are nested too deep"))
    }

    /// Returns the size and the number of the block that holds an offset in an indirect block that begins at `start`, and sets `start` to
    /// the offset of that block.
    fn entry(&self, offset: u64, start: &mut u64, rows: u64) -> Option<(u64, u64)> {
        let width = u64::from(self.header.table_width);
        for row in 0..rows {
            let size = self.size(row)?;
            let all = size.checked_mul(width)?;
            let within = offset.checked_sub(*start)?;
            if within < all {
                let column = within / size;
                *start += column * size;
                return Some((size, row * width + column));
            }
            *start = start.checked_add(all)?;
        }
        None
    }

    /// Returns the addresses in an indirect block.
    fn indirect(&mut self, file: &Bytes<'_>, address: u64, rows: u64) -> Result<Rc<Vec<u8>>> {
        if let Some(known) = self.blocks.get(&address) {
            return Ok(Rc::clone(known));
        }
        if rows > ROWS {
            return Err(bad(format!("a heap block has {rows} rows")));
        }
        let width = u64::from(self.sizes.address);
        let head = 5 + width + u64::from(self.header.max_heap_size).div_ceil(8);
        let mut bytes = file.checked(address, head + rows * u64::from(self.header.table_width) * width)?;
        if !bytes.starts_with(b"FHIB") {
            return Err(bad("a heap block has no signature"));
        }
        bytes.drain(..usize::try_from(head).unwrap_or_default().min(bytes.len()));
        Ok(self.keep(address, bytes))
    }

    fn direct(&mut self, file: &Bytes<'_>, address: u64, size: u64) -> Result<Rc<Vec<u8>>> {
        /// The flag of blocks with checksums.
        const CHECKED: u8 = 2;
        if let Some(known) = self.blocks.get(&address) {
            return Ok(Rc::clone(known));
        }
        let mut bytes = file.at(address, size)?;
        if !bytes.starts_with(b"FHDB") {
            return Err(bad("a heap block has no signature"));
        }
        if self.header.flags & CHECKED != 0 {
            let head = 5 + u64::from(self.sizes.address) + u64::from(self.header.max_heap_size).div_ceil(8);
            let field = usize::try_from(head).ok().and_then(|at| bytes.get_mut(at..at + 4));
            let field = field.ok_or_else(|| bad("a heap block is too short"))?;
            // The checksum covers the block with zeros in its own position.
            let stored = field.to_vec();
            field.fill(0);
            if jenkins_lookup3(&bytes).to_le_bytes() != *stored {
                let message = "the checksum of a heap block does not match";
                return Err(Error::new(Code::DigestMismatch, message).at(file.offset(address)));
            }
        }
        Ok(self.keep(address, bytes))
    }

    fn keep(&mut self, address: u64, bytes: Vec<u8>) -> Rc<Vec<u8>> {
        let bytes = Rc::new(bytes);
        self.blocks.insert(address, Rc::clone(&bytes));
        bytes
    }
}
