//! The block digests of a copy: a header, and 16 bytes for each block. Anything else is treated as a missing block.

use std::fs::File;
use std::io;
use std::ops::Range;

use ztensor_core::codecs::digest::xxh3;

use super::positioned::{read_at, write_at};

/// Bytes of a block: what a request to a distant store costs in bytes of its stream.
pub const BLOCK: u64 = 1 << 20;

const MAGIC: &[u8; 8] = b"ztcache2";
/// Magic, length, block size, the name in 64 characters, and a checksum of these.
const HEADER: usize = 96;
const RECORD: usize = 16;

/// Returns the numbers of the blocks that a range overlaps.
pub fn blocks(offset: u64, length: u64) -> Range<u64> {
    let first = offset / BLOCK;
    first..if length == 0 { first } else { offset.saturating_add(length).div_ceil(BLOCK) }
}

/// Characters of a name.
const NAME: usize = 64;

/// Returns the bytes of the table of a file of `length` bytes.
pub fn size(length: u64) -> u64 {
    HEADER as u64 + length.div_ceil(BLOCK).saturating_mul(RECORD as u64)
}

/// Returns the header of the table of a copy of `length` bytes. It contains its name, so that a renamed table is invalid.
pub fn header(name: &str, length: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        if let Some(to) = header.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
            at += bytes.len();
        }
    };
    for field in [MAGIC.as_slice(), &length.to_le_bytes(), &BLOCK.to_le_bytes()] {
        put(field);
    }
    put(&name_bytes(name));
    let check = xxh3(header.get(..HEADER - 8).unwrap_or_default()).to_le_bytes();
    if let Some(to) = header.last_chunk_mut() {
        *to = check;
    }
    header
}

/// Pads a name to the fixed length of names.
fn name_bytes(name: &str) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

pub struct Table {
    pub file: File,
    name: [u8; NAME],
    length: u64,
}

impl Table {
    /// Returns the table of a copy of a file of `length` bytes, or `None` if it is invalid.
    pub fn of(file: File, name: &str, length: u64) -> Option<Self> {
        let mut start = [0; HEADER];
        read_at(&file, &mut start, 0).ok()?;
        let is_its = start == header(name, length);
        is_its.then_some(Self { file, name: name_bytes(name), length })
    }

    fn at(number: u64) -> u64 {
        (HEADER as u64).saturating_add(number.saturating_mul(RECORD as u64))
    }

    /// A digest is bound to one block of one copy, and a partly written record never matches.
    fn record(&self, number: u64, digest: u64) -> [u8; RECORD] {
        let fields = [*MAGIC, self.length.to_le_bytes(), number.to_le_bytes(), digest.to_le_bytes()];
        let mut record = [0; RECORD];
        let parts = [digest, xxh3(&[fields.as_flattened(), &self.name].concat())];
        for (to, part) in record.as_chunks_mut::<8>().0.iter_mut().zip(parts) {
            *to = part.to_le_bytes();
        }
        record
    }

    /// Returns the expected digest of a block, or `None` if it was not written.
    pub fn digest(&self, number: u64) -> Option<u64> {
        let mut record = [0; RECORD];
        read_at(&self.file, &mut record, Self::at(number)).ok()?;
        let digest = u64::from_le_bytes(*record.first_chunk()?);
        (record == self.record(number, digest)).then_some(digest)
    }

    /// Records the digest of a block that was already written.
    pub fn write(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        write_at(&self.file, &self.record(number, xxh3(bytes)), Self::at(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";

    fn table(name: &str, length: u64) -> Table {
        let path = std::env::temp_dir().join(format!("ztensor-table-{name}-{}", std::process::id()));
        std::fs::write(&path, header(A, length)).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(size(length)).unwrap();
        Table::of(file, A, length).unwrap()
    }

    #[test]
    fn ranges_touch_blocks() {
        for (offset, length, expected) in [
            (0, 0, 0..0),
            (0, 1, 0..1),
            (0, BLOCK, 0..1),
            (0, BLOCK + 1, 0..2),
            (BLOCK - 1, 2, 0..2),
            (3 * BLOCK, 1, 3..4),
        ] {
            assert_eq!(blocks(offset, length), expected, "{offset} {length}");
        }
        assert_eq!([size(0), size(1), size(BLOCK), size(BLOCK + 1)], [96, 112, 112, 128]);
    }

    #[test]
    fn a_cached_block_exists_once_its_record_does() {
        let table = table("there", 5 * BLOCK);
        assert_eq!(table.digest(3), None);
        table.write(3, b"abc").unwrap();
        assert_eq!(table.digest(3), Some(xxh3(b"abc")));
        assert_eq!((table.digest(2), table.digest(4), table.digest(1 << 40)), (None, None, None));
    }

    #[test]
    fn any_other_bytes_are_no_record() {
        let table = table("other", 5 * BLOCK);
        table.write(3, b"abc").unwrap();
        let mut record = [0; RECORD];
        read_at(&table.file, &mut record, Table::at(3)).unwrap();
        for at in 0..RECORD * 8 {
            let mut flipped = record;
            flipped[at / 8] ^= 1 << (at % 8);
            write_at(&table.file, &flipped, Table::at(3)).unwrap();
            assert_eq!(table.digest(3), None, "{at}");
        }
        // The record of another block.
        write_at(&table.file, &record, Table::at(2)).unwrap();
        assert_eq!(table.digest(2), None);
        // A partly written record.
        write_at(&table.file, &[0; 8], Table::at(3) + 8).unwrap();
        assert_eq!(table.digest(3), None);
    }

    #[test]
    fn a_table_is_of_one_name_and_length() {
        let Table { file, .. } = table("length", 5 * BLOCK);
        let of = |name: &str, length: u64| Table::of(file.try_clone().unwrap(), name, length);
        assert!(of(A, 5 * BLOCK).is_some());
        assert!(of(A, 4 * BLOCK).is_none());
        assert!(of(B, 5 * BLOCK).is_none());
        assert!(of("", 5 * BLOCK).is_none());
        for at in 0..HEADER as u64 {
            let mut byte = [0];
            read_at(&file, &mut byte, at).unwrap();
            write_at(&file, &[byte[0] ^ 1], at).unwrap();
            assert!(of(A, 5 * BLOCK).is_none(), "{at}");
            write_at(&file, &byte, at).unwrap();
        }
    }

    #[test]
    fn records_of_another_copy_are_ignored() {
        let table = table("renamed", 5 * BLOCK);
        table.write(3, b"abc").unwrap();
        let other = Table { file: table.file.try_clone().unwrap(), name: name_bytes(B), length: 5 * BLOCK };
        assert_eq!((table.digest(3), other.digest(3)), (Some(xxh3(b"abc")), None));
    }
}
