//! Decides which ranges of a source are read together. All operations that read many ranges use it with a different [`Aim`].
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::model::Span;
use crate::sources::Costs;

/// How the bytes between two ranges are used, and what read size suits the work. The values are for a local file; a source with more
/// expensive requests gets larger ones.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// Maximum gap between two ranges that are read together.
    gap: u64,
    /// Whether the gap may not exceed the size of the next range, except for padding.
    in_proportion: bool,
    /// Read size at which nothing more is added.
    full: u64,
}

/// Maximum gap between two tensors that is always treated as padding: formats align them to this. Memory for a read also begins at a
/// multiple of this in the file, so that data aligned in the file is aligned in memory.
pub const ALIGNMENT: u64 = 64;

/// Maximum size of tensors that are read with adjacent ones. As with aliases, a buffer costs four times as much as a view.
pub const SMALL: u64 = 64 << 10;

impl Aim {
    /// Tensors that stay in the memory they are read into, together with the gaps between them. A block of 1 MiB is worth a separate
    /// buffer.
    pub const RETAINED: Self = Self { gap: SMALL, in_proportion: true, full: 1 << 20 };
    /// Tensors in the caller's memory, of which whole batches are copied.
    pub const COPIED: Self = Self { full: u64::MAX, ..Self::RETAINED };
    /// Small blobs that are only hashed: they stay in the cache of the core that reads them, with 64 KiB left for the last one.
    pub const HASHED: Self = Self { gap: Costs::LOCAL.gap, in_proportion: false, full: 192 << 10 };
    /// The runs of a slice: a call costs as much as copying 16 KiB.
    pub const SLICED: Self = Self { gap: 16 << 10, in_proportion: false, full: 1 << 20 };
    /// Pages that are prefetched, in reads of `piece` bytes: a gap of less than a page lies on pages that contain some of the bytes.
    pub const fn brought(piece: u64) -> Self {
        Self { gap: 4095, in_proportion: false, full: piece }
    }
    /// Pages of some tensors that the system may evict.
    #[cfg(any(test, target_os = "linux"))]
    pub const EVICTED: Self = Self::brought(u64::MAX);
    /// Pages of all tensors, so that there is only padding between them: no format aligns tensors further.
    #[cfg(any(test, target_os = "linux"))]
    pub const ALL_EVICTED: Self = Self { gap: 64 << 10, ..Self::EVICTED };

    /// Returns the values for a source.
    pub fn on(self, costs: Costs) -> Near {
        let dearer = costs.gap.saturating_sub(Costs::LOCAL.gap);
        let full = if dearer > 0 { self.full.max(costs.piece as u64) } else { self.full };
        Near { aim: Self { full, ..self }, dearer }
    }
}

/// Decides which ranges of one source are close to each other.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    aim: Aim,
    /// Additional gap because of the source's request costs.
    dearer: u64,
}

impl Near {
    /// Returns the maximum gap before a range of `next` bytes.
    #[inline]
    pub fn gap(&self, next: u64) -> u64 {
        let own = if self.aim.in_proportion { ALIGNMENT + next.min(self.aim.gap) } else { self.aim.gap };
        own.saturating_add(self.dearer)
    }

    /// Returns the read size at which nothing more is added.
    pub fn full(&self) -> u64 {
        self.aim.full
    }

    /// Returns whether a read includes the range `next`, which does not begin before its end. Called for each of many tensors.
    #[inline]
    pub fn joins(&self, read: &Range<u64>, next: &Range<u64>) -> bool {
        read.end - read.start < self.aim.full
            && next.start.checked_sub(read.end).is_some_and(|gap| gap <= self.gap(next.end - next.start))
    }
}

/// A read of ranges that are close to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    pub span: Span,
    /// Total bytes of the ranges.
    pub bytes: u64,
    /// The indices of the ranges among those given.
    pub ranges: Range<usize>,
}

