//! Replaces the bytes before the data of an existing file. The data is not copied if the file system can do without.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;

use super::existing::ExistingFile;
use super::{AtomicFile, Warning, blocks};
use crate::error::{Code, Error, Result};
use crate::sources::ReadAt;
use crate::sources::elsewhere::is_open_elsewhere;
use crate::work::{Stop, Watch};

/// How a file was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Nothing changed.
    Unchanged,
    /// One write to the file itself.
    InPlace,
    /// Blocks were inserted into the file itself, then one write.
    Inserted,
    /// A clone that shares the blocks of the old file replaced it.
    Cloned,
    /// A copy replaced the file.
    Copied,
}

impl Method {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::InPlace => "in-place",
            Self::Inserted => "inserted",
            Self::Cloned => "cloned",
            Self::Copied => "copied",
        }
    }
}

/// A new front of a file. The data behind it moves by a multiple of [`blocks::size`], or stays.
pub struct HeaderRewrite<'f> {
    /// All bytes before the data; at least as many as before.
    pub bytes: &'f [u8],
    /// Where the data of the old file begins.
    pub old_data: u64,
    /// The ranges of the old file that follow the front.
    pub retained: &'f [Range<u64>],
}

impl HeaderRewrite<'_> {
    /// Returns the end of the data in the old file, if what is retained is all of the data up to there.
    fn retained_up_to(&self) -> Option<u64> {
        match self.retained {
            [] => Some(self.old_data),
            [range] if range.start == self.old_data => Some(range.end),
            _ => None,
        }
    }

    fn shift(&self) -> u64 {
        (self.bytes.len() as u64).saturating_sub(self.old_data)
    }

    /// Returns the length of the new file.
    pub fn total(&self) -> u64 {
        self.bytes.len() as u64 + self.retained.iter().map(|range| range.end - range.start).sum::<u64>()
    }
}

/// Replaces the front of a file that was opened for writing: in the file itself if possible, otherwise like [`replace`].
pub fn write_in_place(
    original: ExistingFile,
    front: &HeaderRewrite<'_>,
    watch: &Watch,
) -> Result<(Method, Vec<Warning>)> {
    let Some(end) = front.retained_up_to() else { return replace(original, front, watch) };
    watch.stop.check()?;
    original.unchanged()?;
    let file = original.file();
    let old = original.source().read_vec(0, front.old_data, Stop::never())?;
    if end < original.length() && is_open_elsewhere(file) == Some(true) {
        return Err(open_elsewhere("become shorter", "read zeros or end with SIGBUS"));
    }
    let method = match front.shift() {
        0 => {
            let Some(changed) = difference(&old, front.bytes) else {
                return shorten(&original, end).map(|method| (method, Vec::new()));
            };
            let (before, after) = (old.get(changed.clone()), front.bytes.get(changed.clone()));
            if let Err(error) = write_at(file, changed.start as u64, after.unwrap_or_default()) {
                let _ = write_at(file, changed.start as u64, before.unwrap_or_default());
                return Err(error);
            }
            Method::InPlace
        }
        shift => {
            if is_open_elsewhere(file) == Some(true) {
                return Err(open_elsewhere("move", "read wrong bytes"));
            }
            if !blocks::insert(file, shift)? {
                return replace(original, front, watch);
            }
            // Until the front is written, the file begins with zeros, followed by all of the old file.
            if let Err(error) = write_at(file, 0, front.bytes) {
                if write_at(file, shift, &old).is_ok() {
                    let _ = blocks::collapse(file, shift);
                }
                return Err(error);
            }
            Method::Inserted
        }
    };
    if end < original.length() {
        file.set_len(end + front.shift()).map_err(|error| Error::io("ftruncate", &error))?;
    }
    file.sync_all().map_err(|error| Error::io("fsync", &error))?;
    Ok((method, Vec::new()))
}

fn open_elsewhere(what: &str, then: &str) -> Error {
    let message = format!(
        "the data would {what} in a file that is open elsewhere, in this process or another one, which would then {then}; close it \
         there"
    );
    Error::new(Code::Io, message).hint("inPlace", ", or edit it without the option inPlace")
}

/// Shortens a file whose front stays.
fn shorten(original: &ExistingFile, end: u64) -> Result<Method> {
    if end >= original.length() {
        return Ok(Method::Unchanged);
    }
    original.file().set_len(end).map_err(|error| Error::io("ftruncate", &error))?;
    original.file().sync_all().map_err(|error| Error::io("fsync", &error))?;
    Ok(Method::InPlace)
}

