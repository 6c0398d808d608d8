//! The arrangement of a component's elements in its decoded bytes.
#![forbid(unsafe_code)]

use super::Strided;
use super::slice::{Range, TensorSlice};
use crate::error::{Code, Error, Result};

/// The arrangement of elements in decoded bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum View {
    /// All of the bytes, row-major.
    Whole,
    Strided(Box<Strided>),
    Counted(Box<Counted>),
}

impl View {
    /// Creates a view of a byte range.
    pub fn range(start: u64, length: u64) -> Self {
        Self::Strided(Box::new(Strided { start, run: length, loops: Box::default() }))
    }

    /// Creates a view of `fields` consecutive elements of `width` bytes in each of `count` records, which begin `stride` bytes apart, in
    /// field order: all of the first field, then all of the next.
    pub fn records(start: u64, stride: u64, fields: u64, width: u64, count: u64) -> Self {
        let loops = Box::new([(fields, width), (count, stride)]);
        Self::Strided(Box::new(Strided { start, run: width, loops }))
    }
}

impl Strided {
    /// Returns offset and length if it is contiguous.
    pub fn run(&self) -> Option<(u64, u64)> {
        TensorSlice::strided(self).ok()?.contiguous()
    }

    /// Returns whether the loops match a tensor of this shape, one per dimension.
    pub fn fits(&self, shape: &[u64]) -> bool {
        self.loops.len() == shape.len() && self.loops.iter().zip(shape).all(|((count, _), dim)| count == dim)
    }

    /// Returns the view of the elements in the given ranges, one per dimension. `None` if the loops do not match a tensor of this shape, in
    /// which case all elements must be arranged first.
    pub fn slice(&self, shape: &[u64], ranges: &[Range]) -> Option<Result<TensorSlice>> {
        (self.fits(shape) && ranges.len() == shape.len()).then(|| {
            let mut start = self.start;
            let mut loops = Vec::with_capacity(shape.len());
            for (&(_, stride), range) in self.loops.iter().zip(ranges) {
                let beyond = || Error::new(Code::OutOfBounds, "the slice exceeds 2^64 bytes");
                let skipped = range.start.checked_mul(stride).and_then(|bytes| start.checked_add(bytes));
                start = skipped.ok_or_else(beyond)?;
                let spacing = if range.count() > 1 { stride.checked_mul(range.step) } else { Some(0) };
                loops.push((range.count(), spacing.ok_or_else(beyond)?));
            }
            TensorSlice::strided(&Self { start, run: self.run, loops: loops.into() })
        })
    }
}

/// An array of a blob whose decoded size is known only after decoding: `fixed` bytes, then `n` entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Bytes present without any entry.
    pub fixed: u64,
    /// Bytes that each entry adds to all arrays of the blob.
    pub entry: u64,
    pub location: ArrayLocation,
}

/// The location of an array in such a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayLocation {
    /// Contiguous; start and length have a part proportional to the number of entries.
    Run { start: u64, start_each: u64, length: u64, length_each: u64 },
    /// Consecutive elements of each entry.
    Fields { start: u64, fields: u64, width: u64 },
}

impl Counted {
    /// Returns the view once the blob is known to have `total` decoded bytes. Fails with `ZT_BAD_SPARSE` if those are not a whole number of
    /// entries.
    pub fn view(&self, total: u64) -> Result<View> {
        let Self { fixed, entry, location } = *self;
        let bad = |message: String| Error::new(Code::BadSparse, message);
        let Some(rest) = total.checked_sub(fixed) else {
            return Err(bad(format!("{total} bytes are too few: {fixed} precede the first entry")));
        };
        if entry == 0 || !rest.is_multiple_of(entry) {
            return Err(bad(format!("{rest} bytes are not a whole number of entries of {entry} bytes")));
        }
        let count = rest / entry;
        // Each product is at most `total`, which the arrays share.
        Ok(match location {
            ArrayLocation::Run { start, start_each, length, length_each } => {
                View::range(start + count * start_each, length + count * length_each)
            }
            ArrayLocation::Fields { start, fields, width } => {
                View::records(start, entry, fields, width, count)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_a_blob_of_unknown_size() {
        // 2 rows, 3 float32 values: 24 + 24 + 12 bytes.
        let csr = |location| Counted { fixed: 24, entry: 12, location };
        let run = |start, start_each, length, length_each| {
            csr(ArrayLocation::Run { start, start_each, length, length_each })
        };
        assert_eq!(run(0, 0, 24, 0).view(60).unwrap(), View::range(0, 24));
        assert_eq!(run(24, 0, 0, 8).view(60).unwrap(), View::range(24, 24));
        assert_eq!(run(24, 8, 0, 4).view(60).unwrap(), View::range(48, 12));
        assert!(run(0, 0, 24, 0).view(61).is_err());
        assert!(run(0, 0, 24, 0).view(23).is_err());
        let coords = Counted {
            fixed: 0,
            entry: 20,
            location: ArrayLocation::Fields { start: 0, fields: 2, width: 8 },
        };
        assert_eq!(coords.view(40).unwrap(), View::records(0, 20, 2, 8, 2));
        assert!(coords.view(39).is_err());
    }

    #[test]
    fn ends_and_lengths_of_hostile_loops() {
        let strided = |start, run, loops: &[(u64, u64)]| Strided { start, run, loops: loops.into() };
        let default = strided(3, 2, &[(4, 10), (5, 2)]);
        assert_eq!((default.byte_length(), default.end()), (Some(40), Some(3 + 30 + 8 + 2)));
        assert_eq!(strided(u64::MAX, 8, &[(0, 1), (1 << 63, 1 << 63)]).end(), Some(0));
        assert_eq!(strided(u64::MAX, 1, &[]).end(), None);
        assert_eq!(strided(0, 1, &[(1 << 40, 1 << 40)]).end(), None);
        assert_eq!(strided(0, 2, &[(1 << 63, 0)]).byte_length(), None);
    }
}
