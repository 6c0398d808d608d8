//! Rectangular slices of a dense row-major tensor, as runs of its bytes.
#![forbid(unsafe_code)]

use super::Strided;
use crate::checked;
use crate::error::{Code, Error, Result};

/// Every `step`-th index of a dimension, from `start` up to but not including `stop`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub start: u64,
    pub stop: u64,
    pub step: u64,
}

impl Range {
    /// Returns the number of indices.
    pub fn count(self) -> u64 {
        self.stop.saturating_sub(self.start).div_ceil(self.step.max(1))
    }

    /// Returns the first index that is at least `index`; `None` if there is none.
    pub fn at_or_after(self, index: u64) -> Option<u64> {
        let step = self.step.max(1);
        let skipped = index.saturating_sub(self.start).div_ceil(step);
        let first = skipped.checked_mul(step)?.checked_add(self.start)?;
        (first < self.stop).then_some(first)
    }

    /// Returns the last index; `None` if there is none.
    pub fn last(self) -> Option<u64> {
        self.count().checked_sub(1).map(|steps| self.start + steps * self.step.max(1))
    }

    /// Returns the normalized form with the same indices: `stop` follows the last one, and fewer than two have no step.
    #[must_use]
    pub fn normalized(self) -> Self {
        match self.last() {
            None => Self { start: self.start, stop: self.start, step: 1 },
            Some(last) => {
                Self { stop: last + 1, step: if last == self.start { 1 } else { self.step }, ..self }
            }
        }
    }

    /// Returns the size of the dimension restricted to `start` to `stop`, and the range relative to it.
    pub fn rebased(self) -> (u64, Self) {
        let extent = self.stop.saturating_sub(self.start);
        (extent, Self { start: 0, stop: extent, step: self.step })
    }
}

impl From<(u64, u64)> for Range {
    fn from((start, stop): (u64, u64)) -> Self {
        Self { start, stop, step: 1 }
    }
}

/// A repetition of its content: `count` times, `stride` bytes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loop {
    pub(crate) count: u64,
    pub(crate) stride: u64,
}

/// The elements of a tensor whose index is in a given range of each dimension, as runs of its decoded bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorSlice {
    /// The range of each dimension; empty if it does not represent a slice of a tensor.
    pub(crate) ranges: Vec<Range>,
    /// Byte offset of the first run.
    pub(crate) start: u64,
    /// Bytes of each run; 0 for an empty slice.
    pub(crate) run: u64,
    /// Innermost first. Mergeable adjacent loops are merged, and dimensions with one index are omitted.
    pub(crate) loops: Vec<Loop>,
    pub(crate) byte_length: u64,
}

impl TensorSlice {
    /// Creates the slice `ranges` (half-open, one per dimension) of a tensor of `shape` whose elements have `bits` bits.
    pub fn new(shape: &[u64], ranges: &[(u64, u64)], bits: u32) -> Result<Self> {
        Self::stepped(shape, &ranges.iter().copied().map(Range::from).collect::<Vec<_>>(), bits)
    }

    /// Creates a slice with steps, like [`TensorSlice::new`].
    ///
    /// Elements smaller than a byte are packed, so each run must start and end at a byte boundary. Only the end of the tensor itself may be
    /// within a byte.
    pub fn stepped(shape: &[u64], ranges: &[Range], bits: u32) -> Result<Self> {
        check_ranges(shape, ranges)?;
        let elements = checked::product(shape).ok_or_else(|| too_large(shape))?;
        let total_bits = u128::from(elements) * u128::from(bits);
        if u64::try_from(total_bits.div_ceil(8)).is_err() {
            return Err(too_large(shape));
        }
        let slice_shape: Vec<u64> = ranges.iter().map(|range| range.count()).collect();
        let (asked, ranges) = (ranges, ranges.iter().map(|range| range.normalized()).collect::<Vec<_>>());
        if slice_shape.contains(&0) || bits == 0 {
            return Ok(Self { ranges, start: 0, run: 0, loops: Vec::new(), byte_length: 0 });
        }

        // Everything below counts bits and is at most `total_bits`.
        let mut stride = u128::from(bits);
        let mut start = 0_u128;
        let mut run = u128::from(bits);
        let mut loops: Vec<(u64, u128)> = Vec::new();
        for (&dim, (range, &count)) in shape.iter().zip(ranges.iter().zip(&slice_shape)).rev() {
            start += u128::from(range.start) * stride;
            let spacing = stride * u128::from(range.step);
            match loops.last_mut() {
                _ if count == 1 => {}
                None if spacing == run => run *= u128::from(count),
                Some(inner) if spacing == inner.1 * u128::from(inner.0) => inner.0 *= count,
                _ => loops.push((count, spacing)),
            }
            stride *= u128::from(dim);
        }

        let whole = |bits: u128| bits.is_multiple_of(8);
        let ends_whole = whole(run) || (loops.is_empty() && start + run == total_bits);
        if !whole(start) || !ends_whole || !loops.iter().all(|&(_, stride)| whole(stride)) {
            return Err(Error::new(
                Code::InvalidArg,
                format!(
                    "the slice {} of shape {shape:?} starts or ends a run inside a byte: elements of {bits} \
                     bits are packed, so slice at whole bytes or read the whole tensor",
                    show(asked)
                ),
            ));
        }
        let bytes = |bits: u128| u64::try_from(bits.div_ceil(8)).map_err(|_| too_large(shape));
        let run = bytes(run)?;
        let loops = loops
            .into_iter()
            .map(|(count, stride)| Ok(Loop { count, stride: bytes(stride)? }))
            .collect::<Result<Vec<_>>>()?;
        let byte_length = loops.iter().fold(run, |length, l| length.saturating_mul(l.count));
        Ok(Self { ranges, start: bytes(start)?, run, loops, byte_length })
    }

