//! Serves consecutive small reads from larger ones: reading the file and then checking its length cost more than the bytes of a small
//! tensor.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::decoded::DecodedPieces;
use super::{DigestedFile, ReadAt, Sources, as_its_source};
use crate::error::Result;
use crate::work::Stop;

/// Bytes read at once.
const WINDOW: u64 = 256 << 10;
/// Maximum size of a small read.
const SMALL: u64 = 32 << 10;
/// Maximum distance from the end of the last small read at which the next one counts as consecutive: data is aligned.
const NEAR: u64 = 4 << 10;
/// Maximum number of files that get a window; further ones are read directly.
const MAX_FILES: usize = 1 << 12;

/// The bytes last read from any file.
#[derive(Default)]
struct Window {
    file: u32,
    start: u64,
    bytes: Vec<u8>,
    /// The end of the last small read.
    end: u64,
}

impl Window {
    fn held(&self, file: u32, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..start.checked_add(length)?).filter(|_| self.file == file)
    }
}

/// The sources of a catalog, for reading one tensor after the other.
pub struct ReadAhead<'a> {
    sources: &'a dyn Sources,
    views: Vec<OnceLock<View<'a>>>,
    window: Arc<Mutex<Window>>,
}

impl<'a> ReadAhead<'a> {
    /// `files`: their number without the first.
    pub fn new(sources: &'a dyn Sources, files: usize) -> Self {
        let views = (0..=files.min(MAX_FILES)).map(|_| OnceLock::new()).collect();
        Self { sources, views, window: Arc::default() }
    }
}

impl Sources for ReadAhead<'_> {
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        let source = self.sources.source(file)?;
        let Some(view) = self.views.get(file as usize) else { return Ok(source) };
        Ok(view.get_or_init(|| View { source, file, window: Arc::clone(&self.window) }))
    }

    fn decoded(&self) -> Option<&DecodedPieces> {
        self.sources.decoded()
    }

    fn digested(&self) -> Vec<DigestedFile<'_>> {
        self.sources.digested()
    }
}

struct View<'a> {
    source: &'a dyn ReadAt,
    file: u32,
    window: Arc<Mutex<Window>>,
}

impl ReadAt for View<'_> {
    as_its_source!(source);

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        let length = buffer.len() as u64;
        if length > SMALL {
            return self.source.read_at(offset, buffer, stop);
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let in_row =
            window.file == self.file && (window.end..=window.end.saturating_add(NEAR)).contains(&offset);
        window.end = offset.saturating_add(length);
        if let Some(bytes) = window.held(self.file, offset, buffer.len()) {
            buffer.copy_from_slice(bytes);
            return Ok(());
        }
        let length_ahead = self.source.length().saturating_sub(offset).min(WINDOW);
        // If the larger read fails, the small one is read alone and returns its own error.
        if in_row
            && length_ahead >= length
            && self.source.holds(offset, length_ahead)
            && self.fill(&mut window, offset, length_ahead, stop).is_ok()
            && let Some(bytes) = window.held(self.file, offset, buffer.len())
        {
            buffer.copy_from_slice(bytes);
            return Ok(());
        }
        window.file = self.file;
        window.bytes.clear();
        self.source.read_at(offset, buffer, stop)
    }
}

