//! Global heap collections (`HDF5 File Format Specification` III.E): variable-length strings and sequences, by number.
//!
//! The library assumes that the headers of a collection and of its objects are as long as their fields. In files with 2- or 4-byte lengths
//! they are padded to 8 bytes.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ops::Range;

use hdf5_reader::io::Cursor;
use ztensor_core::checked::slice;
use ztensor_core::error::Result;

use super::storage::bad;
use super::storage::{Bytes, refusal};

pub const HEAP_RULE: &str = "HDF5 III.E Disk Format: Level 1E - Global Heap";
const SIGNATURE: &[u8; 4] = b"GCOL";
/// Headers and objects are padded to a multiple of this.
const ALIGNMENT: usize = 8;

pub struct Collection {
    bytes: Vec<u8>,
    objects: HashMap<u16, Range<usize>>,
}

impl Collection {
    /// Reads the collection at an address of a file with lengths of `width` bytes.
    pub fn read(bytes: &Bytes<'_>, address: u64, width: u8) -> Result<Self> {
        // The header of the collection and of each of its objects.
        let head = (8 + usize::from(width)).next_multiple_of(ALIGNMENT);
        let first = bytes.at(address, head as u64)?;
        if first.get(4) != Some(&1) || !first.starts_with(SIGNATURE) {
            return Err(bad("a global heap has no signature, or an unsupported version"));
        }
        let length = length_at(&first, 8, width)?;
        let all = bytes.at(address, length)?;
        let (mut at, mut objects) = (head, HashMap::new());
        // Number 0 is the remaining free space.
        while let Some(&[low, high, ..]) = all.get(at..).filter(|rest| rest.len() >= head) {
            let number = u16::from_le_bytes([low, high]);
            if number == 0 {
                break;
            }
            let size = length_at(&all, at + 8, width)?;
            let start = at + head;
            let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size));
            let end = end.filter(|&end| end <= all.len());
            let end = end.ok_or_else(|| bad(format!("object {number} extends past its global heap")))?;
            objects.entry(number).or_insert(start..end);
            at = end.next_multiple_of(ALIGNMENT);
        }
        Ok(Self { bytes: all, objects })
    }

    pub fn object(&self, number: u16) -> Option<&[u8]> {
        self.bytes.get(self.objects.get(&number)?.clone())
    }
}

fn length_at(bytes: &[u8], at: usize, width: u8) -> Result<u64> {
    let field = slice(bytes, at as u64, width.into()).unwrap_or_default();
    Cursor::new(field).read_length(width).map_err(|error| refusal(&error, "a global heap"))
}
