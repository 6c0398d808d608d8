//! Small files whose bytes are all in memory.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{AtomicFile, Warning};
use crate::error::{Code, Result};
use crate::sources::ReadAt;
use crate::sources::file::FileSource;
use crate::work::Stop;

/// Bytes that are compared at once.
const PIECE: usize = 1 << 20;

/// Writes a file, which appears complete or not at all. Fails with `ZT_EXISTS` if it exists with other bytes, unless it may be overwritten.
pub fn write_whole(target: &Path, bytes: &[u8], overwrite: bool, stop: &Stop) -> Result<Vec<Warning>> {
    let write = || {
        let mut file = AtomicFile::create(target, overwrite)?;
        file.write(bytes)?;
        stop.check()?;
        file.commit()
    };
    write().or_else(|error| {
        let is_same = error.code() == Code::Exists && {
            // What cannot be read, such as a folder or a pipe, has other bytes.
            FileSource::open(target).and_then(|file| has_bytes(&file, bytes, stop)).unwrap_or(false)
        };
        if is_same { Ok(Vec::new()) } else { Err(error) }
    })
}

/// Returns whether a source has exactly these bytes.
pub fn has_bytes(source: &dyn ReadAt, bytes: &[u8], stop: &Stop) -> Result<bool> {
    if source.length() != bytes.len() as u64 {
        return Ok(false);
    }
    let mut offset = 0;
    for piece in bytes.chunks(PIECE) {
        if source.read_vec(offset, piece.len() as u64, stop)? != piece {
            return Ok(false);
        }
        offset += piece.len() as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_is_written_once_and_an_identical_one_is_no_error() {
        let folder = std::env::temp_dir().join(format!("ztensor-whole-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (target, stop) = (folder.join("a"), Stop::default());
        let code = |bytes: &[u8], overwrite| {
            write_whole(&target, bytes, overwrite, &stop).err().map(|error| error.code())
        };
        let long = vec![7; PIECE + 1];
        let mut other = long.clone();
        other[PIECE] = 8;
        assert_eq!(code(&long, false), None);
        assert_eq!(code(&long, false), None);
        for different in [&other[..], &long[1..], b""] {
            assert_eq!(code(different, false), Some(Code::Exists));
            assert_eq!(std::fs::read(&target).unwrap(), long);
        }
        assert_eq!(code(&other, true), None);
        assert_eq!(std::fs::read(&target).unwrap(), other);
        std::fs::remove_file(&target).unwrap();
        std::fs::create_dir(&target).unwrap();
        assert_eq!(code(b"", false), Some(Code::Exists));
        assert_eq!(code(b"", true), Some(Code::Io));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
