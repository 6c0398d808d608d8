//! Copies slices from bytes in memory.
#![forbid(unsafe_code)]

use std::sync::Mutex;

use super::strided;
use crate::checked;
use crate::error::{Code, Error, Result};
use crate::model::slice::{Loop, Odometer, TensorSlice};
use crate::work;

/// The minimum size of a slice in bytes for multithreading: below, the threads cost what they save.
const DIVIDED: u64 = 4 << 20;

/// The bytes of input covered by one pass over the fields: they stay in the first-level cache for the passes of all
/// fields.
const BLOCK: usize = 16 << 10;

/// A part of a slice, for the thread that fills its bytes.
type Slot<'o> = Mutex<Option<(TensorSlice, &'o mut [u8])>>;

impl TensorSlice {
    /// Copies the slice from the tensor's bytes. Fails with `ZT_INVALID_ARG` unless `out` has exactly
    /// [`byte_length`](Self::byte_length) bytes, and with `ZT_OUT_OF_BOUNDS` if a run extends past the end of `input`.
    pub fn pack(&self, input: &[u8], out: &mut [u8]) -> Result<()> {
        if u64::try_from(out.len()) != Ok(self.byte_length) {
            return Err(Error::new(
                Code::InvalidArg,
                format!("the slice has {} bytes, but the destination has {}", self.byte_length, out.len()),
            ));
        }
        if out.is_empty() {
            return Ok(());
        }
        if let [inner, outer] = *self.loops
            && outer.stride < inner.stride
        {
            return self.pack_fields(inner, outer, input, out);
        }
        let (inner, outer) = match self.loops.split_first() {
            Some((inner, outer)) => (*inner, outer),
            None => (Loop { count: 1, stride: self.run }, &[][..]),
        };
        let run = checked::index(self.run, "a run")?;
        let stride = checked::index(inner.stride, "a stride")?;
        let row = checked::index(inner.count, "a count of runs")?.saturating_mul(run);
        // The lengths match, so there is a row of `out` for each step of the odometer.
        for (start, out) in Odometer::new(outer, self.start, false).zip(out.chunks_exact_mut(row)) {
            let input = usize::try_from(start).ok().and_then(|start| input.get(start..));
            if !input.is_some_and(|input| strided::gather(input, stride, run, out)) {
                return Err(Error::new(
                    Code::OutOfBounds,
                    format!(
                        "the slice needs {} runs of {run} bytes from byte {start} on, past the tensor's end",
                        inner.count
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Copies two loops of which the outer one has the smaller stride (fields of records, transposed matrices). Works
    /// in blocks, so that the input of a block stays in the first-level cache for all of its fields.
    fn pack_fields(&self, records: Loop, fields: Loop, input: &[u8], out: &mut [u8]) -> Result<()> {
        let outside = || {
            let message =
                format!("{} runs {} bytes apart extend past the data", records.count, records.stride);
            Error::new(Code::OutOfBounds, message)
        };
        let [start, run, count] =
            [(self.start, "an offset"), (self.run, "a run"), (records.count, "a count of runs")]
                .map(|(value, what)| checked::index(value, what));
        let (start, run, count) = (start?, run?, count?);
        let (stride, step) =
            (checked::index(records.stride, "a stride")?, checked::index(fields.stride, "a stride")?);
        let input = input.get(start..).ok_or_else(outside)?;
        let block = (BLOCK / stride.max(1)).clamp(16, 1024);
        for first in (0..count).step_by(block) {
            let bytes = block.min(count - first) * run;
            for (field, out) in out.chunks_exact_mut(count * run).enumerate() {
                let from = input.get(first * stride + field * step..).ok_or_else(outside)?;
                let out =
                    out.get_mut(first * run..).and_then(|out| out.get_mut(..bytes)).ok_or_else(outside)?;
                if !strided::gather(from, stride, run, out) {
                    return Err(outside());
                }
            }
        }
        Ok(())
    }

    /// Performs [`pack`](Self::pack) on all cores if there is much to copy.
    pub fn pack_divided(&self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.each_part(work::cores(), out, |part, out| part.pack(input, out))
    }

    /// Calls `fill` with parts of the slice and their bytes of `out`, on this many threads if there is much to fill.
    pub fn each_part(
        &self,
        threads: usize,
        out: &mut [u8],
        fill: impl Fn(&Self, &mut [u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let parts = if self.byte_length < DIVIDED { Vec::new() } else { self.split(4 * threads as u64) };
        if parts.len() < 2 || u64::try_from(out.len()) != Ok(self.byte_length) {
            return fill(self, out);
        }
        let mut rest = out;
        let mut divided: Vec<Slot<'_>> = Vec::new();
        for part in parts {
            let length = checked::index(part.byte_length, "a part of a slice")?;
            let (output, after) = rest.split_at_mut_checked(length).unwrap_or_default();
            divided.push(Mutex::new(Some((part, output))));
            rest = after;
        }
        work::try_each_on(threads, divided.len(), |at| {
            let taken = divided.get(at).and_then(|part| part.lock().ok()?.take());
            taken.map_or(Ok(()), |(part, out)| fill(&part, out))
        })
    }

    /// Divides the slice into about this many consecutive parts along its outermost loop.
    fn split(&self, parts: u64) -> Vec<Self> {
        let Some((&outermost, inner)) = self.loops.split_last() else { return Vec::new() };
        let step = outermost.count.div_ceil(parts.max(1));
        let each = self.byte_length / outermost.count.max(1);
        let part = |number: u64| {
            let first = number * step;
            let count = step.min(outermost.count - first);
            let loops = inner.iter().copied().chain([Loop { count, ..outermost }]).collect();
            let start = self.start + first * outermost.stride;
            Self { ranges: Vec::new(), start, run: self.run, loops, byte_length: each * count }
        };
        (0..outermost.count.div_ceil(step.max(1))).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Strided;

    #[test]
    fn divided_packing_gives_the_same_bytes() {
        let shape = [7, 1024, 1031];
        let input: Vec<u8> =
            (0..7 * 1024 * 1031_usize).map(|at| u8::try_from((at / 3) % 251).unwrap()).collect();
        for ranges in
            [[(0, 7), (1, 1000), (3, 1030)], [(2, 7), (0, 1024), (0, 1030)], [(3, 4), (0, 1024), (1, 1031)]]
        {
            let slice = TensorSlice::new(&shape, &ranges, 8).unwrap();
            let length = usize::try_from(slice.byte_length()).unwrap();
            let (mut whole, mut divided) = (vec![0; length], vec![1; length]);
            slice.pack(&input, &mut whole).unwrap();
            slice.pack_divided(&input, &mut divided).unwrap();
            assert!(whole == divided, "{ranges:?}");
            assert!(slice.pack_divided(&input, &mut divided[1..]).is_err());
            assert!(length < 4 << 20 || slice.pack_divided(&input[..1000], &mut divided).is_err());
        }
    }

    #[test]
    fn packing_checks_both_lengths() {
        let slice = TensorSlice::new(&[3, 4], &[(0, 3), (1, 3)], 8).unwrap();
        let input: Vec<u8> = (0..12).collect();
        let mut out = [0; 6];
        slice.pack(&input, &mut out).unwrap();
        assert_eq!(out, [1, 2, 5, 6, 9, 10]);
        slice.pack(&input[..11], &mut out).unwrap();
        assert_eq!(slice.pack(&input[..10], &mut out).unwrap_err().code(), Code::OutOfBounds);
        assert_eq!(slice.pack(&[], &mut out).unwrap_err().code(), Code::OutOfBounds);
        assert_eq!(slice.pack(&input, &mut [0; 5]).unwrap_err().code(), Code::InvalidArg);
    }

    proptest! {
        #[test]
        fn strides_agree_with_loops_over_the_elements(
            start in 0_u64..20, run in 1_u64..9,
            loops in prop::collection::vec((0_u64..40, 0_u64..40), 0..4),
        ) {
            let strided = Strided { start, run, loops: loops.clone().into() };
            let input: Vec<u8> = (0..strided.end().unwrap()).map(|at| ((at * 167) ^ (at >> 8)).to_le_bytes()[0]).collect();
            let mut offsets = vec![start];
            for &(count, stride) in &loops {
                offsets = offsets.iter().flat_map(|&at| (0..count).map(move |i| at + i * stride)).collect();
            }
            let byte = |at: u64| input[usize::try_from(at).unwrap()];
            let expected: Vec<u8> = offsets.iter().flat_map(|&at| (at..at + run).map(byte)).collect();
            let slice = TensorSlice::strided(&strided).unwrap();
            prop_assert_eq!(slice.byte_length(), expected.len() as u64);
            let mut out = vec![0; expected.len()];
            slice.pack(&input, &mut out).unwrap();
            prop_assert!(out == expected);
            if !input.is_empty() && !out.is_empty() {
                prop_assert!(slice.pack(&input[..input.len() - 1], &mut out).is_err());
            }
        }
    }

    #[test]
    fn index_tuples_are_transposed() {
        let tuples: Vec<u8> =
            [[1_u16, 10], [2, 20], [3, 30]].concat().into_iter().flat_map(u16::to_le_bytes).collect();
        let strided = Strided { start: 0, run: 2, loops: Box::new([(2, 2), (3, 4)]) };
        let mut out = [0; 12];
        TensorSlice::strided(&strided).unwrap().pack(&tuples, &mut out).unwrap();
        assert_eq!(out, [1, 0, 2, 0, 3, 0, 10, 0, 20, 0, 30, 0]);
    }
}
