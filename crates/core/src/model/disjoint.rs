//! Determines whether the blobs of an index are disjoint while it is read: sorting 100,000 of them afterwards takes a tenth of the time of
//! reading the index.
#![forbid(unsafe_code)]

use super::Span;

/// Minimum number of mark words, even for a small index.
const MIN_WORDS: usize = 1024;
/// Minimum and maximum shift of the bytes per mark.
const GRAINS: std::ops::RangeInclusive<u32> = 6..=12;

/// The state for the blobs so far.
pub enum Disjointness {
    /// Each follows the previous one or equals it: writers list blobs in the order of writing. Holds the last.
    Ordered(Span),
    /// In a different order, with separate marks for each.
    Marked(Marks),
    Unknown,
}

impl Default for Disjointness {
    fn default() -> Self {
        Self::Ordered(Span { file: 0, offset: 0, length: 0 })
    }
}

impl Disjointness {
    /// Adds a blob. `before` are the previous ones, and `expected` their estimated total number: the size of the marks is proportional to
    /// it, not to offsets stated by a file.
    pub fn add<I: Iterator<Item = Span> + Clone>(
        &mut self,
        next: Span,
        expected: usize,
        before: impl FnOnce() -> I,
    ) {
        if next.length == 0 {
            return;
        }
        match self {
            Self::Ordered(last) if next == *last => {}
            Self::Ordered(last) if (next.file, next.offset) >= (last.file, last.end()) => *last = next,
            Self::Ordered(_) => {
                let all = before().chain([next]).filter(|span| span.length > 0);
                let marks = Marks::of(all, expected);
                *self = marks.map_or(Self::Unknown, Self::Marked);
            }
            Self::Marked(marks) => {
                if !marks.add(next) {
                    *self = Self::Unknown;
                }
            }
            Self::Unknown => {}
        }
    }

    /// Returns whether no two blobs are known to overlap, including `other`. If false, they may still be disjoint.
    pub fn is_sure(&mut self, other: Option<Span>) -> bool {
        let Some(other) = other else { return !matches!(self, Self::Unknown) };
        match self {
            Self::Ordered(last) => last.file == other.file && last.end() <= other.offset,
            Self::Marked(marks) => marks.add(other),
            Self::Unknown => false,
        }
    }
}

/// A bit for each grain of each file that a blob covers.
pub struct Marks {
    files: Vec<Vec<u64>>,
    grain: u32,
    /// Words that may still be added.
    left: usize,
}

impl Marks {
    /// Returns `None` if two of the spans may overlap, or are too far from each other.
    fn of(spans: impl Iterator<Item = Span> + Clone, expected: usize) -> Option<Self> {
        let aligned = spans.clone().fold(0, |bits, span| bits | span.offset).trailing_zeros();
        let grain = aligned.clamp(*GRAINS.start(), *GRAINS.end());
        let mut marks = Self { files: Vec::new(), grain, left: expected.max(MIN_WORDS) };
        let mut spans = spans;
        spans.all(|span| marks.add(span)).then_some(marks)
    }

    /// Marks the range of a blob. Returns false if part of it is already marked, or the marks would become too large.
    fn add(&mut self, span: Span) -> bool {
        if span.length == 0 {
            return true;
        }
        let bits = |offset: u64| usize::try_from(offset >> self.grain).unwrap_or(usize::MAX);
        let (first, last) = (bits(span.offset), bits(span.end() - 1));
        let Some(words) = self.words(span.file, last / 64 + 1) else { return false };
        let Some(words) = words.get_mut(first / 64..=last / 64) else { return false };
        let count = words.len();
        for (at, word) in words.iter_mut().enumerate() {
            let from = if at == 0 { u64::MAX << (first % 64) } else { u64::MAX };
            let to = if at + 1 == count { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            if *word & from & to != 0 {
                return false;
            }
            *word |= from & to;
        }
        true
    }

    /// Returns the words of a file, if they do not exceed the limit.
    fn words(&mut self, file: u32, count: usize) -> Option<&mut Vec<u64>> {
        let file = usize::try_from(file).ok()?;
        let files = file.checked_add(1)?;
        if files > self.files.len() {
            self.left = self.left.checked_sub(files - self.files.len())?;
            self.files.resize_with(files, Vec::new);
        }
        let words = self.files.get_mut(file)?;
        if count > words.len() {
            self.left = self.left.checked_sub(count - words.len())?;
            words.resize(count, 0);
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(spans: &[Span], expected: usize) -> Disjointness {
        let mut disjointness = Disjointness::default();
        for (at, &span) in spans.iter().enumerate() {
            disjointness.add(span, expected, || spans[..at].iter().copied());
        }
        disjointness
    }

    fn overlap(a: Span, b: Span) -> bool {
        a.file == b.file && a.offset < b.end() && b.offset < a.end() && a != b
    }

    proptest! {
        #[test]
        fn known_disjoint_blobs_do_not_overlap(
            ranges in prop::collection::vec((0..3_u32, 0..400_u64, 0..9_u64, 0..70_u64), 0..40),
            step in prop::sample::select(vec![1_u64, 64, 4096]),
            other in (0..3_u32, 0..400_u64, 0..9_u64),
        ) {
            let spans: Vec<_> = ranges
                .iter()
                .map(|&(file, at, length, odd)| Span { file, offset: at * step, length: length * step + odd * length.min(1) })
                .collect();
            let other = Span { file: other.0, offset: other.1 * step, length: other.2 * step };
            let stored: Vec<_> = spans.iter().copied().filter(|span| span.length > 0).collect();
            let is_disjoint = |a: &Span| stored.iter().all(|&b| !overlap(*a, b));
            let all = stored.iter().all(is_disjoint);
            if found(&spans, 0).is_sure(None) {
                prop_assert!(all);
            }
            if found(&spans, 0).is_sure(Some(other)) {
                prop_assert!(all && (other.length == 0 || is_disjoint(&other)));
            }
        }

        #[test]
        fn disjoint_blobs_in_any_order_are_sure(count in 1..200_u64, step in prop::sample::select(vec![64_u64, 4096]), turn in 1..200_u64) {
            let span = |at: u64| Span { file: 0, offset: (at * 7919 + turn) % count * step, length: step };
            let mut offsets: Vec<_> = (0..count).map(span).collect();
            offsets.sort_by_key(|span| span.offset);
            offsets.dedup();
            let turned = usize::try_from(turn).unwrap() % offsets.len();
            offsets.rotate_left(turned);
            offsets.reverse();
            prop_assert!(found(&offsets, 0).is_sure(None));
            let behind = Span { file: 0, offset: count * step, length: 1 };
            prop_assert!(found(&offsets, 0).is_sure(Some(behind)));
            let within = Span { length: 2, ..offsets[0] };
            prop_assert!(!found(&offsets, 0).is_sure(Some(within)));
        }
    }

    #[test]
    fn large_offsets_take_no_memory() {
        let near = Span { file: 0, offset: 4096, length: 1 };
        for distant in [
            Span { file: 0, offset: u64::MAX - 4096, length: 4096 },
            Span { file: 0, offset: 0, length: u64::MAX },
            Span { file: u32::MAX, offset: 64, length: 1 },
            Span { file: 0, offset: 1 << 40, length: 1 },
        ] {
            // Ordered, and therefore known without marks.
            assert!(distant.offset == 0 || found(&[near, distant], 0).is_sure(None));
            assert!(!found(&[distant, near], 0).is_sure(None), "{distant:?}");
        }
    }
}