impl View<'_> {
    fn fill(&self, window: &mut Window, offset: u64, length: u64, stop: &Stop) -> Result<()> {
        window.bytes.resize(usize::try_from(length).unwrap_or_default(), 0);
        (window.file, window.start) = (self.file, offset);
        self.source.read_at(offset, &mut window.bytes, stop).inspect_err(|_| window.bytes.clear())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checked;
    use crate::error::{Code, Error};
    use crate::sources::file::FileSource;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts reads; those that include the byte at `bad` fail.
    struct Counted {
        bytes: Vec<u8>,
        bad: u64,
        reads: AtomicUsize,
        read: AtomicUsize,
    }

    impl ReadAt for Counted {
        fn length(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.read.fetch_add(buffer.len(), Ordering::Relaxed);
            if (offset..offset + buffer.len() as u64).contains(&self.bad) {
                return Err(Error::new(Code::Io, "a bad sector"));
            }
            self.bytes.as_slice().read_at(offset, buffer, stop)
        }

        fn holds(&self, offset: u64, length: u64) -> bool {
            checked::end_within(offset, length, self.length()).is_some()
        }

        fn is_cached(&self, offset: u64, _length: u64) -> bool {
            offset == 0
        }

        fn check_length(&self) -> Result<()> {
            Err(Error::new(Code::Truncated, "truncated"))
        }
    }

    fn counted(bad: u64) -> Counted {
        let bytes = (0..600_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
        Counted { bytes, bad, reads: AtomicUsize::new(0), read: AtomicUsize::new(0) }
    }

    #[test]
    fn sequential_reads_are_merged() {
        let source = counted(u64::MAX);
        let ahead = ReadAhead::new(&source, 0);
        let view = ahead.source(0).unwrap();
        let mut at = 8;
        while at + 100 <= 600_000 {
            let mut slot = [0; 100];
            view.read_at(at, &mut slot, Stop::never()).unwrap();
            assert_eq!(slot, source.bytes[usize::try_from(at).unwrap()..][..100]);
            at += 128;
        }
        assert!(source.reads.load(Ordering::Relaxed) <= 4);
        let mut slot = [0; 10];
        assert_eq!(view.read_at(599_995, &mut slot, Stop::never()).unwrap_err().code(), Code::Truncated);
    }

    #[test]
    fn distant_reads_are_separate() {
        let source = counted(u64::MAX);
        let ahead = ReadAhead::new(&source, 0);
        let view = ahead.source(0).unwrap();
        for at in [500_000, 100, 300_000, 20_000, 400_000] {
            let mut slot = [0; 64];
            view.read_at(at, &mut slot, Stop::never()).unwrap();
            assert_eq!(slot, source.bytes[usize::try_from(at).unwrap()..][..64]);
        }
        assert_eq!(source.reads.load(Ordering::Relaxed), 5);
        assert_eq!(source.read.load(Ordering::Relaxed), 5 * 64, "no more than was asked for");
    }

    #[test]
    fn only_small_reads_become_parts_of_larger_ones() {
        for (length, max) in [(SMALL, 3), (SMALL + 1, 10)] {
            let source = counted(u64::MAX);
            let ahead = ReadAhead::new(&source, 0);
            let view = ahead.source(0).unwrap();
            for at in 0..10 {
                view.read_at(at * length, &mut vec![0; usize::try_from(length).unwrap()], Stop::never())
                    .unwrap();
            }
            let reads = source.reads.load(Ordering::Relaxed);
            assert!(if length > SMALL { reads == max } else { reads <= max }, "{length}: {reads}");
        }
    }

    #[test]
    fn everything_but_small_reads_is_passed_to_the_source() {
        let source = counted(u64::MAX);
        let ahead = ReadAhead::new(&source, 0);
        let view = ahead.source(0).unwrap();
        assert_eq!(view.length(), 600_000);
        assert!(view.holds(599_999, 1) && !view.holds(599_999, 2));
        assert!(view.is_cached(0, 1) && !view.is_cached(1, 1));
        assert!(view.check_length().is_err() && view.local().is_none());
        let path = std::env::temp_dir().join(format!("ztensor-ahead-{}", std::process::id()));
        std::fs::write(&path, b"0123456789").unwrap();
        let source = FileSource::open(&path).unwrap();
        assert!(ReadAhead::new(&source, 0).source(0).unwrap().local().is_some());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_error_belongs_to_the_bytes_that_caused_it() {
        let source = counted(10_000);
        let ahead = ReadAhead::new(&source, 0);
        let view = ahead.source(0).unwrap();
        for at in (0..20_000).step_by(64) {
            let mut slot = [0; 64];
            let read = view.read_at(at, &mut slot, Stop::never());
            assert_eq!(read.is_err(), (at..at + 64).contains(&10_000), "at {at}");
        }
    }
}
