//! Both ends of a file, by which its format is detected. Each end is read once, when a format first asks for it; the parser of the file
//! reuses these bytes.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use crate::checked;
use crate::error::Result;
use crate::sources::{ReadAt, as_its_source};
use crate::work::Stop;

/// A file whose format is being detected.
pub struct Probe<'s> {
    source: &'s dyn ReadAt,
    stop: &'s Stop,
    first: End,
    last: End,
}

/// The bytes read from one end.
#[derive(Default)]
struct End {
    few: OnceLock<Vec<u8>>,
    all: OnceLock<Vec<u8>>,
}

impl End {
    /// At least `count` bytes, or as many as the file has; [`Probe::BYTES`] at most.
    fn at_least(&self, count: u64, read: impl Fn(u64) -> Result<Vec<u8>>) -> Result<&[u8]> {
        let (cell, length) = if count <= FEW { (&self.few, FEW) } else { (&self.all, Probe::BYTES) };
        if let Some(bytes) = cell.get() {
            return Ok(bytes);
        }
        let bytes = read(length)?;
        Ok(cell.get_or_init(|| bytes))
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        [&self.few, &self.all].into_iter().filter_map(|cell| cell.get().map(Vec::as_slice))
    }
}

/// Bytes of an end that are read at first: most formats need fewer, and many indexes fit.
const FEW: u64 = 4096;

impl<'s> Probe<'s> {
    /// Bytes of each end that can be asked for.
    pub const BYTES: u64 = 64 << 10;

    pub fn new(source: &'s dyn ReadAt, stop: &'s Stop) -> Self {
        Self { source, stop, first: End::default(), last: End::default() }
    }

    /// Returns the first `count` bytes, at most [`Self::BYTES`], or all of a smaller file.
    pub fn first(&self, count: u64) -> Result<&[u8]> {
        let count = count.min(self.length()).min(Self::BYTES);
        if let Some(bytes) = self.held(0, count) {
            return Ok(bytes);
        }
        let held = self
            .first
            .at_least(count, |length| self.source.read_vec(0, length.min(self.length()), self.stop))?;
        Ok(checked::slice(held, 0, count).unwrap_or_default())
    }

    /// Returns the last `count` bytes, at most [`Self::BYTES`], or all of a smaller file.
    pub fn last(&self, count: u64) -> Result<&[u8]> {
        let count = count.min(self.length()).min(Self::BYTES);
        if let Some(bytes) = self.held(self.length() - count, count) {
            return Ok(bytes);
        }
        let held = self.last.at_least(count, |length| {
            let length = length.min(self.length());
            self.source.read_vec(self.length() - length, length, self.stop)
        })?;
        Ok(checked::slice(held, (held.len() as u64).saturating_sub(count), count).unwrap_or_default())
    }

    /// Returns a range that was already read.
    fn held(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let firsts = self.first.pieces().map(|piece| (0, piece));
        let lasts = self.last.pieces().map(|piece| (self.length() - piece.len() as u64, piece));
        firsts
            .chain(lasts)
            .find_map(|(start, piece)| checked::slice(piece, offset.checked_sub(start)?, length))
    }
}

impl ReadAt for Probe<'_> {
    as_its_source!(source);

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        match self.held(offset, buffer.len() as u64) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => self.source.read_at(offset, buffer, stop),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Bytes that remember what was read of them.
    struct Watched<'b>(&'b [u8], Mutex<Vec<(u64, usize)>>);

    impl ReadAt for Watched<'_> {
        fn length(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
            self.1.lock().unwrap().push((offset, buffer.len()));
            self.0.read_at(offset, buffer, stop)
        }
    }

    #[test]
    fn each_end_is_read_once() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
        let source = Watched(&bytes, Mutex::default());
        let probe = Probe::new(&source, Stop::never());
        for count in [0, 8, 4096, 5000, Probe::BYTES] {
            let length = usize::try_from(count).unwrap();
            assert_eq!(probe.first(count).unwrap(), &bytes[..length]);
            assert_eq!(probe.last(count).unwrap(), &bytes[bytes.len() - length..]);
        }
        let whole = usize::try_from(Probe::BYTES).unwrap();
        assert_eq!(
            *source.1.lock().unwrap(),
            [(0, 4096), (200_000 - 4096, 4096), (0, whole), (200_000 - Probe::BYTES, whole)]
        );
    }

    #[test]
    fn bytes_read_for_detection_are_passed_to_the_parser() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let source = Watched(&bytes, Mutex::default());
        let probe = Probe::new(&source, Stop::never());
        probe.first(1).unwrap();
        probe.last(1).unwrap();
        let before = source.1.lock().unwrap().len();
        for (offset, length) in [(0, 4096), (17, 5), (10_000 - 4096, 4096), (9990, 10)] {
            let range = usize::try_from(offset).unwrap()..usize::try_from(offset + length).unwrap();
            assert_eq!(probe.read_vec(offset, length, Stop::never()).unwrap(), &bytes[range]);
        }
        assert_eq!(source.1.lock().unwrap().len(), before);
        assert_eq!(probe.read_vec(4000, 200, Stop::never()).unwrap(), &bytes[4000..4200]);
        assert_eq!(source.1.lock().unwrap().last(), Some(&(4000, 200)));
    }

    #[test]
    fn a_small_file_is_read_whole_at_once() {
        for length in [0, 1, 8, 4096] {
            let bytes = vec![7; length];
            let source = Watched(&bytes, Mutex::default());
            let probe = Probe::new(&source, Stop::never());
            assert_eq!(probe.first(Probe::BYTES).unwrap(), bytes);
            assert_eq!(probe.last(Probe::BYTES).unwrap(), bytes);
            assert_eq!(source.1.lock().unwrap().len(), 1);
        }
    }
}