    /// Creates all runs of nested loops. Fails with `ZT_LIMIT` if they or their offsets do not fit in 64 bits.
    pub fn strided(strided: &Strided) -> Result<Self> {
        let ranges = Vec::new();
        let beyond = || Error::new(Code::Limit, "the strides of the data exceed 2^64 bytes").of_item();
        let byte_length = strided.byte_length().ok_or_else(beyond)?;
        strided.end().ok_or_else(beyond)?;
        if byte_length == 0 {
            return Ok(Self { ranges, start: 0, run: 0, loops: Vec::new(), byte_length: 0 });
        }
        let mut run = strided.run;
        let mut loops: Vec<Loop> = Vec::new();
        for &(count, stride) in strided.loops.iter().rev() {
            match loops.last_mut() {
                _ if count == 1 => {}
                None if stride == run => run *= count,
                Some(inner) if Some(stride) == inner.stride.checked_mul(inner.count) => inner.count *= count,
                _ => loops.push(Loop { count, stride }),
            }
        }
        Ok(Self { ranges, start: strided.start, run, loops, byte_length })
    }

    /// Returns the shape of the slice, with the rank of the tensor.
    pub fn shape(&self) -> Vec<u64> {
        self.ranges.iter().map(|range| range.count()).collect()
    }

    /// Returns the ranges, one per dimension, each [normalized](Range::normalized).
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Returns the packed bytes of the slice.
    pub fn byte_length(&self) -> u64 {
        self.byte_length
    }

    /// Returns byte offset and length in the tensor of a contiguous slice. An empty slice is `(0, 0)`.
    pub fn contiguous(&self) -> Option<(u64, u64)> {
        self.loops.is_empty().then_some((self.start, self.run))
    }

    /// Returns byte offset and length in the tensor of each run, in slice order. All have the same length and none can be merged with the
    /// next. An empty slice has none.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let run = self.run;
        Odometer::new(&self.loops, self.start, self.run == 0).map(move |offset| (offset, run))
    }
}

/// The byte offsets of nested loops, in order: one counter per loop and no allocation per step.
pub(crate) struct Odometer<'a> {
    loops: &'a [Loop],
    counters: Vec<u64>,
    offset: u64,
    done: bool,
}

impl<'a> Odometer<'a> {
    pub(crate) fn new(loops: &'a [Loop], start: u64, done: bool) -> Self {
        Self { loops, counters: vec![0; loops.len()], offset: start, done }
    }
}

impl Iterator for Odometer<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.done {
            return None;
        }
        let offset = self.offset;
        // Offsets stay inside the tensor, whose length is a u64, so the arithmetic cannot wrap.
        for (counter, l) in self.counters.iter_mut().zip(self.loops) {
            if *counter + 1 < l.count {
                *counter += 1;
                self.offset += l.stride;
                return Some(offset);
            }
            self.offset -= *counter * l.stride;
            *counter = 0;
        }
        self.done = true;
        Some(offset)
    }
}

