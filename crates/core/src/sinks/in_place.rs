//! A file that grows in place. Its old bytes never change, so aborting means truncating it or, if Windows does not
//! permit truncating a mapped file, appending its old index again.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;

use super::existing::ExistingFile;
use crate::error::{Code, Error, Result};
use crate::sources::ReadAt;
use crate::work::Stop;

/// Page size: the largest alignment of data in a file.
const PAGE: u64 = 4096;

/// The old file's index, and how to write it at a different position.
pub struct OldIndex {
    pub range: Range<u64>,
    pub tail: Box<Tail>,
}

/// Encodes an index at an offset, and the bytes after it.
pub type Tail = dyn Fn(&[u8], u64) -> Vec<u8> + Send;

pub struct InPlaceFile {
    original: ExistingFile,
    index: OldIndex,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Untouched,
    /// Its length may have changed. The file's own position is the end.
    Growing,
    Committed,
}

impl InPlaceFile {
    pub fn new(original: ExistingFile, index: OldIndex) -> Self {
        Self { original, index, state: State::Untouched }
    }

    /// Returns the file, once it has begun to grow.
    pub fn begun(&self) -> Option<&File> {
        (self.state == State::Growing).then(|| self.original.file())
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut file = self.original.file();
        if self.state == State::Untouched {
            self.original.unchanged()?;
            file.seek(SeekFrom::Start(self.original.length())).map_err(|error| Error::io("lseek", &error))?;
            self.state = State::Growing;
        }
        file.write_all(bytes).map_err(|error| Error::io("write", &error))
    }

    /// Syncs the added bytes.
    pub fn commit(mut self) -> Result<()> {
        let mut file = self.original.file();
        let end = file.stream_position().map_err(|error| Error::io("lseek", &error))?;
        let length = file.metadata().map_err(|error| Error::io("fstat", &error))?.len();
        if self.state == State::Growing && length != end {
            return Err(Error::new(
                Code::Io,
                "the file was written by another process while it was edited in place",
            ));
        }
        file.sync_all().map_err(|error| Error::io("fsync", &error))?;
        self.state = State::Committed;
        Ok(())
    }
}

impl InPlaceFile {
    /// Ends the file after the added data with its old index.
    fn end_as_before(&self) -> Result<()> {
        let mut file = self.original.file();
        let OldIndex { range, tail } = &self.index;
        let index = self.original.source().read_vec(range.start, range.end - range.start, Stop::never())?;
        let end = file.seek(SeekFrom::End(0)).map_err(|error| Error::io("lseek", &error))?;
        let at = end.next_multiple_of(PAGE);
        file.seek(SeekFrom::Start(at)).map_err(|error| Error::io("lseek", &error))?;
        file.write_all(&tail(&index, at)).map_err(|error| Error::io("write", &error))
    }
}

impl Drop for InPlaceFile {
    fn drop(&mut self) {
        if self.state == State::Growing {
            // There is no caller to report to.
            if self.original.file().set_len(self.original.length()).is_err() {
                let _ = self.end_as_before();
            }
            let _ = self.original.file().sync_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::edit::Edit;
    use crate::formats::Formats;
    use crate::limits::Limits;
    use crate::open::detect;

    #[test]
    fn a_file_that_cannot_be_truncated_ends_with_its_old_index() {
        for name in ["zt100-dtypes.zt", "zt12-crc32c.zt", "zt2-shapes.zt"] {
            let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__test__/fixtures");
            let before = fs::read(fixtures.join(name)).unwrap();
            let path = std::env::temp_dir().join(format!("ztensor-in-place-{}-{name}", std::process::id()));
            fs::write(&path, &before).unwrap();
            let original = ExistingFile::open(&path, true).unwrap();
            let index =
                Edit::open(original.source(), Formats::default(), &Limits::default()).unwrap().old_index();
            let mut file = InPlaceFile::new(original, index);
            file.write(&[7; 5000]).unwrap();
            file.end_as_before().unwrap();
            // Not truncated, although it would be possible here.
            file.state = State::Committed;
            drop(file);
            let after = fs::read(&path).unwrap();
            assert!(after.len() > before.len() + 5000 && after.starts_with(&before), "{name}");
            let parse = |bytes: &[u8]| detect::parse(&bytes, Formats::default(), &Limits::default()).unwrap();
            let (old, new) = (parse(&before), parse(&after));
            assert_eq!(old.len(), new.len());
            for (one, other) in old.iter().zip(new.iter()) {
                assert_eq!(one.name(), other.name());
                assert_eq!(format!("{:?}", one.components()), format!("{:?}", other.components()));
            }
            fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_file_written_by_another_process_is_not_committed() {
        let path = std::env::temp_dir().join(format!("ztensor-in-place-other-{}", std::process::id()));
        let with = |start: &[u8]| {
            fs::write(&path, start).unwrap();
            let index = OldIndex { range: 0..0, tail: Box::new(|_, _| Vec::new()) };
            InPlaceFile::new(ExistingFile::open(&path, true).unwrap(), index)
        };
        let mut committed = with(b"before");
        assert!(committed.begun().is_none());
        committed.write(b", after").unwrap();
        assert!(committed.begun().is_some());
        committed.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before, after");
        let mut given_up = with(b"before");
        given_up.write(b", after").unwrap();
        drop(given_up);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        let mut mixed = with(b"before");
        mixed.write(b", after").unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b", else").unwrap();
        assert_eq!(mixed.commit().unwrap_err().code(), Code::Io);
        with(b"untouched").commit().unwrap();
        fs::remove_file(path).unwrap();
    }
}
