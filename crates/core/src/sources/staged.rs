//! Memory copies of ranges of a file.
#![forbid(unsafe_code)]

use super::owned::Owned;
use super::{ReadAt, ends_early};
use crate::arrange::Arrange;
use crate::checked;
use crate::error::Result;
use crate::work::Stop;

/// Ranges copied from a file of `total` bytes in the caller's memory.
pub struct Staged {
    /// Offset and bytes of each, sorted by offset.
    pieces: Vec<(u64, Owned)>,
    total: u64,
}

impl Staged {
    pub fn new(mut pieces: Vec<(u64, Owned)>, total: u64) -> Self {
        pieces.arrange_by_key(|&(offset, _)| offset);
        Self { pieces, total }
    }
}

impl Staged {
    fn piece(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let after = self.pieces.partition_point(|&(start, _)| start <= offset);
        let (start, bytes) = self.pieces.get(after.checked_sub(1)?)?;
        checked::slice(bytes, offset - start, length)
    }
}

impl ReadAt for Staged {
    fn length(&self) -> u64 {
        self.total
    }

    fn holds(&self, offset: u64, length: u64) -> bool {
        self.piece(offset, length).is_some()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _stop: &Stop) -> Result<()> {
        let length = buffer.len() as u64;
        if length == 0 {
            return Ok(());
        }
        let bytes = self.piece(offset, length);
        buffer.copy_from_slice(bytes.ok_or_else(|| ends_early(offset, length, self.total))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn only_staged_ranges_can_be_read() {
        let piece = |bytes: &[u8]| Owned::from(bytes.to_vec());
        let staged =
            Staged::new(vec![(100, piece(b"later")), (10, piece(b"first")), (15, piece(b"next"))], 1000);
        assert_eq!(staged.length(), 1000);
        for (offset, expected) in
            [(10, "first"), (11, "irst"), (15, "next"), (100, "later"), (104, "r"), (500, "")]
        {
            let mut read = vec![0; expected.len()];
            staged.read_at(offset, &mut read, Stop::never()).unwrap();
            assert_eq!(read, expected.as_bytes());
            assert!(expected.is_empty() || staged.holds(offset, expected.len() as u64));
        }
        // Before all, after one, past the end, and across two adjacent ones.
        for (offset, length) in [(9, 2), (105, 1), (101, 5), (14, 2), (0, 1)] {
            assert!(!staged.holds(offset, length));
            let read = staged.read_at(offset, &mut vec![0; usize::try_from(length).unwrap()], Stop::never());
            assert_eq!(read.unwrap_err().code(), Code::Truncated, "{offset}");
        }
    }
}
