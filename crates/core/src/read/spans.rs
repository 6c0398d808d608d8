//! Divides the reading of a slice into spans that contain some of its runs, and little else.
#![forbid(unsafe_code)]

use super::planner::Near;
use crate::error::Result;
use crate::model::slice::{Loop, TensorSlice};

impl TensorSlice {
    /// Calls `each` with the parts of the slice that are best read at once, in order. Only a contiguous part may have a
    /// [`span`](Self::span) longer than a full read. The slice must be [rising](Self::is_rising).
    pub fn for_each_span(&self, near: Near, each: &mut impl FnMut(&Self) -> Result<()>) -> Result<()> {
        let Some((&outermost, inner)) = self.loops.split_last() else {
            return if self.run == 0 { Ok(()) } else { each(self) };
        };
        let together =
            if self.is_dense(near) { (near.full() / outermost.stride).clamp(1, outermost.count) } else { 1 };
        let mut first = 0;
        while first < outermost.count {
            let count = together.min(outermost.count - first);
            let mut loops = inner.to_vec();
            loops.extend((count > 1).then_some(Loop { count, ..outermost }));
            let part = Self {
                ranges: Vec::new(),
                start: self.start + first * outermost.stride,
                run: self.run,
                loops,
                byte_length: self.byte_length / outermost.count * count,
            };
            // One loop fewer at each level, of at most the number of dimensions.
            if count > 1 { each(&part) } else { part.for_each_span(near, each) }?;
            first += count;
        }
        Ok(())
    }

    /// Returns the offset in the tensor and the length of the range from the first to the last byte of the slice.
    pub fn span(&self) -> (u64, u64) {
        let extent = |inner: u64, l: &Loop| inner + (l.count - 1) * l.stride;
        (self.start, self.loops.iter().fold(self.run, extent))
    }

    /// Returns the slice relative to the start of its span.
    #[must_use]
    pub fn rebased(&self) -> Self {
        Self { start: 0, ..self.clone() }
    }

    /// Returns whether its runs are sorted by offset and do not overlap.
    pub fn is_rising(&self) -> bool {
        let mut extent = self.run;
        self.loops.iter().all(|l| {
            let rises = l.stride >= extent;
            extent = extent.saturating_add((l.count - 1).saturating_mul(l.stride));
            rises
        })
    }

    fn is_dense(&self, near: Near) -> bool {
        let mut extent = self.run;
        self.loops.iter().all(|l| {
            let gap = l.stride.saturating_sub(extent);
            extent += (l.count - 1) * l.stride;
            gap <= near.gap(self.run)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::planner::Aim;
    use super::*;
    use crate::sources::Costs;

    fn near() -> Near {
        Aim::CUT.on(Costs::LOCAL)
    }

    /// Returns span and packed bytes of each part.
    fn spans(shape: &[u64], ranges: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
        let mut found = Vec::new();
        let each = &mut |part: &TensorSlice| {
            let (start, length) = part.span();
            found.push((start, length, part.byte_length()));
            Ok(())
        };
        TensorSlice::new(shape, ranges, 8).unwrap().for_each_span(near(), each).unwrap();
        found
    }

    #[test]
    fn near_runs_come_together_and_far_ones_alone() {
        // 256 rows of 4 KiB are a MiB.
        let rows = spans(&[600, 4096], &[(0, 600), (0, 2048)]);
        let mib = 255 * 4096 + 2048;
        assert_eq!(
            rows,
            [(0, mib, 256 * 2048), (1 << 20, mib, 256 * 2048), (2 << 20, 87 * 4096 + 2048, 88 * 2048)]
        );
        let stride = 1 << 15;
        assert_eq!(
            spans(&[3, stride], &[(0, 3), (5, 7)]),
            [(5, 2, 2), (stride + 5, 2, 2), (2 * stride + 5, 2, 2)]
        );
        // Two distant planes of close runs each.
        assert_eq!(spans(&[2, 100, 1000], &[(0, 2), (0, 2), (1, 3)]), [(1, 1002, 4), (100_001, 1002, 4)]);
        assert_eq!(spans(&[1 << 40], &[(1, 1 << 39)]), [(1, (1 << 39) - 1, (1 << 39) - 1)]);
        assert_eq!(spans(&[3, 4], &[(1, 1), (0, 4)]), []);
    }

    proptest! {
        #[test]
        fn spans_hold_the_runs_in_order(
            dims in prop::collection::vec((1_u64..30, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..5),
            scale in prop::sample::select(vec![1_u64, 50, 4000]),
        ) {
            let mut shape: Vec<u64> = dims.iter().map(|&(dim, ..)| dim).collect();
            let mut ranges: Vec<(u64, u64)> = dims.iter().map(|(dim, a, b)| {
                let (a, b) = (a.index(usize::try_from(*dim).unwrap()) as u64, b.index(usize::try_from(*dim).unwrap()) as u64);
                (a.min(b), a.max(b) + 1)
            }).collect();
            shape.push(scale);
            ranges.push((scale / 3, scale / 2 + 1));
            let slice = TensorSlice::new(&shape, &ranges, 8).unwrap();
            let mut runs = Vec::new();
            slice.for_each_span(near(), &mut |part| {
                let (start, length) = part.span();
                let inside: Vec<_> = part.rebased().runs().map(|(at, bytes)| (at + start, bytes)).collect();
                prop_assert_within(&inside, start, length);
                assert_eq!(inside.iter().map(|run| run.1).sum::<u64>(), part.byte_length());
                assert!(inside.len() == 1 || length <= near().full());
                runs.extend(inside);
                Ok(())
            }).unwrap();
            prop_assert_eq!(runs, slice.runs().collect::<Vec<_>>());
        }
    }

    /// The first run begins the span, the last one ends it.
    fn prop_assert_within(runs: &[(u64, u64)], start: u64, length: u64) {
        let (first, last) = (runs[0], runs[runs.len() - 1]);
        assert_eq!((first.0, last.0 + last.1), (start, start + length));
    }
}