/// Returns the range outside of which two arrays of the same length are equal; `None` if they are equal.
fn difference(old: &[u8], new: &[u8]) -> Option<Range<usize>> {
    let start = old.iter().zip(new).position(|(old, new)| old != new)?;
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    Some(start..new.len() - same)
}

fn write_at(mut file: &File, offset: u64, bytes: &[u8]) -> Result<()> {
    file.seek(SeekFrom::Start(offset)).map_err(|error| Error::io("lseek", &error))?;
    file.write_all(bytes).map_err(|error| Error::io("write", &error))
}

/// Replaces the file by one with the new front: a clone, or a copy if the file system cannot clone.
pub fn replace(
    original: ExistingFile,
    front: &HeaderRewrite<'_>,
    watch: &Watch,
) -> Result<(Method, Vec<Warning>)> {
    watch.stop.check()?;
    original.unchanged()?;
    let mut file = AtomicFile::create(original.path(), true)?;
    let method = if clone(&mut file, &original, front)? {
        Method::Cloned
    } else {
        watch.expect(front.total() - front.bytes.len() as u64, 0);
        file.write(front.bytes)?;
        for range in front.retained {
            file.copy_sparsely(original.file(), range.clone(), watch)?;
        }
        // Holes at the end were skipped.
        file.truncate(front.total())?;
        Method::Copied
    };
    // The sync before it may take long.
    let warnings = file.commit_if(|| watch.stop.check().and_then(|()| original.last_look()))?;
    Ok((method, warnings))
}

/// Makes `file` a clone with the new front. Returns false, with an empty file, if the file system cannot.
fn clone(file: &mut AtomicFile, original: &ExistingFile, front: &HeaderRewrite<'_>) -> Result<bool> {
    let Some(end) = front.retained_up_to() else { return Ok(false) };
    if !file.share(original.file(), end)? {
        return Ok(false);
    }
    if front.shift() > 0 && !blocks::insert(file.file(), front.shift())? {
        file.truncate(0)?;
        return Ok(false);
    }
    write_at(file.file(), 0, front.bytes).map_err(|error| error.file(file.target()))?;
    Ok(true)
}