/// Returns the ranges of one of `world_size` equal parts of dimension `dim`: the part of process `rank` in tensor parallelism. Fails with
/// `InvalidArg` for a dimension that does not divide evenly, and numbers that are out of range.
pub fn shard(shape: &[u64], dim: usize, rank: u64, world_size: u64) -> Result<Vec<(u64, u64)>> {
    let refuse = |message: String| Err(Error::new(Code::InvalidArg, message));
    let Some(&size) = shape.get(dim) else {
        return refuse(format!("expected a dim below the rank of the tensor, {}, got {dim}", shape.len()));
    };
    if world_size == 0 {
        return refuse("expected a worldSize of at least 1, got 0".to_owned());
    }
    if rank >= world_size {
        return refuse(format!("expected a rank below worldSize {world_size}, got {rank}"));
    }
    if !size.is_multiple_of(world_size) {
        return refuse(format!(
            "expected dimension {dim} to be a multiple of worldSize {world_size}, got {size}"
        ));
    }
    // (rank + 1) * part is at most the dimension itself.
    let part = size / world_size;
    let range = (rank * part, (rank + 1) * part);
    Ok(shape.iter().enumerate().map(|(d, &size)| if d == dim { range } else { (0, size) }).collect())
}

fn check_ranges(shape: &[u64], ranges: &[Range]) -> Result<()> {
    if ranges.len() != shape.len() {
        return Err(Error::new(
            Code::InvalidArg,
            format!("expected a range for each of {} dimensions, got {}", shape.len(), ranges.len()),
        ));
    }
    for (d, (&dim, &Range { start, stop, step })) in shape.iter().zip(ranges).enumerate() {
        if step == 0 {
            return Err(Error::new(
                Code::InvalidArg,
                format!("expected a step of 1 or more in dimension {d}"),
            ));
        }
        if start > stop || stop > dim {
            return Err(Error::new(
                Code::InvalidArg,
                format!("expected 0 <= start <= stop <= {dim} in dimension {d}, got {start}..{stop}"),
            ));
        }
    }
    Ok(())
}

fn too_large(shape: &[u64]) -> Error {
    Error::new(Code::BadShape, format!("the bytes of shape {shape:?} do not fit in 64 bits"))
}

