//! Bins of equal width, as NumPy's `histogram` has them: each holds its lower edge, the last its upper one too.
#![forbid(unsafe_code)]

use crate::numbers::Numbers;

/// How many finite elements lie between one edge and the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// One more than there are bins.
    pub edges: Vec<f64>,
    pub counts: Vec<u64>,
}

pub struct Bins {
    edges: Vec<f64>,
    first: f64,
    last: f64,
    per_width: f64,
}

impl Bins {
    pub fn new(bins: u32, (first, last): (f64, f64)) -> Self {
        // A single value stands in the middle.
        let (first, last) = if first >= last { (first - 0.5, last + 0.5) } else { (first, last) };
        let bins_f = f64::from(bins);
        let step = (last - first) / bins_f;
        let edge = |at: u32| match at {
            _ if at == bins => last,
            _ if step.is_finite() => first + f64::from(at) * step,
            _ => first * (1.0 - f64::from(at) / bins_f) + last * (f64::from(at) / bins_f),
        };
        // Halves cannot overflow.
        let per_width = bins_f / (last / 2.0 - first / 2.0);
        Self { edges: (0..=bins).map(edge).collect(), first, last, per_width }
    }

    /// Counts numbers; those outside the range, NaN among them, are in no bin.
    pub fn count(&self, numbers: Numbers<'_>, counts: &mut Vec<u64>) {
        counts.resize(self.edges.len() - 1, 0);
        match numbers {
            Numbers::Single(numbers) => numbers.iter().for_each(|&number| self.put(number.into(), 1, counts)),
            Numbers::Double(numbers) => numbers.iter().for_each(|&number| self.put(number, 1, counts)),
        }
    }

    /// The histogram of values that each occur so often.
    pub fn of_values(self, values: &[(f64, u64)]) -> Histogram {
        let mut counts = vec![0; self.edges.len() - 1];
        for &(value, count) in values {
            self.put(value, count, &mut counts);
        }
        self.finish(counts)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn put(&self, number: f64, count: u64, counts: &mut [u64]) {
        if !(self.first <= number && number <= self.last) {
            return;
        }
        let guess = (number / 2.0 - self.first / 2.0) * self.per_width;
        let mut bin = (guess as usize).min(counts.len() - 1);
        // Rounding may have put it beside an edge that it is on the other side of.
        if number < self.edges[bin] {
            bin -= 1;
        } else if bin + 1 < counts.len() && number >= self.edges[bin + 1] {
            bin += 1;
        }
        counts[bin] += count;
    }

    pub fn finish(self, mut counts: Vec<u64>) -> Histogram {
        counts.resize(self.edges.len() - 1, 0);
        Histogram { edges: self.edges, counts }
    }
}

/// Adds counts to counts of the same bins.
pub fn add(sum: &mut Vec<u64>, counts: &[u64]) {
    sum.resize(sum.len().max(counts.len()), 0);
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count;
    }
}