impl AtomicFile {
    /// Appends a range of `source` like [`Self::copy_pieces`], without its holes.
    fn copy_sparsely(&mut self, source: &File, range: Range<u64>, watch: &Watch) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            watch.stop.check()?;
            let data = blocks::next_data(source, at).min(range.end);
            self.skip(data - at)?;
            watch.did_bytes(data - at);
            let hole = blocks::next_hole(source, data).min(range.end);
            // A file system that reports neither is copied whole.
            let hole = if hole > data { hole } else { range.end };
            self.copy_pieces(source, data, hole - data, |piece| {
                watch.did_bytes(piece);
                watch.stop.check()
            })?;
            at = hole;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // ranges of bytes that are retained: often one
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn file(name: &str, content: &[u8]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ztensor-front-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn only_what_differs_is_written() {
        assert_eq!(difference(b"abcdef", b"abcdef"), None);
        assert_eq!(difference(b"abcdef", b"abXdef"), Some(2..3));
        assert_eq!(difference(b"abcdef", b"XbcdeX"), Some(0..6));
        assert_eq!(difference(b"aaaa", b"aaba"), Some(2..3));
        assert_eq!(difference(b"", b""), None);
    }

    #[test]
    fn a_front_of_the_same_length_is_written_in_place_or_to_a_copy() {
        let content: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
        for in_place in [true, false] {
            let path = file(&format!("same-{in_place}"), &content);
            let original = ExistingFile::open(&path, in_place).unwrap();
            let retained = [100..15_000];
            let front = HeaderRewrite { bytes: &[7; 100], old_data: 100, retained: &retained };
            let put = if in_place { write_in_place } else { replace };
            let (method, _) = put(original, &front, &Watch::default()).unwrap();
            if in_place {
                assert_eq!(method, Method::InPlace);
            } else {
                assert!(matches!(method, Method::Cloned | Method::Copied));
            }
            assert_eq!(front.total(), 15_000);
            assert!(fs::read(&path).unwrap() == [&[7; 100], &content[100..15_000]].concat());
        }
    }

    #[test]
    fn a_longer_front_moves_the_data_and_a_gap_is_left_out() {
        let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        for in_place in [true, false] {
            for (name, retained) in
                [("all", vec![100..200_000]), ("none", vec![]), ("gap", vec![100..5000, 70_001..150_000])]
            {
                let path = file(&format!("longer-{name}-{in_place}"), &content);
                let original = ExistingFile::open(&path, in_place).unwrap();
                let bytes = vec![7; 100 + usize::try_from(blocks::size(original.file())).unwrap()];
                let front = HeaderRewrite { bytes: &bytes, old_data: 100, retained: &retained };
                let put = if in_place { write_in_place } else { replace };
                put(original, &front, &Watch::default()).unwrap();
                let mut wanted = bytes.clone();
                for range in &retained {
                    let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                    wanted.extend(&content[range]);
                }
                assert!(fs::read(&path).unwrap() == wanted, "{name} {in_place}");
            }
        }
    }

    #[test]
    fn a_stop_leaves_the_file() {
        let path = file("stopped", &[1; 10_000]);
        for put in [write_in_place, replace] {
            let watch = Watch::default();
            watch.stop.set();
            let front = HeaderRewrite { bytes: &[7; 100], old_data: 100, retained: &[100..10_000] };
            let original = ExistingFile::open(&path, true).unwrap();
            assert_eq!(put(original, &front, &watch).unwrap_err().code(), Code::Aborted);
            assert_eq!(fs::read(&path).unwrap(), [1; 10_000]);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn data_does_not_move_under_other_handles() {
        let path = file("open", &[1; 10_000]);
        let reader = File::open(&path).unwrap();
        let original = ExistingFile::open(&path, true).unwrap();
        let bytes = vec![7; 100 + usize::try_from(blocks::size(original.file())).unwrap()];
        let retained = [100..10_000];
        let longer = HeaderRewrite { bytes: &bytes, old_data: 100, retained: &retained };
        let refused = write_in_place(original, &longer, &Watch::default()).unwrap_err();
        assert!(refused.code() == Code::Io && refused.message().contains("open elsewhere"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), [1; 10_000]);
        // What does not move it is permitted.
        let same = HeaderRewrite { bytes: &[7; 100], old_data: 100, retained: &retained };
        let original = ExistingFile::open(&path, true).unwrap();
        assert_eq!(write_in_place(original, &same, &Watch::default()).unwrap().0, Method::InPlace);
        drop(reader);
        let original = ExistingFile::open(&path, true).unwrap();
        assert!(write_in_place(original, &longer, &Watch::default()).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn data_does_not_end_earlier_under_other_handles() {
        let path = file("shorter", &[1; 10_000]);
        let reader = File::open(&path).unwrap();
        let retained = [100..5000];
        // A changed front, and one that stays.
        for byte in [7, 1] {
            let shorter = HeaderRewrite { bytes: &[byte; 100], old_data: 100, retained: &retained };
            let original = ExistingFile::open(&path, true).unwrap();
            let refused = write_in_place(original, &shorter, &Watch::default()).unwrap_err();
            assert!(refused.code() == Code::Io && refused.message().contains("become shorter"), "{refused}");
            assert_eq!(fs::read(&path).unwrap(), [1; 10_000]);
        }
        drop(reader);
        let shorter = HeaderRewrite { bytes: &[7; 100], old_data: 100, retained: &retained };
        let original = ExistingFile::open(&path, true).unwrap();
        assert_eq!(write_in_place(original, &shorter, &Watch::default()).unwrap().0, Method::InPlace);
        assert_eq!(fs::read(&path).unwrap().len(), 5000);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_sparse_file_stays_sparse() {
        use std::os::unix::fs::MetadataExt;

        for in_place in [false, true] {
            let path = file(&format!("sparse-{in_place}"), &[1; 5000]);
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
            let original = ExistingFile::open(&path, in_place).unwrap();
            let (block, length) = (blocks::size(original.file()), original.length());
            let bytes = vec![7; 100 + usize::try_from(block).unwrap()];
            let retained = [100..length];
            let front = HeaderRewrite { bytes: &bytes, old_data: 100, retained: &retained };
            let put = if in_place { write_in_place } else { replace };
            put(original, &front, &Watch::default()).unwrap();
            let found = path.metadata().unwrap();
            assert_eq!(found.len(), length + block);
            assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
            let content = fs::read(&path).unwrap();
            assert!(
                content.starts_with(&bytes) && content[bytes.len()..].starts_with(&[1; 4900]),
                "{in_place}"
            );
        }
    }
}
