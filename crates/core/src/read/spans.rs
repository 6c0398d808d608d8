//! Divides the reading of a slice into spans that contain some of its runs, and little else.
#![forbid(unsafe_code)]

use super::planner::Near;
use crate::arrange::Arrange;
use crate::error::Result;
use crate::model::Strided;
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

    /// Calls `each` with consecutive parts of the slice, in order, of about `max` bytes. A part is larger if the span of a smaller one would be
    /// more than `spread` times its bytes: a transposed matrix is one part.
    pub fn for_each_part(
        &self,
        max: u64,
        spread: u64,
        each: &mut dyn FnMut(&Self) -> Result<()>,
    ) -> Result<()> {
        if self.byte_length <= max {
            return if self.byte_length == 0 { Ok(()) } else { each(self) };
        }
        let Some((&outermost, inner)) = self.loops.split_last() else {
            // One run.
            for first in (0..self.run).step_by(usize::try_from(max.max(1)).unwrap_or(usize::MAX)) {
                let run = max.max(1).min(self.run - first);
                each(&Self { start: self.start + first, run, byte_length: run, ..self.clone() })?;
            }
            return Ok(());
        };
        let step = self.byte_length / outermost.count;
        let together = (max / step.max(1)).clamp(1, outermost.count);
        let part = |first: u64, count: u64| {
            let mut loops = inner.to_vec();
            loops.extend((count > 1).then_some(Loop { count, ..outermost }));
            let start = self.start + first * outermost.stride;
            Self { ranges: Vec::new(), start, run: self.run, loops, byte_length: step * count }
        };
        let (_, span) = part(0, together).span();
        if span / spread > step * together {
            return each(self);
        }
        let mut first = 0;
        while first < outermost.count {
            let count = together.min(outermost.count - first);
            // One loop fewer at each level, of at most the number of dimensions.
            if count > 1 {
                each(&part(first, count))
            } else {
                part(first, 1).for_each_part(max, spread, each)
            }?;
            first += count;
        }
        Ok(())
    }

    /// Returns the slice with its runs sorted by offset, and the runs of this slice among the bytes of that one. `None` if runs overlap.
    pub fn in_file_order(&self) -> Option<(Self, Self)> {
        let mut sorted: Vec<usize> = (0..self.loops.len()).collect();
        sorted.arrange_by_key(|&at| self.loops.get(at).map(|l| l.stride));
        let mut arranged = Self { start: 0, ranges: Vec::new(), ..self.clone() };
        let mut extent = self.run;
        for &at in &sorted {
            let l = arranged.loops.get_mut(at)?;
            l.stride = extent;
            extent = extent.checked_mul(l.count)?;
        }
        let loops = sorted.iter().rev().filter_map(|&at| self.loops.get(at)).map(|l| (l.count, l.stride));
        let rising = Strided { start: self.start, run: self.run, loops: loops.collect() };
        let rising = Self::strided(&rising).ok().filter(Self::is_rising)?;
        Some((rising, arranged))
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
        Aim::SLICED.on(Costs::LOCAL)
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
    fn near_runs_are_read_together_and_distant_ones_separately() {
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

    proptest! {
        #[test]
        fn parts_hold_the_bytes_in_order(
            run in 1_u64..9, max in 1_u64..60, spread in prop::sample::select(vec![4, u64::MAX]), loops in prop::collection::vec((1_u64..7, 1_u64..40), 0..4),
        ) {
            let strided = Strided { start: 3, run, loops: loops.into() };
            let slice = TensorSlice::strided(&strided).unwrap();
            let bytes = |slice: &TensorSlice| -> Vec<u64> { slice.runs().flat_map(|(at, length)| at..at + length).collect() };
            let mut all = Vec::new();
            slice.for_each_part(max, spread, &mut |part| {
                assert_eq!(bytes(part).len() as u64, part.byte_length());
                all.extend(bytes(part));
                Ok(())
            }).unwrap();
            prop_assert_eq!(all, bytes(&slice));
        }
    }

    proptest! {
        #[test]
        fn sorted_runs_hold_the_bytes_of_a_slice(
            run in 1_u64..5, order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(),
            dims in prop::collection::vec((1_u64..5, 0_u64..3), 0..5), overlapping: bool,
        ) {
            let mut extent = run;
            let mut loops: Vec<_> = dims.iter().map(|&(count, gap)| {
                let stride = extent + gap;
                extent = stride * count;
                (count, stride)
            }).collect();
            loops.sort_by_key(|&(count, stride)| order.get(usize::try_from((count + stride) % 4).unwrap()).copied());
            if overlapping && loops.len() > 1 {
                loops[0].1 = 0;
            }
            let slice = TensorSlice::strided(&Strided { start: 2, run, loops: loops.into() }).unwrap();
            let input: Vec<u8> = (0..2 + extent).map(|at| ((at * 167) ^ (at >> 8)).to_le_bytes()[0]).collect();
            let packed = |slice: &TensorSlice, input: &[u8]| {
                let mut out = vec![0; usize::try_from(slice.byte_length()).unwrap()];
                slice.pack(input, &mut out).unwrap();
                out
            };
            let Some((rising, arranged)) = slice.in_file_order() else {
                prop_assert!(overlapping);
                return Ok(());
            };
            prop_assert!(rising.is_rising());
            prop_assert_eq!(packed(&arranged, &packed(&rising, &input)), packed(&slice, &input));
        }
    }

    #[test]
    fn interleaved_rows_are_divided_and_transposed_ones_are_not() {
        let sizes = |run, loops: &[(u64, u64)]| {
            let strided = Strided { start: 0, run, loops: loops.into() };
            let mut sizes = Vec::new();
            let slice = TensorSlice::strided(&strided).unwrap();
            slice
                .for_each_part(1 << 20, 4, &mut |part| {
                    sizes.push((part.byte_length(), part.span().1));
                    Ok(())
                })
                .unwrap();
            sizes
        };
        // 64 heads of 128 rows of 8 KiB, in each of which rows of both halves alternate.
        assert_eq!(sizes(8192, &[(64, 1 << 20), (64, 8192), (2, 64 * 8192)]), [(1 << 20, 1 << 20); 64]);
        // 4 matrices of 4096 × 1024 elements of 4 bytes, transposed.
        let matrix = 4096 * 1024 * 4;
        assert_eq!(sizes(4, &[(4, matrix), (1024, 4), (4096, 4096)]), [(matrix, matrix); 4]);
        // One run of 2.5 MiB.
        assert_eq!(sizes(5 << 19, &[]), [(1 << 20, 1 << 20), (1 << 20, 1 << 20), (1 << 19, 1 << 19)]);
    }

    /// The first run begins the span, the last one ends it.
    fn prop_assert_within(runs: &[(u64, u64)], start: u64, length: u64) {
        let (first, last) = (runs[0], runs[runs.len() - 1]);
        assert_eq!((first.0, last.0 + last.1), (start, start + length));
    }
}
