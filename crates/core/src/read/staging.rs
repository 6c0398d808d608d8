//! Selects the ranges of a file in the caller's memory that are copied at once, for work on many tensors.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::planner::{ALIGNMENT, Aim, reads};
use crate::model::{Catalog, Component, Span, Tensor};
use crate::sources::Costs;

/// Maximum tensors staged together: a separate call and copy for each would cost 40 µs per tensor.
const TENSORS: usize = 10_000;
/// Maximum bytes staged together, not counting the last tensor.
const BYTES: u64 = 16 << 20;

/// Some of many tensors, and the ranges to copy for them.
#[derive(Debug)]
pub struct Batch {
    /// The position after the last of them.
    pub end: usize,
    /// Offset and length of each range, sorted and disjoint.
    pub ranges: Vec<(u64, u64)>,
    /// Stored bytes of the tensors; shared bytes count for each.
    pub stored: u64,
}

/// Takes tensors, given by their ordinals, from the one at `from` on.
pub fn next(catalog: &Catalog, ordinals: &[u32], from: usize) -> Batch {
    // Ends by start: data shared by many tensors is staged once.
    let mut spans: HashMap<u64, u64> = HashMap::new();
    let (mut end, mut staged, mut stored) = (from, 0_u64, 0_u64);
    for &ordinal in ordinals.iter().skip(from).take(TENSORS) {
        end += 1;
        let Some(tensor) = catalog.tensor(ordinal as usize) else { continue };
        // Only the index's own file is in memory; data in other files is rejected when it is read.
        for span in tensor.spans().filter(|span| span.file == 0) {
            let known = spans.entry(span.offset).or_insert(span.offset);
            staged = staged.saturating_add(span.end().saturating_sub(*known));
            *known = span.end().max(*known);
        }
        stored = stored.saturating_add(stored_bytes(tensor));
        if staged >= BYTES {
            break;
        }
    }
    Batch { end, ranges: joined(spans.into_iter().collect()), stored }
}

/// Returns the bytes of a tensor in its files.
pub fn stored_bytes(tensor: Tensor<'_>) -> u64 {
    tensor.components().iter().map(Component::stored_length).fold(0, u64::saturating_add)
}

/// Merges ranges so that they begin like the blocks into which small tensors are loaded.
fn joined(spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let span = |(start, end): (u64, u64)| Span { file: 0, offset: start, length: end.saturating_sub(start) };
    let spans = Span::joined(spans.into_iter().map(span).collect());
    let reads = reads(spans, |_| Aim::COPIED.on(Costs::LOCAL), |_| true);
    let aligned = |span: Span| {
        let start = span.offset - span.offset % ALIGNMENT;
        (start, span.end() - start)
    };
    reads.into_iter().map(|read| aligned(read.span)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::planner::SMALL;
    use super::*;
    use crate::model::fixtures;

    #[test]
    fn adjacent_ranges_are_merged() {
        for stride in [16, 64] {
            let all: Vec<u32> = (0..1000).collect();
            let batch = next(&fixtures::row(1000, stride), &all, 0);
            assert_eq!(batch.end, 1000);
            assert_eq!(batch.ranges, [(0, 999 * stride + 16)]);
            assert_eq!(batch.stored, 16_000);
        }
    }

    #[test]
    fn distant_tensors_are_separate_ranges_in_file_order() {
        let some = [40, 20, 20, 30];
        let batch = next(&fixtures::row(100, 1000), &some, 1);
        assert_eq!(batch.end, 4);
        assert_eq!(batch.ranges, [(20_000 - 32, 16 + 32), (30_000 - 48, 16 + 48)]);
        assert_eq!(batch.stored, 48);
    }

    #[test]
    fn tensors_arrive_in_batches() {
        let all: Vec<u32> = (0..25_000).collect();
        let catalog = fixtures::row(25_000, 64);
        let mut ends = vec![0];
        while *ends.last().unwrap() < all.len() {
            ends.push(next(&catalog, &all, *ends.last().unwrap()).end);
        }
        assert_eq!(ends, [0, 10_000, 20_000, 25_000]);
    }

    #[test]
    fn gaps_no_larger_than_the_next_blob_or_padding_are_read() {
        let next = |gap: u64, length: u64| joined(vec![(0, 128), (128 + gap, 128 + gap + length)]).len();
        for length in [1, 1000, SMALL] {
            assert_eq!((next(64 + length, length), next(64 + length + 1, length)), (1, 2), "{length}");
        }
        assert_eq!(next(64 + SMALL + 1, 10 * SMALL), 2);
        assert_eq!(joined(vec![(0, 1000), (10, 20)]), [(0, 1000)]);
    }
}