/// Returns the reads for ranges, in order. A range that begins before the end of the previous one is read separately, which never happens
/// in the order of [`Span::joined`]. `near` returns the planner of a file, and `whole` whether a range can be read at once.
pub fn reads(
    ranges: impl IntoIterator<Item = Span>,
    near: impl Fn(u32) -> Near,
    whole: impl Fn(Span) -> bool,
) -> Vec<Read> {
    let mut reads: Vec<Read> = Vec::new();
    let mut of: Option<(u32, Near)> = None;
    for (at, span) in ranges.into_iter().enumerate() {
        if let (Some(read), Some((file, near))) = (reads.last_mut(), &of)
            && *file == span.file
            && near.joins(&(read.span.offset..read.span.end()), &(span.offset..span.end()))
        {
            let joined = Span { length: span.end() - read.span.offset, ..read.span };
            if whole(joined) {
                read.span = joined;
                read.bytes = read.bytes.saturating_add(span.length);
                read.ranges.end = at + 1;
                continue;
            }
        }
        if of.as_ref().is_none_or(|(file, _)| *file != span.file) {
            of = Some((span.file, near(span.file)));
        }
        reads.push(Read { span, bytes: span.length, ranges: at..at + 1 });
    }
    reads
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(offset: u64, length: u64) -> Span {
        Span { file: 0, offset, length }
    }

    /// Returns the number of reads for two ranges with a gap between them, of `first` and `next` bytes.
    fn count(aim: Aim, costs: Costs, first: u64, gap: u64, next: u64) -> usize {
        reads([span(10, first), span(10 + first + gap, next)], |_| aim.on(costs), |_| true).len()
    }

    #[test]
    fn each_aim_has_its_gap_and_its_length() {
        for (aim, next, gap, full) in [
            (Aim::RETAINED, 1, 64 + 1, 1 << 20),
            (Aim::RETAINED, 1000, 64 + 1000, 1 << 20),
            (Aim::RETAINED, 10 * SMALL, 64 + SMALL, 1 << 20),
            (Aim::COPIED, 1000, 64 + 1000, u64::MAX),
            (Aim::HASHED, 1, 4096, 192 << 10),
            (Aim::SLICED, 1, 16 << 10, 1 << 20),
            (Aim::brought(1 << 16), 1, 4095, 1 << 16),
            (Aim::EVICTED, 1, 4095, u64::MAX),
            (Aim::ALL_EVICTED, 1, 64 << 10, u64::MAX),
        ] {
            let context = format!("{aim:?} {next}");
            assert_eq!(count(aim, Costs::LOCAL, 100, gap, next), 1, "{context}");
            assert_eq!(count(aim, Costs::LOCAL, 100, gap + 1, next), 2, "{context}");
            if full < u64::MAX {
                assert_eq!(count(aim, Costs::LOCAL, full - 1, 0, next), 1, "{context}");
                assert_eq!(count(aim, Costs::LOCAL, full, 0, next), 2, "{context}");
            }
        }
    }

    #[test]
    fn a_source_with_high_latency_gets_fewer_reads() {
        let dear = Costs { gap: 1 << 20, piece: 4 << 20, in_flight: 4 };
        for aim in [Aim::RETAINED, Aim::HASHED, Aim::SLICED, Aim::brought(1 << 16)] {
            assert_eq!(count(aim, dear, 100, 1_000_000, 1), 1, "{aim:?}");
            assert_eq!(count(aim, Costs::LOCAL, 100, 1_000_000, 1), 2, "{aim:?}");
            assert_eq!(count(aim, dear, (4 << 20) - 1, 0, 1), 1, "{aim:?}");
            assert_eq!(count(aim, dear, 4 << 20, 0, 1), 2, "{aim:?}");
        }
    }

    #[test]
    fn each_read_is_a_single_range_of_one_file() {
        let near = |_| Aim::HASHED.on(Costs::LOCAL);
        let other = Span { file: 1, ..span(10, 10) };
        let found = reads([span(0, 10), other, span(10, 10)], near, |_| true);
        assert_eq!(found.iter().map(|read| read.span.file).collect::<Vec<_>>(), [0, 1, 0]);
        let found = reads([span(0, 10), span(10, 10), span(30, 10)], near, |span| span.length < 30);
        assert_eq!(found.iter().map(|read| read.ranges.clone()).collect::<Vec<_>>(), [0..2, 2..3]);
        assert_eq!(reads([span(10, 10), span(5, 10)], near, |_| true).len(), 2, "back");
        assert_eq!(reads([span(10, 10), span(15, 10)], near, |_| true).len(), 2, "over it");
        let max = span(u64::MAX - 5, 5);
        assert_eq!(reads([max, max], near, |_| true).len(), 2);
    }

    proptest! {
        #[test]
        fn each_range_is_in_one_read(ranges in prop::collection::vec((0_u64..1 << 20, 0_u64..1 << 18), 0..50)) {
            let ranges: Vec<_> = ranges.into_iter().map(|(offset, length)| span(offset, length)).collect();
            let found = reads(ranges.iter().copied(), |_| Aim::HASHED.on(Costs::LOCAL), |_| true);
            let mut next = 0;
            for read in found {
                prop_assert_eq!(read.ranges.start, next);
                next = read.ranges.end;
                let inside = &ranges[read.ranges];
                prop_assert_eq!(inside.iter().map(|range| range.length).sum::<u64>(), read.bytes);
                prop_assert_eq!((inside[0].offset, inside[inside.len() - 1].end()), (read.span.offset, read.span.end()));
                prop_assert!(inside.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
            }
            prop_assert_eq!(next, ranges.len());
        }
    }
}