fn show(ranges: &[Range]) -> String {
    let one = |&Range { start, stop, step }: &Range| match step {
        1 => format!("{start}..{stop}"),
        _ => format!("{start}..{stop} by {step}"),
    };
    let shown: Vec<String> = ranges.iter().map(one).collect();
    format!("[{}]", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runs(shape: &[u64], ranges: &[(u64, u64)], bits: u32) -> Vec<(u64, u64)> {
        TensorSlice::new(shape, ranges, bits).unwrap().runs().collect()
    }

    /// Returns byte offsets of the elements of the slice, one by one, by the definition of row-major.
    fn offsets(shape: &[u64], ranges: &[Range], width: u64) -> Vec<u64> {
        let mut offsets = vec![0];
        for (&dim, &Range { start, stop, step }) in shape.iter().zip(ranges) {
            let each = |at| (start..stop).step_by(usize::try_from(step).unwrap()).map(move |i| at * dim + i);
            offsets = offsets.into_iter().flat_map(each).collect();
        }
        offsets.iter().map(|&at| at * width).collect()
    }

    #[test]
    fn runs_are_as_long_as_they_can_be() {
        type Case<'a> = (&'a [u64], &'a [(u64, u64)], &'a [(u64, u64)]);
        let cases: [Case; 9] = [
            (&[], &[], &[(0, 4)]),
            (&[3, 4], &[(0, 3), (0, 4)], &[(0, 48)]),
            (&[3, 4], &[(1, 3), (0, 4)], &[(16, 32)]),
            (&[3, 4], &[(2, 3), (1, 3)], &[(36, 8)]),
            (&[3, 4], &[(1, 3), (1, 2)], &[(20, 4), (36, 4)]),
            (&[2, 3, 4], &[(0, 2), (1, 3), (0, 4)], &[(16, 32), (64, 32)]),
            (&[2, 2, 2], &[(0, 2), (0, 2), (1, 2)], &[(4, 4), (12, 4), (20, 4), (28, 4)]),
            (&[4, 1, 3, 1], &[(1, 4), (0, 1), (0, 3), (0, 1)], &[(12, 36)]),
            (&[2, 0, 3], &[(0, 1), (0, 0), (1, 2)], &[]),
        ];
        for (shape, ranges, expected) in cases {
            assert_eq!(runs(shape, ranges, 32), expected, "{ranges:?} of {shape:?}");
        }
    }

    #[test]
    fn repeating_dimensions_are_one_loop() {
        let slice = TensorSlice::new(&[5, 6, 7, 8], &[(0, 5), (0, 6), (0, 7), (2, 4)], 8).unwrap();
        assert_eq!(slice.loops, [Loop { count: 210, stride: 8 }]);
    }

    #[test]
    fn steps_are_loops() {
        let every = |shape: &[u64], ranges: &[(u64, u64, u64)]| {
            let ranges: Vec<_> =
                ranges.iter().map(|&(start, stop, step)| Range { start, stop, step }).collect();
            TensorSlice::stepped(shape, &ranges, 8)
        };
        let columns = every(&[3, 6], &[(0, 3, 1), (0, 6, 2)]).unwrap();
        // Two divides six: all rows repeat as one loop.
        assert_eq!((columns.shape(), columns.loops), (vec![3, 3], vec![Loop { count: 9, stride: 2 }]));
        let rows = every(&[7, 4], &[(1, 7, 3), (0, 4, 1)]).unwrap();
        assert_eq!(rows.runs().collect::<Vec<_>>(), [(4, 4), (16, 4)]);
        // A single index is not a repetition, whatever the step.
        assert_eq!(every(&[7, 4], &[(1, 7, 9), (0, 4, 1)]).unwrap().contiguous(), Some((4, 4)));
        assert_eq!(every(&[7], &[(3, 3, 2)]).unwrap().shape(), [0]);
        assert_eq!(every(&[7], &[(0, 3, 0)]).unwrap_err().code(), Code::InvalidArg);
        let packed = TensorSlice::stepped(&[8], &[Range { start: 0, stop: 8, step: 2 }], 4).unwrap_err();
        assert!(packed.to_string().contains("[0..8 by 2]"), "{packed}");
    }

    #[test]
    fn a_range_has_one_spelling() {
        let range = |start, stop, step| Range { start, stop, step };
        for (given, normal) in [
            (range(0, 3, 3), range(0, 1, 1)),
            (range(2, 9, 100), range(2, 3, 1)),
            (range(1, 9, 3), range(1, 8, 3)),
            (range(1, 8, 3), range(1, 8, 3)),
            (range(4, 4, 2), range(4, 4, 1)),
            (range(0, 5, 1), range(0, 5, 1)),
            (range(0, u64::MAX, u64::MAX - 1), range(0, u64::MAX, u64::MAX - 1)),
            (range(0, u64::MAX - 1, u64::MAX - 1), range(0, 1, 1)),
        ] {
            assert_eq!(given.normalized(), normal, "{given:?}");
            assert_eq!(given.count(), normal.count(), "{given:?}");
        }
        let found = |index| range(1, 8, 3).at_or_after(index);
        assert_eq!(
            [0, 1, 2, 4, 5, 7, 8, u64::MAX].map(found),
            [1, 1, 4, 4, 7, 7, 0, 0].map(|at| (at > 0).then_some(at))
        );
        assert_eq!(range(0, u64::MAX, u64::MAX - 1).at_or_after(1), Some(u64::MAX - 1));
    }

    #[test]
    fn one_run_is_contiguous() {
        let contiguous = |ranges: &[(u64, u64)]| TensorSlice::new(&[4, 6], ranges, 16).unwrap().contiguous();
        assert_eq!(contiguous(&[(1, 3), (0, 6)]), Some((12, 24)));
        assert_eq!(contiguous(&[(1, 2), (2, 3)]), Some((16, 2)));
        assert_eq!(contiguous(&[(1, 3), (2, 3)]), None);
        assert_eq!(contiguous(&[(3, 3), (2, 3)]), Some((0, 0)));
    }

    #[test]
    fn packed_elements_are_sliced_between_bytes() {
        assert_eq!(runs(&[4, 6], &[(0, 4), (2, 4)], 4), [(1, 1), (4, 1), (7, 1), (10, 1)]);
        assert_eq!(runs(&[8], &[(4, 8)], 6), [(3, 3)]);
        // The whole tensor, and its end, may stop within the last byte.
        assert_eq!(runs(&[3], &[(0, 3)], 4), [(0, 2)]);
        assert_eq!(runs(&[3, 3], &[(2, 3), (2, 3)], 4), [(4, 1)]);
    }

    #[test]
    fn hostile_shapes_are_refused() {
        type Case<'a> = (&'a [u64], &'a [(u64, u64)], u32, Code, &'a str);
        let cases: [Case; 10] = [
            (&[3], &[], 8, Code::InvalidArg, "each of 1 dimensions, got 0"),
            (&[3], &[(0, 3), (0, 1)], 8, Code::InvalidArg, "got 2"),
            (&[3, 4], &[(0, 3), (2, 5)], 8, Code::InvalidArg, "<= 4 in dimension 1, got 2..5"),
            (&[3], &[(2, 1)], 8, Code::InvalidArg, "got 2..1"),
            (&[1 << 40, 1 << 40], &[(0, 1), (0, 1)], 8, Code::BadShape, "64 bits"),
            (&[1 << 62], &[(0, 1)], 128, Code::BadShape, "64 bits"),
            (&[4, 3], &[(0, 4), (0, 2)], 4, Code::InvalidArg, "inside a byte"),
            (&[8], &[(1, 8)], 4, Code::InvalidArg, "inside a byte"),
            (&[3, 3], &[(2, 3), (1, 3)], 4, Code::InvalidArg, "inside a byte"),
            (&[8], &[(0, 7)], 4, Code::InvalidArg, "inside a byte"),
        ];
        for (shape, ranges, bits, code, part) in cases {
            let error = TensorSlice::new(shape, ranges, bits).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn the_largest_tensor_is_sliced_lazily() {
        let slice = TensorSlice::new(&[1 << 32, 1 << 31], &[(0, 1 << 32), (5, 6)], 8).unwrap();
        assert_eq!(slice.byte_length(), 1 << 32);
        assert_eq!(slice.runs().nth(2), Some((5 + (2 << 31), 1)));
        let empty = TensorSlice::new(&[u64::MAX, u64::MAX, 0], &[(0, u64::MAX), (0, 1), (0, 0)], 64).unwrap();
        assert_eq!((empty.byte_length(), empty.runs().count()), (0, 0));
    }

    #[test]
    fn shards() {
        assert_eq!(shard(&[4, 6], 1, 2, 3).unwrap(), [(0, 4), (4, 6)]);
        assert_eq!(shard(&[4, 6], 0, 0, 1).unwrap(), [(0, 4), (0, 6)]);
        assert_eq!(shard(&[0, 6], 0, 4, 5).unwrap(), [(0, 0), (0, 6)]);
        assert_eq!(shard(&[u64::MAX], 0, u64::MAX - 1, u64::MAX).unwrap(), [(u64::MAX - 1, u64::MAX)]);
        let refused = [
            ((2, 0, 1), "below the rank of the tensor, 2, got 2"),
            ((0, 0, 0), "at least 1, got 0"),
            ((0, 2, 2), "below worldSize 2, got 2"),
            ((1, 0, 4), "multiple of worldSize 4, got 6"),
        ];
        for ((dim, rank, world_size), part) in refused {
            let error = shard(&[4, 6], dim, rank, world_size).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArg);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    fn shape_and_ranges() -> impl Strategy<Value = (Vec<u64>, Vec<Range>)> {
        let step = prop::sample::select(vec![1_u64, 1, 1, 2, 3, 9]);
        prop::collection::vec((0_u64..6, 0_u64..6, 0_u64..6, any::<bool>(), step), 0..5).prop_map(|dims| {
            dims.into_iter()
                .map(|(dim, a, b, full, step)| {
                    let (first, last) = if full { (0, dim) } else { (a.min(b).min(dim), a.max(b).min(dim)) };
                    (dim, Range { start: first, stop: last, step })
                })
                .unzip()
        })
    }

    proptest! {
        #[test]
        fn agrees_with_a_loop_over_the_elements(
            (shape, ranges) in shape_and_ranges(),
            width in prop::sample::select(vec![1_u32, 2, 4, 8, 16]),
        ) {
            let slice = TensorSlice::stepped(&shape, &ranges, width * 8).unwrap();
            let counts: Vec<_> = ranges.iter().map(|range| range.count()).collect();
            prop_assert_eq!(slice.shape(), counts);
            let bytes = shape.iter().product::<u64>() * u64::from(width);
            let input: Vec<u8> = (0..bytes)
                .map(|i| i.to_le_bytes().iter().fold(7, |hash: u8, b| hash.wrapping_mul(31) ^ b))
                .collect();
            let mut expected: Vec<u8> = Vec::new();
            for at in offsets(&shape, &ranges, width.into()) {
                let at = usize::try_from(at).unwrap();
                expected.extend(&input[at..at + width as usize]);
            }
            prop_assert_eq!(slice.byte_length(), expected.len() as u64);
            let mut out = vec![0; expected.len()];
            slice.pack(&input, &mut out).unwrap();
            prop_assert_eq!(&out, &expected);

            let runs: Vec<_> = slice.runs().collect();
            let joined: Vec<u8> = runs.iter()
                .flat_map(|&(at, len)| checked::slice(&input, at, len).unwrap().iter().copied()).collect();
            prop_assert_eq!(joined, expected);
            // Every second of three columns: the last of a row touches the first of the next.
            let no_steps = u64::from(slice.ranges().iter().all(|range| range.step == 1));
            let are_separate = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 + no_steps <= pair[1].0;
            prop_assert!(runs.windows(2).all(are_separate));
            prop_assert_eq!(slice.contiguous().is_some(), runs.len() <= 1);
        }
    }
}
