//! The canonical form of zTensor 2 (§6.3) stores equal blobs once. A duplicate is removed as soon as it ends, so that
//! the file need not be rewritten for it.
#![forbid(unsafe_code)]

use std::fs::File;

use super::Writer;
use super::blob::WrittenBlob;
use super::destination::Destination;
use crate::error::Result;
use crate::sources::file::read_at;
use crate::work::PIECE;

impl Writer {
    /// Returns the offset of the finished blob of `length` bytes, or of an earlier blob with the same bytes.
    pub(super) fn once(&mut self, done: &WrittenBlob, length: u64) -> Result<u64> {
        if !self.settings.canonical || length == 0 || !matches!(self.out, Destination::File(_)) {
            return Ok(done.offset);
        }
        let first = *self.contents.entry((done.digest.clone(), length)).or_insert(done.offset);
        if first == done.offset {
            return Ok(first);
        }
        self.flush()?;
        let Destination::File(file) = &mut self.out else { return Ok(done.offset) };
        // Hashes can collide, so compare the bytes.
        if !same(file.file(), first, done.offset, length)? {
            return Ok(done.offset);
        }
        file.truncate(done.offset)?;
        self.position = done.offset;
        Ok(first)
    }
}

/// Returns whether two ranges of a file hold the same bytes.
pub(super) fn same(file: &File, one: u64, other: u64, length: u64) -> Result<bool> {
    if one == other {
        return Ok(true);
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < length {
        let piece = usize::try_from(length - at).unwrap_or(PIECE).min(PIECE);
        for (bytes, start) in [(&mut ours, one), (&mut theirs, other)] {
            bytes.resize(piece, 0);
            read_at(file, start + at, bytes)?;
        }
        if ours != theirs {
            return Ok(false);
        }
        at += piece as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranges_with_equal_bytes_are_equal() {
        let path = std::env::temp_dir().join(format!("ztensor-same-{}", std::process::id()));
        let long = PIECE + 1000;
        let content: Vec<u8> = (0..long).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let mut other = content.clone();
        *other.last_mut().unwrap() ^= 1;
        std::fs::write(&path, [&content[..], &content, &other].concat()).unwrap();
        let file = File::open(&path).unwrap();
        let long = long as u64;
        let equal = |one, other, length| same(&file, one, other, length).unwrap();
        assert!(equal(5, 5, long) && equal(0, long, long) && equal(0, 2 * long, long - 1));
        assert!(!equal(0, 2 * long, long) && !equal(long, 2 * long, long) && !equal(0, 1, 10));
        assert!(same(&file, 0, 3 * long, 1).is_err(), "the file ends");
        std::fs::remove_file(path).unwrap();
    }
}
