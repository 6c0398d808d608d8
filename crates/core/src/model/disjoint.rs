//! Whether the blobs of an index are disjoint, found out while it is read: to sort 100,000 of them afterwards takes a tenth as long as
//! reading the index does.
#![forbid(unsafe_code)]

use super::Span;

/// Words of the marks that a small index may have, too.
const LEAST_WORDS: usize = 1024;
/// Shifts of the least and the most bytes that a mark stands for.
const GRAINS: std::ops::RangeInclusive<u32> = 6..=12;

/// What is known of the blobs that came so far.
pub enum Disjointness {
    /// Each stands behind the one before it, or is the same: writers list what they write in the order in which they write it. The last.
    Ordered(Span),
    /// In another order, and each has marks of its own.
    Marked(Marks),
    Unknown,
}

impl Default for Disjointness {
    fn default() -> Self {
        Self::Ordered(Span { file: 0, offset: 0, length: 0 })
    }
}

impl Disjointness {
    /// Takes notice of one more blob. `before` are those that came already, and `expected` how many there may be in all: what the marks
    /// may take grows with it, and not with what a file says of offsets.
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

    /// Whether no two blobs overlap, and none does with `other`. Where that is not known they may all the same not overlap.
    pub fn is_sure(&mut self, other: Option<Span>) -> bool {
        let Some(other) = other else { return !matches!(self, Self::Unknown) };
        match self {
            Self::Ordered(last) => last.file == other.file && last.end() <= other.offset,
            Self::Marked(marks) => marks.add(other),
            Self::Unknown => false,
        }
    }
}

/// A bit for each grain of each file that a blob stands in.
pub struct Marks {
    files: Vec<Vec<u64>>,
    grain: u32,
    /// Words that may be added yet.
    left: usize,
}

impl Marks {
    /// `None` where two of the spans may overlap, or are too far apart.
    fn of(spans: impl Iterator<Item = Span> + Clone, expected: usize) -> Option<Self> {
        let aligned = spans.clone().fold(0, |bits, span| bits | span.offset).trailing_zeros();
        let grain = aligned.clamp(*GRAINS.start(), *GRAINS.end());
        let mut marks = Self { files: Vec::new(), grain, left: expected.max(LEAST_WORDS) };
        let mut spans = spans;
        spans.all(|span| marks.add(span)).then_some(marks)
    }

    /// Marks what a blob takes. False where something of it is marked already, or there is no room for it.
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

    /// So many words of a file, if there is room for them.
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
        let mut apart = Disjointness::default();
        for (at, &span) in spans.iter().enumerate() {
            apart.add(span, expected, || spans[..at].iter().copied());
        }
        apart
    }

    fn overlap(a: Span, b: Span) -> bool {
        a.file == b.file && a.offset < b.end() && b.offset < a.end() && a != b
    }

    proptest! {
        #[test]
        fn what_is_sure_is_so(
            places in prop::collection::vec((0..3_u32, 0..400_u64, 0..9_u64, 0..70_u64), 0..40),
            step in prop::sample::select(vec![1_u64, 64, 4096]),
            other in (0..3_u32, 0..400_u64, 0..9_u64),
        ) {
            let spans: Vec<_> = places
                .iter()
                .map(|&(file, at, length, odd)| Span { file, offset: at * step, length: length * step + odd * length.min(1) })
                .collect();
            let other = Span { file: other.0, offset: other.1 * step, length: other.2 * step };
            let stored: Vec<_> = spans.iter().copied().filter(|span| span.length > 0).collect();
            let apart = |a: &Span| stored.iter().all(|&b| !overlap(*a, b));
            let all = stored.iter().all(apart);
            if found(&spans, 0).is_sure(None) {
                prop_assert!(all);
            }
            if found(&spans, 0).is_sure(Some(other)) {
                prop_assert!(all && (other.length == 0 || apart(&other)));
            }
        }

        #[test]
        fn disjoint_blobs_in_any_order_are_sure(count in 1..200_u64, step in prop::sample::select(vec![64_u64, 4096]), turn in 1..200_u64) {
            let place = |at: u64| Span { file: 0, offset: (at * 7919 + turn) % count * step, length: step };
            let mut offsets: Vec<_> = (0..count).map(place).collect();
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
    fn far_offsets_take_no_memory() {
        let near = Span { file: 0, offset: 4096, length: 1 };
        for far in [
            Span { file: 0, offset: u64::MAX - 4096, length: 4096 },
            Span { file: 0, offset: 0, length: u64::MAX },
            Span { file: u32::MAX, offset: 64, length: 1 },
            Span { file: 0, offset: 1 << 40, length: 1 },
        ] {
            // Ordered, and so known without marks.
            assert!(far.offset == 0 || found(&[near, far], 0).is_sure(None));
            assert!(!found(&[far, near], 0).is_sure(None), "{far:?}");
        }
    }
}
